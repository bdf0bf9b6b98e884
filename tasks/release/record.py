"""The record of a release: what was done, in a form that can be published.

The parts under ``deployment`` have the names and the meaning of the fields of the OpenDP Deployments
Registry, as its public data repository has them (opendp/deployments-registry-data:
``schemas/deployments-schema.yaml`` and the entries of ``deployments/``, tier 3); what only the curator can
say there is left out. They answer what NIST SP 800-226 asks of a guarantee: unit and neighboring relation,
parameters, trust model, composition, what is outside of the guarantee. ``release`` adds what the software
knows.

No value of the data is in it and no path: only what was declared, what it cost, and the answer. The number of
the charge follows from the rows by a secret key of the ledger: who has that key, and all rows but one, could
test a guess of the last against it.
"""

import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import dpalgos
from data.ledger import Charge
from data.store.folders import atomic_write
from dpalgos.accounting.events import Event, Relation
from dpalgos.accounting.risk import risk_of_events
from dpalgos.catalog import Estimator
from tasks.faults import SpecError
from tasks.release.config import ReleaseConfig, is_bound
from tasks.study.spec import StudySpec

VERSION = 1
# What is said of events with equal numbers; another version may have stored more.
_OF_EVENT = ("label", "mechanism", "count", "noise_multiplier", "epsilon", "delta", "sensitivity")
_GOES_BACK = {
    Relation.CENTRAL: "data sets of the same number of rows that differ in one row, replaced by any other",
    Relation.USER: "data sets of the same users that differ in all rows of one user, replaced by any others",
    Relation.LOCAL: "one person's input, replaced by any other",
}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer of a release, as shown."""

    estimate: dict[str, float]
    epsilon: float  # what this answer was charged, as delta
    delta: float
    replayed: bool  # the stored answer to the same request, which cost nothing
    charge: str  # its number in the ledger
    spent_epsilon: float  # the dataset's total
    budget_epsilon: float
    budget_delta: float
    spent_note: str  # why the total is more than the sum of the charges, if it is
    interval: dict[str, list[float | None]]  # where the request has a level; null where none is honest
    interval_note: str  # why some have none
    risk: dict[str, Any]  # what the events let an attacker learn: `dpalgos.accounting.risk.AttackRisk`
    public_shape: bool | None  # whether the shape of the public rows was used; None where there are none
    record: dict[str, Any] = field(default_factory=dict)  # what can be published


def facts_at_charge(events: Sequence[Event], rho: float, delta: float) -> dict[str, Any]:
    """Return what a later version might say otherwise of a release, to be stored with its charge."""
    return {
        "rho": rho,
        "events": _entries(events),
        "risk": risk_of_events(events, delta).to_dict(),
        "software": {
            "dpcost": _version("dpcost") or dpalgos.__version__,
            "opendp": _version("opendp"),
            "numpy": _version("numpy"),
            "python": platform.python_version(),
        },
    }


def record_of(
    answer: Answer,
    estimator: Estimator,
    asked: ReleaseConfig,
    study: StudySpec | None,
    n_units: int,
    facts: dict[str, Any],
    charge: Charge,
    head: str,
) -> dict[str, Any]:
    """Return the record of a release; ``facts`` are what `facts_at_charge` returned then."""
    relation = estimator.relation or Relation.CENTRAL
    unit = relation.unit_of_privacy
    events = [{name: each.get(name) for name in _OF_EVENT} for each in facts["events"]]
    columns = ", ".join(filter(None, (*asked.columns.x, asked.columns.y)))
    by = f"; users by the column {asked.columns.user_id}" if asked.columns.user_id else ""
    deployment = {
        "product": {
            "name": asked.dataset.name,
            "data_product_type": "Summary statistics" if estimator.task == "mean" else "Statistical model",
            "description": f"{estimator.title}: {estimator.summary}",
            "publication_date": charge.charged[:10],
        },
        "dp_flavor": {
            "name": "Approximate DP" if charge.delta else "Pure DP",
            "input_metric": f"number of {unit}s that are replaced",
            "bound_on_input_distance": f"one {unit}",
            "output_measure": "hockey-stick divergence, (ε, δ)",
            "data_domain": f"tables of {n_units} {unit}s with columns {columns}",
            "unprotected_quantities": f"the number of {unit}s, {n_units}",
        },
        "privacy_loss": {
            "privacy_unit": unit.capitalize(),
            "privacy_unit_description": f"{relation.neighboring_relation}: {_GOES_BACK[relation]}{by}",
            "privacy_parameters": {
                "epsilon": answer.epsilon,
                "delta": charge.delta,
                "rho": facts["rho"],
            },
            "privacy_parameters_description": "a fixed guarantee, charged before anything was drawn",
        },
        "model": {
            "model_name": "Central",
            "model_name_description": "the curator who holds the rows and runs this program is trusted; "
            "readers of the answer are not",
            "release_type": "One-shot",
            "data_source_type": "Static",
            "access_type": "Non-interactive",
        },
        "accounting": {
            "post_processing": "units of the file, public ranges, intervals from released numbers",
            "composition": "zero-concentrated privacy losses add up over all releases of "
            f"{asked.dataset.name!r} (fully adaptive composition): {answer.spent_epsilon:.4g} of ε = "
            f"{answer.budget_epsilon:g} at δ = {answer.budget_delta:g} is spent",
        },
        "implementation": {
            "pre_processing_eda_hyperparameter_tuning": "columns, bounds and settings were declared before "
            "the data were read by this program; what their owner knew of the data is not accounted",
            "mechanisms": "; ".join(
                dict.fromkeys(f"{each['mechanism']} ({each['label']})" for each in events)
            ),
        },
    }
    release = {
        "estimator": estimator.name,
        "reference": estimator.reference,
        "level": asked.params.get("interval"),
        "answer": _numbers(answer),
        "interval_note": answer.interval_note,
        "public_shape": answer.public_shape,
        "events": events,
        "public": list(_public(asked, study, facts, n_units, unit)),
        "risk": facts["risk"],
        "ledger": {
            "charge": charge.id,
            "charged": charge.charged,
            "epsilon_charged": charge.epsilon,
            "epsilon_spent": answer.spent_epsilon,
            "epsilon_budget": answer.budget_epsilon,
            "delta_budget": answer.budget_delta,
            "head": head,
        },
        "hardened_noise": "integer noise on a public grid from OpenDP's exact samplers, with randomness of "
        "the operating system; rounding is counted in the sensitivity",
        "software": facts["software"],
    }
    return {"record_version": VERSION, "deployment": deployment, "release": release}


def write_record(record: Mapping[str, Any], folder: Path) -> None:
    """Write ``release.json`` and a page to print, ``release.html``, into a folder, which is created."""
    from reports.pages.release_page import render_release

    try:
        folder.mkdir(parents=True, exist_ok=True)
        content = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        atomic_write(folder / "release.json", content.encode())
        atomic_write(folder / "release.html", render_release(record))
    except OSError as error:
        raise SpecError(
            f"the record cannot be written to {folder}: {error.strerror}; the answer is stored, so name "
            "another folder with --record and ask again, at no cost"
        ) from None


def _entries(events: Sequence[Event]) -> list[dict[str, Any]]:
    counts: dict[tuple[Any, ...], int] = {}
    for event in events:
        sensitivity = getattr(event, "l2_sensitivity", getattr(event, "sensitivity", None))
        key = (
            event.label,
            type(event).__name__.removesuffix("Event"),
            *(getattr(event, name, None) for name in ("noise_multiplier", "epsilon", "delta")),
            None if sensitivity is None else float(np.max(sensitivity)),
        )
        counts[key] = counts.get(key, 0) + getattr(event, "count", 1)
    return [dict(zip(_OF_EVENT, (*key[:2], count, *key[2:]), strict=True)) for key, count in counts.items()]


def _public(
    asked: ReleaseConfig, study: StudySpec | None, facts: Mapping[str, Any], n_units: int, unit: str
) -> Iterator[dict[str, str]]:
    """Yield what was taken as public, and where it comes from."""

    def fact(what: str, value: object, source: str) -> dict[str, str]:
        return {"what": what, "value": str(value), "source": source}

    yield fact(f"number of {unit}s", n_units, "shared by all neighboring data")
    for name, value in {**asked.bounds, **asked.params}.items():
        yield fact(name, value, "declared as a bound in the release file" if is_bound(name) else "a setting")
    if public := facts.get("public_rows"):
        about = "{rows} of {file}, sha256 {sha256}".format_map(public)
        yield fact("public rows", about, public["source"])
    table = study.analyst_table if study else None
    for column in table.columns if table else ():
        if column.name in {*asked.columns.x, asked.columns.y}:
            known = ", ".join(column.categories) or f"{column.lower:g} to {column.upper:g}"
            yield fact(f"column {column.name}", known, column.source)


def _numbers(answer: Answer) -> list[dict[str, Any]]:
    ends = {name: answer.interval.get(name, (None, None)) for name in answer.estimate}
    return [
        {"name": name, "estimate": value, "lower": ends[name][0], "upper": ends[name][1]}
        for name, value in answer.estimate.items()
    ]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
