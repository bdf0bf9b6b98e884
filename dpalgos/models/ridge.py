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
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

_FEW_COLUMNS = 200  # for which Hessians are formed
_STEPS_EACH = 20  # steps of L-BFGS for each one of Newton's
_MEMORY = 30  # pairs of steps and gradients that L-BFGS keeps


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
    risk = Risk(family, sample, **penalties)
    if sample.n_features <= _FEW_COLUMNS:
        coef = minimize(risk, most_steps=n_iterations, step_size=step_size).coef
    else:
        coef = _minimize_wide(risk, tolerance, most_steps=n_iterations)
    if not (np.linalg.norm(risk.gradient(coef), axis=0) <= tolerance).all():
        raise InputError(
            f"n_iterations must let the solver reach the public tolerance, got {n_iterations} with "
            f"step_size {step_size:g}, and nothing is released; raise n_iterations, with step_size=1.0"
        )
    return coef


def _minimize_wide(risk: Risk, tolerance: FloatArray, *, most_steps: int) -> FloatArray:
    """Return the coefficients (d, R) at which the solvers end.

    They end when the gradient is at most ``tolerance`` (R,) long, or after ``most_steps``. The caller checks.
    """
    unit, start = float(tolerance.min()), np.zeros(int(np.prod(risk.shape)))
    largest = 1 / np.sqrt(risk.shape[0])  # entry of a gradient of norm 1

    def value(flat: FloatArray) -> float:
        return float(risk.loss(flat.reshape(risk.shape)).sum()) / unit

    def gradient(flat: FloatArray) -> Any:  # by SciPy's types, of one number
        return risk.gradient(flat.reshape(risk.shape)).ravel() / unit

    most = _STEPS_EACH * most_steps
    options: Any = {"ftol": 0, "gtol": largest, "maxcor": _MEMORY, "maxiter": most, "maxfun": 2 * most}
    end: Any = scipy.optimize.minimize(value, start, jac=gradient, method="L-BFGS-B", options=options).x
    if np.abs(gradient(end)).max() > largest:
        try:
            end = scipy.optimize.newton_krylov(gradient, end, f_tol=largest, maxiter=most_steps)
        except scipy.optimize.NoConvergence as error:
            end = error.args[0]
    return np.asarray(end.reshape(risk.shape))
