"""Private linear regression by noisy projected gradient descent (paper A, Algorithm 4.1).

    β ← Π_C( β − η (1/n) Σ_i (x_i'β − Π_R(y_i)) x_i + η w_t ),   t = 1 … T,   from β = 0

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Public: ``covariate_bound`` c_x (rows are
clipped to that ℓ2 norm here, never assumed), ``response_bound`` R, ``coef_bound`` C, ``n_iterations`` T,
``step_size`` η.

The steps and their proof are those of :mod:`dpalgos.central.dp_glm`, with truncated responses
(:class:`dpalgos.models.families.gaussian.TruncatedGaussian`): the sensitivity follows from ‖β‖₂.

Truncation of responses (:mod:`dpalgos.tuning.truncation`)
    ``"bound"``: at ±R.
    ``"private_quantiles"``: at ± the larger magnitude of their released 2.5% and 97.5% quantiles. These are
    two selections that take 0.05 of ρ. The level is then public.
    ``"none"``: not private.

Residual-clipped form (``residual_bound``; tight only): the steps of ``dp_glm(family="gaussian")``, of
sensitivity 2 · residual_bound · c_x / n for any β. R and C are not needed for privacy.

``calibration="paper"``: η B √(2 log(2T/δ)) T / (nε), B = 4 (R + c_x C) c_x, which splits ε and δ evenly over
the steps. Its certificate assumes ‖β‖ = C. There are no quantiles: the noise would depend on them.

Departures: the ½-loss gradient, as in the paper's update (its L_n lacks the ½). The printed B exceeds the
exact sensitivity by 2 to 4 times. T and η of the paper's experiments are not stated, so they are arguments.

Reference: Cai, Wang & Zhang, The Cost of Privacy, Algorithm 4.1, Lemma 4.2 (C ≤ c0 is assumed there).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.calibration import NoisePlan, gaussians, least_noise
from dpalgos.catalog import Form, register
from dpalgos.central.dp_glm import GRADIENT, NoisyDescentParams, noisy_descent
from dpalgos.models.families import Family, get_family
from dpalgos.models.families.gaussian import TruncatedGaussian
from dpalgos.params import PrivateParams, count, positive
from dpalgos.release.transcript import Transcript
from dpalgos.rows.clipping import truncate
from dpalgos.rows.moments import squared_error_gradient
from dpalgos.rows.sample import Sample
from dpalgos.tuning.descent import ClippedRows
from dpalgos.tuning.truncation import (
    LABEL,
    LEVELS,
    RESPONSE_RELEASES,
    RESPONSE_SHARE,
    check_response_truncation,
    check_truncation,
    response_truncation,
    truncation_choice,
)
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class LinearRegressionParams(PrivateParams):
    """Bounds on responses, residuals and iterates of linear models; also of noisy hard thresholding."""

    response_bound: float = positive("R: responses are truncated to ±R")
    coef_bound: float = positive("C: iterates are projected onto the ℓ2 ball of this radius")
    truncation: str = truncation_choice()
    residual_bound: float | None = positive(
        "clip residuals to ± this bound (residual-clipped form)", default=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_response_truncation(self.truncation, self.calibration, self.residual_bound)

    def family_at(self, level: float | FloatArray, largest: float | FloatArray) -> Family:
        """Return the family, of responses that are truncated to ± ``level`` or of clipped residuals."""
        if self.residual_bound is not None:
            return get_family("gaussian", response_bound=self.residual_bound, private=True)
        return TruncatedGaussian(level=level, largest=largest)


@dataclass(frozen=True, kw_only=True)
class DPLinearRegressionParams(LinearRegressionParams, NoisyDescentParams):
    """Keywords of :func:`dp_linear_regression`."""

    coef_bound: float = positive("C: iterates are projected onto the ℓ2 ball of this radius")
    n_iterations: int = count(
        "T, number of gradient steps; in a study file also 'by forecast', from its [guesses]", default=5
    )
    step_size: float | None = positive(
        "η; None: 2 / covariate_bound², safe where the second moment matrix has eigenvalues below c_x²",
        default=None,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_truncation(self.truncation, self.calibration, prints_quantiles=False)

    @property
    def step(self) -> float:
        return self.step_size or 2 / self.covariate_bound**2

    def released_family(self, sample: Sample, transcript: Transcript) -> tuple[Family, float]:
        """Return the family, after a release of quantiles where they decide the truncation."""
        noise = planned_noise(self)
        multiplier = noise.multiplier(GRADIENT.label)
        epsilon = noise.epsilon_of(LABEL) if self.truncation == "private_quantiles" else np.nan
        levels = response_truncation(transcript, sample, self.response_bound, self.truncation, epsilon)
        return self.family_at(*levels), multiplier

    def forecast_family(self) -> Family:
        return self.family_at(self.response_bound, self.response_bound)

    def clipped_rows(self, X: FloatArray, y: FloatArray) -> ClippedRows:
        truncated = y if self.residual_bound is not None else truncate(y, self.response_bound)
        return super().clipped_rows(X, truncated)

    def gradient_of(self, family: Family, sample: Sample) -> Callable[[FloatArray], FloatArray]:
        """Return β ↦ the mean gradient: from second moments where no residual is clipped."""
        if isinstance(family, TruncatedGaussian):
            return squared_error_gradient(sample, self.covariate_bound, family.level)
        return super().gradient_of(family, sample)

    @property
    def printed_residual(self) -> float:
        """R + C c_x."""
        return self.response_bound + self.coef_bound * self.covariate_bound


@register(
    title="Noisy gradient descent",
    order=2,
    task="linear_regression",
    reference="Cai, Wang & Zhang, The Cost of Privacy, Algorithm 4.1",
    summary="Projected gradient descent with Gaussian noise on every gradient.",
    example={
        "covariate_bound": 2.0,
        "response_bound": 3.0,
        "coef_bound": 2.0,
        "n_iterations": 10,
        "step_size": 2.0,
    },
    no_interval="the curvature at the estimate is not released; use preconditioned_regression",
    releases=(GRADIENT, *RESPONSE_RELEASES),
    has_path=True,
    forms={
        "private quantiles": Form(keywords={"truncation": "private_quantiles"}),
        "residual-clipped": Form(keywords={"residual_bound": 2.0}),
        "no truncation": Form(keywords={"truncation": "none"}, calibrations=("paper",), protected=False),
    },
)
def dp_linear_regression(
    sample: Sample, params: DPLinearRegressionParams, transcript: Transcript
) -> FloatArray:
    """Return the last iterate, (d, R)."""
    return noisy_descent(sample, params, transcript)


def planned_noise(params: DPLinearRegressionParams) -> NoisePlan:
    """Return the smallest noise of quantiles of the response, if any are released, and of gradients."""
    steps = gaussians(params.steps_multiplier(), params.n_iterations)
    plan = NoisePlan(params.epsilon, params.delta, {GRADIENT.label: steps})
    if params.truncation != "private_quantiles":
        return plan
    return least_noise(plan.after_selections(LABEL, len(LEVELS), RESPONSE_SHARE), holds=False)
