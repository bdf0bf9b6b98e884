"""The follow-up of rows within public periods.

A place is a time in periods: the number of periods before it, and the part of its own period. Functions of
time have one value in each period. Their integrals follow from K² sums, however many periods a row spans.

Groups of consecutive periods have about equal parts of the events. A row may be shortened by a factor of its
own in each group. Therefore a row is shortened only where it is long.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dpalgos.rows.products import row_lengths
from dpalgos.typing import BoolArray, FloatArray, IntArray

_GROUPS = 8  # of periods


@dataclass(frozen=True, eq=False, kw_only=True)
class FollowUpOfRows:
    """The follow-up of rows within K public periods.

    Attributes
    ----------
    begin, end : (n,) array
        The places where rows begin and end; equal if a row is left out.
    exposure : (n,) array
        The time between them, as a part of all periods.
    lengths : (K,) array
        The public lengths of periods, which sum to 1.
    time_columns : (B, d) array
        The effects of one unit of each function of operational time on the covariates, without an offset.
    parts : (K,) array
        The part of the pooled cumulative hazard in each period. Before a life table is released, the lengths.
    weights : (K,) array
        The part of the events that is expected in each period. Before a life table is released, the lengths.
    functions : (K, B) array
        The functions of operational time. Before a life table is released, they are 0.
    late : int
        The place at which the later half of the events begins.
    """

    begin: FloatArray
    end: FloatArray
    exposure: FloatArray
    lengths: FloatArray
    time_columns: FloatArray
    parts: FloatArray
    weights: FloatArray
    functions: FloatArray
    late: int = 0

    @classmethod
    def of_lengths(
        cls, begin: FloatArray, end: FloatArray, lengths: FloatArray, time_columns: FloatArray
    ) -> "FollowUpOfRows":
        """Return follow-up before a life table is released."""
        functions = np.zeros((len(lengths), len(time_columns)))
        exposure = integrals(lengths[:, None], begin, end)[:, 0]
        return cls(
            begin=begin,
            end=end,
            exposure=exposure,
            lengths=lengths,
            time_columns=time_columns,
            parts=lengths,
            weights=lengths,
            functions=functions,
        )

    @classmethod
    def of_one_period(cls, n: int, d: int) -> "FollowUpOfRows":
        """Return the follow-up of n rows of d columns that have no periods: a whole one each."""
        return cls.of_lengths(np.zeros(n), np.ones(n), np.ones(1), np.zeros((0, d)))

    def taken(self, rows: BoolArray | IntArray | slice) -> "FollowUpOfRows":
        """Return some of the rows."""
        return replace(self, begin=self.begin[rows], end=self.end[rows], exposure=self.exposure[rows])

    @property
    def last_period(self) -> IntArray:
        """The period in which each row ends, (n,)."""
        return np.maximum(np.ceil(self.end).astype(np.int64) - 1, 0)

    @property
    def per_exposure(self) -> FloatArray:
        """1 over the exposure, (n,); 0 of a row that is left out."""
        return np.divide(1, self.exposure, out=np.zeros(len(self.exposure)), where=self.exposure > 0)

    @property
    def hazard_ratios(self) -> FloatArray:
        """The part of the pooled cumulative hazard of each row over its part of time, (n,)."""
        return np.asarray(integrals(self.parts[:, None], self.begin, self.end)[:, 0] * self.per_exposure)

    @property
    def means(self) -> FloatArray:
        """The means of functions over the time of each row, (n, B)."""
        return self._over_time(self.functions)

    @property
    def spreads(self) -> FloatArray:
        """The covariances of functions over the time of each row, (n, B²)."""
        return self.spreads_about(self.means)

    def spreads_about(self, means: FloatArray) -> FloatArray:
        """Return the covariances of functions with these means over the time of each row, (n, B²)."""
        found = self._over_time(products_of(self.functions))
        found -= products_of(means)
        return found

    def _over_time(self, values: FloatArray) -> FloatArray:
        sums = integrals(self.lengths[:, None] * values, self.begin, self.end)
        sums *= self.per_exposure[:, None]
        return sums

    @cached_property
    def groups(self) -> IntArray:
        """The group of each period, (K,): consecutive periods with about equal parts of the events."""
        before = np.cumsum(self.weights) - self.weights / 2
        found = np.minimum((_GROUPS * before).astype(np.int64), _GROUPS - 1)
        return np.asarray(np.unique(found, return_inverse=True)[1])

    def typical_lengths(self, vectors: FloatArray, columns: FloatArray) -> FloatArray:
        """Return lengths of vectors (n, k) plus functions times columns (B, k) by group of periods, (n, G).

        They are root mean squares over the group. So a length depends on the vector and the group alone.
        """
        of_time, found = self.functions @ columns, np.empty((self.groups[-1] + 1, len(vectors)))
        moved = np.empty_like(vectors)
        for group in range(len(found)):
            own = self.groups == group
            weights = self.weights[own] / self.weights[own].sum()
            middle = weights @ of_time[own]
            within = np.sqrt(weights @ ((of_time[own] - middle) ** 2).sum(axis=1))
            found[group] = np.hypot(row_lengths(np.add(vectors, middle, out=moved)), within)
        return found.T

    def shortened_integrals(
        self, values: FloatArray, begin: FloatArray, end: FloatArray, factors: FloatArray
    ) -> FloatArray:
        """Return integrals (n, m) of functions times factors of rows in groups of periods (n, G)."""
        edges = np.append(np.flatnonzero(np.diff(self.groups, prepend=-1)), len(values)).astype(float)
        whole = np.add.reduceat(values, edges[:-1].astype(np.int64), axis=0)
        groups = self.groups.astype(np.int8)
        first, last = (
            groups[np.minimum(places.astype(np.int32), len(values) - 1)] for places in (begin, end)
        )
        rows, of_group = np.arange(len(begin)), factors.T
        found = integrals(values, begin, np.minimum(end, edges[first + 1])).T
        found *= of_group[first, rows]
        for group in range(1, len(whole) - 1):
            found += whole[group][:, None] * (of_group[group] * ((first < group) & (group < last)))
        of_last = integrals(values, np.maximum(begin, edges[last]), end).T
        of_last *= of_group[last, rows] * (last > first)
        found += of_last
        return found.T


def integrals(values: FloatArray, begin: FloatArray, end: FloatArray) -> FloatArray:
    """Return the integrals (n, m) from places to places (n,) of functions with values (K, m) in the periods.

    If values are positive, only positive numbers are added. So ratios of integrals are means up to rounding.
    """
    K = len(values)
    first, last = (np.minimum(places.astype(np.int32), K - 1) for places in (begin, end))
    later = np.triu(np.ones((K, K)), 1)[..., None]
    sums = np.cumsum(np.where(later > 0, values, 0.0), axis=1)  # of the periods after one, up to another
    between = np.concatenate([np.zeros((K, 1, values.shape[1])), sums[:, :-1]], axis=1)
    columns = values.T  # operations on a few numbers of each row would take longer than on each column
    found = columns.take(first, axis=1)
    found *= np.minimum(end, first + 1) - begin
    found += between.reshape(K * K, -1).T.take(first * K + last, axis=1)
    found += columns.take(last, axis=1) * np.where(last > first, end - last, 0.0)
    return found.T


def products_of(values: FloatArray) -> FloatArray:
    """Return all products of two of B values (n, B), (n, B²)."""
    return np.asarray((values[:, :, None] * values[:, None]).reshape(len(values), -1))
