"""Objective perturbation for generalized linear models, with approximate minima and a tight certificate.

    θ̂ ≈ argmin_θ (1/n) Σ_i loss(x_i'θ, y_i) + (Λ/2n) ‖θ‖² + b'θ,   b ~ N(0, σ² I);   out θ̂ + N(0, τ² I)

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``covariate_bound`` c_x (rows are clipped to that ℓ2
norm here), ``response_bound`` for Gaussian responses (residuals are clipped to ± that: Huber's loss), n.

Why it is private. A row's gradient is r x with |r| ≤ R, of norm at most L = R c_x, and its Hessian is ψ'' x
x', at most β = c2 c_x². The exact minimum θ is a one-to-one function of b: its inverse is minus the gradient
without the last term. Therefore the densities of θ on neighbors D, D' have the log ratio

    (‖b + Δ‖² − ‖b‖²) / 2σ²  +  log det H_D − log det H_D',   Δ = (r x − r'x')/n,   b normal on D.

n times each Hessian is a common part A ⪰ Λ I plus one rank-one term. Therefore the determinants add at most κ
= log(1 + β/Λ). The first term is convex in Δ. For any θ, Δ lies in a parallelogram fixed by (x, y) and (x',
y'). For logistic loss, a label decides the sign of r: the corners are 0, x/n, −x'/n, (x − x')/n up to signs.
For a clipped Gaussian residual they are (±x ± x') R/n, where ‖x + x'‖² + ‖x − x'‖² ≤ 4 c_x². At a corner, the
term is the privacy loss of a Gaussian release with μ = ‖corner‖/σ. The maximum over corners is at most their
sum. With H_μ(ε) the δ of that release, and m = L/(nσ),

    δ(ε + κ) ≤ H_2m(ε) + 2 H_m(ε)   (logistic; the last two are negligible),
    δ(ε + κ) ≤ 2 H_2m(ε) + 2 H_√2m(ε)   (Gaussian).

The solver is deterministic. It ends with ‖∇F‖ ≤ γ = L max(1/n², 10⁻¹⁴), above the level of rounding, or
nothing is released. A refusal is outside the guarantee, as every refusal of data is. F is Λ/n-strongly
convex. Therefore the estimate is within nγ/Λ of θ on either dataset. Given θ, it is a Gaussian release with
μ₂ = 2nγ/(Λτ). Its privacy loss adds to that of every corner: μ² + μ₂² instead of μ², and H_μ₂ for the corner
0. Projecting the release, and keeping its ``sparsity`` largest entries, are post-processing.

Calibrations
    ``tight``: κ = min(ε/10, ½). It is smaller if that ridge Λ would be below :func:`useful_ridge`. μ₂² is a
    hundredth of the whole, and σ the smallest that is proved.
    ``paper``: shares 0.99 and 0.01 of ε and δ for minimum and output, ε_p = 0.9 · 0.99 ε, Λ = 2β/(0.099 ε),
    σ = (2L/n) (1 + √(2 log(1/0.99δ))) / ε_p, τ = (nγ/Λ) (1 + √(2 log(1/0.01δ))) / 0.01ε, whose 2nγ/Λ lacks
    its 2. The certificate is the one above.

Families without a bound on the curvature (Poisson) or with several predictors per row (multinomial) are
refused.

Reference: Iyengar, Near, Song, Thakkar, Thakurta & Wang (2019), Towards practical differentially private
convex optimization, Algorithm 1. Redberg, Koskela & Wang (2023) account for GLMs by similar means.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import scipy

from dpalgos.accounting.gaussian_dp import gaussian_delta, gaussian_mu
from dpalgos.accounting.other_events import Proved
from dpalgos.catalog import register
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Lemmas, ball_mean, lemma
from dpalgos.models.estimators import FamilyEstimator
from dpalgos.models.families import check_labels
from dpalgos.models.newton_steps import hard_threshold
from dpalgos.models.ridge import reached_minimum
from dpalgos.params import check_how_many, count, positive
from dpalgos.rows.products import project_l2_ball
from dpalgos.typing import FloatArray

MINIMUM = "minimum"
_CURVATURE_SHARE, _LARGEST_CURVATURE_EPSILON = 0.1, 0.5
_OUTPUT_SHARE = 0.01
_LARGEST_EPSILON = 1e6
_FINEST = 1e-14  # gradient, in units of a row's, that double precision can still reach


@dataclass(frozen=True, kw_only=True)
class PerturbationNoise:
    """How much is added, in units of a row's bounds: Λ/β, n σ / L and τ Λ / (nγ)."""

    ridge: float
    objective: float
    output: float


@lemma("2L/n")
def gradient_sensitivity(gradient_bound: float, n_rows: FloatArray) -> FloatArray:
    """Return 2L/n, for the gradient at the minimum: opposite rows of norm c_x. The module's proof uses it."""
    return np.asarray(ball_mean(gradient_bound, n_rows))


@register(
    name="objective_perturbation_glm",
    title="Objective perturbation",
    order=19,
    task="glm",
    reference="Iyengar et al. (2019), Algorithm 1; the certificate is ours",
    summary="Minimizes the risk plus a random linear term; exact in one go, without steps to pay for.",
    example={"family": "gaussian", "covariate_bound": 2.0, "response_bound": 2.0},
    no_interval="the curvature at the minimum is not released; use preconditioned_glm",
    check_data=check_labels,
    public="response_bound for Gaussian responses",
)
@dataclass(frozen=True, kw_only=True)
class ObjectivePerturbationGLM(FamilyEstimator):
    """The minimum of the risk plus a random linear term."""

    covariate_bound: float = positive("c_x: rows are clipped to this ℓ2 norm")
    n_iterations: int = count(
        "the most Newton steps; nothing is released if they do not suffice", default=100
    )
    step_size: float = positive("factor on a Newton step, before it is halved where need be", default=1.0)
    coef_bound: float | None = positive(
        "the estimate is projected onto the ℓ2 ball of this radius; None: no projection",
        default=None,
    )
    sparsity: int | None = count(
        "s: only the s largest entries of the estimate are kept; None: all", default=None
    )

    batch = True
    lemmas: ClassVar[Lemmas] = {MINIMUM: gradient_sensitivity}

    def plan(self, n: float, d: int) -> Plan:
        if self.sparsity is not None:
            check_how_many("sparsity", self.sparsity, d)
        _, certified = self.calibrated(n, d)
        return {MINIMUM: Proved(certified, delta=self.delta)}

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        released = self.perturbed(rows, spend)
        if self.sparsity is not None:
            released = hard_threshold(released, self.sparsity)
        if self.coef_bound is not None:
            released = project_l2_ball(released, self.coef_bound)
        return rows.by_replicate(released)

    def perturbed(self, rows: Rows, spend: Spend) -> FloatArray:
        """Release the minimum of the perturbed risk with noise, (d, R)."""
        family, n, bound = self.family_object(), rows.n, self.covariate_bound
        noise, _ = self.calibrated(rows.n, rows.d)
        lipschitz = family.residual_bound * bound
        ridges = np.full(spend.noise.n_replicates, noise.ridge * family.curvature_bound * bound**2 / n)
        tolerance = np.full(spend.noise.n_replicates, lipschitz * max(n**-2.0, _FINEST))
        tilt = noise.objective * lipschitz / n * spend.noise.normal(rows.d)
        minimum = reached_minimum(
            family,
            rows,
            {"row_bound": bound, "ridge": ridges, "tilt": tilt},
            tolerance,
            n_iterations=self.n_iterations,
            step_size=self.step_size,
        )
        output_std = noise.output * tolerance / ridges
        return spend.release(MINIMUM, minimum, lambda: minimum + output_std * spend.noise.normal(rows.d))

    def calibrated(self, n: float, d: int) -> tuple[PerturbationNoise, float]:
        """Return the noise, and the ε that it proves."""
        epsilon, delta, one_sided = self.epsilon, self.delta, not self.family_object().needs_response_bound
        if self.calibration == "tight":
            ridge = useful_ridge(epsilon, delta, int(n), d)
            return tight_noise(epsilon, delta, ridge, one_sided=one_sided), epsilon
        noise = printed_noise(epsilon, delta)

        def excess(proved: float) -> float:
            return proved_delta(proved, noise, one_sided=one_sided) - delta

        least = float(np.log1p(1 / noise.ridge))
        if excess(least) <= 0:
            return noise, least
        return noise, float(scipy.optimize.brentq(excess, least, _LARGEST_EPSILON, xtol=1e-12)) * (1 + 1e-9)


def proved_delta(epsilon: float, noise: PerturbationNoise, *, one_sided: bool) -> float:
    """Return the δ at ε that the module's proof gives; ``one_sided`` where a label decides the sign of r."""
    left = epsilon - np.log1p(1 / noise.ridge)
    if left < 0:
        return 1.0
    m, squared_output = 1 / noise.objective, (2 / noise.output) ** 2
    corners = [(2 * m, 1), (m, 2), (0.0, 1)] if one_sided else [(2 * m, 2), (np.sqrt(2) * m, 2)]
    losses = [k * gaussian_delta(left, float(np.sqrt(mu**2 + squared_output))) for mu, k in corners]
    return min(1.0, sum(losses))


def useful_ridge(epsilon: float, delta: float, n_rows: int, n_features: int) -> float:
    """Return the smallest Λ/β that is worth its bias, 16 d / (nμ²): public, and only accuracy depends on it.

    In a direction of curvature h and squared coefficient t, noise of variance v in the gradient and a ridge λ
    leave the error (v + λ²t) / (h + λ)². Its minimum is at λ = v / (h t). With d such directions, h =
    c_x²/4d, predictors of variance 1 and t = 1/c_x², noise of 2 c_x / (nμ) makes that 64 β d / (nμ²) in Λ. A
    quarter of it is best if few directions hold most of the signal.
    """
    return 16 * n_features / (n_rows * gaussian_mu(epsilon, delta) ** 2)


@lru_cache(maxsize=4096)
def tight_noise(
    epsilon: float, delta: float, least_ridge: float = 0.0, *, one_sided: bool
) -> PerturbationNoise:
    """Return the smallest noise that is provably (ε, δ)-DP, given the split of ε and a minimum of Λ/β."""
    share = min(_CURVATURE_SHARE * epsilon, _LARGEST_CURVATURE_EPSILON)
    ridge = max(float(1 / np.expm1(share)), least_ridge)

    def noise_at(log_mu: float) -> PerturbationNoise:
        mu = float(np.exp(log_mu))
        return PerturbationNoise(
            ridge=ridge,
            objective=2 / (mu * float(np.sqrt(1 - _OUTPUT_SHARE))),
            output=2 / (mu * float(np.sqrt(_OUTPUT_SHARE))),
        )

    def excess(log_mu: float) -> float:
        return float(
            np.log(max(proved_delta(epsilon, noise_at(log_mu), one_sided=one_sided), 1e-300) / delta)
        )

    root = float(scipy.optimize.brentq(excess, -30.0, 30.0, xtol=1e-12))
    while excess(root) > 0:
        root -= 1e-12
    return noise_at(root)


def printed_noise(epsilon: float, delta: float) -> PerturbationNoise:
    """Return the noise of Iyengar et al. (2019) with the shares of their code."""
    objective, output = (1 - _OUTPUT_SHARE), _OUTPUT_SHARE
    perturbation = 0.9 * objective * epsilon
    return PerturbationNoise(
        ridge=2 / (objective * epsilon - perturbation),
        objective=float(2 * (1 + np.sqrt(2 * np.log(1 / (objective * delta)))) / perturbation),
        output=float((1 + np.sqrt(2 * np.log(1 / (output * delta)))) / (output * epsilon)),
    )
