"""The follow-up of persons who have at most one event, until their cumulative hazard reaches a limit c.

    M = 1{event before Λ reaches c} − min(Λ, c),   Λ the cumulative hazard at the end of follow-up

An event less its cumulative hazard is a martingale. Stopped when Λ reaches c, it has mean 0 at the true
coefficients, and lies between −c and 1. Without the limit, clipping a person's score would affect mainly
persons without an event who have a large Λ. If many persons have an event, log hazard ratios would then be
too far from 0.

The hazard is constant within a row. If a row begins at Λ and has hazard μ, b = c − Λ is left. Without an
event, the row adds −min(μ, b). An event may have happened in the last part q of the row's exposure. Then
m = (1 − q) μ of its hazard came before. The event came at a place T, and only T ≤ a = q μ is known.
The row adds the mean of the stopped M given that,

    E[1{T ≤ b'} − min(T, b') | T ≤ a] − min(m, b) = b'/(e^a − 1) − min(m, b),   b' = min(max(b − m, 0), a)

which is the score of an event in an interval. It lies between −c and 1. If q is 0, an event counts at its
time.

The rows of a person are in the order of time. Rows of weight 0 are left out. How a row is divided does not
change the sums.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from dpalgos.core.rows import Block
from dpalgos.typing import FloatArray

_SIZES = 0, 32, 1024, np.inf  # rows of persons, by which tables are padded
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
        """Return the cumulative hazards at which rows begin, (n,), added up in the order of rows."""
        codes = block.units
        assert isinstance(codes, np.ndarray)
        if not len(mean):
            return np.zeros(0)
        self._begin(block)
        hazards = mean if block.weight is None else np.where(block.weight > 0, mean, 0.0)
        order = None if (codes[1:] >= codes[:-1]).all() else np.argsort(codes, kind="stable")
        if order is not None:
            codes, hazards = codes[order], hazards[order]
        first = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
        sizes = np.diff(np.append(first, len(codes)))
        before = np.empty(len(codes))
        for low, high in pairwise(_SIZES):
            runs = np.flatnonzero((sizes > low) & (sizes <= high))
            if not len(runs):
                continue
            width = int(sizes[runs].max())
            # A row of the table has the hazard of a person before this block, then those of their rows.
            table = np.zeros((len(runs), width + 1))
            table[:, 0] = self._hazard[codes[first[runs]]]
            inside = np.arange(width) < sizes[runs, None]
            rows = (first[runs, None] + np.arange(width))[inside]
            table[:, 1:][inside] = hazards[rows]
            np.cumsum(table, axis=1, out=table)
            before[rows] = table[:, :-1][inside]
            self._hazard[codes[first[runs]]] = table[:, -1]
        if order is None:
            return before
        found = np.empty(len(codes))
        found[order] = before
        return found

    def _begin(self, block: Block) -> None:
        """Forget the pass before if this is the first block of another one."""
        assert block.rows is not None
        first = (block.rows.start or 0) if isinstance(block.rows, slice) else int(block.rows[0])
        if first <= self._last:
            self._hazard = np.zeros(self._n_persons)
        self._last = first
