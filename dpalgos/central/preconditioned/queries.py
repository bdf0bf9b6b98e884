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
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy

from dpalgos.models.families import Family
from dpalgos.rows.clipping import clip_factor, row_lengths
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Grouped, Sample
from dpalgos.typing import BoolArray, FloatArray, IntArray

T = TypeVar("T")

_MOST_KEPT = 2**24  # numbers in white rows that are kept between steps
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
            T *= _times(clip_factor(row_lengths(T), threshold), weights, np.sqrt)[:, None]
            total = total + T.T @ T
        return total

    return rows.sum(part) / n_rows_of(rows.sample)


def clipped_mean(rows: Grouped[FloatArray], coordinates: FloatArray, threshold: float) -> FloatArray:
    """Return the mean of z'B clipped to the norm ``threshold`` C, (p,): 2C/n for the exchange of a row."""

    def part(group: Group, Z: FloatArray) -> Any:
        total: Any = 0
        for block, weights in _blocks(group, Z):
            T = _product(group, block, coordinates)
            total = total + _times(clip_factor(row_lengths(T), threshold), weights) @ T
        return total

    return rows.sum(part) / n_rows_of(rows.sample)


def _blocks(group: Group, Z: FloatArray) -> Iterator[tuple[FloatArray, FloatArray | None]]:
    """Yield a few rows at a time, whose products the processor's cache holds, with their weights."""
    weights = group.unit_weights
    for start in range(0, len(Z), _CACHED_ROWS):
        few = slice(start, start + _CACHED_ROWS)
        yield Z[few], None if weights is None else weights[few]


def _times(
    factor: FloatArray, weights: FloatArray | None, root: Callable[[FloatArray], FloatArray] = np.asarray
) -> FloatArray:
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


# Scores on white rows.


class _Prepared(NamedTuple):
    encoded: FloatArray  # (n,) or (n, K)
    norms: FloatArray
    rows: FloatArray | None  # where they are kept
    shortened: FloatArray | float  # the square of the factor that shortens a row to its reach


class WhiteRows:
    """The rows u = W'x, whose scores are u (y − ψ'(u'θ + x'β₀))'.

    ``whitening`` (d, d) is W. ``origin`` is β₀, (d,) or (d, K), the coefficients at θ = 0. Both are public
    or released. Rows are whitened before they are clipped. Therefore rounding is relative to the threshold,
    however ill-conditioned W is. A row longer than ``reach`` is shortened to that length, together with its
    response. Its score is that of the shortened pair.
    """

    def __init__(
        self,
        sample: Sample,
        family: Family,
        whitening: FloatArray,
        origin: FloatArray,
        reach: float = np.inf,
    ) -> None:
        self.sample, self.family, self.whitening, self.origin = sample, family, whitening, origin
        self._reach = reach
        keeps = not sample.rows.streamed and n_rows_of(sample) * sample.n_features <= _MOST_KEPT

        def prepared(group: Group) -> _Prepared:
            rows = _whitened(group, whitening)
            norms, encoded = row_lengths(rows), family.encode(group.y)[..., 0]
            shortened = clip_factor(norms, reach) ** 2 if np.isfinite(reach) else 1.0
            return _Prepared(encoded, norms, rows if keeps else None, shortened)

        self._groups = sample.map_groups(prepared)

    def whitened_by(self, whitening: FloatArray) -> "WhiteRows":
        """Return the rows by another whitening."""
        return WhiteRows(self.sample, self.family, whitening, self.origin, self._reach)

    def at(self, theta: FloatArray) -> "Scores":
        """Return the scores at θ, (d,) or (d, K)."""
        coef, family, whitening = self.coef(theta), self.family, self.whitening

        def scores(group: Group, white: _Prepared) -> _RowScores:
            predictor = _predictor(group, coef)
            mean = family.mean(predictor[..., None])[..., 0]
            residual = (white.encoded - mean) * white.shortened
            size = family.widest_residual(mean) if family.is_bounded else np.abs(residual)
            return _RowScores(predictor, residual, size, white, whitening)

        of_units = self.sample.units is not None and not family.is_bounded
        return (UnitScores if of_units else Scores)(self, self._groups.map(scores))

    def coef(self, theta: FloatArray) -> FloatArray:
        """Return the coefficients of x, Wθ from the origin, in the shape of θ."""
        return np.asarray(self.whitening @ theta + self.origin)

    def norms(self) -> Norms:
        """Return the norms ‖u‖."""
        return Norms(self._groups.map(lambda _, own: own.norms))

    def clipped_moments(self, threshold: float) -> FloatArray:
        """Return the mean of t t', t = u clipped to the norm ``threshold`` C, (d, d).

        A row contributes a matrix of Frobenius norm at most C²/n: √2 C²/n for the exchange of a row.
        """

        def part(group: Group, white: _Prepared) -> FloatArray:
            factor = _times(clip_factor(white.norms, threshold), group.unit_weights, np.sqrt)
            T = _rows(group, white, self.whitening) * factor[:, None]
            return np.asarray(T.T @ T)

        return self._groups.sum(part) / n_rows_of(self.sample)


class _RowScores(NamedTuple):
    predictor: FloatArray
    residual: FloatArray  # y − ψ', (n,) or (n, K)
    size: FloatArray  # the length by which it is clipped
    row: _Prepared
    whitening: FloatArray

    @property
    def norms(self) -> FloatArray:
        """‖u‖ |y − ψ'|, (n,)."""
        return self.size * self.row.norms


class Scores:
    """The scores of white rows at one θ."""

    def __init__(self, rows: WhiteRows, parts: Grouped[_RowScores]) -> None:
        self._rows, self._parts = rows, parts
        self.sample, self.whitening, self.has_counts = rows.sample, rows.whitening, rows.family.has_counts

    def norms(self) -> Norms:
        """Return the norms of all scores."""
        return Norms(self._parts.map(lambda _, own: own.norms))

    def clipped_mean(self, threshold: float) -> FloatArray:
        """Return the mean of scores clipped to the norm ``threshold`` C, in the shape of θ.

        2C/n for the exchange of a row: opposite scores of norm C.
        """

        def part(group: Group, score: _RowScores) -> FloatArray:
            factor = group.weighted(clip_factor(score.norms, threshold))
            clipped = score.residual * (factor if score.residual.ndim == 1 else factor[:, None])
            return np.asarray(_rows(group, score.row, score.whitening).T @ clipped)

        return self._mean(part)

    def clipped_moments(self, threshold: float) -> FloatArray:
        """Return the mean of g g', g a score clipped to the norm ``threshold`` C, (d, d); no classes.

        A row contributes a matrix of Frobenius norm at most C²/n: √2 C²/n for the exchange of a row.
        """

        def clipped(group: Group, score: _RowScores) -> tuple[FloatArray, FloatArray]:
            factor = score.residual * group.weighted(clip_factor(score.norms, threshold))
            return factor, _rows(group, score.row, score.whitening)

        def part(group: Group, score: _RowScores) -> FloatArray:
            factor, rows = clipped(group, score)
            G = rows * factor[:, None]
            return np.asarray(G.T @ G)

        if self.sample.has_shared_units:
            G = sums_of_units(self._parts, clipped, self.sample.n_features)
            return np.asarray(G.T @ G) / n_rows_of(self.sample)
        return self._mean(part)

    def residual_moments(self, threshold: float) -> FloatArray:
        """Return the means of (t, t²), t = residual/``threshold`` cut to [−1, 1], (2,): 2/n together."""

        def part(_: Group, score: _RowScores) -> FloatArray:
            t = np.clip(score.residual / threshold, -1, 1)
            return np.array([t.sum(), t @ t])

        return self._mean(part)

    def far_rows(self, threshold: float) -> FloatArray:
        """Return how many rows have |residual| max(1, ‖u‖/√d) > ``threshold``, or a moved cell, (1,).

        The exchange of a row moves it by 1.
        """
        sample, scale = self._rows.sample, np.sqrt(self._rows.sample.n_features)

        def part(group: Group, score: _RowScores) -> FloatArray:
            above: BoolArray = np.maximum(score.size, score.norms / scale) > threshold
            if (is_clipped := sample.clipped_rows(group)) is not None:
                above = above | is_clipped
            return np.array([float(np.count_nonzero(above))])

        return self._parts.sum(part)

    def curvature(self, threshold: float) -> "Curvatures":
        """Return each row's part of the curvature of the mean clipped score; not for classes."""
        family = self._rows.family

        def second(group: Group, score: _RowScores) -> _RowCurvature:
            weight = family.second_derivative(score.predictor[:, None])[:, 0]
            if family.is_bounded:
                weight = weight * clip_factor(score.norms, threshold)
            counts = (self._lengths(group, score) <= threshold) | family.is_bounded
            return _RowCurvature(weight, weight * (score.row.norms**2 + 1), counts, score)

        return Curvatures(self._rows, self._parts.map(second))

    def _lengths(self, group: Group, score: _RowScores) -> FloatArray:
        """Return the length by which each row is clipped, (n_group,)."""
        return score.norms

    def _mean(self, part: Callable[[Group, _RowScores], FloatArray]) -> FloatArray:
        return self._parts.sum(part) / n_rows_of(self._rows.sample)


def sums_of_units(
    parts: Grouped[T], vectors: Callable[[Group, T], tuple[FloatArray, FloatArray]], n_columns: int
) -> FloatArray:
    """Return the sums of factors (n_group,) times vectors (n_group, k) over each unit's rows, (units, k)."""
    units = parts.sample.units
    assert units is not None
    n_units = int(units.n_units) if parts.sample.has_shared_units else len(units.weights)
    sums = np.zeros((n_units, n_columns))
    for group, value in parts:
        factors, rows = vectors(group, value)
        if units.starts is not None:
            own = factors, np.arange(len(rows)), units.starts
            sums += np.asarray(scipy.sparse.csr_array(own, (n_units, len(rows))) @ rows)
        elif units.codes is not None:
            codes = units.codes[group.rows]
            for j in range(n_columns):
                sums[:, j] += np.bincount(codes, weights=rows[:, j] * factors, minlength=n_units)
        else:
            sums[group.units] += rows * factors[:, None]
    return sums


class UnitScores(Scores):
    """The scores of units, whose responses have no bound: weighted sums of the scores of rows, clipped.

    A unit counts like a row whose score and residual are those sums. If residuals are bounded, scores of rows
    are clipped instead, which keeps their mean 0: the weighted sum of clipped scores is not longer.
    """

    @cached_property
    def _sums(self) -> FloatArray:
        """The score of each unit, (units, d)."""

        def vectors(group: Group, score: _RowScores) -> tuple[FloatArray, FloatArray]:
            return group.weighted(score.residual), _rows(group, score.row, score.whitening)

        return sums_of_units(self._parts, vectors, self.sample.n_features)

    @cached_property
    def _residuals(self) -> FloatArray:
        """The residual of each unit, (units,)."""

        def residuals(group: Group, score: _RowScores) -> tuple[FloatArray, FloatArray]:
            return group.weighted(score.residual), np.ones((len(score.residual), 1))

        return sums_of_units(self._parts, residuals, 1)[:, 0]

    @cached_property
    def _norms(self) -> FloatArray:
        return row_lengths(self._sums)

    def norms(self) -> Norms:
        return UnitNorms(self._parts.sample, self._norms, self._is_moved)

    def clipped_mean(self, threshold: float) -> FloatArray:
        return np.asarray(self._clipped(threshold).sum(axis=0) / n_rows_of(self.sample))

    def clipped_moments(self, threshold: float) -> FloatArray:
        G = self._clipped(threshold)
        return np.asarray(G.T @ G) / n_rows_of(self.sample)

    def residual_moments(self, threshold: float) -> FloatArray:
        t = np.clip(self._residuals / threshold, -1, 1)
        return np.array([t.sum(), t @ t]) / n_rows_of(self.sample)

    def far_rows(self, threshold: float) -> FloatArray:
        sizes = np.maximum(np.abs(self._residuals), self._norms / np.sqrt(self.sample.n_features))
        return np.array([float(np.count_nonzero((sizes > threshold) | self._is_moved))])

    def _clipped(self, threshold: float) -> FloatArray:
        return np.asarray(self._sums * clip_factor(self._norms, threshold)[:, None])

    def _lengths(self, group: Group, score: _RowScores) -> FloatArray:
        return self._norms[group.units]

    @cached_property
    def _is_moved(self) -> BoolArray:
        """Whether a unit has a row with a cell that was moved to a public bound, (units,)."""

        def moved(group: Group, _: _RowScores) -> tuple[FloatArray, FloatArray]:
            cells = self.sample.clipped_rows(group)
            each = np.zeros(len(group.X)) if cells is None else cells.astype(float)
            return each, np.ones((len(each), 1))

        return np.asarray(sums_of_units(self._parts, moved, 1)[:, 0] > 0)


class UnitNorms(Norms):
    """Lengths of vectors, one per unit (units,), and whether they count as the largest."""

    def __init__(self, sample: Sample, lengths: FloatArray, is_largest: BoolArray) -> None:
        self._sample, self._lengths, self._is_largest = sample, lengths, is_largest

    def counts_above(self, thresholds: FloatArray) -> Callable[[int], float]:
        return lambda k: float(np.count_nonzero(self._lengths > thresholds[k]))

    def shares_above(self, threshold: float, sizes: FloatArray) -> FloatArray:
        relative = np.where(self._is_largest, np.inf, self._lengths / threshold)
        return np.array([np.count_nonzero(relative > size) for size in sizes]) / n_rows_of(self._sample)


class _RowCurvature(NamedTuple):
    weight: FloatArray  # ψ''
    norms: FloatArray  # ψ'' ‖z‖²
    kept: BoolArray  # whether the score is not clipped
    score: _RowScores


class Curvatures:
    """The parts ψ'' z z', z = [u, 1], of the curvature: 0 where the score is clipped.

    A clipped score has derivative 0 in its residual. A part with a norm above the threshold of
    :meth:`clipped_mean` is shortened to it, whatever its residual.
    """

    def __init__(self, rows: WhiteRows, parts: Grouped[_RowCurvature]) -> None:
        self._rows, self._parts = rows, parts

    def norms(self) -> Norms:
        """Return ψ''‖z‖² of all rows."""
        return Norms(self._parts.map(lambda _, own: own.norms))

    def clipped_mean(self, threshold: float) -> FloatArray:
        """Return the mean of parts clipped to the norm ``threshold`` L, (d + 1, d + 1).

        A part is positive semidefinite and of Frobenius norm at most L: √2 L/n for the exchange of a row.
        """

        def part(group: Group, curvature: _RowCurvature) -> FloatArray:
            factor = clip_factor(curvature.norms, threshold) * _counts(curvature, threshold)
            root = np.sqrt(curvature.weight * group.weighted(factor))
            U = _rows(group, curvature.score.row, curvature.score.whitening)
            Z = np.column_stack([U * root[:, None], root])
            return np.asarray(Z.T @ Z)

        return self._parts.sum(part) / n_rows_of(self._rows.sample)


def _counts(curvature: _RowCurvature, threshold: float) -> BoolArray:
    return curvature.kept | (curvature.norms > threshold)


def _whitened(group: Group, whitening: FloatArray) -> FloatArray:
    """Return the rows u (n, d), stored by column, which makes sums over few columns faster."""
    if group.unit_weights is not None:
        return np.ascontiguousarray(row_products(group.X, whitening))
    return np.asarray(whitening.T @ group.X.T).T


def _rows(group: Group, white: _Prepared, whitening: FloatArray) -> FloatArray:
    return _whitened(group, whitening) if white.rows is None else white.rows


def _predictor(group: Group, coef: FloatArray) -> FloatArray:
    """Return x'β + offset, (n,) or (n, K)."""
    products: FloatArray
    if group.unit_weights is None:
        products = (coef.T @ group.X.T).T
    else:
        products = row_products(group.X, coef.reshape(len(coef), -1)).reshape(-1, *coef.shape[1:])
    if isinstance(group.offset, float):
        return products
    return np.asarray(products + (np.ravel(group.offset) if coef.ndim == 1 else group.offset))
