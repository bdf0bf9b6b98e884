"""One private answer about an analyst's data: requested, planned, charged to the ledger, then drawn.

The order is what protects: everything that can be wrong is checked and the cost is known before the charge;
the charge is on the disk before noise is drawn; the answer is in the ledger before it is shown.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from data.errors import DataError
from data.ledger import Account, Charge, Ledger
from data.tables.reading import Source
from dpalgos.api import Result
from dpalgos.coefficients import covered
from dpalgos.goodness import binned, in_units
from dpalgos.hardened_release import draw_release
from dpalgos.intervals.half_widths import why_none
from dpalgos.typing import FloatArray
from tasks.problems.file_units import AT_CENTERS
from tasks.problems.public_rows import PUBLIC_SHAPE
from tasks.release.plan import PlannedRelease, event_entries, plan_release
from tasks.release.request import ReleaseRequest
from tasks.release.rows import read_rows
from tasks.release.spending import room_in
from tasks.run.threads import one_blas_thread

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, kw_only=True)
class Release:
    """A release: what was planned, its charge, the stored answer, and the state of the budget since."""

    plan: PlannedRelease
    charge: Charge
    answer: Mapping[str, Any]
    account: Account  # the dataset's budget and charges, this one included

    @property
    def replayed(self) -> bool:
        """Whether it is the stored answer to the same question, which cost nothing."""
        return self.charge.answer is not None

    @property
    def estimate(self) -> dict[str, float]:
        """The numbers by column and class, in the order of the request: the ledger keeps names sorted."""
        names, stored = self.plan.units.shown, self.answer["estimate"]
        rank = {name: (j, 0) for j, name in enumerate(names)}

        def order(name: str) -> tuple[int, int]:
            column, _, k = name.rpartition(", class ")
            return rank[name] if name in rank else (rank[column][0], int(k))

        return {name: stored[name] for name in sorted(stored, key=order)}

    @property
    def interval(self) -> dict[str, list[float | None]]:
        """The ends by column, where there is a level; None where none is honest."""
        return dict(self.answer.get("interval", {}))

    @property
    def center(self) -> dict[str, float]:
        """The centers of the intervals, of columns that have one: what tables print as the estimate."""
        known = {name: (low, high) for name, (low, high) in self.interval.items()}
        return {
            name: (low + high) / 2
            for name, (low, high) in known.items()
            if low is not None and high is not None
        }

    @property
    def covers(self) -> str:
        """Which coefficients the intervals cover, in a sentence; "" without any."""
        target = str(getattr(self.plan.params, "interval_target", ""))
        if self.level is None or not target:
            return ""
        return covered(target, self.plan.family)

    @property
    def level(self) -> float | None:
        return self.plan.keywords.get("interval")

    @property
    def facts(self) -> dict[str, Any]:
        """What is said of the answer, as it was stored with the charge."""
        # A charge of a version that did not store them has today's, without the software of then.
        plan, charge = self.plan, self.charge
        return {**plan.cost.facts, "software": {}, **charge.cost.facts}

    @property
    def events(self) -> list[dict[str, Any]]:
        """What was drawn: the plan has the same costs, but sensitivities of made-up rows."""
        return list(self.answer.get("events", self.facts["events"]))  # an earlier version stored the plan's


@dataclass(frozen=True, kw_only=True)
class Charging:
    """What the analyst agrees to, and is asked, before a charge.

    ``again``: to pay once more for an answer that was lost; ``allow_new_content``: that other data share the
    budget. ``before_charge`` is called with the plan of a question that was never charged; it raises to
    charge nothing.
    """

    again: bool = False
    allow_new_content: bool = False
    before_charge: Callable[[PlannedRelease], None] | None = None


def release(
    ledger: Ledger,
    request: ReleaseRequest,
    data: Source,
    *,
    charging: Charging,
    progress: Callable[[int], None] | None = None,
) -> Release:
    """Release one answer, or replay the stored one.

    Refusals (SpecError, InputError, DataError) show no value of the data. ``progress`` is called with the
    number of rows read so far.
    """
    one_blas_thread()
    account = ledger.account(request.dataset)
    rows = read_rows(ledger, data, request, progress, allow_new_content=charging.allow_new_content)
    plan = plan_release(request, rows)
    known = {each.question.id for each in account.charges}
    asked = {each.id for each in (plan.question, plan.question.former) if each}
    if charging.before_charge and not asked & known:
        charging.before_charge(plan)
    with ledger.answering(
        plan.question,
        plan.cost,
        room_in(account.budget),
        again=charging.again,
        allow_new_content=charging.allow_new_content,
    ) as charge:
        answer = charge.answer or ledger.store(charge, draw_answer(plan))
    if not charge.question.exact:
        _log.warning("the stored answer is of version 1.1, which compared numbers in single precision only")
    account = ledger.account(request.dataset)
    return Release(plan=plan, charge=charge, answer=answer, account=account)


def draw_answer(plan: PlannedRelease) -> dict[str, Any]:
    """Draw the answer of a plan that was charged, and return it as plain data in the units of the file.

    Nothing in here is refused for what the rows hold. A file that is not any more what was planned is
    refused; noise may have been drawn by then, so that the charge stays.
    """
    units = plan.units
    try:
        drawn = draw_release(plan.drawing, plan.sample)
    except DataError as error:
        raise DataError(
            f"{error}; what was charged stays spent, since noise may have been drawn: to pay once more, add "
            "--again"
        ) from None
    answer: dict[str, Any] = {
        "estimate": _named(units.shown, units.of(drawn.estimate)),
        "events": event_entries(drawn.events),
    }
    if PUBLIC_SHAPE in drawn.diagnostics:
        answer[PUBLIC_SHAPE] = bool(drawn.diagnostics[PUBLIC_SHAPE].all())
    answer |= _fit(plan, drawn)
    if drawn.interval is not None:
        pairs, why = units.ends_of(drawn.interval, drawn.diagnostics)
        ends = [[None if np.isnan(end) else float(end) for end in pair] for pair in pairs]
        answer["interval"] = dict(zip(units.shown, ends, strict=True))
        if why.any():
            answer["interval_note"] = why_none(why, units.shown)
    return answer


def _fit(plan: PlannedRelease, drawn: Result) -> dict[str, Any]:
    """Return how well the model fits, as far as it was released, in the units of the response."""
    units = plan.units
    has_intercept = units.names[-1] == AT_CENTERS
    unit, center = (units.factor[-1], units.offset[-1]) if has_intercept else (1.0, 0.0)
    ones = len(units.names) - 1 if has_intercept else None
    released = drawn.goodness(ones, units.reach)
    bins = binned(drawn.diagnostics, float(unit), float(center))
    plain = {name: [None if np.isnan(v) else float(v) for v in values] for name, values in bins.items()}
    note = {"fit_note": released.pop("fit_note")} if "fit_note" in released else {}
    return {
        **note,
        **({"fit": in_units(released, float(unit))} if released else {}),
        **({"binned_fit": plain} if plain else {}),
    }


def _named(columns: Sequence[str], estimate: FloatArray) -> dict[str, float]:
    """Return the numbers of an estimate by column, and by class where there are any."""
    if estimate.ndim == 1:
        return dict(zip(columns, map(float, estimate), strict=True))
    rows = zip(columns, estimate, strict=True)
    return {f"{name}, class {k}": float(value) for name, row in rows for k, value in enumerate(row)}
