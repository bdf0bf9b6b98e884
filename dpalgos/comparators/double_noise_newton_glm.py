"""Newton's method with two noises: on the gradient, and on the direction (Ganesh et al. 2023, Algorithm 3).

    g = ∇F(θ) + noise,   H = (1/n) Σ_i w(x_i'θ) x_i x_i',   w(u) = (ψ'(u) − ψ'(−u)) / 2u
    λ = B² max( (2z² t/n²)^(1/3), √(2 c2 z t/n), 1/n ),   t = tr(H)/B² + noise, at least 0
    θ ← θ − ( (H + λ I)⁻¹ g + noise ),   T times from θ = 0

z is the noise multiplier of the directions. w is tanh(u/2)/2u for logistic responses and 1 for Gaussian ones.
A parabola of that curvature touches the loss from above, so a step without noise never overshoots. With ψ''
instead of w it may.

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Public: ``covariate_bound`` B (rows are clipped
to that ℓ2 norm here), ``response_bound`` for Gaussian responses (residuals are clipped: Huber's loss).

Why it is private. The gradient has the sensitivity of :mod:`dpalgos.central.dp_glm`. With κ = c2 B² and
c2 = sup ψ'' ≥ w, a row's part of the trace lies in [0, κ]/n. For the direction, g and λ are public. Let
A ⪰ λ I be H + λ I without one row. That row adds v v' with ‖v‖² ≤ κ/n, so

    (A + v v')⁻¹ g = A⁻¹ g − M g,   M = u u'/(1 + v'u),   u = A⁻¹ v.

With q = v'u ≤ κ/(nλ), ‖M‖ = ‖u‖²/(1 + q) ≤ (q/λ)/(1 + q) ≤ κ/(nλ² + κλ). The matrices M and M' of two rows
are positive semidefinite. Therefore ‖M − M'‖ is at most the larger norm (:func:`direction_sensitivity`). A
row along g against a row of zeros attains the bound.

Departures

- The authors account for adding or removing a row by zero-concentrated DP. They tune a factor on t and the
  shares; here both are fixed.
- The second term of λ is ours. A direction's noise of norm ‖g‖ c2 B² z/(nλ²) adds tr(H) times as much to the
  gradient, at most ½ ‖g‖. Without this term, steps diverge if n is large.
- Families without a bound on ψ'' (Poisson) are refused.

Reference: Ganesh, Haghifam, Steinke & Thakurta (2023), Faster differentially private convex optimization via
second-order methods, Algorithm 3, "UB-add" in the authors' code.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.catalog import Neighbors, Published, Release, pair, register, shares_of
from dpalgos.comparators.dp_sgd_glm import opposite_rows
from dpalgos.mechanisms.sensitivity import ball_mean, interval, lemma
from dpalgos.models.families import Family, PrivateFamilyParams, check_labels
from dpalgos.models.risk import Risk
from dpalgos.params import count, positive
from dpalgos.release.spend import Spend
from dpalgos.release.transcript import Transcript
from dpalgos.rows.clipping import clip_rows_l2
from dpalgos.rows.group import Group
from dpalgos.rows.moments import weighted_moments
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

_STRAIGHT = 1e-4  # predictors as small as that have the curvature of 0


@dataclass(frozen=True, kw_only=True)
class DoubleNoiseNewtonGLMParams(PrivateFamilyParams):
    """Keywords of :func:`double_noise_newton_glm`."""

    covariate_bound: float = positive("B: rows are clipped to this ℓ2 norm")
    n_iterations: int = count("T, number of Newton steps", default=5)


@lemma("‖g‖ κ/(n λ² + κ λ)")
def direction_sensitivity(
    gradient: FloatArray, ridge: FloatArray, curvature: float, n_rows: FloatArray
) -> FloatArray:
    """Return ‖g‖ κ / (n λ² + κ λ), (R,), for a released g (d, R) and λ (R,); proved above, and attained."""
    return np.asarray(np.linalg.norm(gradient, axis=0) * curvature / (n_rows * ridge**2 + curvature * ridge))


def _row_and_zeros(params: DoubleNoiseNewtonGLMParams, d: int, _: Published) -> Neighbors:
    return pair(params.covariate_bound * np.eye(1, d), np.zeros((1, d)))


def _row_along_gradient(params: DoubleNoiseNewtonGLMParams, d: int, published: Published) -> Neighbors:
    along = published[0][:, :1].T
    return pair(along * params.covariate_bound / np.linalg.norm(along), np.zeros((1, d)))


GRADIENT = Release("gradient", 0.6, ball_mean, witness=opposite_rows)
TRACE = Release("trace", 0.05, interval, witness=_row_and_zeros)
DIRECTION = Release("direction", 0.35, direction_sensitivity, witness=_row_along_gradient)
RELEASES = GRADIENT, TRACE, DIRECTION


@register(
    title="Double-noise Newton",
    order=81,
    task="glm",
    reference="Ganesh et al. (2023), Algorithm 3",
    summary="Newton's method with noise on every gradient and on every direction.",
    no_interval="the curvature at the estimate is not released; use preconditioned_glm",
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
    spend = Spend.of_budget(transcript, budget, dict.fromkeys(budget.shares, params.n_iterations))
    kappa = family.curvature_bound * row**2
    coef: FloatArray = np.zeros(risk.shape)
    for _ in range(params.n_iterations):
        radius = row * family.gradient_radius(row * family.predictor_norm(coef, 2))
        gradient, _ = spend(GRADIENT, risk.gradient(coef), radius, n)
        curvature = _mean_curvature(sample, family, row, coef)
        trace, _ = spend(TRACE, np.trace(curvature, axis1=1, axis2=2), kappa, n)
        ridge = row**2 * _curvature_floor(
            np.maximum(trace, 0) / row**2, spend.multiplier(DIRECTION), family.curvature_bound, n
        )
        system = curvature + ridge[:, None, None] * np.eye(len(coef))
        step = np.linalg.solve(system, gradient.T[:, :, None])[:, :, 0].T
        direction, _ = spend(DIRECTION, step, gradient, ridge, kappa, n)
        coef = coef - direction
    spend.check_complete()
    return coef


def _curvature_floor(trace: FloatArray, z: float, curvature_bound: float, n: FloatArray) -> FloatArray:
    """Return λ/B², (R,), by the released t."""
    printed, steady = np.cbrt(2 * z**2 * trace / n**2), np.sqrt(2 * curvature_bound * z * trace / n)
    return np.asarray(np.maximum(np.maximum(printed, steady), 1 / n))


def _mean_curvature(sample: Sample, family: Family, row_bound: float, coef: FloatArray) -> FloatArray:

    def curvature(group: Group, X: FloatArray) -> FloatArray:
        u = np.maximum(np.abs(X @ coef), _STRAIGHT)
        curved = np.minimum((family.mean(u) - family.mean(-u)) / (2 * u), family.curvature_bound)
        return weighted_moments(X, curved * group.weights)

    clipped = sample.map_groups(lambda group: clip_rows_l2(group.X, row_bound), all_replicates=True)
    total = clipped.total((sample.n_replicates, len(coef), len(coef)), curvature, axis=0)
    return np.asarray(total / sample.n_rows[:, None, None])
