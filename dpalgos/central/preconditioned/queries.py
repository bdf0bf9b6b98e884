"""Queries of rows as they are. Each returns a bounded value, or a function that counts rows.

A query is a value with its sensitivity: how far replacing one row moves the value, by the named lemma
(:class:`dpalgos.release.declared.Bounded`). Its clip and its sensitivity are written in one place.
White rows have theirs in :mod:`dpalgos.central.preconditioned.scores`; nothing else reads a row.

Queries take rows and numbers that are public or were released before. If rows have weights in units of
privacy (:mod:`dpalgos.rows.units`), a block adds them up with these. The same bound then holds for a unit,
and counts are sums of weights. A bound
holds for any finite row that validation admits, up to 10⁶⁰ in magnitude:

- Linear predictors are cut to ±138 before an exponential is taken: e^138 is about 10⁶⁰
  (:mod:`dpalgos.models.families`).
- No power of a row higher than the second is formed. Therefore no intermediate number exceeds 10³⁰⁰.
- A vector longer than its threshold is multiplied by threshold/length.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dpalgos.core.persons import sums_of_units
from dpalgos.core.rows import Block, Rows
from dpalgos.mechanisms.sensitivity import Bounded, ball_mean, histogram, interval, outer_product
from dpalgos.models.families import Family
from dpalgos.rows.products import clip_factor, row_lengths, row_products
from dpalgos.typing import FloatArray, IntArray

Vectors = Callable[[Block], FloatArray]  # one vector per row, (n, k), or one number, (n,)


def counts_above(rows: Rows, lengths: Vectors, thresholds: FloatArray) -> FloatArray:
    """Return how many lengths (n,) exceed each of m ascending thresholds, (1, m). A row moves each by 1."""
    levels = thresholds.tolist()

    def above(block: Block) -> FloatArray:
        own = lengths(block)
        if block.weight is None:
            return np.array([np.count_nonzero(own > level) for level in levels], dtype=float)
        places = np.searchsorted(thresholds, own)
        return np.asarray(block.histogram(places, len(thresholds) + 1)[::-1].cumsum()[-2::-1])

    return rows.sum(above)[None]


# Rows z = [x, y], or [x, 1], and rows x, in coordinates.


@dataclass(frozen=True, eq=False)
class RowVectors:
    """The vectors z'B of rows z in coordinates B (d, k), plus a last entry of z times ``last``, (k,).

    A row that is followed over time has the mean of its vectors over that time. Its length is that of the
    person, by the mean square over time. So how rows are divided changes nothing.
    """

    coordinates: FloatArray
    last: FloatArray
    with_response: bool = False

    def of(self, block: Block) -> tuple[FloatArray, FloatArray]:
        """Return the vectors of a block, (n, k), and their lengths, (n,)."""
        products = block.predictors(self.coordinates.T)
        for k in np.flatnonzero(self.last):
            products[k] += self.last[k] * block.y if self.with_response else self.last[k]
        vectors = products.T
        if block.follow_up is None:
            return vectors, row_lengths(vectors)
        of_time = self._of_time(block)
        assert isinstance(block.units, np.ndarray)
        means = block.follow_up.means
        spreads = block.follow_up.spreads_about(means)
        vectors = vectors + row_products(means, of_time)
        within = row_products(spreads, (of_time @ of_time.T).reshape(-1, 1))[:, 0]
        squares = row_lengths(vectors) ** 2 + within
        return vectors, np.sqrt(np.bincount(block.units, block.row_weights * squares)[block.units])

    def lengths(self, block: Block) -> FloatArray:
        """Return the lengths of the vectors of a block, (n,)."""
        return self.of(block)[1]

    def clipped(self, block: Block, threshold: float) -> tuple[FloatArray, FloatArray]:
        """Return the vectors, (n, k), those longer than the ``threshold`` C shortened; and factors."""
        vectors, lengths = self.of(block)
        factors = clip_factor(lengths, threshold)
        vectors *= factors[:, None]
        return vectors, factors

    def moments(self, block: Block, threshold: float) -> FloatArray:
        """Return the sum over rows of t t', t a vector clipped to a threshold, (k, k)."""
        vectors, factors = self.clipped(block, threshold)
        moments = block.moments(vectors)
        if block.follow_up is not None:
            of_time = self._of_time(block)
            within = block.total(factors[:, None] ** 2 * block.follow_up.spreads)
            moments = moments + of_time.T @ within.reshape(2 * of_time.shape[:1]) @ of_time
        return np.asarray(moments)

    def _of_time(self, block: Block) -> FloatArray:
        assert block.follow_up is not None
        return block.follow_up.time_columns @ self.coordinates


def joined_in(coordinates: FloatArray, *, with_response: bool) -> RowVectors:
    """Return the vectors z'B of rows z in coordinates B (d + 1, k)."""
    return RowVectors(coordinates[:-1], coordinates[-1], with_response)


def rows_in(coordinates: FloatArray) -> RowVectors:
    """Return the vectors x'B of rows x in coordinates B (d, k)."""
    return RowVectors(coordinates, np.zeros(0))


def clipped_moments(rows: Rows, vectors: RowVectors, threshold: float) -> Bounded:
    """Return the mean of t t', t a vector clipped to the norm ``threshold`` C, (k, k).

    A row, or a person who is followed, contributes a positive semidefinite matrix of trace at most C²/n:
    √2 C²/n for an exchange.
    """
    moments = rows.mean(lambda block: vectors.moments(block, threshold))
    return outer_product.of(moments, threshold, rows.n)


def with_factors(block: Block, persons: FloatArray | None) -> Block:
    """Return a block whose rows' weights are multiplied by factors of persons, (units,), if there are any."""
    if persons is None:
        return block
    own = persons[block.units]
    whole = None if block.whole is None else block.whole * own
    return replace(block, weight=block.row_weights * own, whole=whole)


def clipped_mean(rows: Rows, vectors: RowVectors, threshold: float) -> Bounded:
    """Return the mean of vectors clipped to the norm ``threshold`` C, (k,): 2C/n for a row's exchange."""
    means = rows.mean(lambda block: block.total(vectors.clipped(block, threshold)[0]))
    return ball_mean.of(means, threshold, rows.n)


def counts_by_place(rows: Rows, columns: IntArray, table: IntArray) -> FloatArray:
    """Return a histogram of columns of z = [x, y] without its first bin, (p, m); leading bits give the bin.

    A row has one place in each of the p columns: each count of a column moves by at most 1.
    """
    n_places, shift = int(table.max()) + 1, 65 - len(table).bit_length()

    def part(block: Block) -> FloatArray:
        counts = []
        for column in columns:
            numbers = block.y if column == block.X.shape[1] else block.X[:, column]
            numbers = np.ascontiguousarray(numbers)
            counts.append(block.histogram(table[numbers.view(np.int64) >> shift], n_places)[1:])
        return np.array(counts)

    return rows.sum(part)


# Means of bounded values.


def mean_within(rows: Rows, values: Vectors, width: float) -> Bounded:
    """Return the mean of values (n,) of rows that lie in an interval of a ``width`` w: w/n."""
    return interval.of(rows.mean(lambda block: block.total(values(block))), width, rows.n)


def mean_of_sums(rows: Rows, values: Vectors, width: float) -> Bounded:
    """Return the mean over units of the sums of values (n,) of their rows, cut to [0, w]: w/n.

    ``width`` is w. Rows that are shares count whole, otherwise this is :func:`mean_within`.
    """
    if not rows.sample.has_shares:
        return mean_within(rows, values, width)
    sums = sums_of_units(rows, lambda block: (block.score_weights, values(block)[:, None]), 1)
    return interval.of(np.clip(sums, 0, width).sum() / rows.n, width, rows.n)


def class_shares(rows: Rows, family: Family, *, in_l1: bool) -> Bounded:
    """Return the shares of classes, (K,). Two of them change: by √2/n in ℓ2, or by 2/n in ℓ1."""
    shares = rows.mean(lambda block: block.total(family.encode(block.y)[..., 0]))
    return interval.of(shares, 2.0, rows.n) if in_l1 else histogram.of(shares, 1, rows.n)


def mean_logarithm(rows: Rows, largest: float, weight: float) -> Bounded:
    """Return the means of log(1 + y) cut to [0, L], L = ``largest``, and of ``weight`` w if y > 0, (2,).

    (L + w)/n in ℓ1 for the exchange of a row.
    """

    def values(block: Block) -> FloatArray:
        logarithms = np.minimum(np.log1p(np.maximum(block.y, 0)), largest)
        return block.total(np.column_stack([logarithms, weight * (block.y > 0)]))

    return interval.of(rows.mean(values), largest + weight, rows.n)
