"""Iterative Hessian mixing: Newton steps of least squares by curvatures sketched anew (Lev et al. 2026).

    λ̃  = λ_min(X'X) + noise,   g² = max(0, γ − max(0, λ̃ − τ s))        s: the noise's standard deviation
    Ŝ_t = k draws of N(0, X'X + g² I),   Ĥ_t = Ŝ_t'Ŝ_t / k
    θ  ← θ + Ĥ_t⁻¹ ( Σ_i x_i clip(y_i − x_i'θ, ±C) + noise ),   t = 1 … T, from θ = 0

with rows clipped to ‖x‖₂ ≤ B and k = 6 max(d, log(4T/ϱ)), ϱ = δ/10, T = 3, as in the authors' code.

    release              sensitivity (ℓ2)    share of ρ
    smallest eigenvalue  B²                  0.05
    residual product     2BC                 0.5
    sketch               B²                  0.45

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``covariate_bound`` B, ``response_bound`` C.

Why it is private. Given λ̃, a sketch is k rows of N(0, G), G = X'X + g² I. Assume that λ̃ − τ s is at most the
smallest eigenvalue of both neighbors. Then G ⪰ γ I on both, and the sketch costs a
:class:`~dpalgos.accounting.other_events.Sketch`. The smallest eigenvalues of neighbors differ by at
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
from functools import lru_cache, partial
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import scipy

from dpalgos.accounting.calibration import least_noise_factor
from dpalgos.accounting.composition import renyi_epsilon
from dpalgos.accounting.events import Event, Gaussian
from dpalgos.accounting.other_events import Sketch, failure
from dpalgos.catalog import register
from dpalgos.comparators.gram import eigenvalue_sensitivity, failure_sensitivity, release_sketch
from dpalgos.core.estimator import PrivateEstimator
from dpalgos.core.plans import Plan, planned_events
from dpalgos.core.rows import Block, Rows, second_moments
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Lemmas, ball_sum
from dpalgos.params import count, positive
from dpalgos.rows.products import clip_rows_l2
from dpalgos.typing import FloatArray

SMALLEST_EIGENVALUE, PRODUCT, SKETCH = "smallest eigenvalue", "residual product", "sketch"
FAILURE = "the smallest eigenvalue is overestimated"
_EIGENVALUE_SHARE, _SKETCH_SHARE, _PRODUCT_SHARE = 0.05, 0.45, 0.5
_MISSED = 0.01  # of δ: the smallest eigenvalue is overestimated


@register(
    name="hessian_mixing",
    title="Iterative Hessian mixing",
    order=80,
    task="linear_regression",
    reference="Lev et al. (2026), iterative Hessian mixing",
    summary="Newton steps of least squares with noisy residual products and sketched curvatures.",
    no_interval="how its sketches move the estimate is not known; use preconditioned_regression",
    calibrations=("tight",),
    example={"covariate_bound": 2.0, "response_bound": 3.0, "n_iterations": 6},
)
@dataclass(frozen=True, kw_only=True)
class HessianMixing(PrivateEstimator):
    """Newton steps of least squares with sketched curvatures."""

    covariate_bound: float = positive("B: rows are clipped to this ℓ2 norm")
    response_bound: float = positive("C: residuals are clipped to ± this bound")
    n_iterations: int = count("T, number of steps", default=3)

    batch = True
    lemmas: ClassVar[Lemmas] = {
        SMALLEST_EIGENVALUE: eigenvalue_sensitivity,
        FAILURE: failure_sensitivity,
        PRODUCT: ball_sum,
        SKETCH: eigenvalue_sensitivity,
    }

    def plan(self, n: float, d: int) -> Plan:
        return mixing_plan(self.epsilon, self.delta, d, self.n_iterations)

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        row, bound = self.covariate_bound, self.response_bound
        gram = second_moments(rows, row)
        smallest = np.linalg.eigvalsh(gram)[..., 0]
        smallest, std = spend(SMALLEST_EIGENVALUE, eigenvalue_sensitivity.of(smallest, row))
        spend.charge(FAILURE)
        margin = -float(scipy.special.ndtri(_MISSED * self.delta)) + 1 / spend.multiplier(SMALLEST_EIGENVALUE)
        sure = np.maximum(smallest - margin * std, 0)
        sketch = spend.plan[f"{SKETCH} 0"]
        assert isinstance(sketch, Sketch)
        bound_squared = float(eigenvalue_sensitivity(row))
        ridge = sketch.ridge * bound_squared
        coef = rows.zeros(rows.d)
        for t in range(self.n_iterations):
            products = rows.sum(partial(_products, coef=coef, row_bound=row, residual_bound=bound))
            product, _ = spend(f"{PRODUCT} {t}", ball_sum.of(products, row * bound))
            drawn = release_sketch(
                spend, f"{SKETCH} {t}", gram, bound_squared, added=np.maximum(ridge - sure, 0)
            )
            curvature = np.swapaxes(drawn, -1, -2) @ drawn / sketch.n_rows
            coef = coef + np.linalg.solve(curvature, product[..., None])[..., 0]
        return coef


def _products(block: Block, coef: FloatArray, row_bound: float, residual_bound: float) -> FloatArray:
    """Return the sum of clipped rows times clipped residuals, (…, d)."""
    X = clip_rows_l2(block.X, row_bound)
    return block.products(np.clip(block.y - block.predictors(coef, X), -residual_bound, residual_bound), X)


def sketch_rows(d: int, delta: float, n_iterations: int) -> int:
    return int(np.ceil(6 * max(d, np.log(40 * n_iterations / delta))))


@lru_cache(maxsize=1024)
def mixing_plan(epsilon: float, delta: float, d: int, n_iterations: int) -> Plan:
    """Return the smallest noise at which all releases are together (ε, δ)-DP."""
    n_draws = sketch_rows(d, delta, n_iterations)

    def scaled(factor: float) -> dict[str, Event]:
        product = Gaussian(float(factor * np.sqrt(n_iterations / _PRODUCT_SHARE)))
        sketch = Sketch(n_draws, float(factor * np.sqrt(n_draws * n_iterations / _SKETCH_SHARE)))
        plan: dict[str, Event] = {SMALLEST_EIGENVALUE: Gaussian(float(factor / np.sqrt(_EIGENVALUE_SHARE)))}
        for t in range(n_iterations):
            plan |= {f"{PRODUCT} {t}": product, f"{SKETCH} {t}": sketch}
        return plan

    def events(factor: float) -> list[Event]:
        return planned_events(scaled(factor))

    left, most = (1 - _MISSED) * delta, 1.0
    while renyi_epsilon(events(most), left) > epsilon:
        most *= 2
    plan = scaled(least_noise_factor(events, epsilon, left, most=most, renyi_only=True))
    first: dict[str, Event] = {
        SMALLEST_EIGENVALUE: plan[SMALLEST_EIGENVALUE],
        FAILURE: failure(_MISSED * delta),
    }
    return MappingProxyType(first | plan)
