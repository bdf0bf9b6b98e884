"""Linear regression by gradient descent on clipped gradients of rows (Brown et al. 2024).

    β ← β − η [ (1/n) Σ_i clip((x_i'β − y_i) x_i, γ) + w_t ],   t = 1 … T,   from β = 0

clip shortens a vector to ℓ2 norm γ. The estimate is the last iterate.

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Public: ``clip_norm`` γ, ``n_iterations`` T,
``step_size`` η. Rows and responses need no bounds. For any β, the norm of a row's clipped gradient is at most
γ. Replacing a row moves the mean by at most 2γ/n (:func:`dpalgos.mechanisms.sensitivity.ball_mean`). T
releases with noise multiplier z compose to exactly one Gaussian release with multiplier z/√T.

Calibrations
    ``tight``: z = √T z1(ε, δ).
    ``paper``: the printed noise √(2T/ρ) γ/n, that is ρ-zCDP, for the ρ with ρ + 2 √(ρ log 1/δ) = ε.

Settings: for covariates of unit variance and responses of variance 2, the first author's script has γ = 5 √d,
η = 1/3, T = 5. T and η are the defaults here.

Reference: Brown, Dvijotham, Evans, Liu, Smith & Thakurta (2024), Private gradient descent for linear
regression, Algorithm 1.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.budget import printed_rho
from dpalgos.accounting.calibration import gaussians
from dpalgos.catalog import Release, register
from dpalgos.mechanisms.sensitivity import ball_mean
from dpalgos.models.families import get_family
from dpalgos.params import PrivateParams, count, positive
from dpalgos.release.spend import Planned, Spend
from dpalgos.release.transcript import Transcript
from dpalgos.rows.clipping import row_lengths
from dpalgos.rows.group import Group
from dpalgos.rows.grouped import map_groups
from dpalgos.rows.sample import Sample
from dpalgos.tuning.descent import CANDIDATES, ClippedRows
from dpalgos.typing import FloatArray

_SHORTEST = 1e-200  # rows shorter than that, in units of γ, cannot reach it


@dataclass(frozen=True, kw_only=True)
class ClippedGradientDescentParams(PrivateParams):
    """Keywords of :func:`clipped_gradient_descent`."""

    clip_norm: float = positive("γ: every row's gradient is clipped to this ℓ2 norm")
    n_iterations: int = count("T, number of gradient steps", default=5)
    step_size: float = positive("η", default=1 / 3)

    by_forecast = ("n_iterations", "step_size")
    candidates = CANDIDATES
    radius = None

    def clipped_rows(self, X: FloatArray, y: FloatArray) -> ClippedRows:
        lengths = np.maximum(row_lengths(X), _SHORTEST * self.clip_norm)
        return ClippedRows(X, get_family("gaussian"), y, self.clip_norm / lengths[:, None])

    def noise_scale(self, steps: FloatArray, n_rows: int) -> FloatArray:
        z = self.split_budget({GRADIENT.label: 1.0}).gaussian_multiplier(GRADIENT.label)
        if self.calibration == "paper":
            z = float(1 / np.sqrt(2 * printed_rho(self.epsilon, self.delta)))
        return np.asarray(z * np.sqrt(steps) * ball_mean(self.clip_norm, np.asarray(n_rows)))

    def gradient_radius(self, norm: FloatArray) -> FloatArray:
        return np.ones_like(norm)


GRADIENT = Release("gradient", ball_mean)


@register(
    title="Clipped gradient descent",
    order=40,
    task="linear_regression",
    reference="Brown et al. (2024), Algorithm 1",
    summary="Gradient descent with Gaussian noise, each row's gradient clipped; needs no bounds on the data.",
    no_interval="the distance of the iterate from the minimum is not known; use preconditioned_regression",
    example={"clip_norm": 3.0, "n_iterations": 15, "step_size": 2.0},
    releases=(GRADIENT,),
)
def clipped_gradient_descent(
    sample: Sample, params: ClippedGradientDescentParams, transcript: Transcript
) -> FloatArray:
    """Return the last iterate, (d, R)."""
    clip_norm, n_steps = params.clip_norm, params.n_iterations
    sample.check_response()
    if params.calibration == "tight":
        plan = {GRADIENT: Planned(1.0, n_steps)}
        spend = Spend.of_plan(transcript, params.epsilon, params.delta, plan)
    else:
        multiplier = float(np.sqrt(n_steps / (2 * printed_rho(params.epsilon, params.delta))))
        spend = Spend(transcript, {GRADIENT.label: gaussians(multiplier, n_steps)})

    def residual_bounds(group: Group) -> FloatArray:
        """Return γ / ‖x‖, (n, 1): clipping a row's gradient to γ is clipping its residual to that."""
        return clip_norm / np.maximum(row_lengths(group.X), _SHORTEST * clip_norm)[:, None]

    bounded = map_groups(sample, residual_bounds)

    def gradient_at(coef: FloatArray) -> FloatArray:
        def part(group: Group, bound: FloatArray) -> FloatArray:
            residual = (coef[:, group.replicates].T @ group.X.T).T - group.y[:, None]
            return group.X.T @ (np.clip(residual, -bound, bound) * group.weights)

        return np.asarray(bounded.total(coef.shape, part) / sample.n_rows)

    coef: FloatArray = np.zeros((sample.n_features, sample.n_replicates))
    for _ in range(n_steps):
        gradient, _ = spend(GRADIENT, ball_mean.of(gradient_at(coef), clip_norm, sample.n_rows))
        coef = coef - params.step_size * gradient
    spend.check_complete()
    return coef
