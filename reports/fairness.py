"""The parts of a method's error: privacy noise, and the rest, which remains if its noise is switched off.

Without noise, a private method still stops early, clips, sketches and shrinks. Its error is then e₀. The best
estimator without privacy has the error e on the same rows. √(e₀² − e²) is the part that neither noise nor
sampling explains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from reports.cells import Row, Setting, errors_of, is_private, lines_of, rows_at, settings_of, size_at
from reports.page import StudyPage
from reports.ranking import PageHeadline, rank

_LARGE_PART = 0.5  # of the error, from which a method is listed
_LEAST_FALL = 0.9  # of the error at the smallest ε, which that at the largest ε should not exceed
_LIKE_SAMPLING = 1.2  # times the error without privacy: smaller ones need not fall


@dataclass(frozen=True)
class Limited:
    """A private line whose error is not mainly due to privacy noise.

    ``mean`` and ``noise_off`` are its errors with noise and without; the latter is NaN if noise dominates.
    ``flat`` has its errors at the smallest and the largest ε if they differ by less than a tenth.
    """

    label: str
    mean: float
    noise_off: float
    flat: tuple[float, float] | None = None

    @property
    def is_biased(self) -> bool:
        return math.isfinite(self.noise_off)

    @property
    def is_larger_without(self) -> bool:
        """Whether noise changes what is clipped or shrunk, because the error without noise is larger."""
        return self.noise_off > self.mean


def is_mostly_bias(row: Row, without: float) -> bool:
    """Return whether more than half of a row's error remains without noise, except sampling error."""
    part = math.sqrt(max(row.noise_off**2 - without**2, 0.0)) if math.isfinite(row.noise_off) else 0.0
    return bool(row.answered and part > _LARGE_PART * abs(row.mean))


def noisy_lines(head: PageHeadline) -> list[str]:
    """Return the private lines of a headline of whose error at most half remains without noise."""
    rows = [row for row in head.at_x if row.role == "private" and row.answered]
    return [row.label for row in rows if row.noise_off <= _LARGE_PART * abs(row.mean)]


def sampling_error(rows: Sequence[Row], x: float) -> float:
    """Return the smallest error without privacy at a size; 0 where none is known."""
    best = rank(rows, x).non_private
    return float(best.mean) if best is not None else 0.0


def limited_lines(cells: pd.DataFrame, page: StudyPage, where: Setting) -> list[Limited]:
    """Return the private lines of a setting's panel that are limited by other things than privacy noise."""
    errors = errors_of(cells, page)
    rows = rows_at(errors, where)
    x = size_at(rows, page)
    if x is None:
        return []
    without, found = sampling_error(rows, x), []
    budgets = sorted(
        {each.epsilon for each in settings_of(errors, page) if each[1:] == where[1:]}
    )  # of the same δ and panel
    ends = [rows_at(errors, where._replace(epsilon=epsilon)) for epsilon in (budgets[0], budgets[-1])]
    for line in lines_of(rows):
        row = next((row for row in line if row.x == x), None)
        if row is None or row.role != "private" or not row.answered:
            continue
        means = [
            next((r.mean for r in end if (r.rank, r.x) == (row.rank, x) and r.answered), math.nan)
            for end in ends
        ]
        is_flat = len(budgets) > 1 and means[1] > max(_LEAST_FALL * means[0], _LIKE_SAMPLING * without)
        biased = is_mostly_bias(row, without)
        if biased or is_flat:
            off = row.noise_off if biased else math.nan
            found.append(Limited(row.label, row.mean, off, (means[0], means[1]) if is_flat else None))
    return found


def limited_in_panels(cells: pd.DataFrame, page: StudyPage) -> list[tuple[Setting, Limited]]:
    """Return the limited lines of each panel, at the δ and the ε of the headline or the nearest ones."""
    nearest: dict[str, Setting] = {}
    settings = settings_of(errors_of(cells, page), page)
    for where in sorted(settings, key=lambda each: abs(math.log(each.epsilon / settings[0].epsilon))):
        nearest.setdefault(where.panel, where)
    return [(where, each) for where in nearest.values() for each in limited_lines(cells, page, where)]


def noise_off_lines(cells: pd.DataFrame) -> pd.DataFrame:
    """Return a line for each private one: its errors with the noise switched off."""
    rows = cells[is_private(cells) & cells["noise_off"].notna()].copy()
    rows["mean"], rows["line"] = rows["noise_off"], rows["line"].map(noise_off_name)
    rows["look"] = [each.without_noise for each in rows["look"]]
    unknown = ["se", "low", "high", "certified", "audited"]
    rows[unknown] = math.nan
    return rows.assign(n_failed=0, message="")


def noise_off_name(line: str) -> str:
    return f"{line}, without noise"
