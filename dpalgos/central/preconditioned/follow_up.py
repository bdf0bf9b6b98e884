"""The follow-up of persons who have at most one event, until their cumulative hazard reaches a limit c.

    M = 1{event before Λ reaches c} − min(Λ, c),   Λ the cumulative hazard at the end of follow-up

An event less its cumulative hazard is a martingale. Stopped when Λ reaches c, it has mean 0 at the true
coefficients, and lies between −c and 1. Without the limit, clipping a person's score would affect mainly
persons without an event who have a large Λ. If many persons have an event, log hazard ratios would then be
too far from 0.

In a period, the hazard is in proportion to exp(φ'b), φ the functions of operational time. Scores are
integrals of [1, φ] over dM along the row. If a row begins at Λ, b = c − Λ is left.
Without an event, the integral ends where the hazard of the row reaches b. An event may have happened in the
last part of the row's exposure in its last period. Then m is the hazard of the row before that part, and a
its hazard within. The event came at a place T, and only T ≤ a is known. The row adds the mean of the stopped
M given that,

    E[1{T ≤ b'} − min(T, b') | T ≤ a] − min(m, b) = b'/(e^a − 1) − min(m, b),   b' = min(max(b − m, 0), a)

which is the score of an event in an interval. It lies between −c and 1. If a is 0, an event counts at its
time.

The rows of a person are in the order of time. Rows of weight 0 are left out. How a row is divided does not
change the sums.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from dpalgos.core.rows import Block
from dpalgos.rows.follow_up import FollowUpOfRows, integrals, products_of
from dpalgos.typing import FloatArray, IntArray

_SIZES = 0, 32, 1024, np.inf  # rows of persons, by which tables are padded
_TINY = 1e-300
_LEAST = 1e-9  # the hazard of an interval, below which an event counts at its end


@dataclass(frozen=True, eq=False, kw_only=True)
class RowMartingales:
    """The parts of rows in M and in its information, at some coefficients."""

    follow_up: FollowUpOfRows
    rate: FloatArray  # (n,)
    density: FloatArray  # of the hazard by period, (K,)
    stop: FloatArray  # places, (n,)
    events: IntArray  # rows
    seen: FloatArray  # residuals of these events
    known: FloatArray  # information of these events
    factors: Callable[[], FloatArray] | None = None  # of rows in groups of periods, (n, G)

    @cached_property
    def residual(self) -> FloatArray:
        """The integrals of [1, φ] over dM, (n, 1 + B)."""
        return self._integrals(self._with_one, self.seen, -self.rate)

    @cached_property
    def information(self) -> FloatArray:
        """The integrals of [1, φ] over the information, (n, 1 + B)."""
        return self._of_information(self._with_one)

    @property
    def log_information(self) -> FloatArray:
        """The logarithm of the information, (n,)."""
        own = self.information[:, 0]
        return np.log(own, out=np.full(len(own), -np.inf), where=own > 0)

    @property
    def spreads(self) -> FloatArray:
        """The covariances of φ by information, (n, B²)."""
        found = self._of_information(products_of(self.follow_up.functions))
        return found * _inverse(self.information[:, 0])[:, None] - products_of(self.means)

    @property
    def means(self) -> FloatArray:
        """The means of φ by information, (n, B)."""
        return self.information[:, 1:] * _inverse(self.information[:, 0])[:, None]

    def shortened(self, factors: Callable[[], FloatArray]) -> "RowMartingales":
        """Return the parts of rows that are multiplied by factors in groups of periods, (n, G).

        Factors are computed when they are needed: they take as much memory as the rows.
        """
        return replace(self, factors=factors)

    @property
    def _with_one(self) -> FloatArray:
        return np.column_stack([np.ones(len(self.density)), self.follow_up.functions])

    def _of_information(self, values: FloatArray) -> FloatArray:
        """Return the integrals of functions with values (K, m) over the information, (n, m)."""
        return self._integrals(values, self.known, self.rate)

    def _integrals(self, values: FloatArray, at_events: FloatArray, rate: FloatArray) -> FloatArray:
        """Return the integrals of functions with values (K, m) by a measure, (n, m).

        The measure is a rate (n,) times the hazard, and a number at each event, (e,).
        """
        own, density = self.follow_up, self.density[:, None] * values
        last = own.last_period[self.events]
        if self.factors is None:
            found = integrals(density, own.begin, self.stop)
        else:
            factors = self.factors()
            found = own.shortened_integrals(density, own.begin, self.stop, factors)
            at_events = at_events * factors[self.events, own.groups[last]]
        found *= rate[:, None]
        found[self.events] += at_events[:, None] * values[last]
        return found


def _inverse(values: FloatArray) -> FloatArray:
    """Return 1 over values, (n,); 0 where it would overflow."""
    return np.divide(1, values, out=np.zeros(len(values)), where=values > _TINY)


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
        self, block: Block, predictor: FloatArray, slopes: FloatArray, response: FloatArray, since: int = 0
    ) -> RowMartingales:
        """Return what rows add at predictors (n,) and slopes b (B,), from a place on.

        A ``response`` is 0 without an event, 1 plus a part with one, or the number of events without a limit.
        """
        times = block.follow_up or FollowUpOfRows.of_one_period(len(predictor), block.X.shape[1])
        if since:
            times = replace(times, begin=np.maximum(times.begin, since), end=np.maximum(times.end, since))
        density = times.parts * self._mean(times.functions @ slopes)
        rate, is_limited = self._mean(predictor) * times.per_exposure, np.isfinite(self._limit)
        total = rate * integrals(density[:, None], times.begin, times.end)[:, 0]
        left = self._limit - self._before(block, total) if is_limited else np.inf
        left = np.broadcast_to(np.maximum(left, 0.0), len(rate))
        events = np.flatnonzero((response > 0) & (times.end > times.begin))
        stop, before = times.end.copy(), total.copy()
        if is_limited:  # the time before the last part, in which the event happened
            begin, end = times.begin[events], times.end[events]
            within = end - np.maximum(begin, times.last_period[events])
            stop[events] = np.maximum(end - np.clip(response[events] - 1, 0.0, 1.0) * within, begin)
            before[events] = rate[events] * integrals(density[:, None], begin, stop[events])[:, 0]
        over, places = np.flatnonzero(before > left), np.arange(len(density) + 1)
        hazards, begin = np.append(0.0, np.cumsum(density)), times.begin[over]
        at_limit = np.interp(begin, places, hazards) + left[over] / rate[over]
        stop[over] = np.clip(np.interp(at_limit, hazards, places), begin, stop[over])
        a = total[events] - before[events]
        is_long, far = a > _LEAST, np.clip(a, _LEAST, 700.0)
        kept = np.clip(left[events] - before[events], 0.0, a)
        per_hazard = kept / np.expm1(far)
        alone = (total[events] <= left[events]).astype(float) if is_limited else response[events]
        seen = np.where(is_long, per_hazard, alone)
        known = np.where(is_long, per_hazard * np.maximum(far / -np.expm1(-far) - 1, 0.0), 0.0)
        return RowMartingales(
            follow_up=times,
            rate=rate,
            density=density,
            stop=stop,
            events=events,
            seen=seen,
            known=known,
        )

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
        if order is None and len(first) == len(codes):
            found = self._hazard[codes]
            self._hazard[codes] = found + hazards
            return found
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
