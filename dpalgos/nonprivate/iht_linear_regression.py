"""Iterative hard thresholding, the non-private answer that private sparse regressions are compared with.

    β ← P_s( β + η (1/n) X'(y − Xβ) ),   from β = 0;  P_s keeps the s entries of largest magnitude

``step_size`` given: exactly ``n_iterations`` plain steps, as the papers print it. None: η minimizes the loss
along the gradient on the current support (at the start: on the s largest entries of the gradient); if the
support changes, η is cut until η ‖X Δ‖² ≤ .99 n ‖Δ‖² for the step Δ, so that the loss never rises. It stops
at a fixed point, which is least squares on its own support.

Reference: Blumensath & Davies (2010), Normalized iterative hard thresholding. Cai, Wang & Zhang, Cost of
privacy in generalized linear models, Algorithm 2.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.catalog import register
from dpalgos.nonprivate.sparse_sample_mean import hard_threshold
from dpalgos.params import Params, count, positive
from dpalgos.release.checks import check_how_many
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.typing import BoolArray, FloatArray

_STILL = 1e-12  # a step this much shorter than the coefficients is none
_SAFE = 0.99


@dataclass(frozen=True, kw_only=True)
class IHTLinearRegressionParams(Params):
    """Keywords of :func:`iht_linear_regression`."""

    sparsity: int = count("s, number of non-zero coefficients")
    n_iterations: int = count("the most iterations (exactly so many with a given step_size)", default=200)
    step_size: float | None = positive(
        "η; None: the best along the gradient on the support, with a guard", default=None
    )


@register(
    title="Iterative hard thresholding",
    order=9,
    task="linear_regression",
    relation=None,
    reference="Blumensath & Davies (2010), the non-private answer to sparse problems",
    summary="Gradient steps that keep the largest coefficients only, without privacy.",
    example={"sparsity": 2},
)
def iht_linear_regression(
    sample: Sample, params: IHTLinearRegressionParams, transcript: Transcript
) -> FloatArray:
    """Return the sparse coefficients, (d, R)."""
    sparsity = check_how_many("sparsity", params.sparsity, sample.n_features)
    # Steps that end where nothing moves any more need double precision.
    design = Design(sample, single=params.step_size is not None)
    y = sample.response()[:, None]
    gradient_at = design.negative_gradient(y)
    coef: FloatArray = np.zeros((sample.n_features, sample.n_replicates))
    moving: BoolArray = np.ones(sample.n_replicates, dtype=bool)
    for _ in range(params.n_iterations):
        gradient = gradient_at(coef)
        if params.step_size is not None:
            coef = hard_threshold(coef + params.step_size * gradient, sparsity)
            continue
        step = np.where(moving, _best_along_support(design, coef, gradient, sparsity), 0.0)
        stepped = _guarded_step(design, coef, gradient, step, sparsity)
        change = np.linalg.norm(stepped - coef, axis=0)
        coef = np.where(moving, stepped, coef)
        moving &= change > _STILL * np.linalg.norm(coef, axis=0)
        if not moving.any():
            break
    return coef


def _best_along_support(design: Design, coef: FloatArray, gradient: FloatArray, sparsity: int) -> FloatArray:
    """Return the η that minimizes the loss along the gradient on the support, (R,)."""
    largest = hard_threshold(gradient, sparsity)
    direction = np.where(coef.any(axis=0), gradient * (coef != 0), largest)
    curvature = design.mean_square(design.predict(direction))
    slope = (direction**2).sum(axis=0)
    return np.asarray(np.divide(slope, curvature, out=np.zeros_like(slope), where=curvature > 0))


def _guarded_step(
    design: Design, coef: FloatArray, gradient: FloatArray, step: FloatArray, sparsity: int
) -> FloatArray:
    """Return the step, cut in half where it changes the support and the loss could rise."""
    while True:
        stepped = hard_threshold(coef + step * gradient, sparsity)
        change = stepped - coef
        unsafe = ((stepped != 0) != (coef != 0)).any(axis=0) & coef.any(axis=0)
        if unsafe.any():
            unsafe &= step * design.mean_square(design.predict(change)) > _SAFE * (change**2).sum(axis=0)
        if not unsafe.any():
            return stepped
        step = np.where(unsafe, step / 2, step)
