"""Private sparse linear regression by noisy iterative hard thresholding (paper A, Algorithm 4.2).

    v = β − η (1/n) Σ_i (x_i'β − Π_R(y_i)) x_i
    β ← Π_C( the s noisily largest entries of v, released with noise ),   t = 1 … T,   from β = 0

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Public: ``covariate_bound`` x_max (entries are
truncated to ±x_max here), ``response_bound`` R, ``coef_bound`` C, ``sparsity`` s, ``n_iterations`` T,
``step_size`` η. The last iterate is the answer.

    quantity                  sensitivity     share             made in              forms
    quantiles                 1 (selections)  truncation_share  _quantiles           private quantiles
    step: selection           of a step       half, at last .3  noisy_iht            not printed
    step: values              √s times that   the rest          noisy_iht            not printed
    sparsity                  of a loss       tuning_share      choose               hold-out or s by cross
    untruncated responses     unbounded       none proved       response_truncation  no truncation
    printed cross-validation  unbounded       none proved       as_printed           printed

Why it is private. β is public when a round begins, so that only the gradient moves: every entry of v by at
most :func:`step_sensitivity`, with a = x_max ‖β‖₁ the largest |x'β|. A round selects s entries of v and
releases them, given the selection: both are charged, in every round, and compose adaptively. What rounding
adds where X is in single precision is a factor of `Design.rounding` on the sensitivity.

Truncation of responses and sparsity may be chosen from the data (:mod:`dpalgos.tuning`).
``"private_quantiles"``: R is the larger in magnitude of the released 2.5 % and 97.5 % quantiles, two
selections that take ``truncation_share`` of ρ; then R is public. ``sparsity_choice`` fits the path above with
a share of ρ and chooses the number of entries by :class:`dpalgos.tuning.sparsity.ResponseLoss`;
``"noise_level"`` drops values of the last round that its noise alone explains.

Calibrations
    ``tight``: the least noise of :mod:`dpalgos.mechanisms.noisy_iht`, with the exact sensitivity at the
    current iterate.
    ``paper``: Algorithm 3.2 with Laplace noise of scale (ηB/n) · 2 √(3 s log(T/δ)) T / ε,
    B = 4 (R + C √s x_max) x_max, i.e. ε and δ split evenly. B is twice the crude sensitivity. The certificate
    uses the worst sensitivity over the ball ‖β‖₂ ≤ C and zCDP; ``diagnostics["conditions"]`` says where the
    printed proof's own conditions fail. Quantiles come on top, as the paper does not count them.

Residual-clipped form (``residual_bound`` given; tight only): the residual x'β − y is clipped to ± that bound
R_r, every entry of v moves by at most 2 η R_r x_max / n for any β, and R and C are not needed for privacy.

Departures: the ½-loss gradient, as in the paper's update; T and η of the paper's experiments are not stated.

Reference: Cai, Wang & Zhang, The Cost of Privacy, Algorithm 4.2, Lemma 4.4 (which omits C ≤ c0 and ‖β⁰‖₂ ≤
C).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from dpalgos.catalog import Form, Neighbors, Published, Witnesses, pair, register
from dpalgos.central.dp_linear_regression import LinearRegressionParams
from dpalgos.mechanisms.noisy_iht import noisy_iht, planned_multipliers, printed_rounds, tight_rounds
from dpalgos.mechanisms.top_k import SparseRelease
from dpalgos.nonprivate.sparse_sample_mean import hard_threshold
from dpalgos.params import count, positive
from dpalgos.release.checks import check_how_many
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.steps.clipping import project_l2_ball
from dpalgos.steps.denoising import prune
from dpalgos.tuning import sparsity
from dpalgos.tuning.sparsity import FitNoise, ResponseLoss, SparsityParams, with_chosen_sparsity
from dpalgos.tuning.truncation import LABEL, LEVELS, quantile_witness, response_truncation, symmetric_bound
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class DPSparseLinearRegressionParams(SparsityParams, LinearRegressionParams):
    """Keywords of :func:`dp_sparse_linear_regression`."""

    covariate_bound: float = positive("x_max: entries of X are truncated to ± this bound")
    n_iterations: int = count("T, number of rounds", default=10)
    step_size: float | None = positive(
        "η; None: 1.5 / covariate_bound², half the inverse second moment of uniform entries", default=None
    )

    @property
    def step(self) -> float:
        return self.step_size or 1.5 / self.covariate_bound**2


def step_sensitivity(
    residual_bound: float | FloatArray, covariate_bound: float, step_size: float, n_rows: FloatArray
) -> FloatArray:
    """Return how far replacing a row moves any entry of v = β − η · gradient: 2 η r x_max / n.

    r bounds |x'β − y| over admissible rows: a + R with a = x_max ‖β‖₁, or the clipping level.

    Proof. Entry j moves by (η/n) (r_i x_ij − r_i' x_ij'), each product at most r x_max in magnitude. Attained
    by equal residuals ±r, from the same entries x_max sign(β) on the support and y = y' = −R, and entries
    ±x_max at a coordinate outside the support; an upper bound where the support is everything.
    """
    return np.asarray(2 * step_size * residual_bound * covariate_bound / n_rows)


def witnesses(params: DPSparseLinearRegressionParams, d: int, published: Published) -> Witnesses:
    """Return rows of equal, largest residual and opposite covariates off the support of an iterate.

    ``paper`` is certified with the worst iterate, which lies on the ball with entries of equal size: the
    round with the largest ‖β‖₁ is taken; for the values, among those that selected nothing of the support.
    For the choice of s: a row that every model fits, and one that none does. Where a choice makes several
    fits, the first one's rounds are taken.
    """
    found, response_bound = {}, params.response_bound
    if params.truncation == "private_quantiles":
        response_bound = float(symmetric_bound(published[0][:, :, :1], response_bound)[0])
        found[LABEL], published = quantile_witness(params.response_bound, d), published[1:]
    if params.sparsity_choice in ("holdout", "cross_validation"):
        found[sparsity.LABEL] = pair(np.zeros(d), np.zeros(d), 0.0, 1e9)
    coef: FloatArray = np.zeros(d)
    best = {"step: selection": coef, "step: values": coef}
    for t in range(min(len(published) // 2, params.n_iterations)):
        selected, values = published[2 * t][:, 0].astype(int), published[2 * t + 1]
        labels = list(best) if not coef[selected].any() else ["step: selection"]
        for label in labels:
            best[label] = max(best[label], coef, key=lambda iterate: float(np.abs(iterate).sum()))
        released = SparseRelease(support=selected[:, None], values=values[:, :1], n_features=d)
        coef = project_l2_ball(released.dense(), params.coef_bound)[:, 0]
    rounds = {label: _opposite_rows(iterate, response_bound, params) for label, iterate in best.items()}
    return {**rounds, **found}


def _opposite_rows(
    coef: FloatArray, response_bound: float, params: DPSparseLinearRegressionParams
) -> Neighbors:
    along, off = params.covariate_bound * np.sign(coef), params.covariate_bound * (coef == 0)
    if params.residual_bound is not None:
        return pair(along + off, along + off, 1e6, -1e6)
    return pair(along + off, along - off, -response_bound)


@register(
    title="Noisy hard thresholding",
    order=11,
    task="linear_regression",
    reference="Cai, Wang & Zhang, The Cost of Privacy, Algorithm 4.2",
    summary="Gradient steps of which the largest entries are selected and released with noise.",
    no_interval="a support that was selected is not the one that a new sample would select",
    example={
        "covariate_bound": 1.0,
        "response_bound": 3.0,
        "coef_bound": 2.0,
        "sparsity": 1,
        "n_iterations": 8,
        "step_size": 2.0,
    },
    witnesses=witnesses,
    forms={
        "private quantiles": Form(
            keywords={"truncation": "private_quantiles"}, calibrations=("tight", "paper")
        ),
        "no truncation": Form(keywords={"truncation": "none"}, calibrations=("paper",), protected=False),
        "s by noise level": Form(
            keywords={"sparsity_choice": "noise_level"}, calibrations=("tight", "paper")
        ),
        "s by hold-out": Form(keywords={"sparsity": 2, "sparsity_choice": "holdout"}, in_memory=True),
        "s by cross-validation": Form(
            keywords={"sparsity": 2, "sparsity_choice": "cross_validation", "sparsity_share": 0.3},
            in_memory=True,
        ),
        "s by printed cross-validation": Form(
            keywords={"sparsity": 2, "sparsity_choice": "printed_cross_validation"},
            calibrations=("paper",),
            protected=False,
            in_memory=True,
        ),
    },
)
def dp_sparse_linear_regression(
    sample: Sample, params: DPSparseLinearRegressionParams, transcript: Transcript
) -> FloatArray:
    """Return the last iterate, (d, R)."""
    check_how_many("sparsity", params.sparsity, sample.n_features)
    loss_bound = params.response_bound**2 / 2 if params.loss_bound is None else params.loss_bound
    return with_chosen_sparsity(
        sample,
        params,
        transcript,
        fit=sparse_fit,
        noise=planned_noise,
        models=_fitted,
        loss=ResponseLoss(params.response_bound, loss_bound),
    )


def sparse_fit(
    sample: Sample, params: DPSparseLinearRegressionParams, transcript: Transcript, noise_factor: float = 1.0
) -> FloatArray:
    """Return one fit's last iterate, (d, R); its noise is ``noise_factor`` times what (ε, δ) needs."""
    noise = planned_noise(params).scaled(noise_factor)
    rounds = tight_rounds(noise.rounds, params.sparsity)
    if params.calibration == "paper":
        # B = 4 (R + C √s x_max) x_max is twice the true sensitivity.
        budget = (params.epsilon, params.delta, params.sparsity, params.n_iterations)
        rounds = printed_rounds(transcript, *budget, excess=2.0)
    level, response_bound = response_truncation(
        transcript, sample, params.response_bound, params.truncation, noise.quantile_epsilon
    )
    design, step = Design(sample, params.covariate_bound, single=True), params.step
    negative_gradient = _negative_gradient(design, sample, level, params)

    def sensitivity(coef: FloatArray) -> FloatArray:
        residual = largest_residual(coef, response_bound, params)
        return design.rounding * step_sensitivity(residual, params.covariate_bound, step, sample.n_rows)

    return noisy_iht(
        transcript,
        lambda coef: coef + step * negative_gradient(coef),
        sensitivity,
        rounds,
        n_features=sample.n_features,
        project=partial(project_l2_ball, radius=params.coef_bound),
        prune=prune if params.sparsity_choice == "noise_level" else None,
    )


def largest_residual(
    coef: FloatArray, response_bound: float | FloatArray, params: DPSparseLinearRegressionParams
) -> float | FloatArray:
    """Return the bound on |x'β − y| that the sensitivity of a round uses, () or (R,).

    ``tight``: at the current iterate, R + x_max ‖β‖₁. ``paper``: over the ball, R + x_max √s C.
    """
    if params.residual_bound is not None:
        return params.residual_bound
    if params.calibration == "tight":
        return np.asarray(response_bound + params.covariate_bound * np.abs(coef).sum(axis=0))
    largest_norm = float(np.sqrt(params.sparsity)) * params.coef_bound
    return response_bound + params.covariate_bound * largest_norm


def _fitted(sample: Sample, params: DPSparseLinearRegressionParams) -> list[FloatArray]:
    """Return what the same steps give without noise, within the same bounds, for every s of the grid."""
    n, step = len(params.grid), params.step
    mask = None if sample.row_mask is None else np.repeat(sample.row_mask, n, axis=1)
    wide = sample.derived(row_mask=mask, n_replicates=sample.n_replicates * n)
    design = Design(wide, params.covariate_bound, single=True)
    descent = _negative_gradient(design, wide, params.response_bound, params)
    coef: FloatArray = np.zeros((sample.n_features, wide.n_replicates))
    for _ in range(params.n_iterations):
        moved = coef + step * descent(coef)
        for g, s in enumerate(params.grid):
            coef[:, g::n] = project_l2_ball(hard_threshold(moved[:, g::n], s), params.coef_bound)
    return [coef[:, g::n] for g in range(n)]


@lru_cache(maxsize=4096)
def planned_noise(params: DPSparseLinearRegressionParams) -> FitNoise:
    """Return the least noise at which one fit is (ε, δ)-DP; for ``paper`` that of its quantiles only."""
    epsilon, delta, part = params.epsilon, params.delta, params.truncation_share
    if params.calibration == "paper":
        budget = params.split_budget({LABEL: part, "steps": 1 - part}, gaussian=False)
        return FitNoise(
            sparsity=params.sparsity, quantile_epsilon=budget.selection_epsilon(LABEL, len(LEVELS))
        )
    rounds = planned_multipliers(epsilon, delta, params.sparsity, params.n_iterations)
    alone = FitNoise(sparsity=params.sparsity, rounds=rounds)
    if params.truncation == "private_quantiles":
        return alone.with_quantiles(len(LEVELS), share=part, epsilon=epsilon, delta=delta)
    return alone


def _negative_gradient(
    design: Design, sample: Sample, level: float | FloatArray, params: DPSparseLinearRegressionParams
) -> Callable[[FloatArray], FloatArray]:
    y = sample.response()[:, None]
    bound = params.residual_bound
    if bound is None:
        return design.negative_gradient(np.clip(y, -level, level))

    def at(coef: FloatArray) -> FloatArray:
        residual = y - design.predict(coef)
        return design.mean_product(np.clip(residual, -bound, bound, out=residual))

    return at
