"""One private answer about an analyst's data: read, planned, charged to the ledger, then drawn."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from data.ledger import Charge, Ledger, Request, Verdict
from data.tables.reading import PartitionedTable, Source, StreamedTable
from dpalgos import InputError, Sample, get_estimator
from dpalgos.accounting.composition import Spending
from dpalgos.catalog import Estimator
from dpalgos.hardened_release import Release, ReleasePlan, check_data, draw_release, plan_release
from dpalgos.intervals.half_widths import NOTE, WHY, why_none
from dpalgos.rows.blocks import StreamedRows, StreamRefused
from dpalgos.rows.partitions import PartitionedRows
from dpalgos.typing import FloatArray
from tasks.faults import SpecError
from tasks.problems.public_rows import PUBLIC_SHAPE
from tasks.release.config import ReleaseConfig, public_keywords, read_release
from tasks.release.record import Answer, facts_at_charge, record_of
from tasks.release.table import FileUnits, ReleaseRows, read_rows
from tasks.run.resources import each_computed, one_blas_thread
from tasks.study.spec import StudySpec

_log = logging.getLogger(__name__)

Confirm = Callable[[StudySpec, Sequence[str], Mapping[str, Any]], None]
_BUDGET_INSTEAD = "--epsilon and --delta say what a release costs, and nothing else does"


def release(
    ledger: Ledger,
    estimator: str,
    data: Source,
    config: Path,
    *,
    epsilon: float,
    delta: float,
    interval: float | None = None,
    again: bool = False,
    allow_new_content: bool = False,
    progress: Callable[[int], None] | None = None,
    confirm: Confirm | None = None,
) -> Answer:
    """Release one answer, or replay the stored one.

    The order is what protects: everything that can be wrong is checked and the cost is known before the
    charge; the charge is on the disk before the noise is drawn; the answer is in the ledger before it is
    shown. Refusals (SpecError, InputError, DataError) show no value of the data.

    ``interval`` is the confidence level of an interval per column, which the same ε pays for; None: none.
    ``progress`` is called with the number of rows read so far. ``confirm`` is called before a charge with
    the study that the file names, the columns and the public keywords; it raises to charge nothing.
    """
    one_blas_thread()
    asked, study = read_release(config, estimator, interval)
    budget = ledger.budget(asked.dataset.name)
    _check_task(get_estimator(estimator), asked)
    rows = read_rows(ledger, data, asked, study.analyst_table if study else None, progress)
    declared = public_keywords(asked.bounds, asked.params, estimator, _BUDGET_INSTEAD)
    keywords = {**declared, "epsilon": epsilon, "delta": delta}
    if rows.public:
        _log.warning("%s", rows.public.sentence)
        keywords["public_X"] = rows.public_X
    plan, sample = _planned(estimator, keywords, rows)
    _check_plan(plan, epsilon, delta)
    _warn_of_large_delta(delta, rows.n_users or rows.n_rows, "users" if rows.n_users else "rows")
    check_data(plan.estimator, plan.params, sample)
    facts = facts_at_charge(plan.events, plan.cost.rho, delta)
    if rows.public:
        facts["public_rows"] = rows.public.facts
    request = Request(
        dataset=asked.dataset.name,
        fingerprint=rows.content,
        estimator=estimator,
        parameters={
            "x": list(asked.columns.x),
            "y": asked.columns.y,
            **({"user_id": asked.columns.user_id} if asked.columns.user_id else {}),
            **rows.units.declared,
            **asked.bounds,
            **asked.params,
            **({"public": {"sha256": rows.public.sha256, "rows": rows.public.n_rows}} if rows.public else {}),
        },
        epsilon=epsilon,
        delta=delta,
        accounting={
            "rho": plan.cost.rho,
            "pure_epsilon": plan.cost.pure_epsilon if plan.cost.pure_epsilon < float("inf") else None,
            "failure": plan.cost.failure,
            "releases": [event.label for event in plan.events],
            "unit": f"user by {asked.columns.user_id}" if asked.columns.user_id else "row",
            "facts": facts,
        },
    )
    charged_before = any(each.request_id == request.id for each in ledger.charges(budget.name))
    if confirm and study and not charged_before:
        confirm(study, asked.columns.x, {**declared, "interval": asked.params.get("interval")})

    def fits(charges: Sequence[Charge], new: Charge) -> Verdict:
        _check_unit(budget.name, charges, new)
        total = spent_epsilon([*charges, new], budget.delta)
        return Verdict(
            accepted=total <= budget.epsilon * (1 + 1e-9),
            spent_epsilon=spent_epsilon(charges, budget.delta),
            spent_delta=budget.delta if charges else 0.0,
            note=why_more([*charges, new], budget.delta),
        )

    charge = ledger.charge(request, fits, again=again, allow_new_content=allow_new_content)
    replayed = charge.release is not None
    if not replayed:
        try:
            drawn = draw_release(plan, sample)
        except BaseException as error:
            ledger.give_up(charge.id, f"{type(error).__name__} while drawing")
            raise
        charge = ledger.store_release(charge.id, _stored(rows.units, drawn))
    assert charge.release is not None
    shown = charge.release
    charges = ledger.charges(budget.name)
    # A charge of a version that did not store them has today's, without the software of then.
    facts = charge.accounting.get("facts", {**facts, "software": {}})
    answer = Answer(
        estimate=_in_order(rows.units.names, shown.get("estimate", {})),
        epsilon=epsilon,
        delta=delta,
        replayed=replayed,
        charge=charge.id,
        spent_epsilon=spent_epsilon(charges, budget.delta),
        budget_epsilon=budget.epsilon,
        budget_delta=budget.delta,
        spent_note=why_more(charges, budget.delta),
        interval=dict(shown.get("interval", {})),
        interval_note=str(shown.get("interval_note", "")),
        risk=facts["risk"],
        public_shape=shown.get(PUBLIC_SHAPE),
    )
    n_units, head = rows.n_users or rows.n_rows, ledger.head()
    return replace(
        answer,
        record=record_of(answer, plan.estimator, asked, study, n_units, facts, charge, head),
    )


def _planned(estimator: str, keywords: dict[str, Any], rows: ReleaseRows) -> tuple[ReleasePlan, Sample]:
    """Plan a release and return its data: streamed where file and estimator allow it, else in memory.

    The partial sums of a folder's files are made by the cluster's workers, if there is a cluster.
    """
    shape = rows.n_rows, len(rows.units.names)

    def plan_of(**how: Any) -> ReleasePlan:
        return plan_release(estimator, *shape, keywords, **how)

    if isinstance(rows.X, PartitionedTable):
        try:
            return plan_of(streamed=True), Sample(PartitionedRows(rows.X.partitions, each_computed))
        except StreamRefused:
            raise SpecError(
                f"{estimator} with these parameters needs all rows in memory, so --data must be one file, "
                "got a folder; choose an estimator that passes over the rows, or write them into one file"
            ) from None
    if isinstance(rows.X, StreamedTable):
        try:
            return plan_of(streamed=True), Sample(StreamedRows(rows.X, rows.n_rows))
        except StreamRefused:
            pass
    plan = plan_of(n_users=rows.n_users)
    X, y = rows.X.in_memory() if isinstance(rows.X, StreamedTable) else (rows.X, rows.y)
    return plan, Sample(X, y, user_ids=rows.users, moved=rows.moved)


def spending_of(charges: Sequence[Charge]) -> Spending:
    """Return the total cost of charges, lost answers included."""
    total = Spending()
    for charge in charges:
        cost = charge.accounting
        pure = cost["pure_epsilon"]
        total = total + Spending(
            rho=cost["rho"],
            pure_epsilon=float("inf") if pure is None else pure,
            failure=cost["failure"],
        )
    return total


def spent_epsilon(charges: Sequence[Charge], delta: float) -> float:
    return spending_of(charges).epsilon(delta)


def why_more(charges: Sequence[Charge], delta: float) -> str:
    """Say why charges cost more together than their ε add up to; empty where they do not."""
    total, added = spending_of(charges), sum(charge.epsilon for charge in charges)
    pure = [charge for charge in charges if charge.accounting["pure_epsilon"] is not None]
    if not 0 < len(pure) < len(charges) or total.epsilon(delta) <= added * (1 + 1e-9):
        return ""
    return (
        f"together the charges cost epsilon {total.epsilon(delta):.4g}, more than the {added:.4g} to which "
        f"they add up: {len(pure)} of {len(charges)} are of pure ε, which next to Gaussian ones counts as "
        "ρ = ε²/2; keep to one kind of noise"
    )


def charged_unit(charges: Sequence[Charge]) -> str | None:
    """Return the unit of privacy of all charges: a row, or a user by a column; None without charges."""
    return charges[0].accounting.get("unit", "row") if charges else None


def _check_unit(budget: str, charges: Sequence[Charge], new: Charge) -> None:
    """Refuse to mix units in one budget: losses per row and per user do not add up."""
    spent, asked = charged_unit(charges), charged_unit([new])
    if spent not in (None, asked):
        raise InputError(
            f"the budget of {budget!r} protects each {spent}, got a release that protects each {asked}, and "
            "the two do not add up; keep to one unit, or let the owner open a budget for the other"
        )


def _stored(units: FileUnits, drawn: Release) -> dict[str, Any]:
    """Return the part of an answer that the ledger stores, as plain data."""
    stored: dict[str, Any] = {"estimate": _named(units.names, units.of(drawn.estimate))}
    if PUBLIC_SHAPE in drawn.diagnostics:
        stored[PUBLIC_SHAPE] = bool(drawn.diagnostics[PUBLIC_SHAPE].all())
    if drawn.interval is not None:
        pairs = units.of(drawn.interval.T)
        ends = [[None if np.isnan(end) else float(end) for end in pair] for pair in pairs]
        stored["interval"] = dict(zip(units.names, ends, strict=True))
        if NOTE in drawn.diagnostics:
            stored["interval_note"] = why_none(drawn.diagnostics[WHY], units.names)
    return stored


def _named(columns: Sequence[str], estimate: FloatArray) -> dict[str, float]:
    """Return the numbers of an estimate by column, and by class where there are any."""
    if estimate.ndim == 1:
        return dict(zip(columns, map(float, estimate), strict=True))
    rows = zip(columns, estimate, strict=True)
    return {f"{name}, class {k}": float(value) for name, row in rows for k, value in enumerate(row)}


def _in_order(columns: Sequence[str], stored: Mapping[str, float]) -> dict[str, float]:
    """Return a stored estimate in the order of its columns and classes: the ledger keeps names sorted."""
    place = {column: (j, 0) for j, column in enumerate(columns)}

    def of(name: str) -> tuple[int, int]:
        column, _, k = name.rpartition(", class ")
        return place[name] if name in place else (place[column][0], int(k))

    return {name: stored[name] for name in sorted(stored, key=of)}


def _check_plan(plan: ReleasePlan, epsilon: float, delta: float) -> None:
    """Stop before the charge if the plan differs from the request, which would be a fault of the program."""
    planned = getattr(plan.params, "epsilon", None), getattr(plan.params, "delta", None)
    if planned != (epsilon, delta) or not plan.cost.epsilon(delta) <= epsilon:
        raise AssertionError(
            f"planned {planned} at epsilon {plan.cost.epsilon(delta)}, asked {(epsilon, delta)}"
        )


def _warn_of_large_delta(delta: float, n: int, units: str) -> None:
    if delta * n >= 1:
        _log.warning(
            "delta %g is not below 1/%d, one over the number of %s: publishing a whole one of them at random "
            "would satisfy it; take a delta well below, e.g. %.0e",
            *(delta, n, units, 1 / n**2),
        )


def _check_task(estimator: Estimator, asked: ReleaseConfig) -> None:
    name = estimator.name
    if not estimator.private:
        return
    if estimator.task == "mean" and asked.columns.y:
        raise InputError(f"columns.y must be left out for {name}, which estimates a mean")
    if asked.columns.user_id and estimator.unit_of_privacy != "user":
        raise InputError(f"columns.user_id must be left out for {name}, whose unit of privacy is a row")
    if estimator.task != "mean" and not asked.columns.y:
        raise InputError(f"columns.y is needed for {name}; name the response's column")
