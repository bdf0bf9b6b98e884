"""Intervals that count the noise: half-widths from released and public quantities alone.

    estimate_j ± ( min( t_ν √T_j, z √(T_j + u_j) ) + b_j )
    T_j = (known variance of the noise) + (released sampling variance)
    b_j : a bound on the bias, of clipping above all

u_j is the standard deviation of T_j itself: the released sampling variance is noisy, too. If u_j is small
against T_j, Satterthwaite's degrees of freedom ν = 2 T_j²/u_j² account for that. Otherwise they are too
conservative. The normal quantile z, with T_j raised by one standard deviation, then suffices
(:func:`half_widths`). A coordinate is flagged if b_j exceeds the rest, or there is no bound. Its half-width
is then NaN, and a code says why. An estimator that has intervals takes the keyword ``interval`` (by
:class:`dpalgos.params.IntervalEstimator`) and reserves a share of its μ² for them. It calls
``spend.keep_interval`` after its estimate. With an interval the estimate is its midpoint: it is not shrunk.

Let g_i be vectors clipped to norm C whose mean is the estimate, or a part of it. Two quantities are released
for the interval. The first is the mean of svec(g_i g_i')/C², or of squares
(:func:`dpalgos.mechanisms.sensitivity.outer_product`). The second is the shares of vectors by size ‖g_i‖/C,
which bound the bias (:mod:`dpalgos.intervals.tails`).

References
----------
Satterthwaite (1946), An approximate distribution of estimates of variance components.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

import numpy as np
import scipy

from dpalgos.interval import ABOUT, CLIPPED, OMITTED, REASONS, Interval, normal_quantile
from dpalgos.typing import BoolArray, FloatArray

LARGEST_BIAS = 3.0  # in half-widths without it


def interval_by_variance(
    level: float,
    *,
    variance: FloatArray,
    variance_std: FloatArray | float,
    sampling: FloatArray,
    biases: Mapping[str, FloatArray],
    flags: Mapping[str, BoolArray] = MappingProxyType({}),
    center: FloatArray | None = None,
    largest_bias: FloatArray | float = LARGEST_BIAS,
) -> Interval:
    """Return the intervals of an estimate; all arguments follow from released and public quantities.

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
        The midpoint, where it is not the estimate.
    largest_bias : float, or (d, R) array
        The largest bias of a coordinate with an interval, in half-widths without it.
    """
    half = half_widths(level, variance, variance_std)
    bias = sum(biases.values(), np.zeros_like(half))
    is_too_large = {reason: bound > largest_bias * half for reason, bound in biases.items()}
    if biases:
        is_explained = is_too_large.get(OMITTED, np.zeros_like(half, dtype=bool))
        is_too_large[CLIPPED] = is_too_large[CLIPPED] | ((bias > largest_bias * half) & ~is_explained)
    for reason, flag in flags.items():
        is_too_large[reason] = flag | is_too_large.get(reason, False)
    codes = np.asarray(
        sum(
            (2.0 ** REASONS.index(reason) * each for reason, each in is_too_large.items()),
            np.zeros_like(half),
        )
    )
    return Interval(
        half_width=np.where(codes > 0, np.nan, half + np.where(codes > 0, 0.0, bias)),
        center=center,
        without_noise=normal_quantile(level) * np.sqrt(sampling),
        reasons=codes,
        about="" if center is None else ABOUT,
    )


def half_widths(level: float, variance: FloatArray, variance_std: FloatArray | float) -> FloatArray:
    """Return the half-widths of intervals of normal errors whose variance is known up to normal noise.

    With T̂ = N + max(S + uξ, 0) for noise of variance N and sampling error of variance S, half-widths
    z √(T̂ + u) cover at least ``level`` for all N, S and u: what is added makes up for ξ < 0. So do t_ν √T̂
    where u is small against T̂, and are narrower there.
    """
    least = np.maximum(variance_std, np.finfo(float).tiny)
    relative = np.maximum(variance_std / np.maximum(variance, least), 1e-3)
    sure = np.asarray(normal_quantile(level) * np.sqrt(variance + variance_std))
    by_t = scipy.special.stdtrit(2 / relative**2, (1 + level) / 2) * np.sqrt(variance)
    return np.where(relative < 1, np.minimum(by_t, sure), sure)


def part_along(variance: FloatArray, total: FloatArray, length: FloatArray | float = 1.0) -> FloatArray:
    """Return which part of their norm clipped vectors are taken to have along a direction, at most 1.

    This is twice the part that all vectors have by the released second moments: ``variance`` is l'Sl,
    ``total`` is tr S, ``length`` is ‖l‖².
    """
    least = np.finfo(float).tiny
    part = np.maximum(variance, 0) / np.maximum(total * length, least)
    return np.asarray(np.minimum(2 * np.sqrt(part), 1.0))


def coordinate_std(size: int) -> float:
    """Return the standard deviation of a coordinate of noise in a cube, of density ∝ e^(−‖z‖∞).

    In k = ``size`` dimensions, z is uniform in a cube of half-width r ~ Gamma(k + 1) (Hardt & Talwar 2010).
    Therefore E z² = (k + 1)(k + 2)/3. For k = 1 it is Laplace noise.
    """
    return float(np.sqrt((size + 1) * (size + 2) / 3))


@lru_cache(maxsize=1024)
def coordinate_quantile(size: int, level: float) -> float:
    """Return t with P(|z| ≤ t) = ``level`` for a coordinate of noise in a cube.

    P(|z| > t) = P(r > t) − t E[1/r; r > t] = Q(k + 1, t) − (t/k) Q(k, t), Q the regularized upper incomplete
    gamma function.
    """

    def excess(t: float) -> float:
        beyond = scipy.special.gammaincc(size + 1, t) - t / size * scipy.special.gammaincc(size, t)
        return float(beyond) - (1 - level)

    return float(scipy.optimize.brentq(excess, 0.0, 100.0 * (size + 1)))


def normal_equivalent(size: int, level: float) -> float:
    """Return the standard deviation of normal noise with the quantile of noise in a cube at ``level``.

    It is at least the true standard deviation. Intervals of normal errors use it for noise in a cube. This
    covers noise with longer tails alone. It also covers such noise plus a normal error, because sums are
    closer to normal.
    """
    return max(coordinate_std(size), coordinate_quantile(size, level) / normal_quantile(level))
