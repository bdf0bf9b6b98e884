"""Minimizing a risk with a ridge.

    F(β) = (1/n) Σ_i loss(x_i'β, y_i) + (κ/2) ‖β‖² + ⟨c, β⟩,   rows clipped to an ℓ2 norm

With few columns Hessians are formed. With many, SciPy's L-BFGS-B minimizes the sum of all replicates' risks,
which no solver by values can do beyond the rounding of F. From there its Newton–Krylov method solves ∇F = 0.
Both are deterministic: the same rows give the same minimum, as objective perturbation requires.
"""

from typing import Any, TypedDict

import numpy as np
import scipy

from dpalgos.errors import InputError
from dpalgos.models.families import Family
from dpalgos.models.risk import Risk, minimize
from dpalgos.rows.clipping import clip_factor
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.typing import FloatArray

_FEW_COLUMNS = 200  # for which Hessians are formed
_STEPS_EACH = 20  # steps of L-BFGS for each one of Newton's
_MEMORY = 30  # pairs of steps and gradients that L-BFGS keeps


class RidgeRisk:
    """The risk of each replicate's rows plus a ridge κ > 0 and a tilt c, for families without classes.

    Rows are clipped to the ℓ2 norm ``row_bound``, residuals to the family's public bound; labels outside the
    family are refused. Clipped rows are never stored.
    """

    def __init__(
        self, family: Family, sample: Sample, *, row_bound: float, ridge: FloatArray, tilt: FloatArray
    ) -> None:
        self._family, self._sample, self._y = family, sample, family.encode(sample.response())
        self._ridge, self._tilt, self._design = ridge, tilt, Design(sample)
        norms = np.empty((len(self._y), 1))
        for rows, block in sample.rows.blocks():
            norms[rows, 0] = np.sqrt(np.einsum("ij,ij->i", block, block, dtype=float))
        self._shortened = clip_factor(norms, row_bound)

    def value_and_gradient(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return F (R,), and its gradient (d, R) with residuals clipped to the family's bound."""
        predictor = self._shortened * self._design.predict(coef)
        losses = self._family.loss(predictor, self._y)
        if self._sample.row_mask is not None:
            losses *= self._sample.row_mask
        extra = self._ridge / 2 * (coef**2).sum(axis=0) + (self._tilt * coef).sum(axis=0)
        residual = self._shortened * self._family.residual(predictor, self._y)
        gradient = self._design.mean_product(residual) + self._ridge * coef + self._tilt
        return np.asarray(losses.sum(axis=0) / self._sample.n_rows + extra), gradient


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
        coef, gradient = minimize_wide(wide, penalties["tilt"].shape, tolerance, most_steps=n_iterations)
    if not (np.linalg.norm(gradient, axis=0) <= tolerance).all():
        raise InputError(
            f"n_iterations must let the solver reach the public tolerance, got {n_iterations} with "
            f"step_size {step_size:g}, and nothing is released; raise n_iterations, with step_size=1.0"
        )
    return coef


def minimize_wide(
    risk: RidgeRisk, shape: tuple[int, ...], tolerance: FloatArray, *, most_steps: int
) -> tuple[FloatArray, FloatArray]:
    """Return the coefficients (d, R) at which the solvers end, and the gradient there.

    They end when the gradient is at most ``tolerance`` (R,) long, or after ``most_steps``. The caller checks.
    """
    unit, start = float(tolerance.min()), np.zeros(int(np.prod(shape)))
    largest = 1 / np.sqrt(shape[0])  # entry of a gradient of norm 1

    def value(flat: FloatArray) -> tuple[float, FloatArray]:
        values, gradient = risk.value_and_gradient(flat.reshape(shape))
        return float(values.sum()) / unit, gradient.ravel() / unit

    most = _STEPS_EACH * most_steps
    options: Any = {"ftol": 0, "gtol": largest, "maxcor": _MEMORY, "maxiter": most, "maxfun": 2 * most}
    end: Any = scipy.optimize.minimize(value, start, jac=True, method="L-BFGS-B", options=options).x
    if np.abs(value(end)[1]).max() > largest:
        gradient: Any = lambda flat: value(flat)[1]  # noqa: E731
        try:
            end = scipy.optimize.newton_krylov(gradient, end, f_tol=largest, maxiter=most_steps)
        except scipy.optimize.NoConvergence as error:
            end = error.args[0]
    coef = end.reshape(shape)
    return coef, risk.value_and_gradient(coef)[1]
