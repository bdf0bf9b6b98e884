"""Private sparse generalized linear models by noisy iterative hard thresholding (paper B, Algorithm 5).

    v = β − η (1/n) Σ_i r_i x_i,   r_i = ψ'(x_i'β) − y_i, clipped as the family requires
    β ← NoisyHT(v, s):  the s noisily largest entries of v, released with noise,   t = 1 … T,   from β = 0

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Public: ``family``, ``covariate_bound`` σ_x
(entries are truncated to ±σ_x here), ``sparsity`` s, ``n_iterations`` T, ``step_size`` η. If given, also
``response_bound`` (the clip of residuals) and ``coef_bound`` (projection).

Why it is private. β is public when a round begins, so only the gradient moves. An entry moves by at most 2 r
σ_x/n, where r is the family's ``largest_residual`` at |x'β| ≤ σ_x ‖β‖₁. Rows with the entries σ_x sign(β) on
the support and ±σ_x at another coordinate attain that. Residuals are clipped at r, because rounding may
exceed it. `Design.rounding` is the factor for the rounding of products in single precision. The selection and
the values of every round are charged (:mod:`dpalgos.mechanisms.noisy_iht`).

Calibrations
    ``tight``: Gumbel top-s and Gaussian values, with the exact sensitivity at the current iterate. For
    logistic regression it is sigmoid(σ_x ‖β‖₁) 2 σ_x / n, half of its supremum in the first round.
    ``paper``: Algorithm 3 with Laplace noise of scale η (B/n) · 2 √(3 s log(T/δ)) T / ε, B = 4 (R + c1) σ_x,
    which is 8 σ_x for logistic regression: four times the supremum of the sensitivity. If ψ' is unbounded, as
    in Gaussian and Poisson models, (G1) excludes the family, and the residual's clip replaces R + c1.

An intercept is a column of ones. It is selected and truncated like any other column, so ``covariate_bound``
should then be at least 1.

Settings: the default is T = 5. Each round has less noise than the one before it. Later rounds of a longer run
gain less than the noise that they cost. Columns in public units of one standard deviation are clipped at ±1:
a normal column keeps most of its correlation with the response. The noise is in proportion to σ_x² and falls
by nine compared with ±3.

Departures: T of the paper's simulations is not stated. No multinomial model is printed, nor is there one
here.

Reference: Cai, Wang & Zhang, Cost of privacy in generalized linear models, Algorithm 5, Lemma 5, Theorem 3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from dpalgos.catalog import Release, register
from dpalgos.mechanisms.noisy_iht import Round, planned_rounds, printed_rounds, tight_rounds
from dpalgos.mechanisms.sensitivity import ball_mean
from dpalgos.mechanisms.top_k import selected_l2_sensitivity
from dpalgos.models.families import Family, SparseFamilyParams
from dpalgos.models.risk import wide_gradient
from dpalgos.params import count, positive
from dpalgos.release.checks import check_how_many
from dpalgos.release.transcript import Transcript
from dpalgos.rows.clipping import project_l2_ball
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.typing import FloatArray


class SparseDescent(Protocol):
    """Keywords of noisy hard thresholding in any family."""

    @property
    def calibration(self) -> str: ...
    @property
    def covariate_bound(self) -> float: ...
    @property
    def sparsity(self) -> int: ...
    @property
    def n_iterations(self) -> int: ...
    @property
    def coef_bound(self) -> float | None: ...
    @property
    def step(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class DPSparseGLMParams(SparseFamilyParams):
    """Keywords of :func:`dp_sparse_glm`."""

    n_iterations: int = count("T, number of rounds", default=5)
    step_size: float | None = positive(
        "η; None: 2 / (3 γ), γ = ψ''(0) covariate_bound² / 3, the curvature at 0 for uniform entries",
        default=None,
    )
    coef_bound: float | None = positive(
        "C: iterates are projected onto the ℓ2 ball of this radius; None: they are not", default=None
    )

    @property
    def step(self) -> float:
        if self.step_size is not None:
            return self.step_size
        curvature = float(self.family_object().second_derivative(np.zeros((1, 1)))[0, 0])
        return 2 / (curvature * self.covariate_bound**2)


def largest_residual(params: SparseDescent, family: Family, coef: FloatArray) -> FloatArray:
    """Return the bound on residuals that a round uses, (R,): at the iterate, or as printed over all."""
    norm = family.predictor_norm(coef, 1)
    if params.calibration == "paper":
        norm = np.full_like(norm, np.sqrt(params.sparsity) * (params.coef_bound or np.inf))
    return family.largest_residual(params.covariate_bound * norm)


def projected(params: SparseDescent, coef: FloatArray) -> FloatArray:
    return coef if params.coef_bound is None else project_l2_ball(coef, params.coef_bound)


SELECTION = Release("step: selection", ball_mean)
VALUES = Release("step: values", selected_l2_sensitivity)


@register(
    title="Noisy hard thresholding",
    order=20,
    task="glm",
    reference="Cai, Wang & Zhang, Cost of Privacy in GLMs, Algorithm 5",
    summary="Gradient steps of a GLM of which the largest entries are selected and released with noise.",
    no_interval="a support that was selected is not the one that a new sample would select",
    example={
        "family": "gaussian",
        "covariate_bound": 1.0,
        "response_bound": 3.0,
        "sparsity": 1,
        "n_iterations": 8,
        "step_size": 2.0,
    },
    releases=(SELECTION, VALUES),
    has_path=True,
    public="response_bound where the family's residual is unbounded",
)
def dp_sparse_glm(sample: Sample, params: DPSparseGLMParams, transcript: Transcript) -> FloatArray:
    """Return the last iterate, (d, R)."""
    family = params.family_object()
    budget = params.epsilon, params.delta, params.sparsity, params.n_iterations
    if params.calibration == "tight":
        rounds = tight_rounds(planned_rounds(*budget), params.sparsity, params.n_iterations)
    else:
        excess = 4.0 if np.isfinite(family.derivative_bound) else 2.0
        rounds = printed_rounds(transcript, *budget, excess=excess)
    return sparse_descent(sample, params, transcript, family, rounds)


def sparse_descent(
    sample: Sample,
    params: SparseDescent,
    transcript: Transcript,
    family: Family,
    rounds: Sequence[Round],
    prune: Callable[[FloatArray, FloatArray | float], FloatArray] | None = None,
) -> FloatArray:
    """Return the last iterate of noisy hard thresholding in a family, (d, R).

    ``prune`` is applied to the values (s, R) of the last round, given the standard deviation of their noise:
    post-processing.
    """
    check_how_many("sparsity", params.sparsity, sample.n_features)
    design = Design(sample, params.covariate_bound, single=True)
    gradient = wide_gradient(sample, design, family, lambda coef: largest_residual(params, family, coef))
    coef: FloatArray = np.zeros((sample.n_features, sample.n_replicates))
    iterates = [coef]
    for t, noisy_ht in enumerate(rounds, start=1):
        residual = largest_residual(params, family, coef)
        moves = ball_mean(residual * params.covariate_bound, sample.n_rows)
        sensitivity = params.step * (design.rounding * moves)
        step_end = coef - params.step * gradient(coef)
        released = noisy_ht(transcript, (SELECTION, VALUES), step_end, linf_sensitivity=sensitivity)
        if prune is not None and t == len(rounds):
            released = replace(released, values=prune(released.values, released.noise_std))
        coef = projected(params, released.dense())
        iterates.append(coef)
    transcript.path = np.stack(iterates)
    return coef
