"""Minimizing a risk with a ridge.

    F(β) = (1/n) Σ_i loss(x_i'β, y_i) + (κ/2) ‖β‖² + ⟨c, β⟩,   rows clipped to an ℓ2 norm

With few columns Hessians are formed. With many, they are only multiplied with, in the rows' own precision:
SciPy's conjugate gradients solve Newton's equations. Gradients are in double precision. Therefore the minimum
is exact. Both ways are deterministic. Objective perturbation requires that: the same rows give the same
minimum.
"""

from typing import TypedDict

import numpy as np
import scipy

from dpalgos.core.rows import Rows
from dpalgos.errors import InputError
from dpalgos.models.families import Family
from dpalgos.models.risk import Risk, Step, curvatures, minimize, newton_descent
from dpalgos.rows.products import clip_factor, row_lengths
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.typing import FloatArray

_FEW_COLUMNS = 200  # for which Hessians are formed
_LEFT = 0.03  # of a gradient, where Newton's equations are solved without a Hessian


class Penalties(TypedDict):
    """Terms of a risk other than its loss: the bound on row norms, a ridge (R,), a tilt (d, R)."""

    row_bound: float
    ridge: FloatArray
    tilt: FloatArray


def reached_minimum(
    family: Family,
    rows: Rows,
    penalties: Penalties,
    tolerance: FloatArray,
    *,
    n_iterations: int,
    step_size: float = 1.0,
) -> FloatArray:
    """Return where the gradient is at most ``tolerance`` (R,) long, or refuse: nothing is released then."""
    if rows.d <= _FEW_COLUMNS:
        risk = Risk(family, rows, **penalties)
        coef = minimize(risk, most_steps=n_iterations, step_size=step_size).coef
        gradient = risk.gradient(coef)
    else:
        wide = _WideRisk(family, rows.sample, **penalties)
        coef = _minimize_wide(wide, tolerance, most_steps=n_iterations, step_size=step_size)
        gradient = wide.gradient(coef)
    if not (np.linalg.norm(gradient, axis=0) <= tolerance).all():
        raise InputError(
            f"n_iterations must let the solver reach the public tolerance, got {n_iterations} with "
            f"step_size {step_size:g}, and nothing is released; raise n_iterations, with step_size=1.0"
        )
    return coef


class _WideRisk:
    """The risk of each replicate's rows in passes over them; for families without classes.

    Clipped rows are not stored: a factor shortens them.
    """

    def __init__(
        self, family: Family, sample: Sample, *, row_bound: float, ridge: FloatArray, tilt: FloatArray
    ) -> None:
        self._family, self._sample, self._y = family, sample, family.encode(sample.response())
        self._ridge, self._tilt, self.n_features = ridge, tilt, sample.n_features
        self._exact, self._quick = Design(sample), Design(sample, single=True)
        lengths = [row_lengths(block) for _, block in sample.rows.blocks()]
        self._shorter = clip_factor(np.concatenate(lengths), row_bound)[:, None]

    def loss(self, coef: FloatArray) -> FloatArray:
        """Return F, (R,)."""
        losses = self._family.loss(self._shorter * self._exact.predict(coef), self._y)
        if self._sample.row_mask is not None:
            losses = losses * self._sample.row_mask
        extra = self._ridge / 2 * (coef**2).sum(axis=0) + (self._tilt * coef).sum(axis=0)
        return np.asarray(losses.sum(axis=0) / self._sample.n_rows + extra)

    def gradient(self, coef: FloatArray) -> FloatArray:
        """Return the gradient of F with residuals clipped to the family's bound, (d, R)."""

        def residual(predictor: FloatArray, rows: slice) -> FloatArray:
            shorter = self._shorter[rows]
            return shorter * self._family.residual(shorter * predictor, self._y[rows])

        return self._exact.mean_score(coef, residual) + self._ridge * coef + self._tilt

    def newton_step(self, coef: FloatArray, gradient: FloatArray) -> FloatArray:
        """Return a solution of Newton's equations, (d, R)."""
        predictor = self._shorter * self._exact.predict(coef)
        second = curvatures(self._family, predictor, self._y) * self._shorter**2

        def product(flat: FloatArray) -> FloatArray:
            change = flat.reshape(coef.shape)
            curved = self._quick.mean_score(change, lambda u, rows: second[rows] * u)
            return np.ravel(curved + self._ridge * change)

        hessian = scipy.sparse.linalg.LinearOperator((coef.size, coef.size), matvec=product, dtype=float)
        return np.reshape(scipy.sparse.linalg.cg(hessian, gradient.ravel(), rtol=_LEFT)[0], coef.shape)


def _minimize_wide(
    risk: _WideRisk, tolerance: FloatArray, *, most_steps: int, step_size: float
) -> FloatArray:
    """Return the coefficients (d, R) at which Newton's method from zero ends.

    A replicate ends when its gradient is at most ``tolerance`` (R,) long, or after ``most_steps``. The caller
    checks.
    """

    def newton_step(coef: FloatArray) -> Step:
        gradient = risk.gradient(coef)
        active = np.linalg.norm(gradient, axis=0) > tolerance
        change = risk.newton_step(coef, gradient) if active.any() else gradient
        return Step(change, active, np.zeros_like(active))

    start = np.zeros((risk.n_features, len(tolerance)))
    return newton_descent(start, risk.loss, newton_step, most_steps=most_steps, step_size=step_size).coef
