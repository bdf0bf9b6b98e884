"""A release that starts from the accuracy one needs: its attempts, planned, charged and drawn.

The ledger holds the largest budget from before the first draw on; each attempt is written down before it is
drawn, and the end of the charge, an answer or a loss, frees what was not begun. After a crash the attempts
that were begun stay charged, and the same request is refused like any whose answer was lost.
"""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from data.ledger import Ledger
from dpalgos import Sample
from dpalgos.hardened_release import Release
from dpalgos.until import UntilPlan, check_wish, draw_until, narrow_enough
from tasks.faults import SpecError
from tasks.release.table import FileUnits


@dataclass(frozen=True, kw_only=True)
class Wish:
    """How narrow intervals have to be, in the units of the file, and which budgets may be tried."""

    half_width: float | None = None  # or relative_error, one of the two
    relative_error: float | None = None
    first_epsilon: float | None = None
    growth: float | None = None
    columns: tuple[str, ...] = ()  # of which it is wanted; all by default

    def __post_init__(self) -> None:
        check_wish(self.half_width, self.relative_error)

    def question(self, plan: UntilPlan) -> dict[str, Any]:
        """Return what of it decides the answer, for the ledger."""
        given = {name: value for name, value in asdict(self).items() if value not in (None, ())}
        return {"until": {**given, "attempts": len(plan.attempts)}}

    def is_met(self, units: FileUnits, release: Release) -> bool:
        """Say of what was released whether it is narrow enough; nothing else decides when to stop."""
        interval = None if release.interval is None else units.of(release.interval.T).T
        return narrow_enough(
            units.of(release.estimate),
            interval,
            half_width=self.half_width,
            relative_error=self.relative_error,
            coordinates=[units.names.index(name) for name in self.columns] or None,
        )

    def check_columns(self, units: FileUnits) -> None:
        for name in self.columns:
            if name not in units.names:
                raise SpecError(f"--column must be one of {', '.join(units.names)}, got {name!r}")

    def sentence(self, reached: bool, attempts: int, of: int, epsilon: float, most: float) -> str:
        wanted = (
            f"half-width {self.half_width:g}"
            if self.half_width
            else f"relative error {self.relative_error:g}"
        )
        found = f"{wanted} reached" if reached else f"{wanted} cannot be had, and this is the best there is"
        return (
            f"{found}, with budget {attempts} of {of}: charged epsilon {epsilon:.4g} of at most {most:g}; "
            f"before the answer only epsilon {most:g} is promised, the smaller one holds ex post, for "
            "answers that were charged as much"
        )


def reservation(plan: UntilPlan) -> list[dict[str, Any]]:
    """Return what the ledger holds of each attempt: what all up to it cost together."""
    failure = plan.cost.failure  # of all attempts: how many are made depends on the data
    return [
        {
            "epsilon": epsilon,
            "rho": cost.rho,
            "pure_epsilon": cost.pure_epsilon if cost.pure_epsilon < float("inf") else None,
            "failure": failure,
        }
        for epsilon, cost in zip(plan.epsilons, plan.costs, strict=True)
    ]


def draw_wish(
    ledger: Ledger,
    charge_id: str,
    plan: UntilPlan,
    sample: Sample,
    units: FileUnits,
    wish: Wish,
) -> tuple[Release, dict[str, Any]]:
    """Draw the attempts of a charge, each written down first; return the last answer and their number."""
    attempts, reached, release = draw_until(
        plan,
        sample,
        enough=partial(wish.is_met, units),
        begin=partial(ledger.begin_attempt, charge_id),
    )
    return release, {"attempts": attempts, "of": len(plan.attempts), "reached": reached}
