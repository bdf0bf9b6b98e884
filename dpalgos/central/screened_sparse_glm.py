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

Shares are of ρ: ``selection_share`` for the selection (:mod:`dpalgos.mechanisms.top_k`), the rest for the
steps, growing threefold. All noise is then scaled down to what is just proved.

A single step (``n_iterations`` = 1) pays for residuals of at most L(0), ½ for logistic regression.
:func:`one_step_factor` then corrects for the link's curvature. If the noise exceeds the sampling error, this
is better than a second step.

Why it is accurate. There is one selection of s coordinates instead of T, and noise in s dimensions only.
Truncation at c₁ = σ_x/2 halves the selection's sensitivity and keeps 69% of the signal of uniform entries.
Weights that depend on x alone leave the equation unbiased at the truth. So does truncating predictors where
they are small: for logistic regression |x'β| ≤ log 3, probabilities from ¼ to ¾.

Limit: marginal screening misses coordinates whose effect is cancelled by correlated ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.calibration import gaussians
from dpalgos.catalog import Release, register
from dpalgos.errors import InputError
from dpalgos.mechanisms.sensitivity import ball_mean
from dpalgos.mechanisms.top_k import SparseRelease, batch_sizes, batched_top_k, screening_multipliers
from dpalgos.models.families import Family, SparseFamilyParams
from dpalgos.models.normal_curvature import one_step_factor
from dpalgos.params import checked, count, positive
from dpalgos.release.checks import check_how_many, check_probability
from dpalgos.release.spend import Spend
from dpalgos.release.transcript import Transcript
from dpalgos.rows.clipping import clip_factor
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.typing import BoolArray, FloatArray, IntArray

_GROWTH = 3.0  # of the steps' shares, from the first to the last
_PREDICTOR_BOUND = float(np.log(3))


@dataclass(frozen=True, kw_only=True)
class ScreenedSparseGLMParams(SparseFamilyParams):
    """Keywords of :func:`screened_sparse_glm`."""

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


def predictor_bound(params: ScreenedSparseGLMParams, coef: FloatArray) -> FloatArray:
    """Return a, (R,): σ_x ‖β‖₁, and at most log 3 in logistic models; 0 at β = 0."""
    largest = _PREDICTOR_BOUND if params.family == "logistic" else np.inf
    return np.asarray(
        np.minimum(largest, params.covariate_bound * params.family_object().predictor_norm(coef, 1))
    )


SCORES = Release("scores", ball_mean)
STEP = Release("step", ball_mean)


@register(
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
    releases=(SCORES, STEP),
    public="response_bound where the family's residual is unbounded",
)
def screened_sparse_glm(
    sample: Sample, params: ScreenedSparseGLMParams, transcript: Transcript
) -> FloatArray:
    """Return the sparse coefficients, (d, R)."""
    check_how_many("sparsity", params.sparsity, sample.n_features)
    family = params.family_object()
    selection, steps = screening_multipliers(
        params.epsilon, params.delta, params.sparsity, step_shares(params), params.selection_share
    )
    sizes = batch_sizes(params.sparsity)
    support = screened(transcript, sample, family, params.screened_to, sizes, selection)
    coef, noise_std = selected_steps(SelectedScores(sample, support, params), steps, transcript)
    if params.n_iterations == 1:
        longer = one_step_factor(family, coef, noise_std, second_moment=params.second_moment)
        coef, noise_std = longer * coef, longer * noise_std
    transcript.note("noise_std", noise_std)
    if params.threshold is not None:
        coef = np.where(np.abs(coef) > least_kept(params, noise_std, sample), coef, 0.0)
    return SparseRelease(support=support, values=coef, n_features=sample.n_features).dense()


class SelectedScores:
    """Bounded scores on the selected columns ``support`` (k, R) of each replicate's rows."""

    def __init__(self, sample: Sample, support: IntArray, params: ScreenedSparseGLMParams) -> None:
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


def selected_steps(
    selected: SelectedScores, noise_multipliers: Sequence[float], transcript: Transcript
) -> tuple[FloatArray, FloatArray]:
    """Return coefficients (k, R) after a step for each multiplier, and their noise's standard deviation (R,).

    β is public when a step begins: one Gaussian release each. Opposite rows of norm c₂ with the same residual
    attain the sensitivity. At β = 0 they have the same y. Later the residual is clipped on both, or rows
    nearly at a right angle to β approach it.
    """
    params, n_rows, n_steps = selected.params, selected.sample.n_rows, len(noise_multipliers)
    coef, average = np.zeros(selected.support.shape), np.zeros(selected.support.shape)
    variance, n_averaged = np.zeros(len(n_rows)), params.n_averaged
    contraction = max(0.0, 1 - params.step * params.curvature)
    averaged = np.arange(n_steps - n_averaged, n_steps)
    for t, noise_multiplier in enumerate(noise_multipliers):
        spend = Spend(transcript, {STEP.label: gaussians(noise_multiplier)})
        largest = params.radius * selected.largest_residual(coef)
        score, std = spend(STEP, ball_mean.of(selected.mean(coef), largest, n_rows))
        coef = coef + params.step * score
        if t in averaged:
            average += coef / n_averaged
        # The part of this step's noise in the average, if every later step removes its usual part.
        left = np.sum(contraction ** (averaged[averaged >= t] - t)) / n_averaged
        variance += (left * params.step * std) ** 2
    return average, np.sqrt(variance)


def screened(
    transcript: Transcript,
    sample: Sample,
    family: Family,
    bound: float,
    sizes: Sequence[int],
    noise_multipliers: Sequence[float],
) -> IntArray:
    """Return the coordinates of the largest noisy |v_j|, batch after batch, (s, R); ``bound`` is c₁."""
    design, y = Design(sample, bound, single=True), family.encode(sample.response())
    largest = family.largest_residual(0.0)
    residual = np.clip(-family.residual(np.zeros_like(y), y), -largest, largest)
    shape = residual.shape if sample.row_mask is None else sample.row_mask.shape
    return batched_top_k(
        transcript,
        SCORES,
        design.mean_product(np.broadcast_to(residual, shape)),
        sensitivity=design.rounding * ball_mean(bound * largest, sample.n_rows),
        sizes=sizes,
        noise_multipliers=noise_multipliers,
    )


def least_kept(params: ScreenedSparseGLMParams, noise_std: FloatArray, sample: Sample) -> FloatArray:
    """Return the threshold below which selected coefficients are set to 0, (R,); public.

    The noise of coefficients is independent of the selection, but the selection favors large sampling errors:
    the largest among d columns without an effect is about √(2 log d) standard deviations, 1 / √(n γ) each.
    """
    assert params.threshold is not None
    largest = max(params.threshold**2, 2 * np.log(sample.n_features))
    # The variance of Gaussian responses is not known to the family.
    sampling = 0.0 if params.family == "gaussian" else 1 / (sample.n_rows * params.curvature)
    return np.asarray(np.sqrt((params.threshold * noise_std) ** 2 + largest * sampling))


def step_shares(params: ScreenedSparseGLMParams) -> tuple[float, ...]:
    """Return what each step gets of the steps' ρ."""
    growing = _GROWTH ** (np.arange(params.n_iterations) / max(params.n_iterations - 1, 1))
    return tuple((growing / growing.sum()).tolist())
