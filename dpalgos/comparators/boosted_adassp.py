"""Linear regression by boosting: each AdaSSP fit takes the residuals of the previous ones (Tang et al. 2023).

    H = X'X + N + λI;   θ ← θ + H⁻¹ (X' clip(y − Xθ, ±B_y) + v_t),   t = 1 … T,   from θ = 0

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``covariate_bound`` B_x, to which rows are clipped
here, ``response_bound`` B_y, to which every round's residuals are clipped, ``n_rounds`` T.

θ follows from earlier releases only, so the residuals of each round are those of a public θ.

Calibrations
    ``tight``: multiplier √(T + 2) z1(ε, δ) for each release. Together they are exactly (ε, δ). Noise is on
    svec(X'X).
    ``paper``: noise σ = √(T + 2) z1(ε, δ) times B_x², B_x² and B_x B_y, on the upper triangle of X'X. It is
    meant for adding or removing a row. Under replacing one row μ² = (1 + 2 + 4T)/σ², which the certificate
    states.
In both, λ = max(0, 1.96 √d σ B_x² − max(0, released smallest eigenvalue − 1.96 σ B_x²)), as in their code.

Departure: this is the first version of the authors' code. The later version takes σ = μ(ε, δ) for every
release, whatever T is. This is the privacy parameter itself instead of its inverse, and is not (ε, δ)-DP.

Reference: Tang, Aydore, Kearns, Rho, Roth, Wang, Wang & Wu (2023), Improved differentially private regression
via gradient boosting.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.calibration import gaussians
from dpalgos.catalog import Release, register
from dpalgos.comparators.adassp import GRAM, SMALLEST_EIGENVALUE, release_gram
from dpalgos.mechanisms.sensitivity import ball_mean
from dpalgos.models.families import get_family
from dpalgos.models.risk import Risk
from dpalgos.params import PrivateParams, count, positive
from dpalgos.release.spend import Planned, Spend
from dpalgos.release.transcript import Transcript
from dpalgos.rows.moments import row_moments
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

_TAIL = 1.96  # normal quantile by which the smallest eigenvalue is bounded; affects accuracy only


@dataclass(frozen=True, kw_only=True)
class BoostedAdaSSPParams(PrivateParams):
    """Keywords of :func:`boosted_adassp`."""

    covariate_bound: float = positive("B_x: rows are clipped to this ℓ2 norm")
    response_bound: float = positive("B_y: residuals are clipped to ±B_y")
    n_rounds: int = count("T, rounds of boosting", default=100)


RESIDUALS = Release("X' residuals", ball_mean)


@register(
    title="Boosted AdaSSP",
    order=41,
    task="linear_regression",
    reference="Tang et al. (2023)",
    summary="Noisy second moments once, then rounds of AdaSSP on clipped residuals.",
    example={"covariate_bound": 2.0, "response_bound": 3.0, "n_rounds": 10},
    no_interval="the estimate is biased by its ridge; use preconditioned_regression",
    releases=(SMALLEST_EIGENVALUE, GRAM, RESIDUALS),
)
def boosted_adassp(sample: Sample, params: BoostedAdaSSPParams, transcript: Transcript) -> FloatArray:
    """Return the sum of the rounds' coefficients, (d, R)."""
    d, row, response = sample.n_features, params.covariate_bound, params.response_bound
    moment, times = Planned(1 / (params.n_rounds + 2)), params.n_rounds
    residuals = Planned(times / (times + 2), times)
    plan = {SMALLEST_EIGENVALUE: moment, GRAM: moment, RESIDUALS: residuals}
    spend = Spend.of_plan(transcript, params.epsilon, params.delta, plan)
    z = spend.multiplier(GRAM)
    if params.calibration == "paper":
        printed = {SMALLEST_EIGENVALUE.label: gaussians(z), GRAM.label: gaussians(z / np.sqrt(2))}
        spend = Spend(transcript, printed | {RESIDUALS.label: gaussians(z / 2, times)})
    moments = row_moments(sample, row, response)
    gram, smallest = release_gram(spend, moments[:, :d, :d], row, params.calibration)
    ridge = np.maximum(0, _TAIL * np.sqrt(d) * z * row**2 - np.maximum(0, smallest - _TAIL * z * row**2))
    system = gram + ridge[:, None, None] * np.eye(d)
    gradient_at = Risk(get_family("gaussian", response_bound=response), sample, row_bound=row).gradient
    coef: FloatArray = np.zeros((d, sample.n_replicates))
    for _ in range(params.n_rounds):
        # Residuals are clipped to ±B_y, as responses are elsewhere.
        score, _ = spend(RESIDUALS, ball_mean.of(-gradient_at(coef) * sample.n_rows, row * response, 1))
        coef = coef + np.linalg.solve(system, score.T[:, :, None])[:, :, 0].T
    spend.check_complete()
    return coef
