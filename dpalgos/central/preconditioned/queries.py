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
from dataclasses import replace

import numpy as np

from dpalgos.core.rows import Block, Rows
from dpalgos.mechanisms.sensitivity import Bounded, ball_mean, histogram, interval, outer_product
from dpalgos.models.families import Family
from dpalgos.rows.products import clip_factor, row_lengths
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


def joined_in(coordinates: FloatArray, *, with_response: bool) -> Vectors:
    """Return the vectors z'B of rows z in coordinates B (d + 1, k)."""
    of_row, of_last = coordinates[:-1], coordinates[-1]

    def vectors(block: Block) -> FloatArray:
        products = block.predictors(of_row.T)
        for k in np.flatnonzero(of_last):
            products[k] += of_last[k] * block.y if with_response else of_last[k]
        return products.T

    return vectors


def rows_in(coordinates: FloatArray) -> Vectors:
    """Return the vectors x'B of rows x in coordinates B (d, k)."""
    return lambda block: block.predictors(coordinates.T).T


def norms_of(vectors: Vectors) -> Vectors:
    """Return the norms of vectors, (n,)."""
    return lambda block: row_lengths(vectors(block))


def clipped_to(vectors: Vectors, threshold: float) -> Vectors:
    """Return the vectors, those longer than the ``threshold`` C shortened to it."""

    def clipped(block: Block) -> FloatArray:
        long = vectors(block)
        long *= clip_factor(row_lengths(long), threshold)[:, None]
        return long

    return clipped


def clipped_moments(rows: Rows, vectors: Vectors, threshold: float) -> Bounded:
    """Return the mean of t t', t a vector clipped to the norm ``threshold`` C, (k, k).

    A row contributes a matrix of Frobenius norm at most C²/n: √2 C²/n for the exchange of a row.
    """
    clipped = clipped_to(vectors, threshold)
    moments = rows.mean(lambda block: block.moments(clipped(block)))
    return outer_product.of(moments, threshold, rows.n)


def with_factors(block: Block, persons: FloatArray | None) -> Block:
    """Return a block whose rows' weights are multiplied by factors of persons, (units,), if there are any."""
    if persons is None:
        return block
    own = persons[block.units]
    whole = None if block.whole is None else block.whole * own
    return replace(block, weight=block.row_weights * own, whole=whole)


def clipped_mean(rows: Rows, vectors: Vectors, threshold: float) -> Bounded:
    """Return the mean of vectors clipped to the norm ``threshold`` C, (k,): 2C/n for a row's exchange."""
    clipped = clipped_to(vectors, threshold)
    return ball_mean.of(rows.mean(lambda block: block.total(clipped(block))), threshold, rows.n)


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
    sums = rows.sums_of_units(lambda block: (block.score_weights, values(block)[:, None]), 1)
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
