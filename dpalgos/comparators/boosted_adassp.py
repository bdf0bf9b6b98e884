"""Linear regression by boosting: each AdaSSP fit takes the residuals of the previous ones (Tang et al. 2023).

    H = X'X + N + λI;   θ ← θ + H⁻¹ (X' clip(y − Xθ, ±B_y) + v_t),   t = 1 … T,   from θ = 0

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``covariate_bound`` B_x, to which rows are clipped
here, ``response_bound`` B_y, to which every round's residuals are clipped, ``n_rounds`` T.

    release                       sensitivity (ℓ2)   share of μ²   noise of the paper's calibration
    smallest eigenvalue of X'X    B_x²               1/(T + 2)     B_x² σ,   σ = √(T + 2) z1(ε, δ)
    X'X                           √2 B_x²            1/(T + 2)     B_x² σ
    X' residuals, T times         2 B_x B_y          T/(T + 2)     B_x B_y σ

θ follows from earlier releases only, so the residuals of each round are those of a public θ.

Calibrations
    ``tight``: multiplier √(T + 2) z1(ε, δ) for each release. Together they are exactly (ε, δ). Noise is on
    svec(X'X).
    ``paper``: the paper's calibration, with noise on the upper triangle of X'X. It is meant for adding or
    removing a row. Under replacing one row μ² = (1 + 2 + 4T)/σ², which the certificate states.
In both, λ = max(0, 1.96 √d σ B_x² − max(0, released smallest eigenvalue − 1.96 σ B_x²)), as in their code.

Departure: this is the first version of the authors' code. The later version takes σ = μ(ε, δ) for every
release, whatever T is. This is the privacy parameter itself instead of its inverse, and is not (ε, δ)-DP.

Reference: Tang, Aydore, Kearns, Rho, Roth, Wang, Wang & Wu (2023), Improved differentially private regression
via gradient boosting.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpalgos.accounting.events import Gaussian
from dpalgos.catalog import register
from dpalgos.comparators.gram import (
    GRAM,
    SMALLEST_EIGENVALUE,
    eigenvalue_sensitivity,
    release_gram,
    solve_ridge,
)
from dpalgos.core.estimator import PrivateEstimator
from dpalgos.core.plans import Plan, Share, gaussian_plan
from dpalgos.core.rows import Block, Rows, clipped_moments
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Lemmas, ball_sum, outer_product_sum
from dpalgos.params import count, positive
from dpalgos.rows.products import clip_rows_l2, truncate
from dpalgos.typing import FloatArray

RESIDUALS = "X' residuals"
_TAIL = 1.96  # normal quantile by which the smallest eigenvalue is bounded; affects accuracy only


@register(
    name="boosted_adassp",
    title="Boosted AdaSSP",
    order=41,
    task="linear_regression",
    reference="Tang et al. (2023)",
    summary="Noisy second moments once, then rounds of AdaSSP on clipped residuals.",
    example={"covariate_bound": 2.0, "response_bound": 3.0, "n_rounds": 10},
    no_interval="the estimate is biased by its ridge; use preconditioned_regression",
)
@dataclass(frozen=True, kw_only=True)
class BoostedAdaSSP(PrivateEstimator):
    """The sum of the rounds' coefficients."""

    covariate_bound: float = positive("B_x: rows are clipped to this ℓ2 norm")
    response_bound: float = positive("B_y: residuals are clipped to ±B_y")
    n_rounds: int = count("T, rounds of boosting", default=100)

    batch = True
    lemmas: ClassVar[Lemmas] = {
        SMALLEST_EIGENVALUE: eigenvalue_sensitivity,
        GRAM: outer_product_sum,
        RESIDUALS: ball_sum,
    }

    def plan(self, n: float, d: int) -> Plan:
        T = self.n_rounds
        moment, residuals = Share(1 / (T + 2)), Share(T / (T + 2), times=T)
        shares = {SMALLEST_EIGENVALUE: moment, GRAM: moment, RESIDUALS: residuals}
        plan = gaussian_plan(self.epsilon, self.delta, shares)
        if self.calibration == "tight":
            return plan
        z = plan[GRAM].noise_multiplier
        return {
            SMALLEST_EIGENVALUE: Gaussian(z),
            GRAM: Gaussian(z / np.sqrt(2)),
            RESIDUALS: Gaussian(z / 2, times=T),
        }

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        d, row, response = rows.d, self.covariate_bound, self.response_bound
        moments = clipped_moments(rows, row, response)
        gram, smallest = release_gram(spend, moments[..., :d, :d], row, self.calibration)
        z = spend.multiplier(SMALLEST_EIGENVALUE)
        lower = np.maximum(0, smallest - _TAIL * z * row**2)
        ridge = np.maximum(0, _TAIL * np.sqrt(d) * z * row**2 - lower)
        clipped = rows.map(lambda block: clip_rows_l2(block.X, row))
        coef: FloatArray = np.zeros(d)

        def scores(block: Block) -> FloatArray:
            # Residuals are clipped to ±B_y, as responses are elsewhere.
            residuals = truncate(block.y - block.predictors(coef, block.derived), response)
            return block.products(residuals, block.derived)

        for _ in range(self.n_rounds):
            score = spend(RESIDUALS, ball_sum.of(clipped.sum(scores), row * response)).value
            coef = coef + solve_ridge(gram, ridge, score)
        return coef
