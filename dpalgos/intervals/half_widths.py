"""Intervals that count the noise: half-widths from released and public quantities alone.

    estimate_j ± ( min( t_ν √T_j, z √(T_j + u_j) ) + b_j )
    T_j = (known variance of the noise) + (released sampling variance)
    b_j : a bound on the bias, of clipping above all

u_j is the standard deviation of T_j itself: what is released of the sampling variance is noisy, too.
Satterthwaite's degrees of freedom ν = 2 T_j²/u_j² make up for that where u_j is small against T_j; elsewhere
they ask for too much, and the normal quantile z on one standard deviation more suffices
(:func:`half_widths`). A coordinate is flagged where b_j exceeds the rest, or there is no bound: its
half-width is NaN, and a note says which and why. An estimator that has intervals takes the keyword
``interval`` (by :class:`IntervalParams`), reserves :data:`INTERVAL_SHARE` of its μ², and ends with
:func:`note_interval`. With an interval the answer is its midpoint: nothing is shrunk.

What is released for it, of vectors g_i clipped to norm C whose mean is the answer, or a part of it:

    quantity                                   sensitivity
    mean of svec(g_i g_i')/C², or of squares   √2/n, or 1/n in one dimension
    shares of vectors by size ‖g_i‖/C          √2/n

(:func:`dpalgos.mechanisms.sensitivity.outer_product`, and :mod:`dpalgos.mechanisms.for_intervals.tails`,
which bounds the bias)

References
----------
Satterthwaite (1946), An approximate distribution of estimates of variance components.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy

from dpalgos.errors import InputError
from dpalgos.params import PrivateParams, checked
from dpalgos.release.checks import is_number
from dpalgos.release.transcript import Transcript
from dpalgos.typing import BoolArray, FloatArray

HALF_WIDTH = "half_width"
ENDS = "interval_ends"  # (2, d, R), in the place of half-widths, where the answer is not the midpoint
NAIVE_HALF_WIDTH = "half_width_without_noise"
CENTER = "interval_center"
ALONG = "intervals_along"  # what returns these notes of linear combinations, (k, d)
NOTE = "interval_note"
ABOUT = "interval_about"
WHY = "interval_reasons"
CLIPPED = "clipping may have moved it by more than its half-width"
HIDDEN = "it takes part in a direction whose second moment the noise hides"
BENT = "a ridge, or a step too long for its curvature, may have moved it"
GROSS = "a few residuals far beyond the others may have moved it"
FEW = "there are too few rows for this ε and δ"
_HELPS = {
    CLIPPED: "public bounds, centers and scales nearer to where values lie, or more rows",
    HIDDEN: "fewer columns, a rare level merged with another, more rows or a larger ε",
    BENT: "more rows, a larger ε or fewer columns",
    GROSS: "narrower public bounds of the response, or its logarithm",
    FEW: "more rows, a larger ε or fewer columns",
}
REASONS = (HIDDEN, CLIPPED, BENT, GROSS, FEW)  # a coordinate's code is the sum of 2^k over its reasons

_ABOUT = "intervals are centered at the answer before it is shrunk"
_LARGEST_BIAS = 3.0  # in half-widths without it


def _check_level(name: str, value: Any) -> float:
    """Return a confidence level, or refuse what is none."""
    if not is_number(value) or not 0 < value < 1:
        raise InputError(
            f"{name} must be a confidence level above 0 and below 1, got {value!r}; pass e.g. {name}=0.95"
        )
    return float(value)


def interval_level() -> Any:
    """Declare the keyword ``interval``."""
    what = "confidence level of an interval per coordinate, e.g. 0.95; None: none"
    return checked(what, _check_level, default=None, optional=True)


@dataclass(frozen=True, kw_only=True)
class IntervalParams(PrivateParams):
    """Keywords of private estimators that have intervals."""

    interval: float | None = interval_level()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.interval is not None and self.calibration == "paper":
            raise InputError(
                "interval must be None for calibration='paper', which prints none, got "
                f"{self.interval!r}; use calibration='tight'"
            )

    def note_ends(self, transcript: Transcript, ends: FloatArray, sampling: FloatArray) -> None:
        """Note ends (2, d, R) from elsewhere, and half-widths without noise by a sampling variance (d, R)."""
        assert self.interval is not None
        transcript.note(ENDS, ends)
        normal = float(scipy.special.ndtri((1 + self.interval) / 2))
        transcript.note(NAIVE_HALF_WIDTH, normal * np.sqrt(sampling))


def interval_notes(
    level: float,
    *,
    variance: FloatArray,
    variance_std: FloatArray | float,
    sampling: FloatArray,
    biases: Mapping[str, FloatArray],
    flags: Mapping[str, BoolArray] = MappingProxyType({}),
    center: FloatArray | None = None,
) -> dict[str, FloatArray | str]:
    """Return the half-widths of an answer's intervals, (d, R), as notes on a run.

    Parameters
    ----------
    variance, variance_std : (d, R) arrays
        T, of every coordinate's error, and its standard deviation u.
    sampling : (d, R) array
        The part of T that is not noise: all that an interval by the book would count, shown for comparison.
    biases : mapping of str to (d, R) array
        Reason → bound on a bias; all are added to the half-width. Infinite where there is none.
    flags : mapping of str to (d, R) bool array
        Reason → coordinates without an interval whatever their bias.
    center : (d, R) array, optional
        The midpoint, where it is not the answer.
    """
    half = half_widths(level, variance, variance_std)
    bias = sum(biases.values(), np.zeros_like(half))
    found = {reason: bound > _LARGEST_BIAS * half for reason, bound in biases.items()}
    if biases:
        found[CLIPPED] = found[CLIPPED] | (bias > _LARGEST_BIAS * half)
    for reason, flag in flags.items():
        found[reason] = flag | found.get(reason, False)
    codes = np.asarray(
        sum((2.0 ** REASONS.index(reason) * each for reason, each in found.items()), np.zeros_like(half))
    )
    notes: dict[str, Any] = {
        NAIVE_HALF_WIDTH: np.asarray(scipy.special.ndtri((1 + level) / 2) * np.sqrt(sampling)),
        HALF_WIDTH: np.where(codes > 0, np.nan, half + np.where(codes > 0, 0.0, bias)),
        WHY: codes,
    }
    if center is not None:
        notes |= {
            CENTER: center,
            ABOUT: _ABOUT,
            ENDS: np.stack([center + side * notes[HALF_WIDTH] for side in (-1, 1)]),
        }
    if codes.any():
        notes[NOTE] = why_none(codes, [str(j) for j in range(len(codes))], "coordinate")
    return notes


def why_none(codes: FloatArray, names: Sequence[str], what: str = "column") -> str:
    """Return in words why coordinates of some names have no interval, by their codes (d, R)."""
    causes: dict[str, list[str]] = {}
    for name, code in zip(names, np.bitwise_or.reduce(codes.astype(int), axis=1), strict=True):
        why = [reason for k, reason in enumerate(REASONS) if code >> k & 1]
        if why:
            causes.setdefault("; ".join(why), []).append(name)
    return "no interval for " + ", nor for ".join(
        f"{what}{'s' * (len(which) > 1)} {', '.join(which)}: {why}" for why, which in causes.items()
    )


def along(
    notes: Mapping[str, Any], ends: FloatArray, combinations: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the ends (2, k) of one answer's intervals of linear combinations (k, d), and why there are none.

    The reasons are codes (k, 1). Without released covariances half-widths add up, which is never too narrow.
    """
    if ALONG in notes:
        found = notes[ALONG](combinations)
        return found[ENDS][..., 0], found[WHY]
    used = combinations != 0
    middle, half = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2
    center = np.where(used, combinations * middle, 0.0).sum(axis=1)
    reach = np.where(used, np.abs(combinations) * half, 0.0).sum(axis=1)
    codes = np.asarray(notes.get(WHY, np.zeros((len(middle), 1))))[:, :1].astype(int)
    why = np.array([np.bitwise_or.reduce(codes[row], axis=0, initial=0) for row in used], dtype=float)
    return np.stack([center - reach, center + reach]), why


def warn_of_none(ends: FloatArray | None, why: FloatArray, names: Sequence[str]) -> None:
    """Warn where no coefficient has an interval (2, k), with the reasons (k, 1) and what would help."""
    if ends is None or not np.isnan(ends).all():
        return
    seen = np.bitwise_or.reduce(why.astype(int), axis=None) if np.size(why) else 0
    helps = [_HELPS[reason] for k, reason in enumerate(REASONS) if seen >> k & 1]
    warnings.warn(
        f"{why_none(why, names) if seen else 'no interval'}; what would help: "
        f"{'; '.join(dict.fromkeys(helps)) or _HELPS[FEW]}",
        UserWarning,
        stacklevel=4,
    )


def half_widths(level: float, variance: FloatArray, variance_std: FloatArray | float) -> FloatArray:
    """Return the half-widths of intervals of normal errors whose variance is known up to normal noise.

    With T̂ = N + max(S + uξ, 0) for noise of variance N and sampling error of variance S, half-widths
    z √(T̂ + u) cover at least ``level`` for all N, S and u: what is added makes up for ξ < 0. So do t_ν √T̂
    where u is small against T̂, and are narrower there.
    """
    least = np.maximum(variance_std, np.finfo(float).tiny)
    relative = np.maximum(variance_std / np.maximum(variance, least), 1e-3)
    sure = np.asarray(scipy.special.ndtri((1 + level) / 2) * np.sqrt(variance + variance_std))
    by_t = scipy.special.stdtrit(2 / relative**2, (1 + level) / 2) * np.sqrt(variance)
    return np.where(relative < 1, np.minimum(by_t, sure), sure)


def note_interval(transcript: Transcript, level: float, **parts: Any) -> None:
    """Note the half-widths of an answer's intervals, with the arguments of :func:`interval_notes`.

    All of them must follow from released and public quantities.
    """
    for name, note in interval_notes(level, **parts).items():
        transcript.note(name, note)


def reach_along(variance: FloatArray, total: FloatArray, length: FloatArray | float = 1.0) -> FloatArray:
    """Return which part of their norm clipped vectors are taken to have along a direction, at most 1.

    Twice what the released second moments say of all vectors: ``variance`` l'Sl, ``total`` tr S, ``length``
    ‖l‖².
    """
    least = np.finfo(float).tiny
    part = np.maximum(variance, 0) / np.maximum(total * length, least)
    return np.asarray(np.minimum(2 * np.sqrt(part), 1.0))
