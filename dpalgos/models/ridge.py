"""Minimizing a risk with a ridge where columns are many: Newton's method by matrix–vector products.

    F(β) = (1/n) Σ_i loss(x_i'β, y_i) + (κ/2) ‖β‖² + ⟨c, β⟩,   rows clipped to an ℓ2 norm

Newton's equations are solved by conjugate gradients, for all replicates at once. Their tolerance follows the
distance from the minimum. A step is halved until the risk falls. Clipped rows are never stored: the factor
that multiplies a row is reduced instead. Predictors are updated with a step; halving then needs no pass over
the rows. Hessians only determine the direction of a step, and are multiplied in the rows' own precision.
Predictors and gradients are in double precision. Therefore the minimum is exact. The method is deterministic:
the same rows give the same minimum, as objective perturbation requires.
"""

from collections.abc import Callable
from typing import TypedDict

import numpy as np

from dpalgos.errors import InputError
from dpalgos.models.families import Family
from dpalgos.models.risk import Risk, Step, minimize, newton_descent
from dpalgos.rows.clipping import clip_factor
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.typing import BoolArray, FloatArray

_MOST_PRODUCTS = 1000
_LOOSEST, _TIGHTEST = 0.1, 1e-4  # how far Newton's equations are solved; the latter is safe in float32
_FEW_COLUMNS = 200  # for which Hessians are formed; otherwise they are only multiplied with


class RidgeRisk:
    """The risk of each replicate's rows plus a ridge κ > 0 and a tilt c, for families without classes.

    Rows are clipped to the ℓ2 norm ``row_bound``, residuals to the family's public bound; labels outside the
    family are refused.
    """

    def __init__(
        self, family: Family, sample: Sample, *, row_bound: float, ridge: FloatArray, tilt: FloatArray
    ) -> None:
        self._family, self._sample, self._y = family, sample, family.encode(sample.response())
        self._ridge, self._tilt = ridge, tilt
        self._exact, self._quick = Design(sample), Design(sample, single=True)
        norms = np.empty((len(self._y), 1))
        for rows, block in sample.rows.blocks():
            norms[rows, 0] = np.sqrt(np.einsum("ij,ij->i", block, block, dtype=float))
        self._shortened = clip_factor(norms, row_bound)
        self.n_rows, self.n_features = len(self._y), sample.n_features

    def predictor(self, coef: FloatArray) -> FloatArray:
        """Return x'β of the clipped rows, (n, R)."""
        return self._shortened * self._exact.predict(coef)

    def loss(self, coef: FloatArray, predictor: FloatArray) -> FloatArray:
        """Return F, (R,), where the predictor of ``coef`` is known."""
        losses = self._family.loss(predictor, self._y)
        if self._sample.row_mask is not None:
            losses *= self._sample.row_mask
        extra = self._ridge / 2 * (coef**2).sum(axis=0) + (self._tilt * coef).sum(axis=0)
        return np.asarray(losses.sum(axis=0) / self._sample.n_rows + extra)

    def gradient(self, coef: FloatArray, predictor: FloatArray) -> FloatArray:
        """Return the gradient of F with residuals clipped to the family's bound, (d, R)."""
        residual = self._shortened * self._family.residual(predictor, self._y)
        return self._exact.mean_product(residual) + self._ridge * coef + self._tilt

    def curvature_product(self, predictor: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Return V → Hessian of F at a predictor times V, (d, R); to the rows' own precision."""
        clipped = np.abs(self._family.residual(predictor, self._y)) >= self._family.residual_bound
        second = np.where(clipped, 0.0, self._family.second_derivative(predictor)) * self._shortened**2

        def product(direction: FloatArray) -> FloatArray:
            curved = self._quick.mean_score(direction, lambda u, rows: second[rows] * u)
            return curved + self._ridge * direction

        return product


class Penalties(TypedDict):
    """Terms of a risk other than its loss: the bound on row norms, a ridge (R,), a tilt (d, R)."""

    row_bound: float
    ridge: FloatArray
    tilt: FloatArray


def reached_minimum(
    family: Family,
    sample: Sample,
    penalties: Penalties,
    tolerance: FloatArray,
    *,
    n_iterations: int,
    step_size: float = 1.0,
) -> FloatArray:
    """Return where the gradient is at most ``tolerance`` (R,) long, or refuse: nothing is released then."""
    coef: FloatArray
    if sample.n_features <= _FEW_COLUMNS:
        risk = Risk(family, sample, **penalties)
        coef = minimize(risk, most_steps=n_iterations, step_size=step_size).coef
        gradient = risk.gradient(coef)
    else:
        wide = RidgeRisk(family, sample, **penalties)
        coef, gradient = minimize_by_products(wide, tolerance, most_steps=n_iterations, step_size=step_size)
    if not (np.linalg.norm(gradient, axis=0) <= tolerance).all():
        raise InputError(
            f"n_iterations must let the solver reach the public tolerance, got {n_iterations} with "
            f"step_size {step_size:g}, and nothing is released; raise n_iterations, with step_size=1.0"
        )
    return coef


def minimize_by_products(
    risk: RidgeRisk, tolerance: FloatArray, *, most_steps: int, step_size: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Return the coefficients (d, R) at which Newton's method from zero ends, and the gradient there.

    A replicate is done if the norm of the gradient is at most ``tolerance`` (R,). The caller checks the
    gradient after ``most_steps`` steps. An iterate holds coefficients and the predictors (n, R) below them.
    """
    first: list[FloatArray] = []

    def newton_step(iterate: FloatArray) -> Step:
        coef, predictor = iterate[: risk.n_features], iterate[risk.n_features :]
        gradient = risk.gradient(coef, predictor)
        norm = np.linalg.norm(gradient, axis=0)
        first.append(norm)
        precision = np.clip(np.sqrt(norm / np.maximum(first[0], norm)), _TIGHTEST, _LOOSEST)
        product, active = risk.curvature_product(predictor), norm > tolerance
        change = conjugate_gradients(product, gradient, precision * norm, active)
        along = np.concatenate([change, risk.predictor(change)]) if active.any() else iterate
        return Step(along, active, np.zeros_like(active))

    def loss(iterate: FloatArray) -> FloatArray:
        return risk.loss(iterate[: risk.n_features], iterate[risk.n_features :])

    start = np.zeros((risk.n_features + risk.n_rows, len(tolerance)))
    end = newton_descent(start, loss, newton_step, most_steps=most_steps, step_size=step_size).coef
    coef, predictor = end[: risk.n_features], end[risk.n_features :]
    return coef, risk.gradient(coef, predictor)


def conjugate_gradients(
    product: Callable[[FloatArray], FloatArray],
    target: FloatArray,
    tolerance: FloatArray,
    active: BoolArray,
) -> FloatArray:
    """Return V (d, R) with ‖product(V) − target‖ ≤ tolerance (R,) for positive definite products.

    Replicates that are not ``active`` stay zero.
    """
    solution, residual = np.zeros_like(target), target.copy()
    direction, squared = residual.copy(), (residual**2).sum(axis=0)
    for _ in range(_MOST_PRODUCTS):
        active = active & (np.sqrt(squared) > tolerance)
        if not active.any():
            break
        curved = product(direction)
        length = (direction * curved).sum(axis=0)
        along = np.where(active, squared / np.where(length > 0, length, np.inf), 0.0)
        solution += along * direction
        residual -= along * curved
        before, squared = squared, np.where(active, (residual**2).sum(axis=0), squared)
        direction = np.where(active, residual + squared / np.where(before > 0, before, 1.0) * direction, 0.0)
    return solution
