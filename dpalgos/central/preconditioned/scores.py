"""Queries of white rows u = W'x: their scores and curvatures. The other functions that read a row.

As in :mod:`dpalgos.central.preconditioned.queries`, each returns a bounded value, or counts rows. One row, or
one unit of privacy with several rows, is clipped to a bound that the docstring states. Rows are whitened
before they are clipped. Therefore rounding is relative to the threshold, however ill-conditioned W is.
"""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from dpalgos.central.preconditioned.follow_up import FollowUp
from dpalgos.central.preconditioned.queries import (
    Norms,
    n_rows_of,
    person_factors,
    with_factors,
)
from dpalgos.mechanisms.sensitivity import (
    ball_mean,
    count,
    curvature_sensitivity,
    interval,
    outer_product,
    people_residual_sensitivity,
    residual_sensitivity,
)
from dpalgos.models.families import Family
from dpalgos.release.declared import Bounded
from dpalgos.rows.clipping import clip_factor, row_lengths
from dpalgos.rows.group import Group
from dpalgos.rows.grouped import Grouped, map_groups
from dpalgos.rows.products import row_products
from dpalgos.rows.sample import Sample
from dpalgos.rows.users import sums_by_user
from dpalgos.typing import BoolArray, FloatArray

T = TypeVar("T")
_TINY = float(np.finfo(float).tiny)
_FRAILTY, _LOWEST = 1.0, 0.6  # the assumed variance of a factor on people's means; parts of t
_MOST_KEPT = 2**26  # numbers in white rows that are kept between steps


class _White(NamedTuple):
    encoded: FloatArray  # (n,) or (n, K)
    norms: FloatArray
    rows: FloatArray | None  # where they are kept
    shortened: FloatArray | float  # the square of the factor that shortens a row to its reach


class WhiteRows:
    """The rows u = W'x, whose scores are u (y − ψ'(u'θ + x'β₀))'.

    ``whitening`` (d, d) is W. ``origin`` is β₀, (d,) or (d, K), the coefficients at θ = 0. Both are public
    or released. A row longer than ``reach`` is shortened to that length, together with its response. Its
    score is that of the shortened pair. ``row_length`` is a public factor of lengths in clip factors of rows.
    """

    def __init__(
        self,
        sample: Sample,
        family: Family,
        whitening: FloatArray,
        origin: FloatArray,
        reach: float = np.inf,
        row_length: float = 1.0,
        *,
        people_limit: float | None = None,
        person_part: float = 1.0,
    ) -> None:
        self.row_length, self.person_part = row_length, person_part
        self.sample, self.family, self.whitening, self.origin = sample, family, whitening, origin
        self.limits: FloatArray | None = None
        can_differ = family.has_counts and not family.is_bounded and sample.units is not None
        self.people_limit = people_limit if can_differ else None
        self.n_rows = n_rows_of(sample)
        keeps = not sample.rows.streamed and self.n_rows * sample.n_features <= _MOST_KEPT

        def prepared(group: Group) -> _White:
            rows = self._whitened(group)
            norms, encoded = row_lengths(rows), family.encode(group.y)[..., 0]
            shortened = clip_factor(norms, reach) ** 2 if (norms > reach).any() else 1.0
            return _White(encoded, norms, rows if keeps else None, shortened)

        self._groups = map_groups(sample, prepared)

    def at(self, theta: FloatArray) -> "Scores":
        """Return the scores at θ, (d,) or (d, K)."""
        coef, family = self.coef(theta), self.family
        follow_up = FollowUp(self.sample, family.mean) if self._has_single_events else None

        def scores(group: Group, white: _White) -> _RowScores:
            predictor, encoded = _predictor(group, coef), white.encoded
            if follow_up is not None:
                predictor, encoded = follow_up.stopped(group, predictor, encoded)
            mean = family.mean(predictor[..., None])[..., 0]
            residual = encoded - mean
            residual *= white.shortened
            size = family.widest_residual(mean) if family.is_bounded else np.abs(residual)
            return _RowScores(predictor, residual, size, size * white.norms, white)

        kind = Scores
        if self.people_limit is not None:
            kind = LimitedScores
        elif self._has_single_events:
            kind = SingleEventScores
        elif self.sample.units is not None and not family.is_bounded:
            kind = UnitScores
        return kind(self, self._groups.map(scores))

    @property
    def _has_single_events(self) -> bool:
        return self.sample.units is not None and self.family.has_counts and self.family.is_bounded

    def row_factor(self, norms: FloatArray, threshold: float) -> FloatArray:
        """Return the factors that shorten rows with scores of these norms at a threshold."""
        return clip_factor(self.row_length * norms, threshold)

    def row_clip(self, threshold: float) -> float:
        """Return the length over √d to which rows are shortened at a threshold."""
        return threshold / (float(np.sqrt(self.sample.n_features)) * self.row_length)

    def fix_limits(self, theta: FloatArray) -> None:
        """Take the thresholds of people's counts from θ, (d,), from now on."""
        if isinstance(scores := self.at(theta), LimitedScores):
            self.limits = scores.limits

    def coef(self, theta: FloatArray) -> FloatArray:
        """Return the coefficients of x, Wθ from the origin, in the shape of θ."""
        return np.asarray(self.whitening @ theta + self.origin)

    def rows_of(self, group: Group, white: _White) -> FloatArray:
        """Return the rows u (n_group, d), kept or computed again."""
        return self._whitened(group) if white.rows is None else white.rows

    def _whitened(self, group: Group) -> FloatArray:
        """Return the rows u, stored by column, which makes sums over few columns faster."""
        if group.unit_weights is not None:
            return np.ascontiguousarray(row_products(group.X, self.whitening))
        return np.asarray(self.whitening.T @ group.X.T).T


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


class _RowScores(NamedTuple):
    predictor: FloatArray
    residual: FloatArray  # y − ψ', (n,) or (n, K)
    size: FloatArray  # the length by which it is clipped
    norms: FloatArray  # ‖u‖ times that length
    white: _White


class _RowCurvature(NamedTuple):
    weight: FloatArray  # ψ'', clipped as the score of a bounded residual is
    norms: FloatArray  # that times ‖z‖²
    kept: BoolArray  # whether the score is not clipped
    white: _White


class Scores:
    """The scores of white rows at one θ."""

    def __init__(self, rows: WhiteRows, parts: Grouped[_RowScores]) -> None:
        self.rows, self._parts, self.sample, self.n_rows = rows, parts, rows.sample, rows.n_rows

    def norms(self) -> Norms:
        """Return the norms of all scores."""
        return Norms(self._parts.map(lambda _, own: own.norms))

    def clipped_mean(self, threshold: float) -> Bounded:
        """Return the mean of scores clipped to the norm ``threshold`` C, in the shape of θ.

        2C/n for the exchange of a row: opposite scores of norm C.
        """
        return ball_mean.of(self._clipped_mean(threshold), threshold, self.n_rows)

    def clipped_moments(self, threshold: float) -> Bounded:
        """Return the mean of g g' over C², g a score clipped to the norm ``threshold`` C, (d, d).

        A row contributes a matrix of Frobenius norm at most 1/n: √2/n for the exchange of a row.
        """
        return outer_product.of(
            self._clipped_moments(threshold) / threshold**2, 1.0, self.n_rows, self.sample.n_features
        )

    def residual_moments(self, threshold: float) -> Bounded:
        """Return the means of (t, t²), t = residual/``threshold`` cut to [−1, 1], (2,): 2/n together."""
        return residual_sensitivity.of(self._residual_moments(threshold) / self.n_rows, self.n_rows)

    def mean_residual(self, largest: float) -> Bounded:
        """Return the mean of min(y, L) − min(μ, L/2) for counts, L = ``largest``, ().

        A difference lies between −L/2 and L: 1.5 L/n for the exchange of a row.
        """

        def part(group: Group, score: _RowScores) -> FloatArray:
            mean = self.rows.family.mean(score.predictor[:, None])[:, 0]
            difference = np.clip(score.white.encoded, 0, largest) - np.minimum(mean, largest / 2)
            return np.asarray(group.weighted(difference).sum())

        return interval.of(self._parts.sum(part) / self.n_rows, 1.5 * largest, self.n_rows)

    def far_rows(self, threshold: float) -> Bounded:
        """Return how many rows have |residual| max(1, ‖u‖/√d) > ``threshold``, or a moved cell, (1,).

        The exchange of a row moves it by 1.
        """
        return count.of(np.array([self._far_rows(threshold)]))

    def curvature(self, threshold: float) -> "Curvatures":
        """Return each row's part of the curvature of the mean clipped score; not for classes."""
        family = self.rows.family

        def second(group: Group, score: _RowScores) -> _RowCurvature:
            weight = family.second_derivative(score.predictor[:, None])[:, 0]
            if family.is_bounded:
                weight = weight * self.rows.row_factor(score.norms, threshold)
            kept = (self._lengths(group, score) <= threshold) | family.is_bounded
            return _RowCurvature(weight, weight * (score.white.norms**2 + 1), kept, score.white)

        return Curvatures(self.rows, self._parts.map(second))

    def _lengths(self, group: Group, score: _RowScores) -> FloatArray:
        """Return the length by which each row is clipped, (n_group,)."""
        return score.norms

    def _clipped_mean(self, threshold: float) -> FloatArray:
        def part(group: Group, score: _RowScores) -> FloatArray:
            factor = group.weighted(clip_factor(score.norms, threshold))
            clipped = score.residual * (factor if score.residual.ndim == 1 else factor[:, None])
            return np.asarray(self.rows.rows_of(group, score.white).T @ clipped)

        return self._parts.sum(part) / self.n_rows

    def _clipped_moments(self, threshold: float) -> FloatArray:
        def clipped(group: Group, score: _RowScores) -> tuple[FloatArray, FloatArray]:
            factor = score.residual * group.weighted(clip_factor(score.norms, threshold))
            return factor, self.rows.rows_of(group, score.white)

        def part(group: Group, score: _RowScores) -> FloatArray:
            factor, rows = clipped(group, score)
            scores = rows * factor[:, None]
            return np.asarray(scores.T @ scores)

        if self.sample.has_shared_units:
            scores = sums_of_units(self._parts, clipped, self.sample.n_features)
            return np.asarray(scores.T @ scores) / self.n_rows
        return self._parts.sum(part) / self.n_rows

    def _residual_moments(self, threshold: float) -> FloatArray:
        def part(_: Group, score: _RowScores) -> FloatArray:
            t = np.clip(score.residual / threshold, -1, 1)
            return np.array([t.sum(), t @ t])

        return self._parts.sum(part)

    def _far_rows(self, threshold: float) -> float:
        root = np.sqrt(self.sample.n_features)

        def part(group: Group, score: _RowScores) -> FloatArray:
            above: BoolArray = np.maximum(score.size, score.norms / root) > threshold
            if (is_clipped := self.sample.clipped_rows(group)) is not None:
                above = above | is_clipped
            return np.array(float(np.count_nonzero(above)))

        return float(self._parts.sum(part))


class UnitScores(Scores):
    """The scores of units, whose responses have no bound: weighted sums of the scores of rows, clipped.

    A unit counts like a row whose score and residual are those sums. If residuals are bounded, scores of rows
    are clipped instead, which keeps their mean 0: the weighted sum of clipped scores is not longer.
    """

    @cached_property
    def _sums(self) -> FloatArray:
        """The score of each unit, (units, d)."""
        return sums_of_units(
            self._parts,
            lambda group, score: (group.weighted(score.residual), self.rows.rows_of(group, score.white)),
            self.sample.n_features,
        )

    @cached_property
    def _residuals(self) -> FloatArray:
        """The residual of each unit, (units,)."""
        return self._of_units(lambda group, score: group.weighted(score.residual))

    @cached_property
    def _norms(self) -> FloatArray:
        return row_lengths(self._sums)

    @cached_property
    def _is_moved(self) -> BoolArray:
        """Whether a unit has a row with a cell that was moved to a public bound, (units,)."""

        def moved(group: Group, _: _RowScores) -> FloatArray:
            cells = self.sample.clipped_rows(group)
            return np.zeros(len(group.X)) if cells is None else cells.astype(float)

        return np.asarray(self._of_units(moved) > 0)

    def _of_units(self, values: Callable[[Group, _RowScores], FloatArray]) -> FloatArray:
        """Return the sums of rows' values over units, (units,)."""
        ones = lambda group, score: (values(group, score), np.ones((len(score.residual), 1)))  # noqa: E731
        return sums_of_units(self._parts, ones, 1)[:, 0]

    def norms(self) -> Norms:
        return UnitNorms(self._parts.sample, self._norms, self._is_moved)

    def _clipped(self, threshold: float) -> FloatArray:
        return np.asarray(self._sums * clip_factor(self._norms, threshold)[:, None])

    def _lengths(self, group: Group, score: _RowScores) -> FloatArray:
        return self._norms[group.units]

    def _clipped_mean(self, threshold: float) -> FloatArray:
        return np.asarray(self._clipped(threshold).sum(axis=0) / self.n_rows)

    def _clipped_moments(self, threshold: float) -> FloatArray:
        scores = self._clipped(threshold)
        return np.asarray(scores.T @ scores) / self.n_rows

    def _residual_moments(self, threshold: float) -> FloatArray:
        t = np.clip(self._residuals / threshold, -1, 1)
        return np.array([t.sum(), t @ t])

    def _far_rows(self, threshold: float) -> float:
        sizes = np.maximum(np.abs(self._residuals), self._norms / np.sqrt(self.sample.n_features))
        return float(np.count_nonzero((sizes > threshold) | self._is_moved))


class SingleEventScores(UnitScores):
    """The scores of persons who have at most one event, as sums over their rows.

    Follow-up stops when a person's cumulative hazard reaches 1.4, as :class:`FollowUp` says. Therefore the
    sum has mean 0 at the true coefficients, however many persons have an event.

    A row is shortened to C/1.4 by a factor that depends on its covariates alone. The mean of the sum stays 0.
    If the covariates of a person do not change, the sum is not longer than C. Else it is clipped to C, which
    is rare. Therefore one person moves the sum of scores by at most 2C, whatever their rows.
    """

    def _clipped(self, threshold: float) -> FloatArray:
        def shortened(group: Group, score: _RowScores) -> tuple[FloatArray, FloatArray]:
            factor = self.rows.row_factor(score.norms, threshold)
            return group.weighted(score.residual * factor), self.rows.rows_of(group, score.white)

        sums = sums_of_units(self._parts, shortened, self.sample.n_features)
        sums *= clip_factor(row_lengths(sums), threshold)[:, None]
        return sums


class LimitedScores(UnitScores):
    """The scores of units with counts, which may differ by more than covariates and chance explain.

    A unit's score g = Σ w u (y − μ) is clipped to a threshold t of its own, and then multiplied by C/t if t
    exceeds the threshold C:

        t = max(κ √(v ‖h‖² + q), √(Σ w² ‖u‖²)),   h = Σ w u μ,   q = Σ w² ‖u‖² μ

    h is how the score answers to a factor on the unit's mean, q its variance for Poisson counts. t follows
    from covariates and θ alone. If such a factor is independent of the covariates, clipping takes a part of
    the mean score that is nearly in proportion to h. Then it moves the intercept alone. A single event is
    never clipped.
    """

    @cached_property
    def limits(self) -> FloatArray:
        """t of each unit, (units,)."""
        if self.rows.limits is not None:
            return self.rows.limits
        family = self.rows.family

        def means(score: _RowScores) -> FloatArray:
            return family.second_derivative(score.predictor[:, None])[:, 0]

        answer = sums_of_units(
            self._parts,
            lambda group, score: (group.weighted(means(score)), self.rows.rows_of(group, score.white)),
            self.sample.n_features,
        )
        chance = self._of_units(
            lambda group, score: group.weighted(group.weighted(means(score))) * score.white.norms**2
        )
        longest = self._of_units(
            lambda group, score: group.weighted(
                group.weighted(np.ones(len(score.norms))) * score.white.norms**2
            )
        )
        spread = _FRAILTY * (answer**2).sum(axis=1) + chance
        return np.asarray(np.maximum(self.rows.people_limit * np.sqrt(spread), np.sqrt(longest)))

    def residual_moments(self, threshold: float) -> Bounded:
        """Return the means of (t, t², q), (3,): √5/n together.

        t is the residual over ``threshold`` cut to [−1, 1]. q is the variance of a Poisson residual, Σ w² μ,
        over its square, cut to 1.
        """

        def chances(group: Group, score: _RowScores) -> FloatArray:
            mean = self.rows.family.second_derivative(score.predictor[:, None])[:, 0]
            return group.weighted(group.weighted(mean))

        chance = np.minimum(self._of_units(chances) / threshold / threshold, 1).sum()
        sums = np.append(self._residual_moments(threshold), chance)
        return people_residual_sensitivity.of(sums / self.n_rows, self.n_rows)

    def norms(self) -> Norms:
        """Return lengths by which the common threshold is found, at least 0.6 t.

        If it were far below most t, scores would lose more curvature than noise.
        """
        lengths = np.minimum(self._norms, self.limits)
        return UnitNorms(self._parts.sample, np.maximum(lengths, _LOWEST * self.limits), self._is_moved)

    def curvature(self, threshold: float) -> "Curvatures":
        family, part, kept = self.rows.family, clip_factor(self.limits, threshold), self._norms <= self.limits

        def second(group: Group, score: _RowScores) -> _RowCurvature:
            weight = family.second_derivative(score.predictor[:, None])[:, 0] * part[group.units]
            return _RowCurvature(weight, weight * (score.white.norms**2 + 1), kept[group.units], score.white)

        return Curvatures(self.rows, self._parts.map(second))

    def _clipped(self, threshold: float) -> FloatArray:
        factor = np.minimum(self.limits / np.maximum(self._norms, _TINY), 1)
        return np.asarray(self._sums * (factor * clip_factor(self.limits, threshold))[:, None])


class UnitNorms(Norms):
    """Lengths of vectors, one per unit (units,), and whether they count as the largest."""

    def __init__(self, sample: Sample, lengths: FloatArray, is_largest: BoolArray) -> None:
        self._sample, self._of_units, self._is_largest = sample, lengths, is_largest

    def counts_above(self, thresholds: FloatArray) -> FloatArray:
        above = [np.count_nonzero(self._of_units > threshold) for threshold in thresholds]
        return np.array([above], dtype=float)

    def shares_above(self, threshold: float, sizes: FloatArray) -> FloatArray:
        relative = np.where(self._is_largest, np.inf, self._of_units / threshold)
        return np.array([np.count_nonzero(relative > size) for size in sizes]) / n_rows_of(self._sample)


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
            sums += sums_by_user(factors, rows, units.starts)
        elif units.codes is not None:
            codes = units.codes[group.rows]
            first = int(codes.min())  # of sorted streams, a block has few units
            some = slice(first, int(codes.max()) + 1)
            for j in range(n_columns):
                sums[some, j] += np.bincount(codes - first, weights=rows[:, j] * factors)
        else:
            sums[group.units] += rows * factors[:, None]
    return sums


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

    def clipped_mean(self, threshold: float) -> Bounded:
        """Return the mean of parts clipped to the norm ``threshold`` L, (d + 1, d + 1).

        A part is positive semidefinite and of Frobenius norm at most L: √2 L/n for the exchange of a row. If
        the rows' ``person_part`` f is below 1, the sum of a person's parts is clipped to f L: √2 f L/n.
        """

        def products(group: Group, curvature: _RowCurvature) -> tuple[FloatArray, FloatArray]:
            counts = curvature.kept | (curvature.norms > threshold)
            factor = group.weighted(clip_factor(curvature.norms, threshold) * counts)
            rows = self._rows.rows_of(group, curvature.white)
            return curvature.weight * factor, np.column_stack([rows, np.ones(len(rows))])

        persons, largest = None, self._rows.person_part * threshold
        if self._rows.person_part < 1:
            persons = person_factors(self._parts, products, largest)

        def part(group: Group, curvature: _RowCurvature) -> FloatArray:
            weights, Z = products(with_factors(group, persons), curvature)
            Z *= np.sqrt(weights)[:, None]
            return np.asarray(Z.T @ Z)

        n_rows = self._rows.n_rows
        return curvature_sensitivity.of(self._parts.sum(part) / n_rows, largest, n_rows)
