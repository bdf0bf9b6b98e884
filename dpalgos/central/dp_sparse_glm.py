"""Private sparse generalized linear models by noisy iterative hard thresholding (paper B, Algorithm 5).

    v = β − η (1/n) Σ_i r_i x_i,   r_i = ψ'(x_i'β) − y_i, clipped as the family requires
    β ← NoisyHT(v, s):  the s noisily largest entries of v, released with noise,   t = 1 … T,   from β = 0

    release               sensitivity (ℓ2)    share of ρ
    step: selection       2 η r σ_x/n (ℓ∞)    half; 0.3 in the last round
    step: values          √s 2 η r σ_x/n      the rest

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Public: ``family``, ``covariate_bound`` σ_x
(entries are truncated to ±σ_x here), ``sparsity`` s, ``n_iterations`` T, ``step_size`` η. If given, also
``response_bound`` (the clip of residuals) and ``coef_bound`` (projection).

Why it is private. β is public when a round begins, so only the gradient moves. An entry moves by at most 2 r
σ_x/n, where r is the family's ``largest_residual`` at |x'β| ≤ σ_x ‖β‖₁. Rows with the entries σ_x sign(β) on
the support and ±σ_x at another coordinate attain that. Residuals are clipped at r, because rounding may
exceed it. `Design.rounding` is the factor for the rounding of products in single precision. The selection and
the values of every round are charged (:mod:`dpalgos.central.noisy_iht`).

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

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from dpalgos.catalog import register
from dpalgos.central.noisy_iht import STEP_LEMMAS, dense, noisy_ht, planned_rounds, printed_rounds
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Lemmas, ball_mean
from dpalgos.mechanisms.top_k import unmet_conditions
from dpalgos.models.estimators import SparseFamilyEstimator
from dpalgos.models.families import Family
from dpalgos.models.risk import wide_gradient
from dpalgos.params import check_how_many, count, positive
from dpalgos.rows.products import project_l2_ball
from dpalgos.rows.wide import Design
from dpalgos.typing import FloatArray


class SparseDescent(Protocol):
    """Keywords of noisy hard thresholding in any family."""

    @property
    def epsilon(self) -> float: ...
    @property
    def delta(self) -> float: ...
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


def largest_residual(params: SparseDescent, family: Family, coef: FloatArray) -> FloatArray:
    """Return the bound on residuals that a round uses, (R,): at the iterate, or as printed over all."""
    norm = family.predictor_norm(coef, 1)
    if params.calibration == "paper":
        norm = np.full_like(norm, np.sqrt(params.sparsity) * (params.coef_bound or np.inf))
    return family.largest_residual(params.covariate_bound * norm)


def projected(params: SparseDescent, coef: FloatArray) -> FloatArray:
    return coef if params.coef_bound is None else project_l2_ball(coef, params.coef_bound)


def sparse_descent(
    rows: Rows,
    spend: Spend,
    params: SparseDescent,
    family: Family,
    prune: Callable[[FloatArray, FloatArray | float], FloatArray] | None = None,
) -> FloatArray:
    """Return the last iterate of noisy hard thresholding in a family, (…, d).

    ``prune`` is applied to the values (s, R) of the last round, given the standard deviation of their noise:
    post-processing.
    """
    T, bound = params.n_iterations, params.covariate_bound
    if params.calibration == "paper":
        spend.note("conditions", unmet_conditions(params.epsilon / T, params.delta / T, params.sparsity))
    design = Design(rows.sample, bound, single=True)
    gradient = wide_gradient(rows.sample, design, family, lambda coef: largest_residual(params, family, coef))
    coef: FloatArray = np.zeros((rows.d, rows.sample.n_replicates))
    iterates = [rows.by_replicate(coef)]
    for t in range(T):
        residual = largest_residual(params, family, coef)
        step_end = rows.by_replicate(coef - params.step * gradient(coef))
        moved = ball_mean.of(step_end, params.step * design.rounding * residual * bound, rows.n)
        support, (values, std) = noisy_ht(spend, t, moved)
        if prune is not None and t == T - 1:
            values = rows.by_replicate(prune(rows.by_column(values), std))
        coef = projected(params, rows.by_column(dense(support, values, rows.d)))
        iterates.append(rows.by_replicate(coef))
    spend.keep_path(iterates)
    return iterates[-1]


@register(
    name="dp_sparse_glm",
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
    has_path=True,
    public="response_bound where the family's residual is unbounded",
)
@dataclass(frozen=True, kw_only=True)
class DPSparseGLM(SparseFamilyEstimator):
    """Noisy hard thresholding on the likelihood of a generalized linear model."""

    n_iterations: int = count("T, number of rounds", default=5)
    step_size: float | None = positive(
        "η; None: 2 / (3 γ), γ = ψ''(0) covariate_bound² / 3, the curvature at 0 for uniform entries",
        default=None,
    )
    coef_bound: float | None = positive(
        "C: iterates are projected onto the ℓ2 ball of this radius; None: they are not", default=None
    )

    batch = True
    lemmas: ClassVar[Lemmas] = STEP_LEMMAS

    @property
    def step(self) -> float:
        if self.step_size is not None:
            return self.step_size
        curvature = float(self.family_object().second_derivative(np.zeros((1, 1)))[0, 0])
        return 2 / (curvature * self.covariate_bound**2)

    def plan(self, n: float, d: int) -> Plan:
        check_how_many("sparsity", self.sparsity, d)
        budget = self.epsilon, self.delta, self.sparsity, self.n_iterations
        if self.calibration == "tight":
            return planned_rounds(*budget)
        excess = 4.0 if np.isfinite(self.family_object().derivative_bound) else 2.0
        return printed_rounds(*budget, excess=excess)

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        return sparse_descent(rows, spend, self, self.family_object())
