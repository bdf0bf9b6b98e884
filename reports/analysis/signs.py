"""Which signs of coefficients are known: the one verdict of a page, for all its sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reports.analysis.results import SIGNS
from reports.analysis.series import View
from reports.writing import render_sentence

_LOST = 0.05  # signs on average, which is next to none


@dataclass(frozen=True)
class SignVerdict:
    """Which signs private answers have right, and which ones an answer tells.

    ``right`` of ``of`` coefficients have the sign that they have without privacy, on average over
    repetitions; NaN where none were counted. ``told`` are those whose interval, in the page's own answer on
    all rows, lies on the right side of zero; None on pages without one.
    """

    right: float = math.nan
    of: float = math.nan
    told: tuple[str, ...] | None = None
    n_shown: int = 0  # coefficients of the page's own answer

    @property
    def kept(self) -> int:
        """How many coefficients keep their signs, rounded; all of them only where next to none is lost."""
        return int(self.of) if self.of - self.right <= _LOST else min(round(self.right), int(self.of) - 1)

    @property
    def are_told(self) -> bool:
        """Whether an answer alone says which coefficients are positive or negative."""
        return self.of - self.right <= _LOST if self.told is None else bool(self.told)


def sign_verdict(view: View, cell: str) -> SignVerdict:
    """Return the verdict on the signs of a cell's answers, and of the page's own answer if there is one."""
    own = view.page.exhibits.get("own_table", {}).get("rows") if view.page.n_coefficients else None
    told = None if not own else tuple(row[0] for row in own if tells_sign(row))
    rows = view.others[(view.others["metric"] == SIGNS) & (view.others["cell"] == cell)]
    if not len(rows):
        return SignVerdict(told=told, n_shown=len(own or ()))
    right, of = float(rows["mean"].iloc[0]), float(view.page.n_coefficients)
    return SignVerdict(right, of, told, n_shown=len(own or ()))


def told_signs(signs: SignVerdict) -> str:
    """Say which signs the page's own answer tells; "" on pages without one."""
    return render_sentence("told_signs", signs=signs) if signs.told is not None else ""


def tells_sign(row: Sequence[Any]) -> bool:
    """Whether (name, estimate, lower, upper, exact) has an interval on the exact answer's side of zero."""
    _, _, low, high, exact = row
    return low is not None and high is not None and low * high > 0 and low * exact > 0
