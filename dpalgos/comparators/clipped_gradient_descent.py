"""Linear regression by gradient descent on clipped gradients of rows (Brown et al. 2024).

    β ← β − η [ (1/n) Σ_i clip((x_i'β − y_i) x_i, γ) + w_t ],   t = 1 … T,   from β = 0

clip shortens a vector to ℓ2 norm γ. The estimate is the last iterate.

    release              sensitivity (ℓ2)   share of μ²   noise of the paper's calibration
    gradient, T times    2γ/n               1             √(2T/ρ) γ/n

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Public: ``clip_norm`` γ, ``n_iterations`` T,
``step_size`` η. Rows and responses need no bounds. For any β, the norm of a row's clipped gradient is at most
γ. Replacing a row moves the mean by at most 2γ/n (:func:`dpalgos.mechanisms.sensitivity.ball_mean`). T
releases with noise multiplier z compose to exactly one Gaussian release with multiplier z/√T.

Calibrations
    ``tight``: z = √T z1(ε, δ).
    ``paper``: the noise of the table, that is ρ-zCDP, for the ρ with ρ + 2 √(ρ log 1/δ) = ε.

Settings: for covariates of unit variance and responses of variance 2, the first author's script has γ = 5 √d,
η = 1/3, T = 5. T and η are the defaults here.

Reference: Brown, Dvijotham, Evans, Liu, Smith & Thakurta (2024), Private gradient descent for linear
regression, Algorithm 1.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpalgos.accounting.calibration import printed_rho
from dpalgos.accounting.events import Gaussian
from dpalgos.catalog import register
from dpalgos.core.estimator import PrivateEstimator
from dpalgos.core.plans import Plan, Share, gaussian_plan
from dpalgos.core.rows import Block, Rows
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Lemmas, ball_mean
from dpalgos.models.families import get_family
from dpalgos.params import count, positive
from dpalgos.rows.products import row_lengths
from dpalgos.tuning.descent import CANDIDATES, ClippedLoss
from dpalgos.typing import FloatArray

GRADIENT = "gradient"
_SHORTEST = 1e-200  # rows shorter than that, in units of γ, cannot reach it


@register(
    name="clipped_gradient_descent",
    title="Clipped gradient descent",
    order=40,
    task="linear_regression",
    reference="Brown et al. (2024), Algorithm 1",
    summary="Gradient descent with Gaussian noise, each row's gradient clipped; needs no bounds on the data.",
    no_interval="the distance of the iterate from the minimum is not known; use preconditioned_regression",
    example={"clip_norm": 3.0, "n_iterations": 15, "step_size": 2.0},
)
@dataclass(frozen=True, kw_only=True)
class ClippedGradientDescent(PrivateEstimator):
    """The last iterate of gradient descent, each row's gradient clipped."""

    clip_norm: float = positive("γ: every row's gradient is clipped to this ℓ2 norm")
    n_iterations: int = count("T, number of gradient steps", default=5)
    step_size: float = positive("η", default=1 / 3)

    batch = True
    lemmas: ClassVar[Lemmas] = {GRADIENT: ball_mean}
    by_forecast = ("n_iterations", "step_size")
    candidates = CANDIDATES
    radius = None

    def plan(self, n: float, d: int) -> Plan:
        return {GRADIENT: self.gradients(self.n_iterations)}

    def gradients(self, times: int) -> Gaussian:
        """Return the slot of so many gradients."""
        if self.calibration == "paper":
            z = float(np.sqrt(times / (2 * printed_rho(self.epsilon, self.delta))))
            return Gaussian(z, times=times)
        return gaussian_plan(self.epsilon, self.delta, {GRADIENT: Share(1.0, times)})[GRADIENT]

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        coef: FloatArray = np.zeros(rows.d)
        bounded = rows.map(lambda block: self.residual_bounds(block.X))

        def clipped_gradients(block: Block) -> FloatArray:
            residuals = block.predictors(coef) - block.y
            return block.products(np.clip(residuals, -block.derived, block.derived))

        for _ in range(self.n_iterations):
            mean = ball_mean.of(bounded.mean(clipped_gradients), self.clip_norm, rows.n)
            coef = coef - self.step_size * spend(GRADIENT, mean).value
        return coef

    def residual_bounds(self, X: FloatArray) -> FloatArray:
        """Return γ / ‖x‖, (n,): clipping a row's gradient to γ is clipping its residual to that."""
        return np.asarray(self.clip_norm / np.maximum(row_lengths(X), _SHORTEST * self.clip_norm))

    def clipped_loss(self, X: FloatArray, y: FloatArray) -> ClippedLoss:
        return ClippedLoss(X, get_family("gaussian"), y, self.residual_bounds(X)[:, None])

    def noise_scale(self, steps: FloatArray, n_rows: int) -> FloatArray:
        z = self.gradients(1).noise_multiplier
        return np.asarray(z * np.sqrt(steps) * ball_mean(self.clip_norm, np.asarray(n_rows)))

    def gradient_radius(self, norm: FloatArray) -> FloatArray:
        return np.ones_like(norm)
