"""Queries of white rows u = W'x: their scores and curvatures. The other functions that read a row.

As in :mod:`dpalgos.central.preconditioned.queries`, each returns a bounded value, or counts rows. One row, or
one unit of privacy with several rows, is clipped to a bound that the docstring states. Rows are whitened
before they are clipped. Therefore rounding is relative to the threshold, however ill-conditioned W is.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from dpalgos.central.preconditioned.follow_up import FollowUp, RowMartingales
from dpalgos.central.preconditioned.queries import (
    Vectors,
    counts_above,
    with_factors,
)
from dpalgos.core.persons import some_sums_of_units, sums_of_units
from dpalgos.core.rows import Block, Rows
from dpalgos.core.rows import Vectors as UnitVectors
from dpalgos.mechanisms.sensitivity import Bounded, ball_mean, count, lemma, outer_product
from dpalgos.models.families import Family
from dpalgos.rows.products import clip_factor, row_lengths, row_products
from dpalgos.typing import BoolArray, FloatArray, Number

_TINY = float(np.finfo(float).tiny)
_FRAILTY, _LOWEST = 1.0, 0.6  # the assumed variance of a factor on people's means; parts of t
_MOST_KEPT = 2**26  # numbers in white rows that are kept between steps


class _White(NamedTuple):
    encoded: FloatArray  # (n,) or (n, K)
    norms: FloatArray
    lengths: FloatArray  # by group of periods, if rows are followed over time, (n, G)
    kept: FloatArray | None  # the white rows, where there is room for them
    shortened: FloatArray | float  # the square of the factor that shortens a long row
    whitening: FloatArray

    def rows(self, block: Block) -> FloatArray:
        """Return the rows u (n, d), kept or computed again."""
        return _whitened(block, self.whitening) if self.kept is None else self.kept


def _whitened(block: Block, whitening: FloatArray) -> FloatArray:
    """Return the rows u, by column, which makes sums over few columns faster; of people, row by row."""
    white = block.predictors(whitening.T).T
    return np.ascontiguousarray(white) if block.is_of_people else white


class ScoreFunction:
    """The scores u (y − ψ'(u'θ + x'β₀))' of white rows u = W'x as a function of θ.

    ``whitening`` (d, d) is W. ``origin`` is β₀, (d,) or (d, K), the coefficients at θ = 0. Both are public
    or released. A row longer than ``max_length`` is shortened to that length, together with its response. Its
    score is that of the shortened pair. ``row_length`` is a public factor of lengths in clip factors of rows.
    """

    def __init__(
        self,
        rows: Rows,
        family: Family,
        whitening: FloatArray,
        origin: FloatArray,
        max_length: float = np.inf,
        row_length: float = 1.0,
        *,
        people_limit: float | None = None,
        hazard_limit: float = np.inf,
    ) -> None:
        self.row_length, self.hazard_limit = row_length, hazard_limit
        self.family, self.whitening, self.origin = family, whitening, origin
        self.n_rows, self.d, self.units = rows.n, rows.d, rows.sample.units
        self.follow_up = rows.sample.follow_up
        self.limits: FloatArray | None = None
        self.time_columns = np.zeros((0, self.d)) if self.follow_up is None else self.follow_up.time_columns
        can_differ = family.has_counts and not family.is_bounded and self.units is not None
        self.people_limit = people_limit if can_differ else None
        self.has_single_events = self.units is not None and family.has_counts and family.is_bounded
        keeps = not rows.sample.rows.streamed and self.n_rows * self.d <= _MOST_KEPT

        def prepared(block: Block) -> _White:
            white = _whitened(block, whitening)
            if block.follow_up is None:
                lengths = row_lengths(white)[:, None]
            else:
                lengths = block.follow_up.typical_lengths(white, self.time_columns @ whitening)
            norms = np.sqrt((lengths**2).mean(axis=1)) if lengths.shape[1] > 1 else lengths[:, 0]
            encoded = family.encode(block.y)[..., 0]
            shortened = clip_factor(norms, max_length) ** 2 if (norms > max_length).any() else 1.0
            return _White(encoded, norms, lengths, white if keeps else None, shortened, whitening)

        self._white = rows.map(prepared)

    def at(self, theta: FloatArray, since: int = 0) -> "Scores":
        """Return the scores at θ, (d,) or (d, K); of follow-up from a place on, ``since``."""
        coef, family, stops = self.coef(theta), self.family, None
        if self.has_single_events or self.follow_up is not None:
            assert self.units is not None
            assert self.units.codes is not None
            limit = self.hazard_limit if self.has_single_events else np.inf
            stops = FollowUp(int(self.units.codes.max()) + 1, family.mean, limit)
        slopes = self.time_columns @ coef

        def scores(block: Block) -> _RowScores:
            white = block.derived
            predictor = block.predictors(coef.T).T
            if not isinstance(block.offset, float):
                predictor = predictor + (block.offset if coef.ndim == 1 else block.offset[:, None])
            if stops is not None:
                followed = stops.stopped(block, predictor, slopes, white.encoded, since)
                return _RowScores(None, None, None, None, white, followed)
            widest: FloatArray | None = None
            mean = family.mean(predictor[..., None])[..., 0]
            residual = (white.encoded - mean) * white.shortened
            if family.is_bounded:
                widest = family.widest_residual(mean)
            size = np.abs(residual) if widest is None else widest
            return _RowScores(predictor, residual, size, size * white.norms, white)

        kind = Scores
        if self.people_limit is not None:
            kind = LimitedScores
        elif self.has_single_events:
            kind = SingleEventScores
        elif self.units is not None and not family.is_bounded:
            kind = UnitScores
        return kind(self, self._white.map(scores))

    def fix_limits(self, theta: FloatArray) -> None:
        """Take the thresholds of people's counts from θ, (d,), from now on."""
        if self.people_limit is not None:
            scores = self.at(theta)
            assert isinstance(scores, LimitedScores)
            self.limits = scores.limits

    def means(self, block: Block) -> FloatArray:
        """Return ψ'' of rows, (n,), of a block of scores: the mean counts of rows of counts."""
        score = block.derived
        predictor = score.predictor if score.followed is None else score.followed.log_information
        return np.asarray(self.family.second_derivative(predictor[:, None])[:, 0])

    def coef(self, theta: FloatArray) -> FloatArray:
        """Return the coefficients of x, Wθ from the origin, in the shape of θ."""
        return np.asarray(self.whitening @ theta + self.origin)


class _RowScores(NamedTuple):
    # If rows are followed over time, the first four follow from that.
    predictor: FloatArray | None
    residual: FloatArray | None  # y − ψ', (n,) or (n, K)
    size: FloatArray | None  # the length by which it is clipped
    norms: FloatArray | None  # ‖u‖ times that length
    white: _White
    followed: RowMartingales | None = None


class _RowCurvature(NamedTuple):
    weight: FloatArray  # ψ'', clipped as the score of a bounded residual is
    norms: FloatArray  # that times ‖z‖²
    kept: BoolArray  # whether the score is not clipped
    white: _White
    followed: RowMartingales | None = None


class Scores:
    """The scores of white rows at one θ."""

    def __init__(self, function: ScoreFunction, parts: Rows) -> None:
        self.function, self._parts = function, parts
        self.n_rows, self.d = function.n_rows, function.d

    def counts_above(self, thresholds: FloatArray) -> FloatArray:
        """Return how many norms of scores exceed each of m ascending thresholds, (1, m)."""
        return counts_above(self._parts, lambda block: block.derived.norms, thresholds)

    def shares_above(self, threshold: float, sizes: FloatArray) -> FloatArray:
        """Return the shares of rows whose score's norm over ``threshold`` exceeds each of the sizes (k,).

        A row with a cell that was moved to a public bound counts as larger than all sizes. A row leaves one
        of the bins between sizes and enters another: √2/n on the shares in bins.
        """

        def above(block: Block) -> FloatArray:
            relative = block.derived.norms / threshold
            if block.is_clipped is not None:
                relative = np.where(block.is_clipped, np.inf, relative)
            return np.stack([block.sum(relative > size) for size in sizes])

        return self._parts.mean(above)

    def clipped_mean(self, threshold: float) -> Bounded:
        """Return the mean of scores clipped to the norm ``threshold`` C, in the shape of θ.

        2C/n for the exchange of a row: opposite scores of norm C.
        """
        return ball_mean.of(self._clipped_mean(threshold), threshold, self.n_rows)

    def clipped_moments(self, threshold: float) -> Bounded:
        """Return the mean of g g' over C², g a score clipped to the norm ``threshold`` C, (d, d).

        A row contributes a matrix of Frobenius norm at most 1/n: √2/n for the exchange of a row.
        """
        return outer_product.of(self._clipped_moments(threshold) / threshold**2, 1.0, self.n_rows, self.d)

    def residual_moments(self, threshold: float) -> Bounded:
        """Return the means of (t, t²), t = residual/``threshold`` cut to [−1, 1], (2,): 2/n together."""
        return residual_sensitivity.of(self._residual_moments(threshold) / self.n_rows, self.n_rows)

    def far_rows(self, threshold: float) -> Bounded:
        """Return how many rows have |residual| max(1, ‖u‖/√d) > ``threshold``, or a moved cell, (1,).

        The exchange of a row moves it by 1. Rows of a person with bounded residuals have weights that sum to
        at most 1.
        """
        return count.of(np.array([self._far_rows(threshold)]))

    def curvature(self, threshold: float) -> "Curvatures":
        """Return each row's part of the curvature of the mean clipped score; not for classes."""
        family, lengths = self.function.family, self._lengths()
        row_length = self.function.row_length

        def second(block: Block) -> _RowCurvature:
            score = block.derived
            weight = self.function.means(block)
            if family.is_bounded:
                weight = weight * clip_factor(row_length * score.norms, threshold)
            is_unclipped = (lengths(block) <= threshold) | family.is_bounded
            norms = weight * (score.white.norms**2 + 1)
            return _RowCurvature(weight, norms, is_unclipped, score.white, score.followed)

        return Curvatures(self.function, self._parts.map(second))

    def _lengths(self) -> Vectors:
        """Return the lengths by which rows are clipped, (n,), of a block."""
        return lambda block: np.asarray(block.derived.norms)

    def _clipped_mean(self, threshold: float) -> FloatArray:
        def part(block: Block) -> FloatArray:
            score = block.derived
            clipped = score.residual.T * clip_factor(score.norms, threshold)
            return block.products(clipped, score.white.rows(block)).T

        return self._parts.mean(part)

    def _clipped_moments(self, threshold: float) -> FloatArray:
        def factors(block: Block) -> FloatArray:
            return np.asarray(block.derived.residual * clip_factor(block.derived.norms, threshold))

        if self._parts.sample.has_shared_units:
            scores = sums_of_units(
                self._parts,
                lambda block: (block.row_weights * factors(block), block.derived.white.rows(block)),
                self.d,
            )
            return np.asarray(scores.T @ scores) / self.n_rows

        def part(block: Block) -> FloatArray:
            weight = factors(block) * block.row_weights
            scores = block.derived.white.rows(block) * weight[:, None]
            return np.asarray(scores.T @ scores)

        return self._parts.mean(part)

    def _residual_moments(self, threshold: float) -> FloatArray:
        def part(block: Block) -> FloatArray:
            t = np.clip(block.derived.residual / threshold, -1, 1)
            return np.array([t.sum(), t @ t])

        return self._parts.sum(part)

    def _far_rows(self, threshold: float) -> float:
        root = np.sqrt(self.d)

        def part(block: Block) -> FloatArray:
            score = block.derived
            above: BoolArray = np.maximum(score.size, score.norms / root) > threshold
            if block.is_clipped is not None:
                above = above | block.is_clipped
            return block.sum(above)

        return float(self._parts.sum(part))


class UnitScores(Scores):
    """The scores of units, whose responses have no bound: weighted sums of the scores of rows, clipped.

    A unit counts like a row whose score and residual are those sums. If residuals are bounded, scores of rows
    are clipped instead, which keeps their mean 0: the weighted sum of clipped scores is not longer.
    """

    @cached_property
    def sums(self) -> FloatArray:
        """The score of each unit, (units, d)."""
        return self._sums_of(_score_weights)

    @cached_property
    def _residuals(self) -> FloatArray:
        """The residual of each unit, (units,)."""
        return self._of_units(lambda block: block.score_weights * _residuals(block))

    @cached_property
    def _norms(self) -> FloatArray:
        return row_lengths(self.sums)

    @cached_property
    def _is_moved(self) -> BoolArray:
        """Whether a unit has a row with a cell that was moved to a public bound, (units,)."""

        def moved(block: Block) -> FloatArray:
            return np.zeros(len(block.X)) if block.is_clipped is None else block.is_clipped.astype(float)

        return np.asarray(self._of_units(moved) > 0)

    def _sums_of(self, factors: Vectors, measure: str = "residual") -> FloatArray:
        """Return the sums over units of factors times white rows and a measure, (units, d)."""
        return sums_of_units(self._parts, self._vectors(factors, measure), self.d)

    def _vectors(self, factors: Vectors, measure: str = "residual") -> UnitVectors:
        """Return factors, and white rows times a measure, of a block."""
        values = _residuals if measure == "residual" else self.function.means
        of_time = self.function.time_columns @ self.function.whitening

        def parts(block: Block) -> tuple[FloatArray, FloatArray]:
            rows = block.derived.white.rows(block)
            if not len(of_time):
                return factors(block) * values(block), rows
            measured = values(block)[:, None] * rows
            measured += row_products(getattr(block.derived.followed, measure)[:, 1:], of_time)
            return factors(block), measured

        return parts

    def _of_units(self, values: Vectors) -> FloatArray:
        """Return the sums of rows' values over units, (units,)."""
        return sums_of_units(self._parts, lambda block: (values(block), np.ones((len(block.X), 1))), 1)[:, 0]

    def counts_above(self, thresholds: FloatArray) -> FloatArray:
        return _counts(self._norms, thresholds)

    def shares_above(self, threshold: float, sizes: FloatArray) -> FloatArray:
        relative = np.where(self._is_moved, np.inf, self._norms / threshold)
        return np.asarray(_counts(relative, sizes)[0] / self.n_rows)

    def _clipped(self, threshold: float) -> Iterable[FloatArray]:
        """Yield the clipped scores of units, (m, d), some units at a time."""
        yield self.sums * clip_factor(self._norms, threshold)[:, None]

    def _lengths(self) -> Vectors:
        norms = self._norms
        return lambda block: np.asarray(norms[block.units])

    def _clipped_mean(self, threshold: float) -> FloatArray:
        return np.asarray(sum(scores.sum(axis=0) for scores in self._clipped(threshold)) / self.n_rows)

    def _clipped_moments(self, threshold: float) -> FloatArray:
        return np.asarray(sum(scores.T @ scores for scores in self._clipped(threshold)) / self.n_rows)

    def _residual_moments(self, threshold: float) -> FloatArray:
        t = np.clip(self._residuals / threshold, -1, 1)
        return np.array([t.sum(), t @ t])

    def _far_rows(self, threshold: float) -> float:
        sizes = np.maximum(np.abs(self._residuals), self._norms / np.sqrt(self.d))
        return float(np.count_nonzero((sizes > threshold) | self._is_moved))


class SingleEventScores(UnitScores):
    """The scores of persons who have at most one event, as sums over their rows.

    Follow-up stops when a person's cumulative hazard reaches a limit c, as :class:`FollowUp` says. Therefore
    the sum has mean 0 at the true coefficients, however many persons have an event.

    In a group of periods, a row is shortened to C/max(c, 1) by a factor that depends on its covariates and
    the group alone. The mean of the sum stays 0. The sum is then clipped to C, which is rare. Therefore one
    person moves the sum of scores by at most 2C, whatever their rows.
    """

    def curvature(self, threshold: float) -> "Curvatures":
        def second(block: Block) -> _RowCurvature:
            score = block.derived
            weight = score.followed.information[:, 0]
            norms = weight * (score.white.norms**2 + 1)
            return _RowCurvature(weight, norms, np.ones(len(weight), dtype=bool), score.white, score.followed)

        return Curvatures(self.function, self._parts.map(self._shortened(threshold)).map(second))

    @cached_property
    def _norms(self) -> FloatArray:
        by_block = some_sums_of_units(self._parts, self._vectors(_score_weights), self.d)
        return np.concatenate([row_lengths(sums) for sums in by_block])

    def _clipped(self, threshold: float) -> Iterable[FloatArray]:
        shortened, vectors = self._shortened(threshold), self._vectors(_score_weights)

        def of_shortened(block: Block) -> tuple[FloatArray, FloatArray]:
            return vectors(replace(block, derived=shortened(block)))

        for sums in some_sums_of_units(self._parts, of_shortened, self.d):
            sums *= clip_factor(row_lengths(sums), threshold)[:, None]
            yield sums

    def _shortened(self, threshold: float) -> Callable[[Block], _RowScores]:
        """Return the scores of a block's rows as shortened in each group of periods."""

        def factors(lengths: FloatArray) -> FloatArray:
            return clip_factor(self.function.row_length * lengths, threshold)

        def shortened(block: Block) -> _RowScores:
            score: _RowScores = block.derived
            assert score.followed is not None
            return score._replace(followed=score.followed.shortened(partial(factors, score.white.lengths)))

        return shortened


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
        if self.function.limits is not None:
            return self.function.limits
        means = self.function.means

        def chance_of(block: Block) -> FloatArray:
            return np.asarray((block.score_weights * block.derived.white.norms) ** 2 * means(block))

        def longest(block: Block) -> FloatArray:
            return np.asarray(block.row_weights * block.score_weights * block.derived.white.norms**2)

        answer = self._sums_of(_score_weights, "information")
        chance = self._of_units(chance_of)
        spread = _FRAILTY * (answer**2).sum(axis=1) + chance
        return np.asarray(
            np.maximum(self.function.people_limit * np.sqrt(spread), np.sqrt(self._of_units(longest)))
        )

    def residual_moments(self, threshold: float) -> Bounded:
        """Return the means of (t, t², q), (3,): √5/n together.

        t is the residual over ``threshold`` cut to [−1, 1]. q is the variance of a Poisson residual, Σ w² μ,
        over its square, cut to 1.
        """

        means = self.function.means

        def chances(block: Block) -> FloatArray:
            return np.asarray(block.score_weights**2 * means(block))

        chance = np.minimum(self._of_units(chances) / threshold / threshold, 1).sum()
        sums = np.append(self._residual_moments(threshold), chance)
        return people_residual_sensitivity.of(sums / self.n_rows, self.n_rows)

    @property
    def _limited(self) -> FloatArray:
        """Lengths by which the common threshold is found, at least 0.6 t, (units,).

        If it were far below most t, scores would lose more curvature than noise.
        """
        return np.asarray(np.maximum(np.minimum(self._norms, self.limits), _LOWEST * self.limits))

    def counts_above(self, thresholds: FloatArray) -> FloatArray:
        return _counts(self._limited, thresholds)

    def shares_above(self, threshold: float, sizes: FloatArray) -> FloatArray:
        relative = np.where(self._is_moved, np.inf, self._limited / threshold)
        return np.asarray(_counts(relative, sizes)[0] / self.n_rows)

    def curvature(self, threshold: float) -> "Curvatures":
        means, part, is_unclipped = (
            self.function.means,
            clip_factor(self.limits, threshold),
            self._norms <= self.limits,
        )

        def second(block: Block) -> _RowCurvature:
            score, weight = block.derived, means(block) * part[block.units]
            norms = weight * (score.white.norms**2 + 1)
            return _RowCurvature(weight, norms, is_unclipped[block.units], score.white, score.followed)

        return Curvatures(self.function, self._parts.map(second))

    def _clipped(self, threshold: float) -> Iterable[FloatArray]:
        factor = clip_factor(self._norms, np.maximum(self.limits, _TINY))
        yield self.sums * (factor * clip_factor(self.limits, threshold))[:, None]


def _score_weights(block: Block) -> FloatArray:
    return block.score_weights


def _residuals(block: Block) -> FloatArray:
    score = block.derived
    return np.asarray(score.residual if score.followed is None else score.followed.residual[:, 0])


def _counts(lengths: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Return how many lengths of units exceed each threshold, (1, m)."""
    return np.array([[np.count_nonzero(lengths > threshold) for threshold in thresholds]], dtype=float)


class Curvatures:
    """The parts ψ'' z z', z = [u, 1], of the curvature: 0 where the score is clipped.

    A clipped score has derivative 0 in its residual. A part with a norm above the threshold of
    :meth:`clipped_mean` is shortened to it, whatever its residual. If rows are shares, the sum of a person's
    parts is shortened. Its Frobenius norm is at most the sum of the norms of parts.
    """

    def __init__(self, function: ScoreFunction, parts: Rows) -> None:
        self._parts, self._has_shares = parts, parts.sample.has_shares
        self._of_time = function.time_columns @ function.whitening

    @cached_property
    def _lengths(self) -> FloatArray:
        """The sums of the norms of persons' parts, (units,)."""

        def norms(block: Block) -> tuple[FloatArray, FloatArray]:
            squares = row_lengths(self._rows(block)) ** 2
            if block.derived.followed is not None:
                squares += block.derived.followed.spreads @ (self._of_time @ self._of_time.T).ravel()
            return self._weights(block, np.inf), squares[:, None]

        return sums_of_units(self._parts, norms, 1)[:, 0]

    def _rows(self, block: Block) -> FloatArray:
        """Return z, (n, d + 1), of rows that are followed over time the mean by information."""
        rows, followed = block.derived.white.rows(block), block.derived.followed
        if followed is not None:
            rows = rows + followed.means @ self._of_time
        return np.column_stack([rows, np.ones(len(rows))])

    def counts_above(self, thresholds: FloatArray) -> FloatArray:
        """Return how many rows, or persons, have a norm above each of m ascending thresholds, (1, m)."""
        if self._has_shares:
            return _counts(self._lengths, thresholds)
        return counts_above(self._parts, lambda block: block.derived.norms, thresholds)

    def _weights(self, block: Block, threshold: float) -> FloatArray:
        """Return the weights (n,) of z z' of a block, each clipped to a norm."""
        curvature = block.derived
        weights = curvature.weight * block.score_weights
        weights = weights * (curvature.kept | (curvature.norms > threshold))
        return np.asarray(
            weights * clip_factor(curvature.norms, threshold) if threshold < np.inf else weights
        )

    def clipped_mean(self, threshold: float) -> Bounded:
        """Return the mean of parts clipped to the norm ``threshold`` L, (d + 1, d + 1).

        A part is positive semidefinite and of Frobenius norm at most L: √2 L/n for the exchange of a row.
        """
        factors = clip_factor(self._lengths, threshold) if self._has_shares else None

        def part(block: Block) -> FloatArray:
            weights = self._weights(with_factors(block, factors), np.inf if self._has_shares else threshold)
            Z = self._rows(block) * np.sqrt(weights)[:, None]
            products = Z.T @ Z
            if block.derived.followed is not None:
                within = weights @ block.derived.followed.spreads
                products[:-1, :-1] += (
                    self._of_time.T @ within.reshape(2 * self._of_time.shape[:1]) @ self._of_time
                )
            return np.asarray(products)

        return curvature_sensitivity.of(self._parts.mean(part), threshold, self._parts.n)


@lemma("2/n")
def residual_sensitivity(n_rows: Number) -> FloatArray:
    """Return 2/n: (t, t²) and (s, s²), t and s in [−1, 1], are at most 2 apart.

    With a = |t − s| ≤ 2 and |t + s| ≤ 2 − a their squared distance is a² (1 + (t + s)²) ≤ a² (1 + (2 − a)²),
    at most 4, attained by t = 1 and s = −1.
    """
    return np.asarray(np.divide(2, n_rows))


@lemma("√5/n")
def people_residual_sensitivity(n_rows: Number) -> FloatArray:
    """Return √5/n: (t, t², q) with q in [0, 1]: 4 by the first two, 1 by the last; both are attained."""
    return np.asarray(np.divide(np.sqrt(5), n_rows))


@lemma("√2 L/n")
def curvature_sensitivity(threshold: Number, n_rows: Number) -> FloatArray:
    """Return √2 L/n: parts of Frobenius norm L each, positive semidefinite, of orthogonal z."""
    return np.asarray(np.sqrt(2) * np.divide(threshold, n_rows))
