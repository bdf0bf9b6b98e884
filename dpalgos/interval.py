"""Intervals of the coordinates of an estimate, from released and public numbers alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import scipy

from dpalgos.errors import warn
from dpalgos.typing import FloatArray

CLIPPED = "clipping may have biased it too much for an interval"
HIDDEN = "it is part of a direction whose second moment is below the noise"
BENT = "a ridge, or a step too long for its curvature, may have biased it"
GROSS = "outlying residuals, or rows with a value outside its public bounds, may have biased it"
MOVED = "rows with a value outside its public bounds may have biased it"
DISPERSED = "counts vary by more than their means explain"
FEW = "there are too few rows for this ε and δ"
OMITTED = "the omitted terms may move it too much for an interval"
_HELPS = {
    CLIPPED: "public bounds, centers and scales closer to the values, or more rows",
    HIDDEN: "fewer columns, a rare level merged with another, more rows or a larger ε",
    BENT: "more rows, a larger ε or fewer columns",
    GROSS: "public bounds that no value exceeds; if none does, the logarithm of the response",
    MOVED: "public bounds that no value exceeds",
    DISPERSED: "columns that explain why counts differ, or interval_target='least squares'",
    FEW: "more rows, a larger ε or fewer columns",
    OMITTED: "a separate release of the nested model",
}
# A coordinate's code is the sum of 2^k over its reasons.
REASONS = HIDDEN, CLIPPED, BENT, GROSS, FEW, OMITTED, MOVED, DISPERSED
ABOUT = "Intervals are centered at the estimate before it is shrunk."


class Combinable(Protocol):
    """The source of intervals of linear combinations of coefficients."""

    def along(self, combinations: FloatArray) -> "Interval":
        """Return the intervals of linear combinations, given by the rows (k, d) of weights."""
        ...

    def after_offset(self) -> "Combinable":
        """Return the same for coefficients after an offset, whose coefficient is 1."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Interval:
    """Intervals of the coordinates of R estimates.

    Attributes
    ----------
    half_width : (d, R) array
        NaN if there is no valid interval.
    center : (d, R) array, optional
        By default the estimate itself.
    without_noise : (d, R) array, optional
        Half-widths that account for sampling error only, as in a textbook interval.
    reasons : (d, R) array, optional
        Reasons that coordinates have no interval, as codes of :data:`REASONS`.
    about : str
        A note on the center, if it is not the estimate.
    released : Combinable, optional
        The source of intervals of linear combinations.
    """

    half_width: FloatArray
    center: FloatArray | None = None
    without_noise: FloatArray | None = None
    reasons: FloatArray | None = None
    about: str = ""
    released: "Combinable | None" = None

    @classmethod
    def missing(cls, n_coordinates: int, n_replicates: int, reason: str) -> Self:
        """Return intervals that are missing for all coordinates, for one reason."""
        nothing = np.full((n_coordinates, n_replicates), np.nan)
        codes = np.full_like(nothing, 2.0 ** REASONS.index(reason))
        return cls(half_width=nothing, center=nothing, without_noise=nothing, reasons=codes, about=ABOUT)

    @classmethod
    def joined(cls, parts: Sequence["Interval"]) -> Self:
        """Return the intervals of all replicates from those of parts."""

        def every(name: str) -> Any:
            arrays = [getattr(part, name) for part in parts]
            return None if arrays[0] is None else np.concatenate(arrays, axis=1)

        arrays = ("half_width", "center", "without_noise", "reasons")
        return cls(**{name: every(name) for name in arrays}, about=parts[0].about)

    @property
    def codes(self) -> FloatArray:
        """The reasons as codes, (d, R); 0 if there is none."""
        return np.zeros_like(self.half_width) if self.reasons is None else self.reasons

    @property
    def note(self) -> str:
        """The reasons that coordinates have no interval, in words; empty if all have one."""
        return why_none(self.codes, [str(j) for j in range(len(self.codes))], "coordinate")

    def hidden(self, names: Sequence[str]) -> list[str] | None:
        """Return the names of coordinates that noise hides; None if no interval was computed."""
        codes = np.bitwise_or.reduce(self.codes.astype(int), axis=1)
        if (codes >> REASONS.index(FEW) & 1).any():
            return None
        is_hidden = codes >> REASONS.index(HIDDEN) & 1
        return [name for name, each in zip(names, is_hidden, strict=True) if each]

    def limits(self, answer: FloatArray) -> FloatArray:
        """Return lower and upper limits, (2, d, R), around an estimate (d, R)."""
        center = answer if self.center is None else self.center
        return np.stack([center - self.half_width, center + self.half_width])

    def along(self, combinations: FloatArray, answer: FloatArray) -> "Interval":
        """Return the intervals of linear combinations (k, d) of one estimate (d, 1).

        They use released covariances if there are any. Otherwise half-widths add up, which is conservative.
        """
        if self.released is not None:
            return self.released.along(combinations)
        used = combinations != 0
        center = answer if self.center is None else self.center
        middle, half = center[:, 0], self.half_width[:, 0]
        codes = self.codes[:, 0].astype(int)
        why = [np.bitwise_or.reduce(codes[row], initial=0) for row in used]
        return Interval(
            half_width=np.where(used, np.abs(combinations) * half, 0.0).sum(axis=1)[:, None],
            center=np.where(used, combinations * middle, 0.0).sum(axis=1)[:, None],
            reasons=np.array(why, dtype=float)[:, None],
            about=self.about,
        )

    def after_offset(self) -> "Interval":
        """Return the intervals, preceded by that of an offset, whose coefficient is exactly 1."""

        def after(value: float, others: FloatArray | None) -> Any:
            return None if others is None else np.insert(others, 0, value, axis=0)

        return replace(
            self,
            half_width=after(0.0, self.half_width),
            center=after(1.0, self.center),
            without_noise=after(0.0, self.without_noise),
            reasons=after(0.0, self.reasons),
            released=self.released.after_offset() if self.released else None,
        )


def normal_quantile(level: float) -> float:
    """Return how many standard deviations a normal interval of a level reaches."""
    return float(scipy.special.ndtri((1 + level) / 2))


def why_none(codes: FloatArray, names: Sequence[str], what: str = "column") -> str:
    """Return the reasons that named coordinates have no interval, in words, from codes (d, R)."""
    causes: dict[str, list[str]] = {}
    for name, code in zip(names, np.bitwise_or.reduce(codes.astype(int), axis=1), strict=True):
        why = [reason for k, reason in enumerate(REASONS) if code >> k & 1]
        if why:
            causes.setdefault("; ".join(why), []).append(name)
    if not causes:
        return ""
    return "no interval for " + ", nor for ".join(
        f"{what}{'s' * (len(which) > 1)} {', '.join(which)}: {why}" for why, which in causes.items()
    )


def warn_of_none(ends: FloatArray | None, intervals: Interval | None, names: Sequence[str]) -> None:
    """Warn if no shown coefficient has an interval (2, k), with the reasons and remedies."""
    if ends is None or intervals is None or not np.isnan(ends).all():
        return
    codes = np.bitwise_or.reduce(intervals.codes.astype(int), axis=None)
    helps = [_HELPS[reason] for k, reason in enumerate(REASONS) if codes >> k & 1]
    warn(
        f"{why_none(intervals.codes, names) or 'no interval'}; what would help: "
        f"{'; '.join(dict.fromkeys(helps)) or _HELPS[FEW]}",
        UserWarning,
    )
