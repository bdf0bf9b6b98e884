"""Linear regression by gradient descent on clipped gradients of rows (Brown et al. 2024).

    β ← β − η [ (1/n) Σ_i clip((x_i'β − y_i) x_i, γ) + w_t ],   t = 1 … T,   from β = 0

clip shortens a vector to ℓ2 norm γ, the last iterate is the answer.

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Public: ``clip_norm`` γ, ``n_iterations`` T,
``step_size`` η. Neither rows nor responses need a bound: a row's gradient is as long as γ at most, whatever β
is, and a row of either sign moves their mean by 2γ/n (:func:`dpalgos.mechanisms.sensitivity.ball_mean`).
T releases with one noise multiplier z are exactly one Gaussian release with multiplier z/√T.

Calibrations
    ``tight``: z = √T z1(ε, δ).
    ``paper``: the printed noise √(2T/ρ) γ/n, that is ρ-zCDP, for the ρ with ρ + 2 √(ρ log 1/δ) = ε.

Settings: for covariates of unit variance and responses of variance 2 the first author's script takes
γ = 5 √d, η = 1/3, T = 5; T and η are the defaults here.

Reference: Brown, Dvijotham, Evans, Liu, Smith & Thakurta (2024), Private gradient descent for linear
regression, Algorithm 1.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.budget import printed_rho
from dpalgos.catalog import Published, Release, Witnesses, pair, register, witnessed
from dpalgos.mechanisms.sensitivity import ball_mean
from dpalgos.params import PrivateParams, count, positive
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import clipped_residual_gradient
from dpalgos.typing import FloatArray

_SHORTEST = 1e-200  # rows shorter than that, in units of γ, cannot reach it


@dataclass(frozen=True, kw_only=True)
class ClippedGradientDescentParams(PrivateParams):
    """Keywords of :func:`clipped_gradient_descent`."""

    clip_norm: float = positive("γ: every row's gradient is clipped to this ℓ2 norm")
    n_iterations: int = count("T, number of gradient steps", default=5)
    step_size: float = positive("η", default=1 / 3)


def witnesses(params: ClippedGradientDescentParams, d: int, published: Published) -> Witnesses:
    """Return a row with responses far above and far below."""
    row, far = np.eye(1, d), 1e9 * params.clip_norm
    return [pair(row, row, far, -far)]


@register(
    title="Clipped gradient descent",
    order=40,
    task="linear_regression",
    reference="Brown et al. (2024), Algorithm 1",
    summary="Gradient descent with Gaussian noise, each row's gradient clipped; needs no bounds on the data.",
    no_interval="the last of a few steps need not have arrived, and how far off it is is not known",
    example={"clip_norm": 3.0, "n_iterations": 15, "step_size": 2.0},
    releases=witnessed(witnesses, Release("gradient", 1.0, "2 * clip_norm / n")),
)
def clipped_gradient_descent(
    sample: Sample, params: ClippedGradientDescentParams, transcript: Transcript
) -> FloatArray:
    """Return the last iterate, (d, R)."""
    clip_norm, n_steps = params.clip_norm, params.n_iterations
    sample.check_response()
    if params.calibration == "tight":
        multiplier = params.split_budget({"steps": 1.0}).gaussian_multiplier("steps", n_steps)
    else:
        multiplier = float(np.sqrt(n_steps / (2 * printed_rho(params.epsilon, params.delta))))

    def residual_bounds(X: FloatArray) -> FloatArray:
        """Clipping a row's gradient to γ is clipping its residual to γ / ‖x‖."""
        return np.asarray(clip_norm / np.maximum(np.linalg.norm(X, axis=1), _SHORTEST * clip_norm))

    gradient_at = clipped_residual_gradient(sample, residual_bounds)
    coef: FloatArray = np.zeros((sample.n_features, sample.n_replicates))
    for _ in range(n_steps):
        released = transcript.gaussian(
            gradient_at(coef),
            l2_sensitivity=ball_mean(clip_norm, sample.n_rows),
            noise_multiplier=multiplier,
            label="gradient",
        )
        coef = coef - params.step_size * released
    return coef
