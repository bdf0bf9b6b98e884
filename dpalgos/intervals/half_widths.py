"""Intervals that count the noise: half-widths from released and public quantities alone.

    estimate_j ± min( t_ν √T_j, z √(T_j + u_j) )
    T_j = (known variance of the noise) + (released sampling variance)

u_j is the standard deviation of T_j itself: what is released of the sampling variance is noisy, too.
Satterthwaite's degrees of freedom ν = 2 T_j²/u_j² make up for that where u_j is small against T_j; elsewhere
they ask for too much, and the normal quantile z on one standard deviation more suffices
(:func:`half_widths`). A coordinate without an honest interval is flagged: its half-width is NaN, and a note
says why. An estimator that has intervals takes the keyword ``interval`` (by :class:`IntervalParams`),
reserves :data:`INTERVAL_SHARE` of its μ², and ends with :func:`note_interval`. With an interval the answer is
its midpoint: nothing is shrunk.

What is released for it, of vectors g_i of norm at most C whose mean is the answer, or a part of it
(:func:`score_moment_sensitivity`):

    quantity                                   sensitivity
    mean of svec(g_i g_i')/C², or of squares   √2/n, or 1/n in one dimension
    share of vectors that were clipped to C    1/n

Clipping moves a mean by (share of rows clipped) × (how far they were moved), of which only the share is
released. A coordinate is flagged where that share, less two standard deviations of its noise, times
4 standard deviations of a row exceeds the standard error: symmetric clipping could be harmless, but that
cannot be known. (Beyond a bound exponential entries are one standard deviation long on average, so that a
quarter of a standard error is the bias that is overlooked. Regressions: :mod:`dpalgos.intervals.regression`.)

References
----------
Satterthwaite (1946), An approximate distribution of estimates of variance components.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri, stdtrit

from dpalgos.errors import InputError
from dpalgos.params import PrivateParams, checked
from dpalgos.release.transcript import Transcript
from dpalgos.steps.clipping import unit_mean_sensitivity
from dpalgos.steps.moments import svec, unsvec
from dpalgos.typing import BoolArray, FloatArray

INTERVAL_SHARE = 0.1
HALF_WIDTH = "half_width"
ENDS = "interval_ends"  # (2, d, R), in the place of half-widths, where the answer is not the midpoint
NAIVE_HALF_WIDTH = "half_width_without_noise"
NOTE = "interval_note"
SCORE_MOMENTS = "score moments"
SHARE_CLIPPED = "share of rows clipped"

_CLIPPED = "clipping may have moved it by more than its standard error"
REACH = 4.0  # of a clipped row, in its standard deviations


def check_level(name: str, value: Any) -> float | None:
    """Return a confidence level, or None; refuse anything else."""
    if value is None:
        return None
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 < value < 1:
        raise InputError(
            f"{name} must be a confidence level above 0 and below 1, got {value!r}; pass e.g. {name}=0.95"
        )
    return float(value)


def interval_level() -> Any:
    """Declare the keyword ``interval``."""
    return checked(
        "confidence level of an interval per coordinate, e.g. 0.95; None: none", check_level, default=None
    )


@dataclass(frozen=True, kw_only=True)
class IntervalParams(PrivateParams):
    """Keywords of private estimators that have intervals."""

    interval: float | None = interval_level()
    # Whether shrinkage is the default, which an interval switches off.
    unshrunk_with_interval: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.interval is not None and self.calibration == "paper":
            raise InputError(
                "interval must be None for calibration='paper', which prints none, got "
                f"{self.interval!r}; use calibration='tight'"
            )
        shrunk = getattr(self, "shrinkage", None) is not None and not self.unshrunk_with_interval
        if self.interval is not None and shrunk:
            raise InputError(
                f"interval must be None for a shrunk answer, whose bias is not known, got {self.interval!r}; "
                "leave out one of interval and shrinkage"
            )

    @property
    def rest(self) -> float:
        """The share of μ² that the answer itself gets."""
        return 1.0 if self.interval is None else 1 - INTERVAL_SHARE


def interval_notes(
    level: float,
    *,
    variance: FloatArray,
    variance_std: FloatArray | float,
    sampling: FloatArray,
    flagged: BoolArray,
    reason: str,
) -> dict[str, FloatArray | str]:
    """Return the half-widths of an answer's intervals, (d, R), as notes on a run.

    Parameters
    ----------
    variance, variance_std : (d, R) arrays
        T, of every coordinate's error, and its standard deviation u.
    sampling : (d, R) array
        The part of T that is not noise: all that an interval by the book would count, shown for comparison.
    flagged, reason : (d, R) bool array, str
        Coordinates without an honest interval, and why.
    """
    notes: dict[str, FloatArray | str] = {
        NAIVE_HALF_WIDTH: np.asarray(ndtri((1 + level) / 2) * np.sqrt(sampling)),
        HALF_WIDTH: np.where(flagged, np.nan, half_widths(level, variance, variance_std)),
    }
    if flagged.any():
        notes[NOTE] = f"no interval where it is nan: {reason}"
    return notes


def half_widths(level: float, variance: FloatArray, variance_std: FloatArray | float) -> FloatArray:
    """Return the half-widths of intervals of normal errors whose variance is known up to normal noise.

    With T̂ = N + max(S + uξ, 0) for noise of variance N and sampling error of variance S, half-widths
    z √(T̂ + u) cover at least ``level`` for all N, S and u: what is added makes up for ξ < 0. So do t_ν √T̂
    where u is small against T̂, and are narrower there.
    """
    least = np.maximum(variance_std, np.finfo(float).tiny)
    relative = np.maximum(variance_std / np.maximum(variance, least), 1e-3)
    sure = np.asarray(ndtri((1 + level) / 2) * np.sqrt(variance + variance_std))
    by_t = stdtrit(2 / relative**2, (1 + level) / 2) * np.sqrt(variance)
    return np.where(relative < 1, np.minimum(by_t, sure), sure)


def note_interval(transcript: Transcript, level: float, **parts: Any) -> None:
    """Note the half-widths of an answer's intervals, with the arguments of :func:`interval_notes`.

    All of them must follow from released and public quantities.
    """
    for name, note in interval_notes(level, **parts).items():
        transcript.note(name, note)


def interval_shares(level: float | None) -> dict[str, float]:
    """Return the shares of μ² that an interval reserves; none without one."""
    return {} if level is None else {SCORE_MOMENTS: 0.6 * INTERVAL_SHARE, SHARE_CLIPPED: 0.4 * INTERVAL_SHARE}


def score_moment_sensitivity(size: int, n_rows: FloatArray) -> FloatArray:
    """Return the ℓ2 sensitivity of the mean of svec(g g'), or of the squares g_j², for ‖g‖ ≤ 1.

    Replacing g by h moves it by √(‖g‖⁴ + ‖h‖⁴ − 2 (g'h)²)/n ≤ √2/n (for squares 2 Σ g_j² h_j² in the place of
    2 (g'h)²), attained by orthogonal vectors of norm 1 along axes; squares of a single number lie in [0, 1].
    ``size`` is the length of g.
    """
    return np.asarray(np.sqrt(2.0 if size > 1 else 1.0) / n_rows)


@dataclass(frozen=True, kw_only=True)
class ScoreMoments:
    """Released second moments of clipped vectors, or their diagonal, and the share of vectors clipped, (R,).

    No eigenvalue of ``moments`` is below zero; ``std`` (R,) is the noise in x'Mx for ‖x‖ = 1, ``clipped_std``
    that in the share.
    """

    moments: FloatArray
    clipped: FloatArray
    clipped_std: FloatArray
    std: FloatArray

    def share(self, deviations: float = 2.0) -> FloatArray:
        """Return the share clipped, less so many standard deviations of its noise; at least 0."""
        return np.maximum(self.clipped - deviations * self.clipped_std, 0.0)


def release_score_moments(
    transcript: Transcript,
    moments: FloatArray,
    clipped: FloatArray,
    *,
    bound: FloatArray,
    n_rows: FloatArray,
    multiplier: Callable[[str], float],
) -> ScoreMoments:
    """Release second moments of vectors of norm at most ``bound``, and the share of vectors clipped.

    ``multiplier`` maps a part of :func:`interval_shares` to its noise multiplier; ``bound`` (R,) is public or
    released.
    """
    full, square = moments.ndim == 3, np.asarray(bound) ** 2
    value = svec(moments) / square if full else moments / square
    size = moments.shape[1] if full else len(moments)
    sensitivity, z = score_moment_sensitivity(size, n_rows), multiplier(SCORE_MOMENTS)
    released = square * transcript.gaussian(
        value, l2_sensitivity=sensitivity, noise_multiplier=z, label=SCORE_MOMENTS
    )
    std = transcript.noise_std(sensitivity, z, len(value)) * square
    once, z = unit_mean_sensitivity(n_rows), multiplier(SHARE_CLIPPED)
    share = transcript.gaussian(
        clipped[None, :], l2_sensitivity=once, noise_multiplier=z, label=SHARE_CLIPPED
    )[0]
    share_std = transcript.noise_std(once, z, 1)
    if full:
        eigenvalues, vectors = np.linalg.eigh(unsvec(released, size))
        released = (vectors * np.maximum(eigenvalues, 0)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return ScoreMoments(moments=released, clipped=share, clipped_std=share_std, std=std)


def moved_by_clipping(share: FloatArray, reach: FloatArray, error: FloatArray) -> BoolArray:
    """Return where clipping a share of rows by ``reach`` each moves a mean beyond its standard error."""
    return np.asarray(share * reach > error)


def note_mean_interval(
    transcript: Transcript,
    level: float,
    *,
    squares: FloatArray,
    squares_std: FloatArray,
    offset: FloatArray,
    noise_std: FloatArray,
    share: FloatArray,
    n_rows: FloatArray,
) -> None:
    """Note the half-widths of a mean, the average of offsets from a public or released center.

    ``squares`` are released means of squared offsets, ``offset`` (d, R) is the released mean offset; each
    comes with its noise, (R,) or (d, R). ``share`` of rows clipped is as in :class:`ScoreMoments`.
    """
    noise = np.asarray(noise_std) ** 2
    spread = np.maximum(squares - offset**2 + noise, 0.0)
    variance = noise + spread / n_rows
    # Of the released squares, of the square of the released mean, and of a sample's variance.
    unsure = np.asarray(squares_std) ** 2 + noise * (4 * offset**2 + 2 * noise) + 2 * spread**2 / n_rows
    note_interval(
        transcript,
        level,
        variance=variance,
        variance_std=np.sqrt(unsure) / n_rows,
        sampling=spread / n_rows,
        flagged=moved_by_clipping(share, REACH * np.sqrt(spread), np.sqrt(variance)),
        reason=_CLIPPED,
    )
