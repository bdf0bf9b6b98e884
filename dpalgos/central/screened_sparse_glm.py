"""Private sparse generalized linear models in two steps: screen once, then fit the selected columns (ours).

    v = mean of clip(x_i, c₁) (y_i − ψ'(0))                                   entry by entry
    S = the s coordinates of largest |v_j| + Gumbel noise, in batches of ever less noise
    β ← β + η (mean of h(x_i) r_i(β) + noise),   t = 1 … T, on S, from β = 0
        h(x) = x_S min(1, c₂ / ‖x_S‖),   r_i(β) = y_i − ψ'(x_i,S'β),  bounded as the family requires
    β̂ = the mean of the last iterates; coefficients that noise and sampling errors explain are set to 0

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Public: all keywords. Entries of X are
truncated to ±``covariate_bound`` σ_x here. ``covariate_second_moment`` m is a guess of a typical entry's
square. c₁, c₂ and η derive from it unless they are given; only accuracy depends on it.

Why it is private. Predictors are truncated to a, a bound on |x_S'β|: σ_x ‖β‖₁, and at most log 3 in logistic
models. It is public, because β is. A residual is at most L(a), the family's ``largest_residual``. Entries of
v move by at most 2 c₁ L(0) / n: the selection is s events of bounded range. Given S and β, ‖h(x) r‖ ≤ c₂
L(a). Therefore a step's mean moves by at most 2 c₂ L(a) / n (:func:`selected_steps`): one
Gaussian release each. Thresholds use known variances only. `Design.rounding` is the factor for v in single
precision.

    release    sensitivity (ℓ2)    share of ρ
    scores     2 c₁ L(0)/n (ℓ∞)    selection_share
    step       2 c₂ L(a)/n         the rest, growing threefold

All noise is then scaled down to what is just proved.

Large coordinates are found under any noise; the last ones, near the others, need the budget. Each coordinate
of the last of eight batches gets 32 times the ρ of one in the first. These numbers come from simulated sparse
regressions; only accuracy depends on them.

A single step (``n_iterations`` = 1) pays for residuals of at most L(0), ½ for logistic regression.
:func:`one_step_factor` then corrects for the link's curvature. If the noise exceeds the sampling error, this
is better than a second step.

Why it is accurate. There is one selection of s coordinates instead of T, and noise in s dimensions only.
Truncation at c₁ = σ_x/2 halves the selection's sensitivity and keeps 69% of the signal of uniform entries.
Weights that depend on x alone leave the equation unbiased at the truth. So does truncating predictors where
they are small: for logistic regression |x'β| ≤ log 3, probabilities from ¼ to ¾.

Limit: marginal screening misses coordinates whose effect is canceled by correlated ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from dpalgos.accounting.events import Event, Gaussian
from dpalgos.accounting.other_events import Selection
from dpalgos.catalog import register
from dpalgos.central.noisy_iht import dense
from dpalgos.core.other_plans import concentrated_plan, least_noise_plan
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError
from dpalgos.mechanisms.sensitivity import Lemmas, ball_mean
from dpalgos.models.estimators import SparseFamilyEstimator
from dpalgos.models.families import Family
from dpalgos.models.normal_curvature import one_step_factor
from dpalgos.params import check_how_many, checked, count, positive
from dpalgos.release.checks import check_probability
from dpalgos.rows.products import clip_factor
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.typing import BoolArray, FloatArray, IntArray

SCORES, STEP = "scores", "step"
_BATCHES = 8
_BATCH_GROWTH = 32.0  # of the ρ of a coordinate, from the first batch to the last
_GROWTH = 3.0  # of the steps' shares, from the first to the last
_PREDICTOR_BOUND = float(np.log(3))


@register(
    name="screened_sparse_glm",
    title="Screen, then fit",
    order=21,
    task="glm",
    reference="ours; one private selection, then noisy steps with bounded instruments",
    summary="Selects columns once by their covariance with the response, then fits a GLM on them.",
    no_interval="a support that was selected is not the one that a new sample would select",
    calibrations=("tight",),
    example={
        "family": "gaussian",
        "covariate_bound": 1.0,
        "response_bound": 3.0,
        "sparsity": 2,
        "n_iterations": 6,
        "threshold": None,
    },
    public="response_bound where the family's residual is unbounded",
)
@dataclass(frozen=True, kw_only=True)
class ScreenedSparseGLM(SparseFamilyEstimator):
    """A GLM on columns that are selected once by their covariance with the response."""

    covariate_second_moment: float | None = positive(
        "m: typical square of an entry of X; None: covariate_bound² / 3, of uniform entries", default=None
    )
    screening_bound: float | None = positive(
        "c₁: entries are truncated to ± this bound for the selection; None: √(3 m) / 2", default=None
    )
    clip_norm: float | None = positive(
        "c₂: selected rows are scaled down to this ℓ2 norm; None: 1.05 √(s m)", default=None
    )
    n_iterations: int = count("T, steps on the selected coordinates", default=2)
    step_size: float | None = positive("η; None: 1 / (ψ''(0) m)", default=None)
    n_averaged: int = count("how many of the last iterates are averaged", default=1)
    selection_share: float = checked("share of ρ for the selection", check_probability, default=0.5)
    threshold: float | None = positive(
        "coefficients below this many standard deviations of noise, and √(2 log d) of sampling, become 0; "
        "None: all stay",
        default=3.0,
        optional=True,
    )

    batch = True
    lemmas: ClassVar[Lemmas] = {SCORES: ball_mean, STEP: ball_mean}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_averaged > self.n_iterations:
            raise InputError(
                f"n_averaged must be at most n_iterations = {self.n_iterations}, got {self.n_averaged}; pass "
                "e.g. n_averaged=1"
            )

    @property
    def second_moment(self) -> float:
        """m."""
        return self.covariate_second_moment or self.covariate_bound**2 / 3

    @property
    def curvature(self) -> float:
        """γ = ψ''(0) m, of the loss at 0 in a typical coordinate."""
        return self.second_moment * float(self.family_object().second_derivative(np.zeros((1, 1)))[0, 0])

    @property
    def step(self) -> float:
        return self.step_size or 1 / self.curvature

    @property
    def screened_to(self) -> float:
        """c₁, at most the bound of the entries."""
        return min(self.screening_bound or (3 * self.second_moment) ** 0.5 / 2, self.covariate_bound)

    @property
    def radius(self) -> float:
        """c₂, at most the largest norm of a selected row."""
        typical = 1.05 * float(np.sqrt(self.sparsity * self.second_moment))
        return min(self.clip_norm or typical, float(np.sqrt(self.sparsity)) * self.covariate_bound)

    def plan(self, n: float, d: int) -> Plan:
        check_how_many("sparsity", self.sparsity, d)
        return screening_plan(
            self.epsilon, self.delta, self.sparsity, self.n_iterations, self.selection_share
        )

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        family = self.family_object()
        labels = [label for label in spend.plan if label.startswith(SCORES)]
        support = screened(rows, spend, family, self.screened_to, labels)
        coef, noise_std = selected_steps(
            SelectedScores(rows.sample, rows.by_column(support), self), rows, spend
        )
        if self.n_iterations == 1:
            longer = one_step_factor(family, coef, noise_std, second_moment=self.second_moment)
            coef, noise_std = longer * coef, longer * noise_std
        spend.note("noise_std", rows.by_replicate(noise_std))
        if self.threshold is not None:
            coef = np.where(np.abs(coef) > least_kept(self, noise_std, rows.sample), coef, 0.0)
        return dense(support, rows.by_replicate(coef), rows.d)


def predictor_bound(params: ScreenedSparseGLM, coef: FloatArray) -> FloatArray:
    """Return a, (R,): σ_x ‖β‖₁, and at most log 3 in logistic models; 0 at β = 0."""
    largest = _PREDICTOR_BOUND if params.family == "logistic" else np.inf
    return np.asarray(
        np.minimum(largest, params.covariate_bound * params.family_object().predictor_norm(coef, 1))
    )


class SelectedScores:
    """Bounded scores on the selected columns ``support`` (k, R) of each replicate's rows."""

    def __init__(self, sample: Sample, support: IntArray, params: ScreenedSparseGLM) -> None:
        self.sample, self.support, self.params = sample, support, params
        self._family = params.family_object()
        self._y = self._family.encode(sample.response())
        design = Design(sample, params.covariate_bound, single=True)
        mask = sample.row_mask
        self._rows: list[slice | BoolArray] = [
            slice(None) if mask is None else mask[:, r] for r in range(sample.n_replicates)
        ]
        self._X = [design.columns(support[:, r])[rows] for r, rows in enumerate(self._rows)]

    def largest_residual(self, coef: FloatArray) -> FloatArray:
        """Return L(a), (R,)."""
        return self._family.largest_residual(predictor_bound(self.params, coef))

    def mean(self, coef: FloatArray) -> FloatArray:
        """Return the mean of h(x_i) r_i(β), (k, R)."""
        score, bounds = np.empty_like(coef), predictor_bound(self.params, coef)
        for r, (X, a, largest) in enumerate(zip(self._X, bounds, self.largest_residual(coef), strict=True)):
            Z = X.astype(float, copy=False)
            u = np.clip(Z @ coef[:, r], -a, a)[:, None]
            residual = -self._family.residual(u, self._y[self._rows[r]])[:, 0]
            weights = clip_factor(np.linalg.norm(Z, axis=1), self.params.radius)
            score[:, r] = Z.T @ (weights * np.clip(residual, -largest, largest))
        return score / self.sample.n_rows


def selected_steps(selected: SelectedScores, rows: Rows, spend: Spend) -> tuple[FloatArray, FloatArray]:
    """Return coefficients (k, R) after the planned steps, and their noise's standard deviation (R,).

    β is public when a step begins: one Gaussian release each. Opposite rows of norm c₂ with the same residual
    attain the sensitivity. At β = 0 they have the same y. Later the residual is clipped on both, or rows
    nearly at a right angle to β approach it.
    """
    params, n_steps = selected.params, selected.params.n_iterations
    coef: FloatArray = np.zeros(selected.support.shape)
    average, variance, n_averaged = coef.copy(), np.zeros(coef.shape[1]), params.n_averaged
    contraction = max(0.0, 1 - params.step * params.curvature)
    averaged = np.arange(n_steps - n_averaged, n_steps)
    for t in range(n_steps):
        largest = params.radius * selected.largest_residual(coef)
        query = ball_mean.of(rows.by_replicate(selected.mean(coef)), largest, rows.n)
        score, std = spend(f"{STEP} {t}", query)
        coef = coef + params.step * rows.by_column(score)
        if t in averaged:
            average += coef / n_averaged
        # The part of this step's noise in the average, if every later step removes its usual part.
        left = np.sum(contraction ** (averaged[averaged >= t] - t)) / n_averaged
        variance += (left * params.step * std) ** 2
    return average, np.sqrt(variance)


def screened(rows: Rows, spend: Spend, family: Family, bound: float, labels: Sequence[str]) -> IntArray:
    """Return the coordinates of the largest noisy |v_j|, (…, s); ``bound`` is c₁.

    Each label is that of a batch, which publishes places among the coordinates that are left, ascending.
    """
    sample = rows.sample
    design, y = Design(sample, bound, single=True), family.encode(sample.response())
    largest = family.largest_residual(0.0)
    residual = np.clip(-family.residual(np.zeros_like(y), y), -largest, largest)
    shape = residual.shape if sample.row_mask is None else sample.row_mask.shape
    means = rows.by_replicate(design.mean_product(np.broadcast_to(residual, shape)))
    support: IntArray = np.empty((*means.shape[:-1], 0), dtype=np.intp)
    for label in labels:
        candidates = coordinates_left(support, rows.d)
        scores = np.take_along_axis(means, candidates, axis=-1)
        radius = design.rounding * bound * largest
        selected = spend.choose(label, ball_mean.of(scores, radius, rows.n))
        support = np.concatenate([support, np.take_along_axis(candidates, selected, axis=-1)], axis=-1)
    return support


def coordinates_left(support: IntArray, d: int) -> IntArray:
    """Return the coordinates outside a support (…, k), ascending, (…, d − k)."""
    left = np.ones((*support.shape[:-1], d), dtype=bool)
    np.put_along_axis(left, support, False, axis=-1)
    places: IntArray = np.nonzero(left)[-1]
    return places.reshape(*support.shape[:-1], -1)


@lru_cache(maxsize=256)
def screening_plan(epsilon: float, delta: float, sparsity: int, n_steps: int, selection_share: float) -> Plan:
    """Return the smallest noise of the batches of a selection, followed by steps."""
    sizes = batch_sizes(sparsity)
    batches, steps = batch_shares(sizes), step_shares(n_steps)
    shares: dict[str, tuple[float, Event]] = {
        f"{SCORES} {j}": (selection_share * share, Selection(1.0, count=size, by_magnitude=True))
        for j, (size, share) in enumerate(zip(sizes, batches, strict=True))
    }
    for t, share in enumerate(steps):
        shares[f"{STEP} {t}"] = (1 - selection_share) * share, Gaussian(1.0)
    return MappingProxyType(least_noise_plan(epsilon, delta, concentrated_plan(epsilon, delta, shares)))


def batch_sizes(k: int) -> tuple[int, ...]:
    """Return how many coordinates each batch selects, k in all."""
    return tuple(len(batch) for batch in np.array_split(np.arange(k), min(k, _BATCHES)))


def batch_shares(sizes: tuple[int, ...]) -> tuple[float, ...]:
    """Return the share of a selection's ρ of each batch; each late coordinate gets more."""
    spent = np.array(sizes) * _BATCH_GROWTH ** (np.arange(len(sizes)) / max(len(sizes) - 1, 1))
    return tuple(float(one) for one in spent / spent.sum())


def least_kept(params: ScreenedSparseGLM, noise_std: FloatArray, sample: Sample) -> FloatArray:
    """Return the threshold below which selected coefficients are set to 0, (R,); public.

    The noise of coefficients is independent of the selection, but the selection favors large sampling errors:
    the largest among d columns without an effect is about √(2 log d) standard deviations, 1 / √(n γ) each.
    """
    assert params.threshold is not None
    largest = max(params.threshold**2, 2 * np.log(sample.n_features))
    # The variance of Gaussian responses is not known to the family.
    sampling = 0.0 if params.family == "gaussian" else 1 / (sample.n_rows * params.curvature)
    return np.asarray(np.sqrt((params.threshold * noise_std) ** 2 + largest * sampling))


def step_shares(n_steps: int) -> tuple[float, ...]:
    """Return what each step gets of the steps' ρ."""
    growing = _GROWTH ** (np.arange(n_steps) / max(n_steps - 1, 1))
    return tuple((growing / growing.sum()).tolist())
