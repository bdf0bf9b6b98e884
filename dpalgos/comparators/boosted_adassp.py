"""Linear regression by boosting: each AdaSSP fit takes the residuals of the previous ones (Tang et al. 2023).

    H = X'X + N + λI;   θ ← θ + H⁻¹ (X' clip(y − Xθ, ±B_y) + v_t),   t = 1 … T,   from θ = 0

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``covariate_bound`` B_x, to which rows are clipped
here, ``response_bound`` B_y, to which every round's residuals are clipped, ``n_rounds`` T.

θ is post-processing of the releases before it, hence public when the next residuals are taken.

Each sensitivity is attained; its function (:mod:`dpalgos.steps.moments`) says by which rows.

Calibrations
    ``tight``: multiplier √(T + 2) z1(ε, δ) for each, which is exactly (ε, δ) in all; noise on svec(X'X).
    ``paper``: noise σ = √(T + 2) z1(ε, δ) times B_x², B_x² and B_x B_y, made for adding or removing a
    row, on the upper triangle of X'X. Under replacing one row μ² = (1 + 2 + 4T)/σ², which the certificate
    states.
Either way λ = max(0, 1.96 √d σ B_x² − max(0, released least eigenvalue − 1.96 σ B_x²)), as in their code.

An interval (:mod:`dpalgos.central.preconditioned.from_start`) takes half of μ², and is around whitened steps
from the answer.

Departure: this is the first version of the authors' code. The later one takes σ = μ(ε, δ), the privacy
parameter itself and not its inverse, for every release whatever T is, which is not (ε, δ)-private.

Reference: Tang, Aydore, Kearns, Rho, Roth, Wang, Wang & Wu (2023), Improved differentially private regression
via gradient boosting.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.catalog import Form, Published, Release, Witnesses, pair, register, witnessed
from dpalgos.central.preconditioned.from_start import START_RELEASES, interval_from, reserved
from dpalgos.central.preconditioned.interval import RegressionIntervalParams
from dpalgos.comparators.adassp import gram_witnesses, release_gram
from dpalgos.mechanisms.sensitivity import ball_mean
from dpalgos.params import count, positive
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import clipped_residual_gradient
from dpalgos.steps.moments import row_moments
from dpalgos.typing import FloatArray

_TAIL = 1.96  # normal quantile by which the least eigenvalue is bounded; affects accuracy only


@dataclass(frozen=True, kw_only=True)
class BoostedAdaSSPParams(RegressionIntervalParams):
    """Keywords of :func:`boosted_adassp`."""

    covariate_bound: float = positive("B_x: rows are clipped to this ℓ2 norm")
    response_bound: float = positive("B_y: residuals are clipped to ±B_y")
    n_rounds: int = count("T, rounds of boosting", default=100)


def witnesses(params: BoostedAdaSSPParams, d: int, published: Published) -> Witnesses:
    """Return, for each release, neighbors that differ by its sensitivity."""
    row, far = params.covariate_bound * np.eye(1, d), 1e12 * params.response_bound
    return [*gram_witnesses(params.covariate_bound, d), pair(row, row, far, -far)]


@register(
    title="Boosted AdaSSP",
    order=41,
    task="linear_regression",
    reference="Tang et al. (2023)",
    summary="Noisy second moments once, then rounds of AdaSSP on clipped residuals.",
    example={"covariate_bound": 2.0, "response_bound": 3.0, "n_rounds": 10},
    releases=witnessed(
        witnesses,
        Release("least eigenvalue", "1/(T + 2) of the rest", "covariate_bound**2", release_gram),
        Release("X'X", "1/(T + 2) of the rest", "sqrt(2) * covariate_bound**2", release_gram),
        Release("X' residuals", "T/(T + 2) of the rest", "2 * covariate_bound * response_bound"),
        *START_RELEASES,
    ),
    forms={"interval": Form(keywords={"interval": 0.95})},
)
def boosted_adassp(sample: Sample, params: BoostedAdaSSPParams, transcript: Transcript) -> FloatArray:
    """Return the sum of the rounds' coefficients, (d, R)."""
    d, row, response = sample.n_features, params.covariate_bound, params.response_bound
    each = 1 / (params.n_rounds + 2)
    shares = {"least eigenvalue": each, "X'X": each, "X' residuals": params.n_rounds * each}
    budget = params.split_budget(shares, reserved(params, sample))
    sigma = budget.gaussian_multiplier("X'X")
    tight = params.calibration == "tight"
    z_gram, z_residuals = (sigma, sigma) if tight else (sigma / np.sqrt(2), sigma / 2)
    moments = row_moments(sample, row, response)
    gram, least = release_gram(moments[:, :d, :d], sigma, z_gram, row, params.calibration, transcript)
    ridge = np.maximum(0, _TAIL * np.sqrt(d) * sigma * row**2 - np.maximum(0, least - _TAIL * sigma * row**2))
    system = gram + ridge[:, None, None] * np.eye(d)
    gradient_at = clipped_residual_gradient(sample, response, row_bound=row)
    coef: FloatArray = np.zeros((d, sample.n_replicates))
    for _ in range(params.n_rounds):
        score = transcript.gaussian(
            -gradient_at(coef) * sample.n_rows,
            l2_sensitivity=ball_mean(row * response, 1),  # of responses that are residuals to ±B_y
            noise_multiplier=z_residuals,
            label="X' residuals",
        )
        coef = coef + np.linalg.solve(system, score.T[:, :, None])[:, :, 0].T
    transcript.interval = interval_from(transcript, params, budget, sample, coef)
    return coef
