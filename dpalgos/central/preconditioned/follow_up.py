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

from dpalgos.models.families.poisson import HAZARD_LIMIT
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray


class FollowUp:
    """Stops persons at the limit, group by group. Groups of a stream may divide the rows of a person.

    ``mean`` returns the hazards of rows by their logarithms. The numbers of one person depend on no other
    person, bit by bit.
    """

    def __init__(self, sample: Sample, mean: Callable[[FloatArray], FloatArray]) -> None:
        assert sample.units is not None
        assert sample.units.codes is not None
        self._codes, self._weights, self._mean = sample.units.codes, sample.units.weights, mean
        self._hazard: FloatArray = np.zeros(0)  # the cumulative hazard of each person in this pass
        self._last = np.inf

    def stopped(
        self, group: Group, predictor: FloatArray, event: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the logarithms of the hazards of rows, and their events, (n_group,) each."""
        mean = self._mean(predictor)
        left = np.maximum(HAZARD_LIMIT - self._before(group, mean), 0.0)
        is_cut = mean > left
        shorter = np.log(left, out=np.full(len(left), -np.inf), where=left > 0)
        return np.where(is_cut, shorter, predictor), np.where(is_cut, 0.0, event)

    def _before(self, group: Group, mean: FloatArray) -> FloatArray:
        """Return the cumulative hazards at which rows begin, (n_group,)."""
        before = np.zeros(len(mean))
        if not len(mean):
            return before
        self._begin(group)
        codes = self._codes[group.rows]
        order = np.argsort(codes, kind="stable")
        order = order[self._weights[group.rows][order] > 0]
        first = np.flatnonzero(np.append(True, np.diff(codes[order]) != 0)[: len(order)])
        sizes = np.diff(np.append(first, len(order)))
        for k in range(int(sizes.max(initial=0))):
            rows = order[first[sizes > k] + k]
            before[rows] = self._hazard[codes[rows]]
            self._hazard[codes[rows]] += mean[rows]
        return before

    def _begin(self, group: Group) -> None:
        """Forget the pass before if this is the first group of another one."""
        first = (group.rows.start or 0) if isinstance(group.rows, slice) else int(group.rows[0])
        if first <= self._last:
            self._hazard = np.zeros(int(self._codes.max()) + 1)
        self._last = first
