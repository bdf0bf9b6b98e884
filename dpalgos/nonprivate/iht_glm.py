"""Iterative hard thresholding for generalized linear models (paper B, Algorithm 2), without privacy.

    β ← P_s( β − η (1/n) Σ_i (ψ'(x_i'β) − y_i) x_i ),   from β = 0;  P_s keeps the s largest entries

``iht_linear_regression`` is its preset for Gaussian responses. With classes, P_s keeps the s columns of X
whose coefficients have the largest norm over classes.

``step_size`` given: exactly ``n_iterations`` plain steps, as the paper prints it. None, until nothing moves:

Gaussian responses
    η minimizes the loss along the gradient on the current support (at the start: on the s largest entries of
    the gradient); if the support changes, η is cut until η ‖X Δ‖² ≤ .99 n ‖Δ‖² for the step Δ, so that the
    loss never rises. The fixed point is least squares on its own support.
Others
    η is cut in half until ⟨∇F(β + Δ) − ∇F(β), Δ⟩ ≤ .99 ‖Δ‖² / (2η), by which a convex risk falls at every
    step, and grows a little before the next step.

References
----------
Cai, Wang & Zhang, Cost of privacy in generalized linear models, Algorithm 2. Blumensath & Davies (2010),
Normalized iterative hard thresholding.
"""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from dpalgos.catalog import register
from dpalgos.core.estimator import PublicEstimator
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.models.families import Family, get_family
from dpalgos.models.newton_steps import hard_threshold
from dpalgos.models.risk import Risk, wide_gradient
from dpalgos.nonprivate.glm import LikelihoodEstimator
from dpalgos.params import check_how_many, count, positive
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.typing import BoolArray, FloatArray

_STILL = 1e-10  # a step this much shorter than the coefficients is none; 1e-12 in linear models
_SAFE = 0.99
_MOST_HALVINGS = 100
_GROWTH = 1.2


@dataclass(frozen=True, kw_only=True)
class HardThresholding(PublicEstimator):
    """Iterative hard thresholding, for the family that a subclass states."""

    sparsity: int = count("s, number of columns of X with coefficients other than zero")
    n_iterations: int = count("the most iterations (exactly so many with a given step_size)", default=200)
    step_size: float | None = positive("η; None: as large as lets the risk fall at every step", default=None)

    batch = True

    @abstractmethod
    def family_object(self) -> Family:
        """Return the family."""

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        return rows.by_replicate(self._coefficients(rows.sample))

    def _coefficients(self, sample: Sample) -> FloatArray:
        """Return the sparse coefficients, (d, R), or (d, K, R) with classes."""
        family = self.family_object()
        check_how_many("sparsity", self.sparsity, sample.n_features)
        if self.step_size is not None:
            return _plain_steps(sample, self, family, self.step_size)
        if family.is_linear:
            return _best_steps(sample, self)
        return _falling_steps(Risk(family, Rows.of_sample(sample, is_batch=True)), self, sample)


@register(
    name="iht_glm",
    title="Iterative hard thresholding",
    order=17,
    task="glm",
    relation=None,
    reference="Cai, Wang & Zhang, Cost of privacy in generalized linear models, Algorithm 2",
    summary="Gradient steps that keep the largest coefficients only, without privacy.",
    example={"family": "gaussian", "sparsity": 2},
)
@dataclass(frozen=True, kw_only=True)
class IHTGLM(LikelihoodEstimator, HardThresholding):
    """Iterative hard thresholding in a generalized linear model."""


@register(
    name="iht_linear_regression",
    title="Iterative hard thresholding",
    order=9,
    task="linear_regression",
    relation=None,
    reference="Blumensath & Davies (2010)",
    summary="Gradient steps that keep the largest coefficients only, without privacy.",
    example={"sparsity": 2},
)
@dataclass(frozen=True, kw_only=True)
class IHTLinearRegression(HardThresholding):
    """Iterative hard thresholding with Gaussian responses."""

    def family_object(self) -> Family:
        return get_family("gaussian")


def _falling_steps(risk: Risk, params: HardThresholding, sample: Sample) -> FloatArray:
    coef: FloatArray = np.zeros(risk.shape)
    step: FloatArray = np.ones(sample.n_replicates)
    moving: BoolArray = np.ones(sample.n_replicates, dtype=bool)
    gradient = risk.gradient(coef)
    for _ in range(params.n_iterations):
        stepped, ahead, step = _falling_step(risk, coef, gradient, step, moving, params.sparsity)
        change, size = (np.linalg.norm(_flat(values), axis=0) for values in (stepped - coef, coef))
        coef, gradient = np.where(moving, stepped, coef), np.where(moving, ahead, gradient)
        moving = moving & (change > _STILL * size)
        if not moving.any():
            break
        step = _GROWTH * step
    return coef


def _plain_steps(sample: Sample, params: HardThresholding, family: Family, step_size: float) -> FloatArray:
    """Return the last of ``n_iterations`` steps; without classes, wide designs are read block by block."""
    gradient = (
        Risk(family, Rows.of_sample(sample, is_batch=True)).gradient
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
    is_large = hard_threshold(np.linalg.norm(coef, axis=1), sparsity) > 0
    return np.where(is_large[:, None], coef, 0.0)


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


def _best_steps(sample: Sample, params: HardThresholding) -> FloatArray:
    # Steps that end where nothing moves any more need double precision.
    design, sparsity = Design(sample), params.sparsity
    descent = design.negative_gradient(sample.response()[:, None])
    coef: FloatArray = np.zeros((sample.n_features, sample.n_replicates))
    moving: BoolArray = np.ones(sample.n_replicates, dtype=bool)
    for _ in range(params.n_iterations):
        gradient = descent(coef)
        step = np.where(moving, _best_along_support(design, coef, gradient, sparsity), 0.0)
        stepped = _guarded_step(design, coef, gradient, step, sparsity)
        change = np.linalg.norm(stepped - coef, axis=0)
        coef = np.where(moving, stepped, coef)
        moving &= change > 1e-2 * _STILL * np.linalg.norm(coef, axis=0)
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
