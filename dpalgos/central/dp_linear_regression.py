"""Private linear regression by noisy projected gradient descent (paper A, Algorithm 4.1).

    β ← Π_C( β − η (1/n) Σ_i (x_i'β − Π_R(y_i)) x_i + η w_t ),   t = 1 … T,   from β = 0

    release                sensitivity    share
    private quantiles      1              0.05 of ρ
    gradient, T times      2 c_x ρ/n      the rest, or all

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
from typing import ClassVar

import numpy as np

from dpalgos.accounting.other_events import UNPROTECTED, Selection
from dpalgos.catalog import Form, register
from dpalgos.central.dp_glm import GRADIENT, NoisyDescent
from dpalgos.core.estimator import PrivateEstimator
from dpalgos.core.other_plans import after_selections
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Block, Rows, clipped_moments
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Lemmas, ball_mean
from dpalgos.models.families import Family, get_family
from dpalgos.models.families.gaussian import TruncatedGaussian
from dpalgos.params import count, positive
from dpalgos.rows.products import clip_rows_l2, truncate
from dpalgos.tuning.descent import ClippedLoss
from dpalgos.tuning.truncation import (
    LABEL,
    LEVELS,
    RESPONSE_RELEASES,
    RESPONSE_SHARE,
    check_response_truncation,
    check_truncation,
    released_levels,
    truncation_choice,
)
from dpalgos.typing import FloatArray, Number

QUANTILES, UNTRUNCATED = RESPONSE_RELEASES


@dataclass(frozen=True, kw_only=True)
class TruncatedRegression(PrivateEstimator):
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


@register(
    name="dp_linear_regression",
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
    has_path=True,
    forms={
        "private quantiles": Form(keywords={"truncation": "private_quantiles"}),
        "residual-clipped": Form(keywords={"residual_bound": 2.0}),
        "no truncation": Form(keywords={"truncation": "none"}, calibrations=("paper",), protected=False),
    },
)
@dataclass(frozen=True, kw_only=True)
class DPLinearRegression(TruncatedRegression, NoisyDescent):
    """Noisy projected gradient descent on least squares with truncated responses."""

    coef_bound: float = positive("C: iterates are projected onto the ℓ2 ball of this radius")
    n_iterations: int = count(
        "T, number of gradient steps; in a study file also 'by forecast', from its [guesses]", default=5
    )
    step_size: float | None = positive(
        "η; None: 2 / covariate_bound², safe where the second moment matrix has eigenvalues below c_x²",
        default=None,
    )

    lemmas: ClassVar[Lemmas] = {
        GRADIENT: ball_mean,
        QUANTILES.label: QUANTILES.lemma,
        UNTRUNCATED.label: UNTRUNCATED.lemma,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_truncation(self.truncation, self.calibration, prints_quantiles=False)

    @property
    def step(self) -> float:
        return self.step_size or 2 / self.covariate_bound**2

    def plan(self, n: float, d: int) -> Plan:
        steps = super().plan(n, d)
        if self.truncation == "none":
            return {UNTRUNCATED.label: UNPROTECTED, **steps}
        if self.truncation != "private_quantiles":
            return steps
        quantiles = Selection(
            1.0, count=len(LEVELS), support=(-self.response_bound, self.response_bound), by="density"
        )
        return after_selections(self.epsilon, self.delta, LABEL, quantiles, RESPONSE_SHARE, steps)

    def released_family(self, rows: Rows, spend: Spend) -> Family:
        """Return the family, after a release of quantiles where they decide the truncation."""
        return self.family_at(*released_levels(rows, spend, self.response_bound, self.truncation))

    def forecast_family(self) -> Family:
        return self.family_at(self.response_bound, self.response_bound)

    def clipped_loss(self, X: FloatArray, y: FloatArray) -> ClippedLoss:
        truncated = y if self.residual_bound is not None else truncate(y, self.response_bound)
        return super().clipped_loss(X, truncated)

    def gradient_of(self, family: Family, rows: Rows) -> Callable[[FloatArray], FloatArray]:
        """Return β ↦ the mean gradient: from second moments where no residual is clipped."""
        if isinstance(family, TruncatedGaussian):
            return squared_error_gradient(rows, self.covariate_bound, family.level)
        return super().gradient_of(family, rows)

    @property
    def printed_residual(self) -> float:
        """R + C c_x."""
        return self.response_bound + self.coef_bound * self.covariate_bound


def squared_error_gradient(
    rows: Rows, covariate_bound: float, level: Number
) -> Callable[[FloatArray], FloatArray]:
    """Return β (…, d) ↦ X'(Xβ − y)/n; rows are clipped, responses truncated to ± ``level``, one or (R,)."""
    d, is_shared = rows.d, np.ndim(level) == 0
    moments = clipped_moments(rows, covariate_bound, float(level) if is_shared else np.inf) / rows.n
    gram, cross = moments[..., :d, :d], moments[..., :d, d]
    if not is_shared:  # every replicate truncates at a level of its own
        bounds = np.asarray(level)[:, None]

        def crossed(block: Block) -> FloatArray:
            return block.products(truncate(block.y, bounds), clip_rows_l2(block.X, covariate_bound))

        cross = rows.mean(crossed)

    def at(coef: FloatArray) -> FloatArray:
        return np.asarray((gram @ coef[..., None])[..., 0] - cross)

    return at
