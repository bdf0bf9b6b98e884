"""Iterative hard thresholding for generalized linear models (paper B, Algorithm 2), without privacy.

    β ← P_s( β − η (1/n) Σ_i (ψ'(x_i'β) − y_i) x_i ),   from β = 0;  P_s keeps the s largest entries

With classes, P_s keeps the s columns of X whose coefficients have the largest norm over classes.

``step_size`` given: exactly ``n_iterations`` plain steps, as the paper prints it. None: η is cut in half
until ⟨∇F(β + Δ) − ∇F(β), Δ⟩ ≤ .99 ‖Δ‖² / (2η) for the step Δ, by which a convex risk falls at every step,
and grows a little before the next step, until nothing moves any more.

Reference: Cai, Wang & Zhang, Cost of privacy in generalized linear models, Algorithm 2.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.catalog import register
from dpalgos.models.risk import Risk, wide_gradient
from dpalgos.nonprivate.glm import LikelihoodParams
from dpalgos.nonprivate.sparse_sample_mean import hard_threshold
from dpalgos.params import count, positive
from dpalgos.release.checks import check_how_many
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.typing import BoolArray, FloatArray

_STILL = 1e-10  # a step this much shorter than the coefficients is none
_SAFE = 0.99
_MOST_HALVINGS = 100
_GROWTH = 1.2


@dataclass(frozen=True, kw_only=True)
class IHTGLMParams(LikelihoodParams):
    """Keywords of :func:`iht_glm`."""

    sparsity: int = count("s, number of columns of X with coefficients other than zero")
    n_iterations: int = count("the most iterations (exactly so many with a given step_size)", default=200)
    step_size: float | None = positive("η; None: as large as lets the risk fall at every step", default=None)


@register(
    title="Iterative hard thresholding",
    order=17,
    task="glm",
    relation=None,
    reference="Cai, Wang & Zhang, Cost of privacy in generalized linear models, Algorithm 2",
    summary="Gradient steps that keep the largest coefficients only, without privacy.",
    example={"family": "gaussian", "sparsity": 2},
)
def iht_glm(sample: Sample, params: IHTGLMParams, transcript: Transcript) -> FloatArray:
    """Return the sparse coefficients, (d, R), or (d, K, R) with classes."""
    sparsity = check_how_many("sparsity", params.sparsity, sample.n_features)
    if params.step_size is not None:
        return _plain_steps(sample, params, params.step_size)
    risk = Risk(params.made(), sample)
    coef: FloatArray = np.zeros(risk.shape)
    step: FloatArray = np.ones(sample.n_replicates)
    moving: BoolArray = np.ones(sample.n_replicates, dtype=bool)
    gradient = risk.gradient(coef)
    for _ in range(params.n_iterations):
        stepped, ahead, step = _falling_step(risk, coef, gradient, step, moving, sparsity)
        change, size = (np.linalg.norm(_flat(values), axis=0) for values in (stepped - coef, coef))
        coef, gradient = np.where(moving, stepped, coef), np.where(moving, ahead, gradient)
        moving = moving & (change > _STILL * size)
        if not moving.any():
            break
        step = _GROWTH * step
    return coef


def _plain_steps(sample: Sample, params: IHTGLMParams, step_size: float) -> FloatArray:
    """Return the last of ``n_iterations`` steps; without classes, wide designs are read block by block."""
    family = params.made()
    gradient = (
        Risk(family, sample).gradient
        if family.classes
        else wide_gradient(sample, Design(sample, single=True), family)
    )
    coef: FloatArray = np.zeros((sample.n_features, *family.classes, sample.n_replicates))
    for _ in range(params.n_iterations):
        coef = largest_rows(coef - step_size * gradient(coef), params.sparsity)
    return coef


def largest_rows(coef: FloatArray, sparsity: int) -> FloatArray:
    """Keep the rows of (d, R) or (d, K, R) that are largest, over classes in ℓ2; the others become 0."""
    if coef.ndim == 2:
        return hard_threshold(coef, sparsity)
    kept = hard_threshold(np.linalg.norm(coef, axis=1), sparsity) > 0
    return np.where(kept[:, None], coef, 0.0)


def _falling_step(
    risk: Risk, coef: FloatArray, gradient: FloatArray, step: FloatArray, moving: BoolArray, sparsity: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return where a step leads, the gradient there, and the step's η."""
    for _ in range(_MOST_HALVINGS):
        stepped = largest_rows(coef - step * gradient, sparsity)
        ahead, change = risk.gradient(stepped), _flat(stepped - coef)
        bent = (_flat(ahead - gradient) * change).sum(axis=0)
        too_long = moving & (bent > _SAFE * (change**2).sum(axis=0) / (2 * step))
        if not too_long.any():
            break
        step = np.where(too_long, step / 2, step)
    return stepped, ahead, step


def _flat(coef: FloatArray) -> FloatArray:
    return coef.reshape(-1, coef.shape[-1])
