"""Private sparse linear regression by noisy iterative hard thresholding (paper A, Algorithm 4.2).

    v = β − η (1/n) Σ_i (x_i'β − Π_R(y_i)) x_i
    β ← Π_C( the s noisily largest entries of v, released with noise ),   t = 1 … T,   from β = 0

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Public: ``covariate_bound`` x_max (entries are
truncated to ±x_max here), ``response_bound`` R, ``coef_bound`` C, ``sparsity`` s, ``n_iterations`` T,
``step_size`` η.

The rounds and their proof are those of :mod:`dpalgos.central.dp_sparse_glm`, with truncated responses
(:class:`dpalgos.models.families.gaussian.TruncatedGaussian`): |x'β − y| ≤ R + x_max ‖β‖₁.

Choices from the data (:mod:`dpalgos.tuning`)
    ``truncation="private_quantiles"``: R is the larger magnitude of the released 2.5% and 97.5% quantiles,
    two selections that take 0.05 of ρ. R is then public.
    ``sparsity_choice``: ``"noise_level"`` drops values of the last round that noise alone explains.
    ``"printed_cross_validation"`` chooses by :func:`dpalgos.tuning.sparsity.response_losses`.

Calibrations
    ``tight``: the smallest noise of :mod:`dpalgos.mechanisms.noisy_iht`, with the exact sensitivity at the
    current iterate.
    ``paper``: Algorithm 3.2 with Laplace noise of scale (ηB/n) · 2 √(3 s log(T/δ)) T / ε, B = 4 (R + C √s
    x_max) x_max, which splits ε and δ evenly. B is twice the crude sensitivity. The certificate uses the
    worst sensitivity over the ball ‖β‖₂ ≤ C and zCDP; ``diagnostics["conditions"]`` lists the printed proof's
    own conditions that fail. The paper does not count quantiles, but the certificate does.

Residual-clipped form (``residual_bound``; tight only): the rounds of ``dp_sparse_glm(family="gaussian")``. R
and C are not needed for privacy.

Departures: the ½-loss gradient, as in the paper's update. T and η of the paper's experiments are not stated.

Reference: Cai, Wang & Zhang, The Cost of Privacy, Algorithm 4.2, Lemma 4.4 (which omits C ≤ c0 and ‖β⁰‖₂ ≤
C).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from dpalgos.accounting.calibration import NoisePlan, least_noise, split_plan
from dpalgos.catalog import Form, register
from dpalgos.central.dp_linear_regression import LinearRegressionParams
from dpalgos.central.dp_sparse_glm import SELECTION, VALUES, projected, sparse_descent
from dpalgos.mechanisms.noisy_iht import planned_rounds, printed_rounds, tight_rounds
from dpalgos.models.risk import wide_gradient
from dpalgos.models.shrinkage import hard_threshold, prune_noise
from dpalgos.params import count, positive
from dpalgos.release.checks import check_how_many
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.rows.wide import Design
from dpalgos.tuning.sparsity import PRINTED_CHOICE, SparsityParams, as_printed, response_losses
from dpalgos.tuning.truncation import LABEL, LEVELS, RESPONSE_RELEASES, RESPONSE_SHARE, response_truncation
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


RELEASES = SELECTION, VALUES, *RESPONSE_RELEASES, PRINTED_CHOICE


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
    releases=RELEASES,
    has_path=True,
    forms={
        "private quantiles": Form(
            keywords={"truncation": "private_quantiles"}, calibrations=("tight", "paper")
        ),
        "no truncation": Form(keywords={"truncation": "none"}, calibrations=("paper",), protected=False),
        "s by noise level": Form(
            keywords={"sparsity_choice": "noise_level"}, calibrations=("tight", "paper")
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
    if params.is_printed:
        length = params.response_bound**2 / 2
        losses = partial(response_losses, params.response_bound, length)
        return as_printed(sample, params, transcript, _fitted, losses, length, dp_sparse_linear_regression)
    noise = planned_noise(params)
    if params.calibration == "paper":
        # B = 4 (R + C √s x_max) x_max is twice the true sensitivity.
        budget = (params.epsilon, params.delta, params.sparsity, params.n_iterations)
        rounds = printed_rounds(transcript, *budget, excess=2.0)
    else:
        rounds = tight_rounds(noise, params.sparsity, params.n_iterations)
    quantiles = params.truncation == "private_quantiles"
    levels = response_truncation(
        transcript,
        sample,
        params.response_bound,
        params.truncation,
        noise.epsilon_of(LABEL) if quantiles else np.nan,
    )
    pruned = prune_noise if params.sparsity_choice == "noise_level" else None
    return sparse_descent(sample, params, transcript, params.family_at(*levels), rounds, pruned)


def _fitted(sample: Sample, params: DPSparseLinearRegressionParams) -> list[FloatArray]:
    """Return what the same steps give without noise, within the same bounds, for every s of the grid."""
    n, family = len(params.grid), params.family_at(params.response_bound, params.response_bound)
    mask = None if sample.row_mask is None else np.repeat(sample.row_mask, n, axis=1)
    wide = sample.derived(row_mask=mask, n_replicates=sample.n_replicates * n)
    gradient = wide_gradient(wide, Design(wide, params.covariate_bound, single=True), family)
    coef: FloatArray = np.zeros((sample.n_features, wide.n_replicates))
    for _ in range(params.n_iterations):
        step_end = coef - params.step * gradient(coef)
        for g, s in enumerate(params.grid):
            coef[:, g::n] = projected(params, hard_threshold(step_end[:, g::n], s))
    return [coef[:, g::n] for g in range(n)]


def planned_noise(params: DPSparseLinearRegressionParams) -> NoisePlan:
    """Return the smallest noise that is (ε, δ)-DP; for ``paper`` that of its quantiles only."""
    if params.calibration == "paper":
        shares = {LABEL: RESPONSE_SHARE, "steps": 1 - RESPONSE_SHARE}
        budget = params.split_budget(shares, gaussian=False)
        return split_plan(budget, selected={LABEL: len(LEVELS)})
    plan = planned_rounds(params.epsilon, params.delta, params.sparsity, params.n_iterations)
    if params.truncation != "private_quantiles":
        return plan
    return least_noise(plan.after_selections(LABEL, len(LEVELS), RESPONSE_SHARE), holds=False)
