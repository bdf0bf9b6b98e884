"""Newton's method with two noises: on the gradient, and on the direction (Ganesh et al. 2023, Algorithm 3).

    g = ∇F(θ) + noise,   H = (1/n) Σ_i w(x_i'θ) x_i x_i',   w(u) = (ψ'(u) − ψ'(−u)) / 2u
    λ = B² max( (2z² t/n²)^(1/3), √(2 c2 z t/n), 1/n ),   t = tr(H)/B² + noise, at least 0
    θ ← θ − ( (H + λ I)⁻¹ g + noise ),   T times from θ = 0

z is the directions' noise multiplier. w is tanh(u/2)/2u for logistic responses and 1 for Gaussian ones: a
parabola of that curvature touches the loss from above, so that a step without noise never overshoots, where
ψ'' in its place may.

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Public: ``covariate_bound`` B (rows are clipped
to that ℓ2 norm here), ``response_bound`` for Gaussian responses (residuals are clipped: Huber's loss).

Why it is private. The gradient's sensitivity is that of :mod:`dpalgos.central.dp_glm`. A row's part of the
trace lies in [0, κ]/n. Given g and λ, let A ⪰ λ I be H + λ I without the row in question, which adds v v'
with ‖v‖² ≤ κ/n: (A + v v')⁻¹ g = A⁻¹ g − M g, M = w w'/(1 + v'w), w = A⁻¹ v. With q = v'w ≤ κ/(nλ) the norm
of M is ‖w‖²/(1 + q) ≤ (q/λ)/(1 + q) ≤ κ/(nλ² + κλ). Of two rows that replace each other M and M' are positive
semidefinite, so that ‖M − M'‖ is at most the larger norm: :func:`direction_sensitivity`, attained by a row
along g against a row of zeros. All releases are Gaussian with shares of μ² that sum to 1.

Departures: the authors count adding or removing a row with zero-concentrated DP, and tune a factor on t and
the shares; here they are fixed, and λ's second term is ours: a direction's noise of norm ‖g‖ c2 B² z/(nλ²)
adds tr(H) times as much to the gradient, ½ ‖g‖ at most. Without it steps diverge where n is large. Where
ψ'' has no bound (Poisson) it does not apply.

Reference: Ganesh, Haghifam, Steinke & Thakurta (2023), Faster differentially private convex optimization via
second-order methods, Algorithm 3, "UB-add" in the authors' code.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.catalog import Published, Release, Witnesses, pair, register, shares_of, witnessed
from dpalgos.mechanisms.sensitivity import ball_mean, interval
from dpalgos.models.families import Family, PrivateFamilyParams, check_labels
from dpalgos.models.risk import Risk
from dpalgos.params import count, positive
from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import clip_rows_l2
from dpalgos.steps.moments import weighted_moments
from dpalgos.typing import FloatArray

_STRAIGHT = 1e-4  # predictors as small as that have the curvature of 0


@dataclass(frozen=True, kw_only=True)
class DoubleNoiseNewtonGLMParams(PrivateFamilyParams):
    """Keywords of :func:`double_noise_newton_glm`."""

    covariate_bound: float = positive("B: rows are clipped to this ℓ2 norm")
    n_iterations: int = count("T, number of Newton steps", default=5)


def direction_sensitivity(
    gradient: FloatArray, ridge: FloatArray, curvature: float, n_rows: FloatArray
) -> FloatArray:
    """Return ‖g‖ κ / (n λ² + κ λ), (R,), for a released g (d, R) and λ (R,); proved above, and attained."""
    return np.asarray(np.linalg.norm(gradient, axis=0) * curvature / (n_rows * ridge**2 + curvature * ridge))


def witnesses(params: DoubleNoiseNewtonGLMParams, d: int, published: Published) -> Witnesses:
    """Return, at θ = 0, opposite rows, a row against zeros, and one along the released gradient."""
    row, zeros = params.covariate_bound * np.eye(1, d), np.zeros((1, d))
    far = 10 * (params.response_bound or 0.0)
    along = published[0][:, :1].T
    along = along * params.covariate_bound / np.linalg.norm(along)
    return [pair(row, -row, far), pair(row, zeros), pair(along, zeros)]


RELEASES = witnessed(
    witnesses,
    Release("gradient", 0.6, "as in ``dp_glm``"),
    Release("trace", 0.05, "c2 B²/n, c2 = sup ψ'' ≥ w"),
    Release("direction", 0.35, "‖g‖ κ / (n λ² + κ λ), κ = c2 B²"),
)


@register(
    title="Double-noise Newton",
    order=81,
    task="glm",
    reference="Ganesh et al. (2023), Algorithm 3",
    summary="Newton's method with noise on every gradient and on every direction.",
    no_interval="the curvature at the answer is not released; take preconditioned_glm",
    calibrations=("tight",),
    example={"family": "gaussian", "covariate_bound": 2.0, "response_bound": 2.0, "n_iterations": 8},
    releases=RELEASES,
    check_data=check_labels,
    public="response_bound for Gaussian responses",
)
def double_noise_newton_glm(
    sample: Sample, params: DoubleNoiseNewtonGLMParams, transcript: Transcript
) -> FloatArray:
    """Return the coefficients, (d, R)."""
    family, n, row = params.family_object(), sample.n_rows, params.covariate_bound
    risk = Risk(family, sample, row_bound=row)
    budget = params.split_budget(shares_of(RELEASES, params))
    multiplier = {part: budget.gaussian_multiplier(part, params.n_iterations) for part in budget.shares}
    kappa = family.curvature_bound * row**2
    coef: FloatArray = np.zeros(risk.shape)
    for _ in range(params.n_iterations):
        gradient = transcript.gaussian(
            risk.gradient(coef),
            l2_sensitivity=ball_mean(row * family.gradient_radius(row * family.predictor_norm(coef, 2)), n),
            noise_multiplier=multiplier["gradient"],
            label="gradient",
        )
        curvature = _mean_curvature(sample, family, row, coef)
        trace = transcript.gaussian(
            np.trace(curvature, axis1=1, axis2=2)[None, :],
            l2_sensitivity=interval(kappa, n),
            noise_multiplier=multiplier["trace"],
            label="trace",
        )[0]
        ridge = row**2 * _least_curvature(
            np.maximum(trace, 0) / row**2, multiplier["direction"], family.curvature_bound, n
        )
        system = curvature + ridge[:, None, None] * np.eye(len(coef))
        direction = transcript.gaussian(
            np.linalg.solve(system, gradient.T[:, :, None])[:, :, 0].T,
            l2_sensitivity=direction_sensitivity(gradient, ridge, kappa, n),
            noise_multiplier=multiplier["direction"],
            label="direction",
        )
        coef = coef - direction
    return coef


def _least_curvature(trace: FloatArray, z: float, curvature_bound: float, n: FloatArray) -> FloatArray:
    """Return λ/B², (R,), by the released t."""
    printed, steady = np.cbrt(2 * z**2 * trace / n**2), np.sqrt(2 * curvature_bound * z * trace / n)
    return np.asarray(np.maximum(np.maximum(printed, steady), 1 / n))


def _mean_curvature(sample: Sample, family: Family, row_bound: float, coef: FloatArray) -> FloatArray:

    def curvature(group: Group, X: FloatArray) -> FloatArray:
        u = np.maximum(np.abs(X @ coef), _STRAIGHT)
        curved = np.minimum((family.mean(u) - family.mean(-u)) / (2 * u), family.curvature_bound)
        return weighted_moments(X, curved * group.weights)

    clipped = sample.grouped(lambda group: clip_rows_l2(group.X, row_bound), together=True)
    total = clipped.total((sample.n_replicates, len(coef), len(coef)), curvature, axis=0)
    return np.asarray(total / sample.n_rows[:, None, None])
