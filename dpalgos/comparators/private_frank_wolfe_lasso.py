"""The LASSO by private Frank–Wolfe steps (Talwar, Thakurta & Zhang 2015), for regression and for means.

    min over ‖θ‖₁ ≤ C₁ of   (1/n) Σ_i ½ (y_i − x_i'θ)²,   or, without a response,   (1/n) Σ_i ½ ‖x_i − θ‖²
    θ = 0;   for t = 1 … T:   v = the vertex of {±C₁ e_j} that noisily minimizes ⟨v, gradient⟩
                              θ ← (1 − μ_t) θ + μ_t v,   μ_t = 2/(t + 2)

Guarantee: (ε, δ) under replacing one row; n is public. Public: for regression ``covariate_bound`` x_max
(entries are truncated to ±x_max here) and ``response_bound`` R; for means ``value_bound`` R; C₁ and T.

Why it is private. Only the chosen vertices are released, and θ follows from them. The score of a vertex is
C₁ |gradient_j|, and :func:`score_sensitivity` bounds its move. For regression the bound is 2 C₁ L₁/n, times
`Design.rounding` for single precision. L₁ = (R + x_max ‖θ‖₁) x_max is the largest entry of a row's gradient.
For means it is 2 R C₁/n, as θ cancels.

Calibrations
    ``tight``: T choices by Gumbel noise (bounded range), the sensitivity at the current θ.
    ``paper``: Laplace noise of scale b = L₁ C₁ √(8T log(1/δ))/(nε) on each of the 2d scores, made for adding
    or removing a row. L₁ = (R + C₁ x_max) x_max; for means L₁ = 2R, the largest change of a row's gradient. A
    choice is 2Δ/b-DP (no bounded range with Laplace noise). Replacing a row moves the scores of a regression
    by up to Δ = 2 L₁ C₁/n. Then ρ is at most ε²/log(1/δ), about 2ε for a requested ε (a little less, as ‖θ‖₁
    < C₁ in early steps). The scores of a mean move by L₁ C₁/n, and ρ = ε²/(4 log(1/δ)).

Number of steps: the reference gives T up to constants, (nε)^(2/3). If ``n_iterations`` is None, T = 10 C₁/R,
at least 50 and at most 1000. For regression, R/x_max takes the place of R. A step moves a coordinate by about
2 C₁/T, so the last steps move it by a fifth of its bound. With fewer steps, this resolution limits the
estimate at any ε. More steps cost little, because noisy choices average out.

Reference: Talwar, Thakurta & Zhang (2015), Nearly optimal private LASSO, Algorithm 2.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.calibration import least_noise, split_plan
from dpalgos.accounting.events import PureEvent
from dpalgos.catalog import Release, register
from dpalgos.errors import InputError
from dpalgos.mechanisms.top_k import exponential_mechanism
from dpalgos.params import PrivateParams, count, positive
from dpalgos.release.declared import lemma
from dpalgos.release.transcript import Transcript, plain_sensitivity
from dpalgos.rows.clipping import truncate
from dpalgos.rows.moments import clipped_means
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.typing import FloatArray, IntArray

_RESOLUTION, _STEPS = 10, (50, 1000)


@dataclass(frozen=True, kw_only=True)
class PrivateFrankWolfeLassoParams(PrivateParams):
    """Keywords of :func:`private_frank_wolfe_lasso`."""

    coef_l1_bound: float = positive("C₁: the estimate lies in the ℓ1 ball of this radius")
    n_iterations: int | None = count("T, number of Frank–Wolfe steps; None: by C₁ and R", default=None)
    covariate_bound: float | None = positive(
        "x_max, for regression: entries of X are truncated to ± this bound", default=None
    )
    response_bound: float | None = positive("R, for regression: responses are truncated to ±R", default=None)
    value_bound: float | None = positive("R, for means: entries of X are truncated to ±R", default=None)

    @property
    def steps(self) -> int:
        """Return T."""
        if self.n_iterations is not None:
            return self.n_iterations
        bound = self.value_bound or (self.response_bound or 1.0) / (self.covariate_bound or 1.0)
        return int(np.clip(np.ceil(_RESOLUTION * self.coef_l1_bound / bound), *_STEPS))


@lemma("C₁ c/n")
def score_sensitivity(
    largest_change: float | FloatArray, coef_l1_bound: float, n_rows: FloatArray
) -> FloatArray:
    """Return how far replacing a row moves the score of any vertex: C₁ · largest change / n.

    The score of ±C₁ e_j is C₁/n times a sum over rows of one entry of their gradients. That entry changes by
    at most 2 (R + x_max ‖θ‖₁) x_max for regression: two products of a residual and a covariate; attained by
    equal extreme residuals (the same entries x_max sign(θ) on the support, y = −R) and covariates ±x_max off
    it. For means it changes by 2R, whatever θ is: the rows R·1 and −R·1.
    """
    return np.asarray(coef_l1_bound * np.asarray(largest_change) / n_rows)


VERTEX = Release("vertex", score_sensitivity)


@register(
    title="Private Frank–Wolfe",
    order=12,
    task="any",
    reference="Talwar, Thakurta & Zhang (2015), Algorithm 2",
    summary="Steps towards noisily chosen corners of an ℓ1 ball; for regression, or means if y is None.",
    no_interval="the ℓ1 ball moves the estimate by an unknown amount",
    example={"covariate_bound": 1.0, "response_bound": 3.0, "coef_l1_bound": 2.0, "n_iterations": 60},
    releases=(VERTEX,),
    public="covariate_bound and response_bound, or value_bound",
)
def private_frank_wolfe_lasso(
    sample: Sample, params: PrivateFrankWolfeLassoParams, transcript: Transcript
) -> FloatArray:
    """Return the last iterate, (d, R)."""
    problem = _Regression(sample, params) if sample.responds else _Mean(sample, params)
    radius, log_term = params.coef_l1_bound, np.log(1 / params.delta)
    printed = problem.printed_gradient_bound * radius * np.sqrt(8 * params.steps * log_term)
    budget = params.split_budget({VERTEX.label: 1.0}, gaussian=False)
    noise = least_noise(split_plan(budget, selected={VERTEX.label: params.steps}))
    theta: FloatArray = np.zeros((sample.n_features, sample.n_replicates))
    for t in range(1, params.steps + 1):
        # The score of the vertex ±C₁ e_j is ∓C₁ gradient_j: larger is better.
        ascent = radius * problem.negative_gradient(theta)
        scores = np.concatenate([ascent, -ascent])
        sensitivity = problem.rounding * score_sensitivity(
            problem.largest_change(theta, t), radius, sample.n_rows
        )
        if params.calibration == "tight":
            vertex = exponential_mechanism(
                transcript,
                VERTEX,
                scores,
                sensitivity=sensitivity,
                epsilon=noise.epsilon_of(VERTEX.label),
            )
        else:
            ratio = float((printed / params.epsilon / sample.n_rows / sensitivity)[0])
            vertex = _printed_choice(transcript, scores, sensitivity, ratio)
        theta = theta + _toward(theta, vertex, t, radius)
    return theta


def _printed_choice(
    transcript: Transcript, scores: FloatArray, sensitivity: FloatArray, ratio: float
) -> IntArray:
    """Release the largest of scores with Laplace noise of ``ratio`` times the sensitivity."""

    def draw() -> IntArray:
        noisy = scores + ratio * sensitivity * transcript.noise.laplace(len(scores))
        return np.asarray(noisy.argmax(axis=0)[None, :])

    event = PureEvent(
        label=VERTEX.label, epsilon=2 / ratio, sensitivity=plain_sensitivity(sensitivity), norm=np.inf
    )
    return np.asarray(transcript.choose(scores, draw, event)[0])


def _toward(theta: FloatArray, vertex: IntArray, t: int, radius: float) -> FloatArray:
    """Return the step μ_t (v − θ); vertices j and d + j are C₁ e_j and −C₁ e_j."""
    d, vertex, corner = len(theta), vertex.astype(int), np.zeros_like(theta)
    corner[vertex % d, np.arange(theta.shape[1])] = np.where(vertex < d, radius, -radius)
    return np.asarray(2 / (t + 2) * (corner - theta))


class _Mean:
    """½ ‖x − θ‖²: the gradient is θ − x̄."""

    def __init__(self, sample: Sample, params: PrivateFrankWolfeLassoParams) -> None:
        bound = _needed(params.value_bound, "value_bound", "a mean (y=None)")
        self._means = clipped_means(sample, truncate, bound)
        self.rounding = 1.0
        self.printed_gradient_bound = 2 * bound

    def negative_gradient(self, theta: FloatArray) -> FloatArray:
        return self._means - theta

    def largest_change(self, theta: FloatArray, t: int) -> float | FloatArray:
        return self.printed_gradient_bound


class _Regression:
    """½ (y − x'θ)²: the gradient is −(y − x'θ) x."""

    def __init__(self, sample: Sample, params: PrivateFrankWolfeLassoParams) -> None:
        self._covariate_bound = _needed(params.covariate_bound, "covariate_bound", "a regression")
        self._response_bound = _needed(params.response_bound, "response_bound", "a regression")
        response = truncate(sample.response(), self._response_bound)[:, None]
        design = Design(sample, self._covariate_bound, single=True)
        self.negative_gradient, self.rounding = design.negative_gradient(response), design.rounding
        largest = self._response_bound + params.coef_l1_bound * self._covariate_bound
        self.printed_gradient_bound = largest * self._covariate_bound
        self._radius, self._adaptive = params.coef_l1_bound, params.calibration == "tight"

    def largest_change(self, theta: FloatArray, t: int) -> float | FloatArray:
        norm: float | FloatArray = np.abs(theta).sum(axis=0)
        if not self._adaptive:  # as large as ‖θ‖₁ is before step t if the vertex was always the same
            norm = self._radius * (1 - 2 / (t * (t + 1)))
        return np.asarray(2 * (self._response_bound + self._covariate_bound * norm) * self._covariate_bound)


def _needed(bound: float | None, name: str, problem: str) -> float:
    if bound is None:
        raise InputError(f"{name} must be given for {problem}, got None; pass e.g. {name}=1.0")
    return bound
