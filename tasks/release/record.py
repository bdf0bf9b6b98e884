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

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from pydantic import Field

import dpalgos
from data.ledger import Charge
from dpalgos.accounting.events import Event, Relation
from dpalgos.accounting.risk import risk_of_events
from dpalgos.catalog import Estimator
from tasks.release.config import ReleaseConfig, is_bound
from tasks.strict import Strict
from tasks.study.spec import StudySpec

VERSION = 1
_GOES_BACK = {
    Relation.CENTRAL: "data sets of the same number of rows that differ in one row, replaced by any other",
    Relation.USER: "data sets of the same users that differ in all rows of one user, replaced by any others",
    Relation.LOCAL: "one person's input, replaced by any other",
}


class RegistryProduct(Strict):
    """What is published."""

    name: str
    data_product_type: str
    description: str
    publication_date: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")


class RegistryFlavor(Strict):
    """The kind of privacy."""

    name: str
    input_metric: str
    bound_on_input_distance: str
    output_measure: str
    data_domain: str
    unprotected_quantities: str


class RegistryParameters(Strict):
    """Numbers of the guarantee."""

    epsilon: float = Field(ge=0)
    delta: float = Field(ge=0, lt=1)
    rho: float | None = None


class RegistryLoss(Strict):
    """Who is protected, and by how much."""

    privacy_unit: str
    privacy_unit_description: str
    privacy_parameters: RegistryParameters
    privacy_parameters_description: str


class RegistryModel(Strict):
    """Who is trusted, and how often is released."""

    model_name: str
    model_name_description: str
    release_type: str
    data_source_type: str
    access_type: str


class RegistryComposition(Strict):
    """What is accounted, and what follows."""

    post_processing: str
    composition: str


class RegistryImplementation(Strict):
    """How it was done."""

    pre_processing_eda_hyperparameter_tuning: str
    mechanisms: str


class RegistryDeployment(Strict):
    """The fields of the registry."""

    product: RegistryProduct
    dp_flavor: RegistryFlavor
    privacy_loss: RegistryLoss
    model: RegistryModel
    accounting: RegistryComposition
    implementation: RegistryImplementation


class EventEntry(Strict):
    """One kind of release of the run: what, by which mechanism, how often, with which noise."""

    label: str
    mechanism: str
    count: int = Field(ge=1)
    noise_multiplier: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    sensitivity: float | None = None


class PublicFact(Strict):
    """Something that was taken as public, and where it comes from."""

    what: str
    value: str
    source: str


class AnswerEntry(Strict):
    """One number of the answer."""

    name: str
    estimate: float
    lower: float | None = None
    upper: float | None = None


class LedgerEntry(Strict):
    """The dataset's budget after the release, and the head of the ledger's chain.

    ``started_from`` is the charge whose released second moments are an input of the answer, or "".
    """

    charge: str
    started_from: str = ""
    charged: str
    epsilon_charged: float
    epsilon_spent: float
    epsilon_budget: float
    delta_budget: float
    head: str = Field(pattern="^[0-9a-f]{64}$")


class ReleaseEntry(Strict):
    """What the software knows of the release."""

    estimator: str
    reference: str
    level: float | None
    answer: tuple[AnswerEntry, ...] | None
    interval_note: str
    events: tuple[EventEntry, ...]
    public: tuple[PublicFact, ...]
    risk: dict[str, Any]
    until: dict[str, Any] | None
    ledger: LedgerEntry
    hardened_noise: str
    software: dict[str, str]


class ReleaseRecord(Strict):
    """The whole record; ``answer`` is None while the answer waits for approval."""

    record_version: int = VERSION
    deployment: RegistryDeployment
    release: ReleaseEntry


def facts_at_charge(events: Sequence[Event], rho: float, delta: float) -> dict[str, Any]:
    """Return what a later version might say otherwise of a release, to be stored with its charge."""
    return {
        "rho": rho,
        "events": [entry.model_dump() for entry in _entries(events)],
        "risk": risk_of_events(events, delta).to_dict(),
        "software": {
            "dpcost": _version("dpcost") or dpalgos.__version__,
            "opendp": _version("opendp"),
            "numpy": _version("numpy"),
            "python": platform.python_version(),
        },
    }


def record_of(
    *,
    estimator: Estimator,
    asked: ReleaseConfig,
    study: StudySpec | None,
    n_units: int,
    promised: float,
    facts: dict[str, Any],
    charge: Charge,
    budget: tuple[float, float, float],
    head: str,
    answer: dict[str, float] | None,
    intervals: dict[str, list[float | None]],
    interval_note: str,
    until: dict[str, Any],
) -> ReleaseRecord:
    """Build the record of a release.

    ``promised`` is the ε that was promised before the answer, ``facts`` what `facts_at_charge` returned then;
    ``budget`` is spent ε, whole ε and δ of the dataset.
    """
    relation = estimator.relation or Relation.CENTRAL
    spent, whole, budget_delta = budget
    # Another version may have stored more; what was paid for can be shown all the same.
    known = EventEntry.model_fields
    mechanisms = tuple(
        EventEntry(**{name: value for name, value in entry.items() if name in known})
        for entry in facts["events"]
    )
    pure = charge.delta == 0
    return ReleaseRecord(
        deployment=RegistryDeployment(
            product=RegistryProduct(
                name=asked.dataset.name,
                data_product_type="Summary statistics" if estimator.task == "mean" else "Statistical model",
                description=f"{estimator.title}: {estimator.summary}",
                publication_date=charge.charged[:10],
            ),
            dp_flavor=RegistryFlavor(
                name="Pure DP" if pure else "Approximate DP",
                input_metric=f"number of {relation.unit_of_privacy}s that are replaced",
                bound_on_input_distance=f"one {relation.unit_of_privacy}",
                output_measure="hockey-stick divergence, (ε, δ)",
                data_domain=f"tables of {n_units} {relation.unit_of_privacy}s with columns "
                f"{', '.join(filter(None, (*asked.columns.x, asked.columns.y)))}",
                unprotected_quantities=f"the number of {relation.unit_of_privacy}s, {n_units}",
            ),
            privacy_loss=RegistryLoss(
                privacy_unit=relation.unit_of_privacy.capitalize(),
                privacy_unit_description=f"{relation.neighboring_relation}: {_GOES_BACK[relation]}"
                + (f"; users by the column {asked.columns.user_id}" if asked.columns.user_id else ""),
                privacy_parameters=RegistryParameters(epsilon=promised, delta=charge.delta, rho=facts["rho"]),
                privacy_parameters_description=(
                    f"the largest budget of a sequence; {until['sentence']}"
                    if until
                    else "a fixed guarantee, charged before anything was drawn"
                ),
            ),
            model=RegistryModel(
                model_name="Central",
                model_name_description="the curator who holds the rows and runs this program is trusted; "
                "readers of the answer are not",
                release_type="One-shot",
                data_source_type="Static",
                access_type="Non-interactive",
            ),
            accounting=RegistryComposition(
                post_processing="units of the file, public ranges, intervals from released numbers",
                composition="zero-concentrated privacy losses add up over all releases of "
                f"{asked.dataset.name!r} (fully adaptive composition): {spent:.4g} of ε = {whole:g} at "
                f"δ = {budget_delta:g} is spent",
            ),
            implementation=RegistryImplementation(
                pre_processing_eda_hyperparameter_tuning="columns, bounds and settings were declared before "
                "the data were read by this program; what their owner knew of the data is not accounted",
                mechanisms="; ".join(
                    dict.fromkeys(f"{each.mechanism} ({each.label})" for each in mechanisms)
                ),
            ),
        ),
        release=ReleaseEntry(
            estimator=estimator.name,
            reference=estimator.reference,
            level=asked.params.get("interval"),
            answer=None if answer is None else _answer(answer, intervals),
            interval_note=interval_note if answer is not None else "",
            events=mechanisms,
            public=_public(asked, study, n_units, relation),
            risk=facts["risk"],
            until=until or None,
            ledger=LedgerEntry(
                charge=charge.id,
                started_from=facts.get("started_from", ""),
                charged=charge.charged,
                epsilon_charged=promised if answer is None else charge.epsilon,
                epsilon_spent=spent,
                epsilon_budget=whole,
                delta_budget=budget_delta,
                head=head,
            ),
            hardened_noise="integer noise on a public grid from OpenDP's exact samplers, with randomness of "
            "the operating system; rounding is counted in the sensitivity",
            software=facts["software"],
        ),
    )


def _entries(events: Sequence[Event]) -> tuple[EventEntry, ...]:
    """Return events with equal numbers together."""
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
    names = ("label", "mechanism", "noise_multiplier", "epsilon", "delta", "sensitivity")
    return tuple(
        EventEntry(**dict(zip(names, key, strict=True)), count=count) for key, count in counts.items()
    )


def _public(
    asked: ReleaseConfig, study: StudySpec | None, n_units: int, relation: Relation
) -> tuple[PublicFact, ...]:
    unit = relation.unit_of_privacy
    found = [
        PublicFact(what=f"number of {unit}s", value=str(n_units), source="shared by all neighboring data")
    ]
    settings = {**asked.bounds, **asked.params}
    found += [
        PublicFact(
            what=name,
            value=str(value),
            source="declared as a bound in the release file" if is_bound(name) else "a setting",
        )
        for name, value in settings.items()
    ]
    table = study.analyst_table if study else None
    used = {*asked.columns.x, asked.columns.y}
    for column in table.columns if table else ():
        if column.name in used:
            known = ", ".join(column.categories) or f"{column.lower:g} to {column.upper:g}"
            found.append(PublicFact(what=f"column {column.name}", value=known, source=column.source))
    return tuple(found)


def _answer(answer: dict[str, float], intervals: dict[str, list[float | None]]) -> tuple[AnswerEntry, ...]:
    def ends(name: str) -> dict[str, float | None]:
        lower, upper = intervals.get(name, (None, None))
        return {"lower": lower, "upper": upper}

    return tuple(AnswerEntry(name=name, estimate=value, **ends(name)) for name, value in answer.items())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
