"""The follow-up of persons who have at most one event, until their cumulative hazard reaches a limit c.

    M = 1{event before Λ reaches c} − min(Λ, c),   Λ the cumulative hazard at the end of follow-up

An event less its cumulative hazard is a martingale. Stopped when Λ reaches c, it has mean 0 at the true
coefficients, and lies between −c and 1. Without the limit, clipping a person's score would affect mainly
persons without an event who have a large Λ. If many persons have an event, log hazard ratios would then be
too far from 0.

The hazard is constant within a row, and the exposure of an event's row ends with the event. Therefore the
stopped rows are exact. If a row begins at Λ and has hazard μ, and Λ + μ exceeds c, then the person reaches c
without an event. The row counts with hazard c − Λ and without the event. Later rows have hazard 0.

The rows of a person are in the order of time. Rows of weight 0 are left out.
"""

from collections.abc import Callable

import numpy as np

from dpalgos.core.rows import Block
from dpalgos.models.families.poisson import HAZARD_LIMIT
from dpalgos.typing import FloatArray


class FollowUp:
    """Stops persons at the limit, block by block. Blocks of a stream may divide the rows of a person.

    ``mean`` returns the hazards of rows by their logarithms. The numbers of one person depend on no other
    person, bit by bit.
    """

    def __init__(self, n_persons: int, mean: Callable[[FloatArray], FloatArray]) -> None:
        self._n_persons, self._mean = n_persons, mean
        self._hazard: FloatArray = np.zeros(0)  # the cumulative hazard of each person in this pass
        self._last = np.inf

    def stopped(
        self, block: Block, predictor: FloatArray, event: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the logarithms of the hazards of rows, and their events, (n,) each."""
        mean = self._mean(predictor)
        left = np.maximum(HAZARD_LIMIT - self._before(block, mean), 0.0)
        is_cut = mean > left
        shorter = np.log(left, out=np.full(len(left), -np.inf), where=left > 0)
        return np.where(is_cut, shorter, predictor), np.where(is_cut, 0.0, event)

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
