"""Private generalized linear models by noisy gradient descent (paper B, Algorithm 1).

    β ← β − η (1/n) Σ_i (ψ'(x_i'β) − y_i) x_i + η w_t,   t = 1 … T,   from β = 0

The estimate is the last iterate.

    release              sensitivity (ℓ2)      share of μ²
    gradient, T times    2 c_x ρ(c_x ‖β‖)/n    1

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Public:

- ``family``, and its number of classes;
- ``covariate_bound`` c_x: rows are clipped to that ℓ2 norm here, never assumed;
- ``response_bound``, for families whose residual ψ'(u) − y is unbounded: residuals are clipped to ± that;
- ``n_iterations`` T, ``step_size`` η, ``coef_bound``.

Labels outside the family are refused. A refusal depends on the data and is outside the guarantee.

Why it is private. Each step releases the gradient with Gaussian noise. β is post-processing of earlier steps,
so it is public when the next gradient is computed. A row's gradient is (ψ'(x'β) − y) x, with classes the
matrix x (p − e_y)'. Its norm is at most c_x ρ, where ρ is the family's ``gradient_radius`` for predictors of
at most c_x ‖β‖₂. No projection is needed. T releases with one noise multiplier z are exactly one Gaussian
release with multiplier z/√T, also if the sensitivities are chosen adaptively.

Calibrations
    ``tight``: z = √T z1(ε, δ), and the exact sensitivity at the current iterate: for logistic regression
    c_x/n at β = 0, rising to its supremum 2 c_x/n as ‖β‖ grows.
    ``paper``: the paper's calibration, η B √(2d log(2T/δ)) T / (nε) with B = 4 (R + c1) σ_x, which splits ε
    and δ evenly over the steps. c_x = σ_x √d, and R = c1 = 1 for labels within [0, 1]. If ψ' has no bound c1
    (Gaussian, Poisson), the clip of the residual replaces R + c1. The certificate uses the largest
    sensitivity that β may reach (within ``coef_bound``, if given). Therefore it holds before the run.

Departures

- The printed B is 4 times the worst sensitivity, and 8 times the first one.
- T of the paper's experiments is not stated, so it is an argument.
- The projection (``coef_bound``) is ours and off by default.

Reference: Cai, Wang & Zhang, Cost of privacy in generalized linear models, Algorithm 1, Lemma 1.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpalgos.accounting.events import Gaussian
from dpalgos.catalog import register
from dpalgos.core.estimator import PrivateEstimator
from dpalgos.core.plans import Plan, Share, gaussian_plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Lemmas, ball_mean
from dpalgos.models.estimators import FamilyEstimator
from dpalgos.models.families import Family, check_labels, family_names, get_family
from dpalgos.models.risk import mean_gradient
from dpalgos.params import choice, count, positive
from dpalgos.rows.products import clip_rows_l2, project_l2_ball
from dpalgos.tuning.descent import CANDIDATES, ClippedLoss
from dpalgos.typing import FloatArray, Number

GRADIENT = "gradient"


@dataclass(frozen=True, kw_only=True)
class NoisyDescent(PrivateEstimator):
    """The last iterate of noisy gradient descent; subclasses decide the family."""

    covariate_bound: float = positive("c_x: rows are clipped to this ℓ2 norm")
    n_iterations: int = count(
        "T, number of gradient steps; in a study file also 'by forecast', from its [guesses]", default=10
    )
    coef_bound: float | None = positive(
        "iterates are projected onto the ℓ2 ball of this radius; None: they are not",
        default=None,
    )

    batch = True
    lemmas: ClassVar[Lemmas] = {GRADIENT: ball_mean}
    by_forecast = ("n_iterations", "step_size")
    candidates = CANDIDATES

    @property
    @abstractmethod
    def step(self) -> float:
        """Return η."""

    def plan(self, n: float, d: int) -> Plan:
        T = self.n_iterations
        if self.calibration == "tight":
            return {GRADIENT: Gaussian(self.steps_multiplier(T), times=T)}
        # Both scale with 1/n: the ratio is one number.
        largest = float(self.radius_at(self.forecast_family(), np.inf))
        return {GRADIENT: Gaussian(float(self.printed_noise_std(n, T) / ball_mean(largest, n)), times=T)}

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        family = self.released_family(rows, spend)
        gradient_at = self.gradient_of(family, rows)
        coef = rows.zeros(rows.d, *family.classes)
        iterates = [coef]
        for _ in range(self.n_iterations):
            norm = rows.by_replicate(family.predictor_norm(rows.by_column(coef), 2))
            query = ball_mean.of(gradient_at(coef), self.radius_at(family, norm), rows.n)
            step_end = coef - self.step * spend(GRADIENT, query).value
            coef = rows.by_replicate(self.projected(rows.by_column(step_end)))
            iterates.append(coef)
        path = [rows.by_replicate(family.identified(rows.by_column(each))) for each in iterates]
        spend.keep_path(path)
        return path[-1]

    def steps_multiplier(self, n_iterations: int) -> float:
        """Return the noise multiplier of each gradient if all of the budget is spent on them."""
        share = {GRADIENT: Share(1.0, n_iterations)}
        return gaussian_plan(self.epsilon, self.delta, share)[GRADIENT].noise_multiplier

    def radius_at(self, family: Family, norm: Number) -> FloatArray:
        """Return c_x ρ for coefficients of a norm; as printed, for the largest norm of an iterate."""
        if self.calibration == "paper":
            norm = np.full(np.shape(norm), self.coef_bound or np.inf)
        return np.asarray(self.covariate_bound * family.gradient_radius(self.covariate_bound * norm))

    def released_family(self, rows: Rows, spend: Spend) -> Family:
        """Return the family, after releasing what it needs."""
        return self.forecast_family()

    def gradient_of(self, family: Family, rows: Rows) -> Callable[[FloatArray], FloatArray]:
        """Return β ↦ the mean gradient of clipped rows, both in the shape of coefficients."""
        return mean_gradient(rows, family, self.covariate_bound)

    def projected(self, coef: FloatArray) -> FloatArray:
        """Return coefficients (d, …, R) projected onto the ball, if there is one."""
        if self.coef_bound is None:
            return coef
        return project_l2_ball(coef.reshape(-1, coef.shape[-1]), self.coef_bound).reshape(coef.shape)

    @property
    @abstractmethod
    def printed_residual(self) -> float:
        """Return the largest residual in the paper's calibration."""

    def printed_noise_std(self, n_rows: float | FloatArray, steps: float | FloatArray) -> FloatArray:
        """Return the noise on the gradient as printed, 4 r c_x √(2 log(2T/δ)) T / (nε), for T steps."""
        largest = 4 * self.printed_residual * self.covariate_bound
        return np.asarray(
            largest * np.sqrt(2 * np.log(2 * steps / self.delta)) * steps / (n_rows * self.epsilon)
        )

    @property
    def radius(self) -> float | None:
        return self.coef_bound

    @abstractmethod
    def forecast_family(self) -> Family:
        """Return the family that the forecast of steps uses, from public bounds alone."""

    def clipped_loss(self, X: FloatArray, y: FloatArray) -> ClippedLoss:
        family = self.forecast_family()
        return ClippedLoss(clip_rows_l2(X, self.covariate_bound), family, y, family.residual_bound)

    def noise_scale(self, steps: FloatArray, n_rows: int) -> FloatArray:
        if self.calibration == "paper":
            return self.printed_noise_std(n_rows, steps)
        multiplier = self.steps_multiplier(1)
        return np.asarray(multiplier * np.sqrt(steps) * ball_mean(1.0, np.asarray(n_rows)))

    def gradient_radius(self, norm: FloatArray) -> FloatArray:
        """Return c_x times the family's radius; 1 as printed, where the scale has it all."""
        if self.calibration == "paper":
            return np.ones_like(norm)
        bound = self.covariate_bound
        norm = norm if self.coef_bound is None else np.minimum(norm, self.coef_bound)
        return np.asarray(bound * self.forecast_family().gradient_radius(bound * norm))


@register(
    name="dp_glm",
    title="Noisy gradient descent",
    order=18,
    task="glm",
    reference="Cai, Wang & Zhang, Cost of privacy in generalized linear models, Algorithm 1",
    summary="Gradient descent on the likelihood with Gaussian noise on every gradient.",
    example={
        "family": "gaussian",
        "covariate_bound": 2.0,
        "response_bound": 2.0,
        "n_iterations": 10,
        "step_size": 2.0,
    },
    no_interval="the curvature at the estimate is not released; use preconditioned_glm",
    has_path=True,
    check_data=check_labels,
    public="response_bound where the family's residual is unbounded; n_classes where it has classes",
)
@dataclass(frozen=True, kw_only=True)
class DPGLM(NoisyDescent, FamilyEstimator):
    """Noisy gradient descent on the likelihood of a generalized linear model."""

    family: str = choice("distribution of the responses given their mean", family_names())
    n_classes: int | None = count("K, for family='multinomial': labels are 0 … K − 1", default=None)
    step_size: float | None = positive(
        "η; None: 1 / (curvature · covariate_bound²), safe for any rows; where they spread evenly over all "
        "directions, d times that",
        default=None,
    )

    def family_object(self) -> Family:
        return get_family(
            self.family, response_bound=self.response_bound, n_classes=self.n_classes, private=True
        )

    def forecast_family(self) -> Family:
        return self.family_object()

    @property
    def step(self) -> float:
        if self.step_size is not None:
            return self.step_size
        family = self.family_object()
        # Where curvature has no bound of its own (Poisson), it is the mean, about a response at most.
        curvature = min(family.curvature_bound, max(family.residual_bound, 1.0))
        return 1 / (curvature * self.covariate_bound**2)

    @property
    def printed_residual(self) -> float:
        """R + c1, a bound on |y| + ψ', or the clip of residuals where ψ' has none."""
        c1 = self.family_object().derivative_bound
        return 1.0 + c1 if np.isfinite(c1) else self.family_object().residual_bound
