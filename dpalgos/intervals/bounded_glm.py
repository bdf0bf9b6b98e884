"""Intervals of generalized linear models whose rows and residuals are bounded by public constants.

    a row's curvature   w x x',  w = ψ''(x'θ) cut at a public cap K, 0 where the residual is clipped
    a row's score       r x,     r = ψ'(x'θ) − y to ± R

with rows clipped to c_x, hence of norms at most K c_x² and R c_x; what is released of them, and the step that
uses it, is in :mod:`dpalgos.intervals.newton`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpalgos.catalog import Neighbors
from dpalgos.errors import InputError
from dpalgos.intervals.half_widths import SCORE_MOMENTS
from dpalgos.intervals.newton import CURVATURE
from dpalgos.intervals.tails import LEVELS, TAIL, counts_by_level
from dpalgos.models.families import Family
from dpalgos.rows.sample import Group, Sample
from dpalgos.steps.clipping import clip_rows_l2
from dpalgos.steps.moments import weighted_moments
from dpalgos.typing import FloatArray


def check_has_interval(family: Family, interval: float | None) -> None:
    """Refuse intervals of coefficients of classes."""
    if interval is not None and family.needs_classes:
        raise InputError(
            f"interval must be None for family={family.name!r}, got {interval!r}: its coefficients are known "
            "up to a common vector"
        )


def curvature_cap(family: Family) -> float:
    """Return K: the bound on ψ'', or where there is none the largest residual, at least 1."""
    return float(min(family.curvature_bound, max(family.residual_bound, 1.0)))


@dataclass(frozen=True, eq=False)
class BoundedGLM:
    """Rows of a generalized linear model with bounded curvatures and scores."""

    sample: Sample
    family: Family
    row_bound: float

    @property
    def n_units(self) -> FloatArray:
        """Numbers of rows, (R,)."""
        return self.sample.n_rows

    @property
    def curvature_bound(self) -> float:
        """K c_x²."""
        return curvature_cap(self.family) * self.row_bound**2

    @property
    def score_bound(self) -> float:
        """R c_x."""
        return self.family.residual_bound * self.row_bound

    @property
    def bend(self) -> float:
        """Return ψ''(0), or 0 for Gaussian responses."""
        family = self.family
        if np.isfinite(family.curvature_bound) and not np.isfinite(family.derivative_bound):
            return 0.0
        return float(family.second_derivative(np.zeros((1, 1)))[0, 0])

    def mean_curvature(self, coef: FloatArray) -> FloatArray:
        """Return the mean of w x x' at coefficients (d, R), (R, d, d)."""
        family, cap = self.family, curvature_cap(self.family)

        def weights(u: FloatArray, y: FloatArray) -> FloatArray:
            inside = ~_residual_clipped(family, u, y)
            return np.asarray(np.minimum(family.second_derivative(u), cap) * inside)

        return self._mean_products(coef, weights)

    def score_moments(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean of r² x x', (R, d, d), and shares of rows above each size, (6, R).

        A row's size is the largest of its norm, its residual and its curvature, each over its bound.
        """
        sample, family = self.sample, self.family
        moments = self._mean_products(coef, lambda u, y: np.asarray(family.residual(u, y) ** 2))
        row_bound = self.row_bound

        def above(group: Group, y: FloatArray) -> FloatArray:
            u = clip_rows_l2(group.X, row_bound) @ coef[:, group.replicates]
            size = np.maximum(np.linalg.norm(group.X, axis=1)[:, None] / row_bound, 0 * u)
            if family.needs_response_bound:
                size = np.maximum(size, np.abs(family.mean(u) - y) / family.residual_bound)
                size = np.maximum(size, family.second_derivative(u) / curvature_cap(family))
            return counts_by_level(sample, group, size)

        shape = len(LEVELS), sample.n_replicates
        encoded = sample.grouped(lambda group: family.encode(group.y))
        return moments, encoded.total(shape, above) / sample.n_rows

    def _mean_products(
        self, coef: FloatArray, weights: Callable[[FloatArray, FloatArray], FloatArray]
    ) -> FloatArray:
        """Return the mean of x x' times weights of predictors and responses, (R, d, d); rows are clipped."""
        sample, family, row_bound = self.sample, self.family, self.row_bound

        def part(group: Group, y: FloatArray) -> FloatArray:
            X = clip_rows_l2(group.X, row_bound)
            made = weights(X @ coef[:, group.replicates], y) * group.weights
            return weighted_moments(X, made)

        shape = sample.n_replicates, sample.n_features, sample.n_features
        moments = sample.grouped(lambda group: family.encode(group.y)).total(shape, part, axis=0)
        return np.asarray(moments / sample.n_rows[:, None, None])


def step_witnesses(family: Family, row_bound: float, theta: FloatArray) -> dict[str, Neighbors]:
    """Return rows along different axes, with responses as predicted at θ (d, 1) or far beyond the clip."""
    axes, zero = row_bound * np.eye(len(theta)), np.zeros(1)
    predicted = [np.floor(family.mean(axes[[j]] @ theta))[:, 0] for j in (0, -1)]
    far = np.full(1, np.ceil(10 * family.residual_bound) + 10 if family.needs_response_bound else 0.0)
    return {
        CURVATURE: (axes[:1], predicted[0], axes[-1:], predicted[1]),
        SCORE_MOMENTS: (axes[:1], far, axes[-1:], far),
        TAIL: (3 * axes[:1], far, 0 * axes[:1], zero),
    }


def _residual_clipped(family: Family, u: FloatArray, y: FloatArray) -> np.ndarray:
    if not family.needs_response_bound:
        return np.zeros(np.broadcast_shapes(u.shape, y.shape), dtype=bool)
    return np.asarray(np.abs(family.mean(u) - y) > family.residual_bound)
