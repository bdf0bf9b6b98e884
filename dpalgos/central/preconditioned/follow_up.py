"""The follow-up of persons who have at most one event, until their cumulative hazard reaches a limit c.

    M = 1{event before Λ reaches c} − min(Λ, c),   Λ the cumulative hazard at the end of follow-up

An event less its cumulative hazard is a martingale. Stopped when Λ reaches c, it has mean 0 at the true
coefficients, and lies between −c and 1. Without the limit, clipping a person's score would affect mainly
persons without an event who have a large Λ. If many persons have an event, log hazard ratios would then be
too far from 0.

The hazard is constant within a row. If a row begins at Λ and has hazard μ, b = c − Λ is left. Without an event,
the row adds −min(μ, b). An event in the last part q of the row's exposure happened after m = (1 − q) μ of its
hazard, at a place T of which only T ≤ a = q μ is known. The row adds the mean of the stopped M given that,

    E[1{T ≤ b'} − min(T, b') | T ≤ a] − min(m, b) = b'/(e^a − 1) − min(m, b),   b' = min(max(b − m, 0), a)

which is the score of an event in an interval. It lies between −c and 1. If q is 0, an event counts at its time.

The rows of a person are in the order of time. Rows of weight 0 are left out. How a row is divided does not
change the sums.
"""

from collections.abc import Callable

import numpy as np

from dpalgos.core.rows import Block
from dpalgos.typing import FloatArray

_LEAST = 1e-9  # the hazard of an interval, below which an event counts at its end


class FollowUp:
    """Stops persons at the limit, block by block. Blocks of a stream may divide the rows of a person.

    ``mean`` returns the hazards of rows by their logarithms. The numbers of one person depend on no other
    person, bit by bit.
    """

    def __init__(
        self, n_persons: int, mean: Callable[[FloatArray], FloatArray], limit: float = np.inf
    ) -> None:
        self._n_persons, self._mean, self._limit = n_persons, mean, limit
        self._hazard: FloatArray = np.zeros(0)  # the cumulative hazard of each person in this pass
        self._last = np.inf

    def stopped(
        self, block: Block, predictor: FloatArray, response: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the logarithms of the information on rows' hazards, and their residuals, (n,) each."""
        mean = self._mean(predictor)
        left = np.maximum(self._limit - self._before(block, mean), 0.0)
        spent = np.minimum(mean, left)
        residual, information = -spent, spent
        rows = np.flatnonzero(response)
        if len(rows):
            a = mean[rows] * np.clip(response[rows] - 1, 0.0, 1.0)
            first = np.maximum(mean[rows] - a, 0.0)
            before = np.minimum(first, left[rows])
            kept = np.clip(left[rows] - first, 0.0, a)
            is_long, far = a > _LEAST, np.minimum(a, 700.0)
            rate = 1 / np.expm1(np.where(is_long, far, 1.0))
            seen = np.where(is_long, kept * rate, (mean[rows] <= left[rows]).astype(float))
            whole = far * rate  # a/(e^a − 1)
            known = np.where(is_long, kept * rate * np.maximum(whole + far - 1, 0.0), 0.0)
            residual[rows], information[rows] = seen - before, before + known
        logarithm = np.log(information, out=np.full(len(mean), -np.inf), where=information > 0)
        return logarithm, residual

    def _before(self, block: Block, mean: FloatArray) -> FloatArray:
        """Return the cumulative hazards at which rows begin, (n,)."""
        before, codes = np.zeros(len(mean)), block.units
        assert isinstance(codes, np.ndarray)
        if not len(mean):
            return before
        self._begin(block)
        order = np.argsort(codes, kind="stable")
        order = order[block.weight[order] > 0] if block.weight is not None else order
        first = np.flatnonzero(np.append(True, np.diff(codes[order]) != 0)[: len(order)])
        sizes = np.diff(np.append(first, len(order)))
        for k in range(int(sizes.max(initial=0))):
            rows = order[first[sizes > k] + k]
            before[rows] = self._hazard[codes[rows]]
            self._hazard[codes[rows]] += mean[rows]
        return before

    def _begin(self, block: Block) -> None:
        """Forget the pass before if this is the first block of another one."""
        assert block.rows is not None
        first = (block.rows.start or 0) if isinstance(block.rows, slice) else int(block.rows[0])
        if first <= self._last:
            self._hazard = np.zeros(self._n_persons)
        self._last = first
