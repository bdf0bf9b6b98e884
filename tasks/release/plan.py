"""The plan of a release: every check, the question, and its cost. No ledger, and no noise.

Whatever can be wrong with a request or with its rows is refused here, where nothing has been charged.
"""

import logging
import platform
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, replace
from importlib.metadata import version
from typing import Any

import numpy as np

import dpalgos
from data.formats.canonical import MISSING as BUILT_IN
from data.ledger import PrivacyCost, Question
from data.tables.reading import PartitionedTable, StreamedTable
from dpalgos import Sample
from dpalgos.accounting.events import Event
from dpalgos.accounting.risk import risk_of_events
from dpalgos.hardened_release import ReleasePlan, check_data, rehearse_release
from dpalgos.params import Params
from dpalgos.rows.blocks import StreamedRows, StreamRefused
from dpalgos.rows.partitions import PartitionedRows
from tasks.errors import SpecError
from tasks.problems.file_units import AT_CENTERS, FileUnits
from tasks.release.request import ReleaseRequest, public_keywords
from tasks.release.rows import ReleaseRows
from tasks.study.panel import INTERCEPT, OFFSET, check_offset, structure_of
from tasks.workers import map_on_workers

# Parameters that the budget, the rows or the structure of the model decide.
_ELSEWHERE = ("epsilon", "delta", "calibration", "public_X", INTERCEPT, OFFSET)

_log = logging.getLogger(__name__)

# What is stored of events with equal numbers; another version may have stored more.
EVENT_FIELDS = ("label", "mechanism", "count", "noise_multiplier", "epsilon", "delta", "sensitivity")


@dataclass(frozen=True, eq=False, kw_only=True)
class PlannedRelease:
    """A release that can be charged and drawn."""

    request: ReleaseRequest
    rows: ReleaseRows
    keywords: dict[str, Any]  # public ones, without the budget
    drawing: ReleasePlan
    sample: Sample
    question: Question
    cost: PrivacyCost

    @property
    def units(self) -> FileUnits:
        """How an answer is converted to the units of the file."""
        return self.rows.units

    @property
    def params(self) -> Params:
        """All keywords of the estimator, defaults included."""
        return self.drawing.params

    @property
    def family(self) -> str:
        """That of a generalized linear model, or ""."""
        return str(self.keywords.get("family", ""))


def plan_release(request: ReleaseRequest, rows: ReleaseRows) -> PlannedRelease:
    """Check everything, and return what will be asked, what it costs, and how it is drawn."""
    config, name = request.config, request.estimator.name
    declared = public_keywords(config.bounds, config.params, name)
    keywords = {**declared, "epsilon": request.epsilon, "delta": request.delta}
    if request.offset_bounds:
        check_offset(name, rows.units.names[0])
    if rows.units.names[-1] == AT_CENTERS:
        keywords = {**structure_of(name, request.offset_bounds), **keywords}
    if rows.public:
        _log.warning("%s", rows.public.sentence)
        keywords["public_X"] = rows.public_X
    drawing, sample = _drawing(name, keywords, rows)
    _check_plan(drawing, request)
    _warn_of_large_delta(request.delta, rows)
    check_data(drawing.estimator, drawing.params, sample)
    public = {"public_rows": rows.public.facts} if rows.public else {}
    facts = _facts_at_charge(drawing.events, drawing.cost.rho, request.delta) | public
    question = Question(
        dataset=config.dataset.name,
        content=rows.content,
        estimator=name,
        parameters=_canonical(_declared(request, rows), drawing.params, rows),
        epsilon=request.epsilon,
        delta=request.delta,
        exact=rows.exact,
    )
    if rows.former_content:
        stated = {**_declared(request, rows), **config.bounds, **config.params}
        former = replace(question, content=rows.former_content, parameters=stated, exact="")
        question = replace(question, former=former)
    return PlannedRelease(
        request=request,
        rows=rows,
        keywords=declared,
        drawing=drawing,
        sample=sample,
        question=question,
        cost=PrivacyCost(**vars(drawing.cost), unit=request.unit, facts=facts),
    )


def _declared(request: ReleaseRequest, rows: ReleaseRows) -> dict[str, Any]:
    """Return what decides the answer next to rows, estimator with its settings, and budget."""
    columns = request.config.columns
    return {
        "x": list(columns.x),
        "y": columns.y,
        **({"user_id": columns.user_id} if columns.user_id else {}),
        **rows.units.declared,
        **({OFFSET: request.offset_bounds} if request.offset_bounds else {}),
        **({"public": {"sha256": rows.public.sha256, "rows": rows.public.n_rows}} if rows.public else {}),
    }


def _canonical(stated: dict[str, Any], params: Params, rows: ReleaseRows) -> dict[str, Any]:
    """Return one form for all ways to state a question: an order, a default and a repetition do not count."""
    asked, settings = dict(stated), {}
    for item in fields(params):
        value = getattr(params, item.name)
        if item.name not in _ELSEWHERE and not (item.default is not MISSING and value == item.default):
            if item.metadata.get("per_column"):
                value = value[0] if len(set(value)) == 1 else dict(zip(rows.units.names, value, strict=True))
            settings[item.name] = value
    asked["settings"] = settings
    if OFFSET in stated:
        asked[OFFSET] = [rows.units.names[0], *stated[OFFSET]]
    for name in ("x", "terms", "levels_before_markers"):
        if name in asked:
            asked[name] = sorted(asked[name])
    if "formula" in asked:
        asked["formula"] = {**asked["formula"], "terms": sorted(asked["formula"]["terms"])}
    levels = asked.get("categories", {})
    asked |= (
        {"categories": {name: _levels(each, name == stated["y"]) for name, each in levels.items()}}
        if levels
        else {}
    )
    markers = {
        name: sorted({each.strip() for each in words if each.strip().lower() not in BUILT_IN})
        for name, words in asked.pop("markers", {}).items()
    }
    return asked | (
        {"markers": used} if (used := {name: each for name, each in markers.items() if each}) else {}
    )


def _levels(levels: Sequence[str], ordered: bool) -> list[str]:
    """Return levels with the reference first; those of a response keep their order, which numbers classes."""
    return list(levels) if ordered else [levels[0], *sorted(levels[1:])]


def _drawing(name: str, keywords: dict[str, Any], rows: ReleaseRows) -> tuple[ReleasePlan, Sample]:
    """Plan the drawing and return its data: streamed where file and estimator allow it, else in memory.

    The partial sums of a folder's files are made by the cluster's workers, if there is a cluster.
    """
    shape, table = (rows.n_rows, len(rows.units.names)), rows.X
    if isinstance(table, PartitionedTable | StreamedTable):
        try:
            plan = rehearse_release(name, *shape, keywords, streamed=True)
            if isinstance(table, PartitionedTable):
                return plan, Sample(PartitionedRows(table.partitions, map_on_workers))
            return plan, Sample(StreamedRows(table, rows.n_rows))
        except StreamRefused:
            if isinstance(table, PartitionedTable):
                raise SpecError(
                    f"{name} with these parameters needs all rows in memory, so --data must be one file, "
                    "got a folder; choose an estimator that passes over the rows, or write them into one file"
                ) from None
    plan = rehearse_release(name, *shape, keywords, n_users=rows.n_users)
    X, y = table.in_memory() if isinstance(table, StreamedTable) else (table, rows.y)
    return plan, Sample(X, y, user_ids=rows.users, moved=rows.moved)


def _check_plan(plan: ReleasePlan, request: ReleaseRequest) -> None:
    """Stop before the charge if the plan differs from the request, which would be a fault of the program."""
    budget = request.epsilon, request.delta
    planned = getattr(plan.params, "epsilon", None), getattr(plan.params, "delta", None)
    if planned != budget or not plan.cost.epsilon(request.delta) <= request.epsilon:
        raise AssertionError(f"planned {planned} at {plan.cost.epsilon(request.delta)}, asked {budget}")


def _warn_of_large_delta(delta: float, rows: ReleaseRows) -> None:
    n, units = rows.n_users or rows.n_rows, "users" if rows.n_users else "rows"
    if delta * n >= 1:
        _log.warning(
            "delta %g is not below 1/%d, one over the number of %s: publishing a whole one of them at random "
            "would satisfy it; take a delta well below, e.g. %.0e",
            *(delta, n, units, 1 / n**2),
        )


def _facts_at_charge(events: Sequence[Event], rho: float, delta: float) -> dict[str, Any]:
    """Return what a later version might say otherwise of a release, to be stored with its charge."""
    return {
        "rho": rho,
        "events": event_entries(events),
        "risk": risk_of_events(events, delta).to_dict(),
        "software": {
            "dpcost": dpalgos.__version__,
            "opendp": version("opendp"),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def event_entries(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return events as plain data, equal ones counted together."""
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
    return [
        dict(zip(EVENT_FIELDS, (*key[:2], count, *key[2:]), strict=True)) for key, count in counts.items()
    ]
