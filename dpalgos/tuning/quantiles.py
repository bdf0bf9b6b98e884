"""Private quantiles on a public range, by the exponential mechanism.

Density ∝ exp(−(ε/2) |#{x_i < z} − qn|) on [l, u], x truncated to it. Replacing one row moves the count at any
z by at most 1 (witness: a row that jumps over z), up for some z and down in score for others (a row that
jumps over the quantile), so the log-density ratio spans at most 2 · ε/2 = ε: one bounded-range event per
quantile, ε²/8 zCDP. The density is constant between neighboring data points, so a draw inverts a cumulative
sum; an interval of length 0 (ties) has no mass. The rank errs by about (2/ε) max(1, log(εnf(u − l)/4)), f the
data's density there.

References
----------
Smith (2011), Privacy-preserving statistical estimation with optimal convergence rates, Algorithm 2.
"""

from collections.abc import Sequence

import numpy as np
import scipy

from dpalgos.accounting.events import BoundedRangeEvent
from dpalgos.mechanisms.sensitivity import count
from dpalgos.release.checks import check_positive
from dpalgos.release.transcript import Transcript
from dpalgos.typing import BoolArray, FloatArray, IntArray

_PROBES = np.arange(1, 8) / 8


def exponential_quantiles(
    transcript: Transcript,
    values: FloatArray,
    *,
    levels: Sequence[float],
    lower: float,
    upper: float,
    epsilon: float,
    label: str,
    row_mask: BoolArray | None = None,
    columns: IntArray | None = None,
) -> FloatArray:
    """Release quantiles of columns on a public range, (m, Q, R).

    ``values`` (n, m) are private and truncated to the range, ``levels`` lie in (0, 1), ``row_mask`` (n, R)
    says which rows each replicate uses. Each quantile of each column is an event of bounded range
    ``epsilon``. ``columns`` (k, R) are released indices of the k different columns that each replicate asks
    about; then m is k. Quantiles are drawn independently, so two may come back reversed.
    """
    n_replicates = transcript.n_replicates
    weights = np.ones((len(values), 1)) if row_mask is None else row_mask.astype(float)
    epsilon = check_positive("epsilon", epsilon)
    if columns is None:
        columns = np.asarray(np.repeat(np.arange(values.shape[1])[:, None], n_replicates, axis=1))
    m = len(columns)
    asked: list[tuple[_Ranks, IntArray, IntArray]] = []  # a column's ranks, for which places and replicates
    for j in np.unique(columns):
        place, replicate = np.nonzero(columns == j)
        used = weights if weights.shape[1] == 1 else weights[:, replicate]
        asked.append((_Ranks(values[:, j], used, lower, upper), place, replicate))

    def draw() -> FloatArray:
        uniforms = scipy.special.ndtr(transcript.noise.normal(m, len(levels)))
        drawn = np.empty_like(uniforms)
        for ranks, places, replicates in asked:
            for q, level in enumerate(levels):
                drawn[places, q, replicates] = ranks.draw(level, epsilon, uniforms[places, q, replicates])
        return drawn

    # Scores at a few public points stand for the score function in the record.
    probes = np.empty((m, len(levels), len(_PROBES), n_replicates))
    for ranks, places, replicates in asked:
        for q, level in enumerate(levels):
            probes[places, q, :, replicates] = ranks.scores_at_probes(level).T
    event = BoundedRangeEvent(
        label=label,
        epsilon=epsilon,
        sensitivity=count(),
        count=m * len(levels),
        support=(float(lower), float(upper)),
    )
    return transcript.publish(probes.reshape(-1, n_replicates), draw, event)


class _Ranks:
    """One column, sorted: between neighboring points the number of rows below is constant."""

    def __init__(self, column: FloatArray, weights: FloatArray, lower: float, upper: float) -> None:
        truncated = np.clip(column, lower, upper)
        if weights.shape[1] == 1 and weights.all():  # sorting is ten times faster than ordering
            ordered = np.sort(truncated)
            self._below = np.arange(len(ordered) + 1.0)[:, None]
        else:
            order = np.argsort(truncated, kind="stable")
            ordered = truncated[order]
            # A row that a replicate does not use only splits an interval in two of equal score.
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
