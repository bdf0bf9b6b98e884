"""Every function that reads a row. Each returns a mean or a count in which one row is clipped to a bound.

A function here takes rows and numbers that are public or were released before. Its docstring states how much
one row can contribute. The bound holds for any finite row that validation admits, up to 10⁶⁰ in magnitude:

- Linear predictors are cut to ±138 before an exponential is taken: e^138 is about 10⁶⁰
  (:mod:`dpalgos.models.families`).
- No power of a row higher than the second is formed. Therefore no intermediate number exceeds 10³⁰⁰.
- A vector longer than its threshold is multiplied by threshold/length.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from dpalgos.models.families import Family
from dpalgos.rows.clipping import clip_factor, row_lengths
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Grouped, Sample
from dpalgos.typing import BoolArray, FloatArray, IntArray

_MOST_KEPT = 2**24  # numbers in white rows that are kept between steps
_CACHED_ROWS = 2**12


class Norms(NamedTuple):
    """Lengths of vectors, one per row."""

    lengths: Grouped[FloatArray]

    def counts_above(self, thresholds: FloatArray) -> Callable[[int], float]:
        """Return a function: index of a threshold (m,) → how many lengths exceed it. A row moves it by 1."""
        if self.lengths.pairs is not None:
            return lambda k: float(self.lengths.sum(lambda _, own: np.count_nonzero(own > thresholds[k])))

        def bins(_: Group, lengths: FloatArray) -> IntArray:
            return np.bincount(np.searchsorted(thresholds, lengths), minlength=len(thresholds) + 1)

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
            return np.array([np.count_nonzero(relative > size) for size in sizes], dtype=float)

        return np.asarray(self.lengths.sum(above) / n_rows_of(sample))


def n_rows_of(sample: Sample) -> float:
    """Return the public number of rows of a sample of one replicate."""
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
        rows.map(lambda _, Z: np.concatenate([row_lengths(block @ coordinates) for block in _blocks(Z)]))
    )


def clipped_moments(rows: Grouped[FloatArray], coordinates: FloatArray, threshold: float) -> FloatArray:
    """Return the mean of t t', t = z'B clipped to the norm ``threshold`` C, (p, p).

    A row contributes a matrix of Frobenius norm at most C²/n: √2 C²/n for the exchange of a row.
    """

    def moments(block: FloatArray) -> FloatArray:
        T = block @ coordinates
        T *= clip_factor(row_lengths(T), threshold)[:, None]
        return np.asarray(T.T @ T)

    return rows.sum(lambda _, Z: sum(map(moments, _blocks(Z)))) / n_rows_of(rows.sample)


def clipped_mean(rows: Grouped[FloatArray], coordinates: FloatArray, threshold: float) -> FloatArray:
    """Return the mean of z'B clipped to the norm ``threshold`` C, (p,): 2C/n for the exchange of a row."""

    def total(block: FloatArray) -> FloatArray:
        T = block @ coordinates
        return np.asarray(clip_factor(row_lengths(T), threshold) @ T)

    return rows.sum(lambda _, Z: sum(map(total, _blocks(Z)))) / n_rows_of(rows.sample)


def _blocks(Z: FloatArray) -> Iterator[FloatArray]:
    """Yield a few rows at a time, whose products the processor's cache holds."""
    return (Z[start : start + _CACHED_ROWS] for start in range(0, len(Z), _CACHED_ROWS))


def mean_of(sample: Sample, values: Callable[[Group], FloatArray]) -> FloatArray:
    """Return the mean of bounded values (n,) or (n, k) of rows; the caller states their range."""
    return sample.map_groups(values).sum(lambda _, own: own.sum(axis=0)) / n_rows_of(sample)


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

    def part(_: Group, values: FloatArray) -> FloatArray:
        counts = np.zeros((len(columns), n_places))
        for block in _blocks(values):
            for own, column in zip(counts, columns, strict=True):
                numbers = block[:, column] if center is None else block[:, column] - center * block[:, -2]
                own += np.bincount(table[numbers.view(np.int64) >> shift], minlength=n_places)
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

        return Scores(self, self._groups.map(scores))

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
            T = _rows(group, white, self.whitening) * clip_factor(white.norms, threshold)[:, None]
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
            factor = clip_factor(score.norms, threshold)
            clipped = score.residual * (factor if score.residual.ndim == 1 else factor[:, None])
            return np.asarray(_rows(group, score.row, score.whitening).T @ clipped)

        return self._mean(part)

    def clipped_moments(self, threshold: float) -> FloatArray:
        """Return the mean of g g', g a score clipped to the norm ``threshold`` C, (d, d); no classes.

        A row contributes a matrix of Frobenius norm at most C²/n: √2 C²/n for the exchange of a row.
        """

        def part(group: Group, score: _RowScores) -> FloatArray:
            clipped = score.residual * clip_factor(score.norms, threshold)
            G = _rows(group, score.row, score.whitening) * clipped[:, None]
            return np.asarray(G.T @ G)

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

        def second(_: Group, score: _RowScores) -> _RowCurvature:
            weight = family.second_derivative(score.predictor[:, None])[:, 0]
            if family.is_bounded:
                weight = weight * clip_factor(score.norms, threshold)
            counts = (score.norms <= threshold) | family.is_bounded
            return _RowCurvature(weight, weight * (score.row.norms**2 + 1), counts, score)

        return Curvatures(self._rows, self._parts.map(second))

    def _mean(self, part: Callable[[Group, _RowScores], FloatArray]) -> FloatArray:
        return self._parts.sum(part) / n_rows_of(self._rows.sample)


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
            root = np.sqrt(
                curvature.weight * clip_factor(curvature.norms, threshold) * _counts(curvature, threshold)
            )
            U = _rows(group, curvature.score.row, curvature.score.whitening)
            Z = np.column_stack([U * root[:, None], root])
            return np.asarray(Z.T @ Z)

        return self._parts.sum(part) / n_rows_of(self._rows.sample)


def _counts(curvature: _RowCurvature, threshold: float) -> BoolArray:
    return curvature.kept | (curvature.norms > threshold)


def _whitened(group: Group, whitening: FloatArray) -> FloatArray:
    """Return the rows u (n, d), stored by column, which makes sums over few columns faster."""
    return np.asarray(whitening.T @ group.X.T).T


def _rows(group: Group, white: _Prepared, whitening: FloatArray) -> FloatArray:
    return _whitened(group, whitening) if white.rows is None else white.rows


def _predictor(group: Group, coef: FloatArray) -> FloatArray:
    """Return x'β + offset, (n,) or (n, K)."""
    products = (coef.T @ group.X.T).T
    if isinstance(group.offset, float):
        return products
    return np.asarray(products + (np.ravel(group.offset) if coef.ndim == 1 else group.offset))
