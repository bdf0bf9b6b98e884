"""Every function that reads a row. Each returns a mean or a count in which one row is clipped to a bound.

A function here takes rows and numbers that are public or were released before. Its docstring states how much
one row can contribute. If rows have weights in units of privacy (:mod:`dpalgos.rows.units`), the same bound
holds for a unit, and counts are sums of weights. The bound holds for any finite row that validation admits,
up to 10⁶⁰ in magnitude:

- Linear predictors are cut to ±138 before an exponential is taken: e^138 is about 10⁶⁰
  (:mod:`dpalgos.models.families`).
- No power of a row higher than the second is formed. Therefore no intermediate number exceeds 10³⁰⁰.
- A vector longer than its threshold is multiplied by threshold/length.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dpalgos.models.families import Family
from dpalgos.rows.clipping import clip_factor, row_lengths
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Grouped, Sample
from dpalgos.typing import FloatArray, IntArray

_CACHED_ROWS = 2**12


class Norms:
    """Lengths of vectors, one per row."""

    def __init__(self, lengths: Grouped[FloatArray]) -> None:
        self.lengths = lengths

    def counts_above(self, thresholds: FloatArray) -> Callable[[int], float]:
        """Return a function: index of a threshold (m,) → how many lengths exceed it. A row moves it by 1."""
        if self.lengths.pairs is not None:
            return lambda k: float(self.lengths.sum(lambda group, own: group.total(own > thresholds[k])))

        def bins(group: Group, lengths: FloatArray) -> Any:
            places = np.searchsorted(thresholds, lengths)
            return np.bincount(places, weights=group.unit_weights, minlength=len(thresholds) + 1)

        above = self.lengths.sum(bins)[::-1].cumsum()[-2::-1]
        return lambda k: float(above[k])

    def shares_above(self, threshold: float, sizes: FloatArray) -> FloatArray:
        """Return the shares of rows whose length over ``threshold`` exceeds each of the sizes (k,).

        A row with a cell that was moved to a public bound counts as larger than all sizes. A row leaves one
        of the bins between sizes and enters another: √2/n on the shares in bins.
        """
        sample = self.lengths.sample

        def above(group: Group, lengths: FloatArray) -> FloatArray:
            relative = lengths / threshold
            if (is_extreme := sample.clipped_rows(group)) is not None:
                relative = np.where(is_extreme, np.inf, relative)
            return np.array([group.total(relative > size) for size in sizes])

        return np.asarray(self.lengths.sum(above) / n_rows_of(sample))


def n_rows_of(sample: Sample) -> float:
    """Return the public number of units of a sample of one replicate, or their released sum of weights."""
    return float(sample.n_rows[0])


# Rows z = [x, y, …] before they are whitened.


def joined_rows(sample: Sample, *, with_response: bool) -> Grouped[FloatArray]:
    """Return the rows z = [x, y], or [x, 1]."""
    return sample.map_groups(
        lambda group: np.column_stack([group.X, group.y if with_response else np.ones(len(group.X))])
    )


def row_norms(rows: Grouped[FloatArray], coordinates: FloatArray) -> Norms:
    """Return the norms ‖z'B‖ of rows z in coordinates B (p, p)."""
    return Norms(
        rows.map(
            lambda group, Z: np.concatenate(
                [row_lengths(_product(group, block, coordinates)) for block, _ in _blocks(group, Z)]
            )
        )
    )


def clipped_moments(rows: Grouped[FloatArray], coordinates: FloatArray, threshold: float) -> FloatArray:
    """Return the mean of t t', t = z'B clipped to the norm ``threshold`` C, (p, p).

    A row contributes a matrix of Frobenius norm at most C²/n: √2 C²/n for the exchange of a row.
    """

    def part(group: Group, Z: FloatArray) -> Any:
        total: Any = 0
        for block, weights in _blocks(group, Z):
            T = _product(group, block, coordinates)
            T *= times(clip_factor(row_lengths(T), threshold), weights, np.sqrt)[:, None]
            total = total + T.T @ T
        return total

    return rows.sum(part) / n_rows_of(rows.sample)


def clipped_mean(rows: Grouped[FloatArray], coordinates: FloatArray, threshold: float) -> FloatArray:
    """Return the mean of z'B clipped to the norm ``threshold`` C, (p,): 2C/n for the exchange of a row."""

    def part(group: Group, Z: FloatArray) -> Any:
        total: Any = 0
        for block, weights in _blocks(group, Z):
            T = _product(group, block, coordinates)
            total = total + times(clip_factor(row_lengths(T), threshold), weights) @ T
        return total

    return rows.sum(part) / n_rows_of(rows.sample)


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


def row_products(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return rows (m, p) times a matrix (p, k), (m, k) by column; no row's numbers depend on another row.

    A matrix product sums its last rows in another order. Then one person's number of rows would change the
    last bits of what is computed for others.
    """
    products = np.zeros((matrix.shape[1], len(rows)))
    term = np.empty(min(_CACHED_ROWS, len(rows)))
    for start in range(0, len(rows), _CACHED_ROWS):
        block = np.ascontiguousarray(rows[start : start + _CACHED_ROWS].T)
        own, few = products[:, start : start + block.shape[1]], term[: block.shape[1]]
        for k, sums in enumerate(own):
            for j, column in enumerate(block):
                sums += np.multiply(column, matrix[j, k], out=few)
    return products.T


def mean_of(sample: Sample, values: Callable[[Group], FloatArray]) -> FloatArray:
    """Return the mean of bounded values (n,) or (n, k) of rows; the caller states their range."""
    total = sample.map_groups(values).sum(lambda group, own: group.weighted(own).sum(axis=0))
    return total / n_rows_of(sample)


def mean_response(sample: Sample, family: Family, largest: float) -> FloatArray:
    """Return the mean of responses cut to [0, B], B = ``largest``, or of indicators of classes.

    B/n for the exchange of a row. Two indicators change: √2/n in ℓ2, 2/n in ℓ1.
    """
    return mean_of(sample, lambda group: np.clip(family.encode(group.y)[..., 0], 0, largest))


def mean_logarithm(sample: Sample, largest: float, weight: float) -> FloatArray:
    """Return the means of log(1 + y) cut to [0, L], L = ``largest``, and of ``weight`` w if y > 0, (2,).

    (L + w)/n in ℓ1 for the exchange of a row.
    """

    def values(group: Group) -> FloatArray:
        logarithms = np.minimum(np.log1p(np.maximum(group.y, 0)), largest)
        return np.column_stack([logarithms, weight * (group.y > 0)])

    return mean_of(sample, values)


def responses(sample: Sample) -> Norms:
    """Return the responses, for counts of responses above a threshold."""
    return Norms(sample.map_groups(lambda group: group.y))


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


def columns_and_response(sample: Sample) -> Grouped[FloatArray]:
    """Return the rows [x, y], stored by column."""
    return sample.map_groups(lambda group: np.vstack([group.X.T, group.y]).T)


def columns(sample: Sample) -> Grouped[FloatArray]:
    """Return the rows x."""
    return sample.map_groups(lambda group: group.X)
