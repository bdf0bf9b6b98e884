"""Units whose curvatures and scores are bounded by public constants: what a Newton step with intervals needs.

    linear regression           a row's curvature   x x'
                                a row's score       x (y − x'β), clipped to norm c_x R whatever β is
    generalized linear models   a row's curvature   w x x',  w = ψ''(x'θ) cut at a public cap K, 0 where the
                                                    residual is clipped
                                a row's score       r x,  r = ψ'(x'θ) − y to ± R

Rows are clipped to ℓ2 norm c_x. What is released of them, and the step that uses it, is in
:mod:`dpalgos.intervals.newton`. The size of a row is the largest of its norm over c_x, its response or
residual over R, and the norm of its score, or its curvature, over the bound of that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpalgos.catalog import Witnesses, pair
from dpalgos.errors import InputError
from dpalgos.intervals.half_widths import CURVATURE, SCORE_MOMENTS
from dpalgos.intervals.tails import LEVELS, TAIL, counts_by_level
from dpalgos.models.families import Family
from dpalgos.rows.sample import Group, Sample
from dpalgos.steps.clipping import clip_factor, clip_rows_l2
from dpalgos.steps.moments import from_upper_triangles, row_moments, weighted_moments
from dpalgos.typing import BoolArray, FloatArray


class BoundedScores(Protocol):
    """Units with bounded curvatures and scores.

    Attributes
    ----------
    n_units : (R,) array
    curvature_bound : float
        L: of the Frobenius norm of a unit's curvature, which is positive semidefinite.
    score_bound : float
        C: of the ℓ2 norm of a unit's score.
    bend : float
        ψ'' at 0, by which the change of curvature over a step is judged; 0 where it is constant.
    row_bound : float
        c_x, to which rows are clipped; 0 where they are not, but scores.
    """

    @property
    def n_units(self) -> FloatArray: ...
    @property
    def curvature_bound(self) -> float: ...
    @property
    def score_bound(self) -> float: ...
    @property
    def bend(self) -> float: ...
    @property
    def row_bound(self) -> float: ...

    def mean_curvature(self, coef: FloatArray) -> FloatArray:
        """Return the mean of the units' curvatures, (R, d, d)."""
        ...

    def score_moments(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return second moments of the units' scores, (R, d, d), and shares of units above sizes, (6, R)."""
        ...


@dataclass(frozen=True, eq=False)
class BoundedRegression:
    """Rows of a linear regression, clipped to ``row_bound`` c_x, with responses clipped to ±R."""

    sample: Sample
    row_bound: float
    response_bound: float
    bend = 0.0

    @property
    def n_units(self) -> FloatArray:
        return self.sample.n_rows

    @property
    def curvature_bound(self) -> float:
        return self.row_bound**2

    @property
    def score_bound(self) -> float:
        return self.row_bound * self.response_bound

    def mean_curvature(self, coef: FloatArray) -> FloatArray:
        """Return X'X/n, the same everywhere."""
        d, n = len(coef), self.n_units[:, None, None]
        return row_moments(self.sample, self.row_bound, self.response_bound)[:, :d, :d] / n

    def score_moments(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean of s s' over clipped scores s, (R, d, d), and shares of rows by size, (6, R)."""
        sample, d, bound = self.sample, self.sample.n_features, self.score_bound
        first, second = np.triu_indices(d)

        def part(group: Group, X: FloatArray) -> FloatArray:
            residual = group.y[:, None] - X @ coef[:, group.replicates]
            norms = np.abs(residual) * np.linalg.norm(X, axis=1)[:, None]
            row = np.maximum(
                np.linalg.norm(group.X, axis=1) / self.row_bound, np.abs(group.y) / self.response_bound
            )
            sizes = np.maximum(norms / bound, row[:, None])
            weights = (residual * clip_factor(norms, bound)) ** 2 * group.weights
            packed = (weights.T @ (X[:, first] * X[:, second])).T
            return np.concatenate([packed, counts_by_level(sample, group, sizes)])

        clipped = sample.grouped(lambda group: clip_rows_l2(group.X, self.row_bound))
        total = clipped.total((len(first) + len(LEVELS), sample.n_replicates), part)
        packed, above = np.split(total, [len(first)])
        return from_upper_triangles(packed.T, d) / sample.n_rows[:, None, None], above / sample.n_rows


def regression_witnesses(row_bound: float, d: int) -> Witnesses:
    """Return rows along different axes with far responses, clipped whatever β is, and one against no row."""
    axes, far = row_bound * np.eye(d), 1e9
    return {SCORE_MOMENTS: pair(axes[0], axes[-1], far), TAIL: pair(axes[0], 0 * axes[0], far, 0.0)}


@dataclass(frozen=True, eq=False)
class BoundedGLM:
    """Rows of a generalized linear model, clipped to ``row_bound`` c_x, with residuals clipped to ±R."""

    sample: Sample
    family: Family
    row_bound: float

    @property
    def n_units(self) -> FloatArray:
        return self.sample.n_rows

    @property
    def curvature_cap(self) -> float:
        """K: the bound on ψ'', or where there is none the largest residual, at least 1."""
        return float(min(self.family.curvature_bound, max(self.family.residual_bound, 1.0)))

    @property
    def curvature_bound(self) -> float:
        return self.curvature_cap * self.row_bound**2

    @property
    def score_bound(self) -> float:
        return self.family.residual_bound * self.row_bound

    @property
    def bend(self) -> float:
        return 0.0 if self.family.is_linear else float(self.family.second_derivative(np.zeros((1, 1)))[0, 0])

    def mean_curvature(self, coef: FloatArray) -> FloatArray:
        """Return the mean of w x x' at coefficients (d, R), (R, d, d)."""

        def weights(u: FloatArray, y: FloatArray) -> FloatArray:
            inside = ~_residual_clipped(self.family, u, y)
            return np.asarray(np.minimum(self.family.second_derivative(u), self.curvature_cap) * inside)

        return self._mean_products(coef, weights)

    def score_moments(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean of r² x x', (R, d, d), and shares of rows above each size, (6, R)."""
        sample, family = self.sample, self.family
        moments = self._mean_products(coef, lambda u, y: np.asarray(family.residual(u, y) ** 2))

        def above(group: Group, y: FloatArray) -> FloatArray:
            u = clip_rows_l2(group.X, self.row_bound) @ coef[:, group.replicates]
            size = np.maximum(np.linalg.norm(group.X, axis=1)[:, None] / self.row_bound, 0 * u)
            if family.needs_response_bound:
                size = np.maximum(size, np.abs(family.mean(u) - y) / family.residual_bound)
                size = np.maximum(size, family.second_derivative(u) / self.curvature_cap)
            return counts_by_level(sample, group, size)

        shape = len(LEVELS), sample.n_replicates
        encoded = sample.grouped(lambda group: family.encode(group.y))
        return moments, encoded.total(shape, above) / sample.n_rows

    def _mean_products(
        self, coef: FloatArray, weights: Callable[[FloatArray, FloatArray], FloatArray]
    ) -> FloatArray:
        """Return the mean of x x' times weights of predictors and responses, (R, d, d); rows are clipped."""
        sample, family = self.sample, self.family

        def part(group: Group, y: FloatArray) -> FloatArray:
            X = clip_rows_l2(group.X, self.row_bound)
            return weighted_moments(X, weights(X @ coef[:, group.replicates], y) * group.weights)

        shape = sample.n_replicates, sample.n_features, sample.n_features
        moments = sample.grouped(lambda group: family.encode(group.y)).total(shape, part, axis=0)
        return np.asarray(moments / sample.n_rows[:, None, None])


def glm_witnesses(family: Family, row_bound: float, theta: FloatArray) -> Witnesses:
    """Return rows along different axes, with responses as predicted at θ (d, 1) or far beyond the clip."""
    axes = row_bound * np.eye(len(theta))
    predicted = [float(np.floor(family.mean(axes[[j]] @ theta))[0, 0]) for j in (0, -1)]
    far = float(np.ceil(10 * family.residual_bound) + 10) if family.needs_response_bound else 0.0
    return {
        CURVATURE: pair(axes[0], axes[-1], *predicted),
        SCORE_MOMENTS: pair(axes[0], axes[-1], far),
        TAIL: pair(3 * axes[0], 0 * axes[0], far, 0.0),
    }


def check_has_interval(family: Family, interval: float | None) -> None:
    """Refuse intervals of coefficients of classes."""
    if interval is not None and family.needs_classes:
        raise InputError(
            f"interval must be None for family={family.name!r}, got {interval!r}: its coefficients are known "
            "up to a common vector"
        )


def _residual_clipped(family: Family, u: FloatArray, y: FloatArray) -> BoolArray:
    if not family.needs_response_bound:
        return np.zeros(np.broadcast_shapes(u.shape, y.shape), dtype=bool)
    return np.asarray(np.abs(family.mean(u) - y) > family.residual_bound)
