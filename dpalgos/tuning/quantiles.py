"""Private quantiles on a public range, by the exponential mechanism.

The density of a draw is ∝ exp(−(ε/2) |#{x_i < z} − qn|) on [l, u], with x truncated to this range. Replacing
one row moves the count at any z by at most 1: a row that jumps over z is a witness. The score rises at some z
and falls at others if a row jumps over the quantile. Therefore the log-density ratio spans at most 2 · ε/2 =
ε. Each quantile is one bounded-range event and costs ε²/8 of zCDP.

The density is constant between neighboring data points. Therefore a draw inverts a cumulative sum. An
interval of length 0 (ties) has no mass. The error of the rank is about (2/ε) max(1, log(εnf(u − l)/4)), where
f is the density of the data there.

References
----------
Smith (2011), Privacy-preserving statistical estimation with optimal convergence rates, Algorithm 2.
"""

from collections.abc import Sequence

import numpy as np
import scipy

from dpalgos.accounting.events import Selection
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import count
from dpalgos.typing import BoolArray, FloatArray, IntArray

_PROBES = np.arange(1, 8) / 8


def exponential_quantiles(
    spend: Spend,
    label: str,
    values: FloatArray,
    *,
    levels: Sequence[float],
    lower: float,
    upper: float,
    row_mask: BoolArray | None = None,
    columns: IntArray | None = None,
) -> FloatArray:
    """Release quantiles of columns on a public range, (m, Q, R).

    Parameters
    ----------
    label : str
        The label of a density for each quantile of each column: an event of bounded range ε.
    values : (n, m) array
        Private values, truncated to the range.
    levels : sequence of float
        Levels of the quantiles, in (0, 1).
    row_mask : (n, R) bool array
        The rows that each replicate uses.
    columns : (k, R) int array, optional
        Released indices of the columns that each replicate needs; then m is k.

    Quantiles are drawn independently. Therefore two of them may be in reversed order.
    """
    n_replicates, slot = spend.noise.n_replicates, spend.slot(label, Selection)
    weights = np.ones((len(values), 1)) if row_mask is None else row_mask.astype(float)
    if columns is None:
        columns = np.asarray(np.repeat(np.arange(values.shape[1])[:, None], n_replicates, axis=1))
    m = len(columns)
    if (slot.count, slot.support) != (m * len(levels), (lower, upper)):
        raise RuntimeError(f"{label!r} is planned as {slot}, got {m * len(levels)} in {(lower, upper)}")
    ranked: list[tuple[_Ranks, IntArray, IntArray]] = []  # a column, with its positions and replicates
    for j in np.unique(columns):
        place, replicate = np.nonzero(columns == j)
        used = weights if weights.shape[1] == 1 else weights[:, replicate]
        ranked.append((_Ranks(values[:, j], used, lower, upper), place, replicate))

    def draw() -> FloatArray:
        uniforms = scipy.special.ndtr(spend.noise.normal(m, len(levels)))
        drawn = np.empty_like(uniforms)
        for ranks, places, replicates in ranked:
            for q, level in enumerate(levels):
                drawn[places, q, replicates] = ranks.draw(
                    level, slot.epsilon, uniforms[places, q, replicates]
                )
        return drawn

    # The record keeps the scores at a few public points, in place of the score function.
    probes = np.empty((m, len(levels), len(_PROBES), n_replicates))
    for ranks, places, replicates in ranked:
        for q, level in enumerate(levels):
            probes[places, q, :, replicates] = ranks.scores_at_probes(level).T
    flat = probes.reshape(-1, n_replicates)
    return spend.release(label, flat, draw, sensitivity=count())


class _Ranks:
    """One sorted column: the number of rows below is constant between neighboring points."""

    def __init__(self, column: FloatArray, weights: FloatArray, lower: float, upper: float) -> None:
        truncated = np.clip(column, lower, upper)
        if weights.shape[1] == 1 and weights.all():  # ten times faster than argsort
            ordered = np.sort(truncated)
            self._below = np.arange(len(ordered) + 1.0)[:, None]
        else:
            order = np.argsort(truncated, kind="stable")
            ordered = truncated[order]
            # A row that a replicate does not use splits an interval into two of equal score.
            below = np.cumsum(weights[order], axis=0)
            self._below = np.concatenate([np.zeros((1, below.shape[1])), below])
        self._edges = np.concatenate([[lower], ordered, [upper]])
        self._lengths = np.diff(self._edges)

    def draw(self, level: float, epsilon: float, uniforms: FloatArray) -> FloatArray:
        """Return the inverse of the distribution function at ``uniforms`` (R,)."""
        score = self._scores(level)
        score -= score[self._lengths > 0].max(axis=0)
        mass = self._lengths[:, None] * np.exp(epsilon / 2 * np.minimum(score, 0.0))
        cumulative = np.cumsum(mass, axis=0)
        target = uniforms * cumulative[-1]
        interval = (cumulative < target).sum(axis=0)
        replicate = np.arange(len(uniforms)) if mass.shape[1] > 1 else 0
        within = mass[interval, replicate]
        beyond = (cumulative[interval, replicate] - target) / np.maximum(within, np.finfo(float).tiny)
        drawn = self._edges[interval + 1] - self._lengths[interval] * np.minimum(beyond, 1.0)
        return np.asarray(np.clip(drawn, self._edges[0], self._edges[-1]))

    def scores_at_probes(self, level: float) -> FloatArray:
        """Return the score at public points of the range, (P, R) or (P, 1)."""
        points = self._edges[0] + _PROBES * (self._edges[-1] - self._edges[0])
        return np.asarray(self._scores(level)[np.searchsorted(self._edges[1:-1], points)])

    def _scores(self, level: float) -> FloatArray:
        return np.asarray(-np.abs(self._below - level * self._below[-1]))
