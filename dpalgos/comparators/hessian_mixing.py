"""Iterative Hessian mixing: Newton steps of least squares by curvatures sketched anew (Lev et al. 2026).

    λ̃  = λ_min(X'X) + noise,   g² = max(0, γ − max(0, λ̃ − τ s))        s: the noise's standard deviation
    Ŝ_t = k draws of N(0, X'X + g² I),   Ĥ_t = Ŝ_t'Ŝ_t / k
    θ  ← θ + Ĥ_t⁻¹ ( Σ_i x_i clip(y_i − x_i'θ, ±C) + noise ),   t = 1 … T, from θ = 0

with rows clipped to ‖x‖₂ ≤ B and k = 6 max(d, log(4T/ϱ)), ϱ = δ/10, T = 3, as in the authors' code.

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``covariate_bound`` B, ``response_bound`` C.

Why it is private. Given λ̃, a sketch is k rows of N(0, G), G = X'X + g² I. Assume that λ̃ − τ s is at most the
smallest eigenvalue of both neighbors. Then G ⪰ γ I on both, and the sketch costs a
:class:`~dpalgos.accounting.events.GaussianSketchEvent`. The smallest eigenvalues of neighbors differ by at
most B² = s/z, with the noise multiplier z. So λ̃ is too large for one of them only if a standard normal
variable exceeds τ − 1/z. With τ = Φ⁻¹(1 − δ/100) + 1/z this has probability δ/100, which is charged as a
failure. Products are sums of x_i r_i with |r_i| ≤ C for any θ
(:func:`dpalgos.mechanisms.sensitivity.ball_mean`). Shares are of ρ of zero-concentrated DP, in which a sketch
with ridge γ = c B² costs about k/(2c²). All noise is then scaled by one factor until (ε, δ) is just proved.

Departures: the paper gives ε/2 to the sketches and ε/2 to the products, for adding or removing a row.

Reference: Lev, Shenfeld, Srinivasan, Ligett & Wilson (2026), Near-optimal private linear regression via
iterative Hessian mixing.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from dpalgos.accounting.calibration import gaussians, least_noise_factor
from dpalgos.accounting.composition import renyi_epsilon
from dpalgos.accounting.events import Event, GaussianSketchEvent
from dpalgos.catalog import Release, register
from dpalgos.mechanisms.sensitivity import ball_mean, eigenvalue_sensitivity, failure_sensitivity
from dpalgos.models.families import get_family
from dpalgos.models.risk import Risk
from dpalgos.params import PrivateParams, count, positive
from dpalgos.release.spend import Spend
from dpalgos.release.transcript import Transcript
from dpalgos.rows.moments import row_moments
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

_EIGENVALUE_SHARE, _SKETCH_SHARE, _PRODUCT_SHARE = 0.05, 0.45, 0.5
_MISSED = 0.01  # of δ: the smallest eigenvalue is overestimated


@dataclass(frozen=True, kw_only=True)
class HessianMixingParams(PrivateParams):
    """Keywords of :func:`hessian_mixing`."""

    covariate_bound: float = positive("B: rows are clipped to this ℓ2 norm")
    response_bound: float = positive("C: residuals are clipped to ± this bound")
    n_iterations: int = count("T, number of steps", default=3)


@dataclass(frozen=True, kw_only=True)
class MixingNoise:
    """Noise multipliers of the smallest eigenvalue and of each product; γ/B² of each sketch."""

    eigenvalue: float
    product: float
    ridge: float


SMALLEST_EIGENVALUE = Release("least eigenvalue", eigenvalue_sensitivity)
PRODUCT = Release("residual product", ball_mean)
SKETCH = Release("sketch", eigenvalue_sensitivity)
FAILURE = Release("the smallest eigenvalue is overestimated", failure_sensitivity)


@register(
    title="Iterative Hessian mixing",
    order=80,
    task="linear_regression",
    reference="Lev et al. (2026), iterative Hessian mixing",
    summary="Newton steps of least squares with noisy residual products and sketched curvatures.",
    no_interval="how its sketches move the estimate is not known; use preconditioned_regression",
    calibrations=("tight",),
    example={"covariate_bound": 2.0, "response_bound": 3.0, "n_iterations": 6},
    releases=(SMALLEST_EIGENVALUE, PRODUCT, SKETCH, FAILURE),
)
def hessian_mixing(sample: Sample, params: HessianMixingParams, transcript: Transcript) -> FloatArray:
    """Return the coefficients, (d, R)."""
    d, row, bound = sample.n_features, params.covariate_bound, params.response_bound
    n_draws = sketch_rows(d, params.delta, params.n_iterations)
    noise = planned_noise(params.epsilon, params.delta, n_draws, params.n_iterations)
    gram = row_moments(sample, row)[:, :d, :d]
    plan = {SMALLEST_EIGENVALUE.label: gaussians(noise.eigenvalue)}
    plan |= {PRODUCT.label: gaussians(noise.product, params.n_iterations)}
    spend = Spend(transcript, plan)
    smallest, std = spend(SMALLEST_EIGENVALUE, eigenvalue_sensitivity.of(np.linalg.eigvalsh(gram)[:, 0], row))
    transcript.may_fail(_MISSED * params.delta, label=FAILURE.label)
    margin = -float(scipy.special.ndtri(_MISSED * params.delta)) + 1 / noise.eigenvalue
    sure = np.maximum(smallest - margin * std, 0)
    ridge = noise.ridge * row**2
    gradient_at = Risk(get_family("gaussian", response_bound=bound), sample, row_bound=row).gradient
    coef: FloatArray = np.zeros((d, sample.n_replicates))
    for _ in range(params.n_iterations):
        product, _ = spend(PRODUCT, ball_mean.of(-sample.n_rows * gradient_at(coef), row * bound, 1))
        drawn = transcript.gaussian_sketch(
            gram,
            added=np.maximum(ridge - sure, 0),
            n_rows=n_draws,
            row_bound_squared=float(eigenvalue_sensitivity(row)),
            ridge=ridge,
            label=SKETCH.label,
        )
        curvature = np.swapaxes(drawn, 1, 2) @ drawn / n_draws
        coef = coef + np.linalg.solve(curvature, product.T[:, :, None])[:, :, 0].T
    spend.check_complete()
    return coef


def sketch_rows(d: int, delta: float, n_iterations: int) -> int:
    return int(np.ceil(6 * max(d, np.log(40 * n_iterations / delta))))


@lru_cache(maxsize=1024)
def planned_noise(epsilon: float, delta: float, n_draws: int, n_iterations: int) -> MixingNoise:
    """Return the smallest noise at which all releases are together (ε, δ)-DP."""

    def scaled(factor: float) -> MixingNoise:
        return MixingNoise(
            eigenvalue=factor / np.sqrt(_EIGENVALUE_SHARE),
            product=factor * np.sqrt(n_iterations / _PRODUCT_SHARE),
            ridge=factor * np.sqrt(n_draws * n_iterations / _SKETCH_SHARE),
        )

    def events(factor: float) -> list[Event]:
        noise = scaled(factor)
        multipliers = (noise.eigenvalue, *(noise.product,) * n_iterations)
        sketch = GaussianSketchEvent(label="", n_rows=n_draws, row_bound_squared=1.0, ridge=noise.ridge)
        return [
            *map(gaussians, multipliers),
            *(sketch,) * n_iterations,
        ]

    left, most = (1 - _MISSED) * delta, 1.0
    while renyi_epsilon(events(most), left) > epsilon:
        most *= 2
    return scaled(least_noise_factor(events, epsilon, left, most=most, renyi_only=True))
