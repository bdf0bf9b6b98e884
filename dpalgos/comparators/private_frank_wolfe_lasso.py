"""The LASSO by private Frank–Wolfe steps (Talwar, Thakurta & Zhang 2015), for regression and for means.

    min over ‖θ‖₁ ≤ C₁ of   (1/n) Σ_i ½ (y_i − x_i'θ)²,   or, without a response,   (1/n) Σ_i ½ ‖x_i − θ‖²
    θ = 0;   for t = 1 … T:   v = the vertex of {±C₁ e_j} that noisily minimizes ⟨v, gradient⟩
                              θ ← (1 − μ_t) θ + μ_t v,   μ_t = 2/(t + 2)

    release           sensitivity (ℓ∞)                 share of ρ
    vertex, T times   2 C₁ (R + x_max ‖θ‖₁) x_max/n    1
    of a mean         2 C₁ R/n                         1

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
    < C₁ in early steps). The scores of a mean move by L₁ C₁/n, and ρ = ε²/(4 log(1/δ)). For rows in single
    precision, b is multiplied by `Design.rounding`, too.

Number of steps: the reference gives T up to constants, (nε)^(2/3). If ``n_iterations`` is None, T = 10 C₁/R,
at least 50 and at most 1000. For regression, R/x_max takes the place of R. A step moves a coordinate by about
2 C₁/T, so the last steps move it by a fifth of its bound. With fewer steps, this resolution limits the
estimate at any ε. More steps cost little, because noisy choices average out.

Reference: Talwar, Thakurta & Zhang (2015), Nearly optimal private LASSO, Algorithm 2.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpalgos.accounting.other_events import Selection
from dpalgos.catalog import register
from dpalgos.core.estimator import PrivateEstimator
from dpalgos.core.other_plans import concentrated_plan, least_noise_plan
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Rows, clipped_mean
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError
from dpalgos.mechanisms.sensitivity import Lemmas, lemma
from dpalgos.params import count, positive
from dpalgos.rows.products import truncate
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.typing import FloatArray, IntArray, Number

VERTEX = "vertex"
_RESOLUTION, _STEPS = 10, (50, 1000)


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


def check_bounds(sample: Sample, params: "PrivateFrankWolfeLasso") -> None:
    """Refuse rows with responses if the keywords are those of a mean, and the reverse."""
    if sample.responds:
        _needed(params.covariate_bound, "covariate_bound", "a regression")
        _needed(params.response_bound, "response_bound", "a regression")
    else:
        _needed(params.value_bound, "value_bound", "a mean (y=None)")


@register(
    name="private_frank_wolfe_lasso",
    title="Private Frank–Wolfe",
    order=12,
    task="any",
    reference="Talwar, Thakurta & Zhang (2015), Algorithm 2",
    summary="Steps towards noisily chosen corners of an ℓ1 ball; for regression, or means if y is None.",
    no_interval="the ℓ1 ball moves the estimate by an unknown amount",
    example={"covariate_bound": 1.0, "response_bound": 3.0, "coef_l1_bound": 2.0, "n_iterations": 60},
    public="covariate_bound and response_bound, or value_bound",
    check_data=check_bounds,
)
@dataclass(frozen=True, kw_only=True)
class PrivateFrankWolfeLasso(PrivateEstimator):
    """Steps towards noisily chosen corners of an ℓ1 ball."""

    coef_l1_bound: float = positive("C₁: the estimate lies in the ℓ1 ball of this radius")
    n_iterations: int | None = count("T, number of Frank–Wolfe steps; None: by C₁ and R", default=None)
    covariate_bound: float | None = positive(
        "x_max, for regression: entries of X are truncated to ± this bound", default=None
    )
    response_bound: float | None = positive("R, for regression: responses are truncated to ±R", default=None)
    value_bound: float | None = positive("R, for means: entries of X are truncated to ±R", default=None)

    batch = True
    lemmas: ClassVar[Lemmas] = {VERTEX: score_sensitivity}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.value_bound is not None and self.is_regression:
            raise InputError(
                f"value_bound must be left out for a regression, got {self.value_bound!r} next to "
                f"covariate_bound={self.covariate_bound!r} and response_bound={self.response_bound!r}"
            )

    @property
    def is_regression(self) -> bool:
        return (self.covariate_bound, self.response_bound) != (None, None)

    @property
    def steps(self) -> int:
        """Return T."""
        if self.n_iterations is not None:
            return self.n_iterations
        bound = self.value_bound or (self.response_bound or 1.0) / (self.covariate_bound or 1.0)
        return int(np.clip(np.ceil(_RESOLUTION * self.coef_l1_bound / bound), *_STEPS))

    def plan(self, n: float, d: int) -> Plan:
        T = self.steps
        if self.calibration == "tight":
            choices = {VERTEX: (1.0, Selection(1.0, times=T))}
            return least_noise_plan(
                self.epsilon, self.delta, concentrated_plan(self.epsilon, self.delta, choices)
            )
        # A choice's noise over the move of its scores: the same for a mean in every step.
        root = float(np.sqrt(8 * T * np.log(1 / self.delta))) / self.epsilon
        if not self.is_regression:
            return {VERTEX: Selection(2 / root, times=T, by="peeling")}
        R = _needed(self.response_bound, "response_bound", "a regression")
        x_max = _needed(self.covariate_bound, "covariate_bound", "a regression")
        largest = (R + self.coef_l1_bound * x_max) * x_max
        changes = [_largest_change(R, x_max, self.printed_norm(t)) for t in range(1, T + 1)]
        return {
            f"{VERTEX} {t}": Selection(2 / float(root * largest / change), by="peeling")
            for t, change in enumerate(changes)
        }

    def printed_norm(self, t: int) -> float:
        """Return how large ‖θ‖₁ is before step t if the vertex was always the same."""
        return self.coef_l1_bound * (1 - 2 / (t * (t + 1)))

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        sample, radius = rows.sample, self.coef_l1_bound
        problem = _Regression(sample, self) if sample.responds else _Mean(rows, self)
        theta: FloatArray = np.zeros((rows.d, sample.n_replicates))
        for t in range(1, self.steps + 1):
            # The score of the vertex ±C₁ e_j is ∓C₁ gradient_j: larger is better.
            ascent = radius * problem.negative_gradient(theta)
            scores, change = np.concatenate([ascent, -ascent]), problem.largest_change(theta, t)
            query = score_sensitivity.of(
                rows.by_replicate(scores), np.asarray(problem.rounding * change), radius, np.asarray(rows.n)
            )
            label = VERTEX if VERTEX in spend.plan else f"{VERTEX} {t - 1}"
            vertex = rows.by_column(spend.choose(label, query))[0]
            theta = theta + _toward(theta, vertex, t, radius)
        return rows.by_replicate(theta)


def _largest_change(response_bound: float, covariate_bound: float, norm: Number) -> FloatArray:
    """Return 2 (R + x_max ‖θ‖₁) x_max."""
    return np.asarray(2 * (response_bound + covariate_bound * norm) * covariate_bound)


def _toward(theta: FloatArray, vertex: IntArray, t: int, radius: float) -> FloatArray:
    """Return the step μ_t (v − θ); vertices j and d + j are C₁ e_j and −C₁ e_j."""
    d, vertex, corner = len(theta), vertex.astype(int), np.zeros_like(theta)
    corner[vertex % d, np.arange(theta.shape[1])] = np.where(vertex < d, radius, -radius)
    return np.asarray(2 / (t + 2) * (corner - theta))


class _Mean:
    """½ ‖x − θ‖²: the gradient is θ − x̄."""

    def __init__(self, rows: Rows, params: PrivateFrankWolfeLasso) -> None:
        bound = _needed(params.value_bound, "value_bound", "a mean (y=None)")
        self._means = rows.by_column(clipped_mean(rows, truncate, bound))
        self.rounding, self._change = 1.0, np.asarray(2 * bound)

    def negative_gradient(self, theta: FloatArray) -> FloatArray:
        return self._means - theta

    def largest_change(self, theta: FloatArray, t: int) -> FloatArray:
        return self._change


class _Regression:
    """½ (y − x'θ)²: the gradient is −(y − x'θ) x."""

    def __init__(self, sample: Sample, params: PrivateFrankWolfeLasso) -> None:
        self._covariate_bound = _needed(params.covariate_bound, "covariate_bound", "a regression")
        self._response_bound = _needed(params.response_bound, "response_bound", "a regression")
        response = truncate(sample.response(), self._response_bound)[:, None]
        design = Design(sample, self._covariate_bound, single=True)
        self.negative_gradient, self.rounding = design.negative_gradient(response), design.rounding
        self._params = params

    def largest_change(self, theta: FloatArray, t: int) -> FloatArray:
        is_adaptive = self._params.calibration == "tight"
        norm = np.abs(theta).sum(axis=0) if is_adaptive else self._params.printed_norm(t)
        return _largest_change(self._response_bound, self._covariate_bound, norm)


def _needed(bound: float | None, name: str, problem: str) -> float:
    if bound is None:
        raise InputError(f"{name} must be given for {problem}, got None; pass e.g. {name}=1.0")
    return bound
