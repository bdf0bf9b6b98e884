"""Private linear regression by noisy projected gradient descent (paper A, Algorithm 4.1).

    β ← Π_C( β − η (1/n) Σ_i (x_i'β − Π_R(y_i)) x_i + η w_t ),   t = 1 … T,   from β = 0

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Public: ``covariate_bound`` c_x (rows
are clipped to that ℓ2 norm here, never assumed), ``response_bound`` R, ``coef_bound`` C,
``n_iterations`` T, ``step_size`` η. The last iterate is the answer.

    quantity                       sensitivity     share             made in               forms
    quantiles                      1 (selections)  truncation_share  _quantiles            private quantiles
    gradient                       of a gradient   the rest          dp_linear_regression  all
    untruncated responses          unbounded       none proved       response_truncation   no truncation
    those of intervals.from_start  its own         .5                note_interval_from    interval

Why it is private: each step releases the gradient with Gaussian noise; β is post-processing of the
steps before it, hence public when the next gradient is taken. With a = ‖β‖₂ c_x the gradient's ℓ2
sensitivity is :func:`gradient_sensitivity`. T releases with one noise multiplier z are exactly one
Gaussian release with multiplier z/√T, also when the sensitivities are chosen adaptively.

Truncation of responses (:mod:`dpalgos.tuning.truncation`). ``"bound"``: at ±R. ``"private_quantiles"``: at
± the larger of their released 2.5 % and 97.5 % quantiles in magnitude, two selections that take
``truncation_share`` of ρ; that level is public in the steps. ``"none"``: not private.

Calibrations
    ``tight``: z = √T z1(ε, δ), and the exact sensitivity at the current iterate.
    ``paper``: the printed noise, η B √(2 log(2T/δ)) T / (nε) with B = 4 (R + C c_x) c_x, that is splitting ε
    and δ evenly over the steps. Its certificate uses the worst sensitivity over the ball ‖β‖ ≤ C, so that it
    holds before the run. No quantiles: what the noise covers would depend on them.

Residual-clipped form (``residual_bound`` given; tight only): the residual is clipped to ±``residual_bound``,
the sensitivity is 2 · residual_bound · c_x / n for any β, and R and C are not needed for privacy.

An interval (:mod:`dpalgos.intervals.from_start`; ``truncation="bound"``, residuals not clipped; tight only)
takes half of μ², and is around whitened steps from the answer.

Departures: the ½-loss gradient, as in the paper's update (its L_n lacks the ½); the printed B exceeds the
exact sensitivity by 2 to 4 times; T and η of the paper's experiments are not stated, hence are arguments.

Reference: Cai, Wang & Zhang, The Cost of Privacy, Algorithm 4.1, Lemma 4.2 (C ≤ c0 is assumed there).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.calibration import tuned_noise
from dpalgos.accounting.events import Event, GaussianEvent
from dpalgos.catalog import Form, Published, Witnesses, pair, register
from dpalgos.errors import InputError
from dpalgos.intervals.from_start import IntervalFromStart
from dpalgos.params import PrivateParams, count, positive
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import ball_mean_sensitivity, clipped_residual_gradient, project_l2_ball
from dpalgos.steps.moments import squared_error_gradient
from dpalgos.tuning.truncation import (
    LABEL,
    LEVELS,
    check_response_truncation,
    quantile_witness,
    response_truncation,
    share,
    symmetric_bound,
    truncation_choice,
)
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class LinearRegressionParams(PrivateParams):
    """Bounds on responses, residuals and iterates of linear models; also of noisy hard thresholding."""

    response_bound: float = positive("R: responses are truncated to ±R")
    coef_bound: float = positive("C: iterates are projected onto the ℓ2 ball of this radius")
    truncation: str = truncation_choice()
    truncation_share: float = share("quantiles of the responses", default=0.05)
    residual_bound: float | None = positive(
        "clip residuals to ± this bound (residual-clipped form)", default=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_response_truncation(self.truncation, self.calibration, self.residual_bound)


@dataclass(frozen=True, kw_only=True)
class DPLinearRegressionParams(IntervalFromStart, LinearRegressionParams):
    """Keywords of :func:`dp_linear_regression`."""

    covariate_bound: float = positive("c_x: rows are clipped to this ℓ2 norm")
    n_iterations: int = count("T, number of gradient steps", default=5)
    step_size: float | None = positive(
        "η; None: 2 / covariate_bound², safe where the second moment matrix has eigenvalues below c_x²",
        default=None,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.truncation == "private_quantiles" and self.calibration == "paper":
            raise InputError(
                "truncation must be 'bound' or 'none' for calibration='paper', got 'private_quantiles'; "
                "use calibration='tight'"
            )
        if self.interval is not None and (self.truncation != "bound" or self.residual_bound is not None):
            raise InputError(
                f"interval must be None where residuals are clipped or responses cut at quantiles, got "
                f"{self.interval!r}; leave out residual_bound and truncation"
            )

    @property
    def step(self) -> float:
        return self.step_size or 2 / self.covariate_bound**2

    def budget(self, sample: Sample | None = None) -> SplitBudget:
        """Return the shares of μ²; quantiles are accounted separately, see :func:`planned_noise`."""
        return self.split_budget({"steps": 1.0}, {} if sample is None else self.reserved(sample))


def witnesses(params: DPLinearRegressionParams, d: int, published: Published) -> Witnesses:
    """Return neighbors whose last gradients differ by the sensitivity, given the published ones."""
    bound = params.covariate_bound
    coef: FloatArray = np.zeros((d, 1))
    response_bound, quantiles = params.response_bound, {}
    if params.truncation == "private_quantiles":
        response_bound = float(symmetric_bound(published[0][:, :, :1], response_bound)[0])
        quantiles, published = {LABEL: quantile_witness(params.response_bound, d)}, published[1:]
    for gradient in published[: params.n_iterations - 1]:
        coef = project_l2_ball(coef - params.step * gradient, params.coef_bound)
    along = coef[:, 0] / max(float(np.linalg.norm(coef)), np.finfo(float).tiny)
    across = np.linalg.svd(along[None, :])[2][-1]
    if params.residual_bound is not None:
        return {"gradient": pair(bound * across, bound * across, 1e6, -1e6)}
    t = _steepest(float(np.linalg.norm(coef)) * bound, response_bound)
    one, other = (bound * (t * along + sign * np.sqrt(1 - t**2) * across) for sign in (1, -1))
    return {
        "gradient": pair(one, other, -response_bound),
        **params.start_witnesses(d),
        **quantiles,
    }


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
    witnesses=witnesses,
    forms={
        "private quantiles": Form(keywords={"truncation": "private_quantiles"}),
        "residual-clipped": Form(keywords={"residual_bound": 2.0}),
        "interval": Form(keywords={"interval": 0.95}),
        "no truncation": Form(keywords={"truncation": "none"}, calibrations=("paper",), protected=False),
    },
)
def dp_linear_regression(
    sample: Sample, params: DPLinearRegressionParams, transcript: Transcript
) -> FloatArray:
    """Return the last iterate, (d, R)."""
    n, bound, residual_bound = sample.n_rows, params.covariate_bound, params.residual_bound
    quantile_epsilon, multiplier = planned_noise(params)
    budget = params.budget(sample)
    if params.interval is not None:
        multiplier = budget.gaussian_multiplier("steps", params.n_iterations)
    level, response_bound = response_truncation(
        transcript, sample, params.response_bound, params.truncation, quantile_epsilon
    )
    if residual_bound is not None:
        sample.check_response()
        gradient_at = clipped_residual_gradient(sample, residual_bound, row_bound=bound)
    else:
        gradient_at = squared_error_gradient(sample, bound, level)
    coef: FloatArray = np.zeros((sample.n_features, sample.n_replicates))
    for _ in range(params.n_iterations):
        if residual_bound is not None:
            sensitivity = ball_mean_sensitivity(residual_bound * bound, n)
        else:
            largest = params.coef_bound if params.calibration == "paper" else np.linalg.norm(coef, axis=0)
            sensitivity = gradient_sensitivity(largest * bound, response_bound, bound, n)
        if params.calibration == "paper":  # both scale with 1/n, so that the ratio is one number
            multiplier = float((printed_noise_std(params, n) / sensitivity).flat[0])
        released = transcript.gaussian(
            gradient_at(coef), l2_sensitivity=sensitivity, noise_multiplier=multiplier, label="gradient"
        )
        coef = project_l2_ball(coef - params.step * released, params.coef_bound)
    if params.interval is not None:
        params.note_interval_from(transcript, budget, sample, coef)
    return coef


def gradient_sensitivity(
    predictor_bound: float | FloatArray,
    response_bound: float | FloatArray,
    covariate_bound: float,
    n_rows: float | FloatArray,
) -> FloatArray:
    """Return the exact ℓ2 sensitivity of the gradient (1/n) Σ (x_i'β − y_i) x_i under replacing one row.

    |x'β| ≤ a, ``predictor_bound``, |y| ≤ R and ‖x‖ ≤ c_x. Proof. The change is (g − g')/n, where
    g = (x'β − y) x. Both lie in the plane of β and an orthogonal direction without loss; ‖g − g'‖ is largest
    for the mirror images x, x' = c_x (t, ±√(1 − t²)) with y = y' = −R (the extreme gradients point along +β,
    hence not at each other), where ‖g − g'‖ = 2 c_x (a t + R) √(1 − t²). The maximum over t in [0, 1] is at
    t = (−R + √(R² + 8a²)) / (4a). In one dimension the value is an upper bound.
    """
    a = np.asarray(predictor_bound, dtype=float)
    t = _steepest(a, response_bound)
    change = 2 * covariate_bound * (a * t + response_bound) * np.sqrt(1 - t**2)
    return np.asarray(change / n_rows)


def _steepest(a: float | FloatArray, response_bound: float | FloatArray) -> FloatArray:
    # (−R + √(R² + 8a²)) / (4a) without its cancellation for small a.
    return np.asarray(2 * a / (response_bound + np.sqrt(response_bound**2 + 8 * np.square(a))))


@lru_cache(maxsize=4096)
def planned_noise(params: DPLinearRegressionParams) -> tuple[float, float]:
    """Return the ε0 of a quantile, and the noise multiplier of a gradient, both for ``tight``."""
    alone = params.budget().gaussian_multiplier("steps", params.n_iterations)
    if params.truncation != "private_quantiles":
        return np.nan, alone

    def steps(factor: float) -> list[Event]:
        z, n_steps = factor * alone, params.n_iterations
        return [GaussianEvent(label="", noise_multiplier=z, l2_sensitivity=1.0, count=n_steps)]

    noise = tuned_noise(
        steps,
        epsilon=params.epsilon,
        delta=params.delta,
        selection_share=params.truncation_share,
        n_selections=len(LEVELS),
    )
    return noise.selection_epsilon, noise.fit_factors[0] * alone


def printed_noise_std(params: DPLinearRegressionParams, n_rows: FloatArray) -> FloatArray:
    """Return the noise on the gradient as Algorithm 4.1 prints it, per replicate."""
    steps = params.n_iterations
    bound = 4 * (params.response_bound + params.coef_bound * params.covariate_bound) * params.covariate_bound
    log_term = np.sqrt(2 * np.log(2 * steps / params.delta))
    return np.asarray(bound * log_term * steps / (n_rows * params.epsilon))
