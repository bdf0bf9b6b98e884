"""Queries of rows as they are. Each returns a bounded value, or a function that counts rows.

A query is a value with its sensitivity: how far replacing one row moves the value, by the named lemma
(:class:`dpalgos.release.declared.Bounded`). Its clip and its sensitivity are written in one place.
White rows have theirs in :mod:`dpalgos.central.preconditioned.scores`; nothing else reads a row.

Queries take rows and numbers that are public or were released before. If rows have weights in units of
privacy (:mod:`dpalgos.rows.units`), the same bound holds for a unit, and counts are sums of weights. A bound
holds for any finite row that validation admits, up to 10⁶⁰ in magnitude:

- Linear predictors are cut to ±138 before an exponential is taken: e^138 is about 10⁶⁰
  (:mod:`dpalgos.models.families`).
- No power of a row higher than the second is formed. Therefore no intermediate number exceeds 10³⁰⁰.
- A vector longer than its threshold is multiplied by threshold/length.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from dpalgos.mechanisms.sensitivity import ball_mean, histogram, histogram_sum, interval, outer_product
from dpalgos.models.families import Family
from dpalgos.release.declared import Bounded
from dpalgos.rows.clipping import clip_factor, row_lengths
from dpalgos.rows.group import Group
from dpalgos.rows.grouped import Grouped, map_groups
from dpalgos.rows.products import row_products
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray, IntArray

_CACHED_ROWS = 2**12
T = TypeVar("T")


def n_rows_of(sample: Sample) -> float:
    """Return the public number of units of a sample of one replicate, or their released sum of weights."""
    return float(sample.n_rows[0])


class Norms:
    """Lengths of vectors, one per row."""

    def __init__(self, lengths: Grouped[FloatArray]) -> None:
        self._lengths = lengths

    def counts_above(self, thresholds: FloatArray) -> FloatArray:
        """Return how many lengths exceed each of m ascending thresholds, (1, m). A row moves each by 1."""

        def bins(group: Group, lengths: FloatArray) -> Any:
            places = np.searchsorted(thresholds, lengths)
            return np.bincount(places, weights=group.unit_weights, minlength=len(thresholds) + 1)

        return np.asarray(self._lengths.sum(bins)[::-1].cumsum()[-2::-1][None])

    def shares_above(self, threshold: float, sizes: FloatArray) -> FloatArray:
        """Return the shares of rows whose length over ``threshold`` exceeds each of the sizes (k,).

        A row with a cell that was moved to a public bound counts as larger than all sizes. A row leaves one
        of the bins between sizes and enters another: √2/n on the shares in bins.
        """
        sample = self._lengths.sample

        def above(group: Group, lengths: FloatArray) -> FloatArray:
            relative = lengths / threshold
            if (is_extreme := sample.clipped_rows(group)) is not None:
                relative = np.where(is_extreme, np.inf, relative)
            return np.array([group.total(relative > size) for size in sizes])

        return np.asarray(self._lengths.sum(above) / n_rows_of(sample))


# Rows z = [x, y], or [x, 1], before they are whitened.


def joined_rows(sample: Sample, *, with_response: bool = True) -> Grouped[FloatArray]:
    """Return the rows z, stored by column."""

    def joined(group: Group) -> FloatArray:
        columns = np.empty((group.X.shape[1] + 1, len(group.X)))
        for start in range(0, len(group.X), _CACHED_ROWS):
            few = slice(start, start + _CACHED_ROWS)
            columns[:-1, few] = group.X[few].T
        columns[-1] = group.y if with_response else 1.0
        return columns.T

    return map_groups(sample, joined)


def row_norms(rows: Grouped[FloatArray], coordinates: FloatArray) -> Norms:
    """Return the norms ‖z'B‖ of rows z in coordinates B (p, k)."""
    return Norms(
        rows.map(
            lambda group, Z: np.concatenate(
                [row_lengths(_product(group, block, coordinates)) for block, _ in _blocks(group, Z)]
            )
        )
    )


def clipped_moments(
    rows: Grouped[FloatArray], coordinates: FloatArray, threshold: float, person_part: float = 1.0
) -> Bounded:
    """Return the mean of t t', t = z'B clipped to the norm ``threshold`` C, (k, k).

    A row contributes a matrix of Frobenius norm at most C²/n: √2 C²/n for the exchange of a row. If
    ``person_part`` f is below 1, the sum of a person's matrices is clipped to the Frobenius norm f C².
    It is positive semidefinite: √2 f C²/n for the exchange of a person.
    """

    def products(group: Group, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        rows_of = _product(group, Z, coordinates)
        rows_of *= clip_factor(row_lengths(rows_of), threshold)[:, None]
        return group.weighted(np.ones(len(Z))), rows_of

    persons = person_factors(rows, products, person_part * threshold**2) if person_part < 1 else None

    def part(group: Group, Z: FloatArray) -> Any:
        total: Any = 0
        group = with_factors(group, persons)
        for block, weights in _blocks(group, Z):
            rows_of = _product(group, block, coordinates)
            rows_of *= times(clip_factor(row_lengths(rows_of), threshold), weights, np.sqrt)[:, None]
            total = total + rows_of.T @ rows_of
        return total

    n_rows = n_rows_of(rows.sample)
    return outer_product.of(rows.sum(part) / n_rows, np.sqrt(person_part) * threshold, n_rows)


def person_factors(
    parts: Grouped[T], products: Callable[[Group, T], tuple[FloatArray, FloatArray]], threshold: float
) -> FloatArray:
    """Return the factors that clip each person's Σ a z z' to a Frobenius norm, (units,).

    ``products`` returns a (n_group,) and z (n_group, k), with a = 0 for rows that do not count. The squared
    norm is Σ a_i a_j (z_i'z_j)² over a person's pairs of rows. If a person's rows are in several blocks of a
    stream, the norms of these parts are added. A factor depends on no other person, bit by bit.
    """
    units = parts.sample.units
    assert units is not None
    assert units.codes is not None
    lengths: FloatArray = np.zeros(int(units.codes.max()) + 1)
    for group, value in parts:
        weights, rows = products(group, value)
        used = np.flatnonzero(weights)
        codes, weights, rows = units.codes[group.rows][used], weights[used], rows[used]
        begins = np.append(True, np.diff(codes) != 0)[: len(codes)]
        runs = np.cumsum(begins) - 1
        squares: FloatArray = np.zeros(len(codes))
        for lag in range(len(codes)):
            first = np.flatnonzero(runs[: len(runs) - lag] == runs[lag:])
            if not len(first):
                break
            products_of = (rows[first] * rows[first + lag]).sum(axis=1) ** 2
            pairs = (1 + (lag > 0)) * weights[first] * weights[first + lag] * products_of
            squares += np.bincount(runs[first], weights=pairs, minlength=len(squares))
        np.add.at(lengths, codes[begins], np.sqrt(squares[: int(begins.sum())]))
    return clip_factor(lengths, threshold)


def with_factors(group: Group, persons: FloatArray | None) -> Group:
    """Return a group whose rows' weights are multiplied by factors of persons, (units,), if there are any."""
    if persons is None:
        return group
    return replace(group, unit_weights=group.weighted(persons[group.units]))


def clipped_mean(rows: Grouped[FloatArray], coordinates: FloatArray, threshold: float) -> Bounded:
    """Return the mean of z'B clipped to the norm ``threshold`` C, (k,): 2C/n for the exchange of a row."""

    def part(group: Group, Z: FloatArray) -> Any:
        total: Any = 0
        for block, weights in _blocks(group, Z):
            rows_of = _product(group, block, coordinates)
            total = total + times(clip_factor(row_lengths(rows_of), threshold), weights) @ rows_of
        return total

    n_rows = n_rows_of(rows.sample)
    return ball_mean.of(rows.sum(part) / n_rows, threshold, n_rows)


def counts_by_place(
    rows: Grouped[FloatArray], columns: IntArray, table: IntArray, center: float | None = None
) -> FloatArray:
    """Return a histogram of each column without its first bin, (p, m); leading bits give the bin.

    ``center`` times the constant, the column before the last, is subtracted first. A row has one place in
    each of the p columns: each count of a column moves by at most 1.
    """
    n_places, shift = int(table.max()) + 1, 65 - len(table).bit_length()

    def part(group: Group, values: FloatArray) -> FloatArray:
        counts = np.zeros((len(columns), n_places))
        for block, weights in _blocks(group, values):
            for own, column in zip(counts, columns, strict=True):
                numbers = block[:, column] if center is None else block[:, column] - center * block[:, -2]
                places = table[numbers.view(np.int64) >> shift]
                own += np.bincount(places, weights=weights, minlength=n_places)
        return counts[:, 1:]

    return rows.sum(part)


def shares_by_place(
    rows: Grouped[FloatArray], column: int, table: IntArray, center: float | None = None
) -> Bounded:
    """Return one column's histogram, (m,): √2 for the exchange of a row."""
    return histogram_sum.of(counts_by_place(rows, np.array([column]), table, center)[0])


def _blocks(group: Group, Z: FloatArray) -> Iterator[tuple[FloatArray, FloatArray | None]]:
    """Yield a few rows at a time, whose products the processor's cache holds, with their weights."""
    weights = group.unit_weights
    for start in range(0, len(Z), _CACHED_ROWS):
        few = slice(start, start + _CACHED_ROWS)
        yield Z[few], None if weights is None else weights[few]


def times(
    factor: FloatArray, weights: FloatArray | None, root: Callable[[FloatArray], FloatArray] = np.asarray
) -> FloatArray:
    """Return factors of rows (n,) times their weights, or times a root of these."""
    return factor if weights is None else factor * root(weights)


def _product(group: Group, block: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return rows times a matrix (p, k); where units have several rows, each row by itself."""
    return block @ matrix if group.unit_weights is None else row_products(block, matrix)


# Means of bounded values.


def mean_within(sample: Sample, values: Callable[[Group], FloatArray], width: float) -> Bounded:
    """Return the mean of values (n,) of rows that lie in an interval of a ``width`` w: w/n."""
    n_rows = n_rows_of(sample)
    return interval.of(_sum_of(sample, values) / n_rows, width, n_rows)


def class_shares(sample: Sample, family: Family, *, in_l1: bool) -> Bounded:
    """Return the shares of classes, (K,). Two of them change: by √2/n in ℓ2, or by 2/n in ℓ1."""
    n_rows = n_rows_of(sample)
    shares = _sum_of(sample, lambda group: family.encode(group.y)[..., 0]) / n_rows
    return interval.of(shares, 2.0, n_rows) if in_l1 else histogram.of(shares, 1, n_rows)


def mean_logarithm(sample: Sample, largest: float, weight: float) -> Bounded:
    """Return the means of log(1 + y) cut to [0, L], L = ``largest``, and of ``weight`` w if y > 0, (2,).

    (L + w)/n in ℓ1 for the exchange of a row.
    """

    def values(group: Group) -> FloatArray:
        logarithms = np.minimum(np.log1p(np.maximum(group.y, 0)), largest)
        return np.column_stack([logarithms, weight * (group.y > 0)])

    n_rows = n_rows_of(sample)
    return interval.of(_sum_of(sample, values) / n_rows, largest + weight, n_rows)


def responses(sample: Sample) -> Norms:
    """Return the responses, for counts of responses above a threshold."""
    return Norms(map_groups(sample, lambda group: group.y))


def _sum_of(sample: Sample, values: Callable[[Group], FloatArray]) -> FloatArray:
    return map_groups(sample, values).sum(lambda group, own: group.weighted(own).sum(axis=0))
