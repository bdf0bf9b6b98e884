"""The private sparse mean (paper A, Algorithm 3.3: Algorithm 3.2, "peeling", on the truncated mean).

    m = (1/n) Σ_i Π_R(x_i),   Π_R clips every entry to [−R, R]
    S = the s coordinates of largest |m_j| + noise
    m̂_S = m_S + noise,   m̂ = 0 elsewhere

Guarantee: (ε, δ) under replacing one row; n is public. Public: ``value_bound`` R, ``sparsity`` s.

Why it is private. Replacing a row moves every entry of m, and every |m_j|, by at most λ = 2R/n. The rows R·1
and −R·1 attain that. The selection and the release of the s selected entries both use m, and both are
charged. Given the published S, the s entries move by √s λ in ℓ2, or by ‖u − l‖₂ / n if they are truncated to
intervals.

Choices from the data (:mod:`dpalgos.tuning`)
    ``truncation="private_quantiles"``: after the selection, the 2.5% and 97.5% quantiles of the s selected
    columns are released. These are 2s selections that take 0.1 of ρ. The values are truncated between them.
    ``sparsity_choice="printed_cross_validation"``: a choice by :func:`dpalgos.tuning.sparsity.mean_losses`.

Calibrations
    ``tight``: S by one Gumbel vector, s events of bounded range; values with Gaussian noise. A share of ρ is
    for the selection. All noise is then scaled down to what the accountant just proves.
    ``paper``: s rounds of Laplace noise and Laplace noise on the values, b = λ · 2 √(3 s log(1/δ)) / ε. The
    lemma cited for it needs ε ≤ 0.5, δ ≤ 0.011, s ≥ 10 (``diagnostics["conditions"]`` lists those that fail).
    The certificate does not use it. zCDP proves ρ = (5/24) ε² / log(1/δ) for every s, and the events less: at
    (0.5, 1e-5) ε is 0.13 for s = 1, 0.28 for 5, 0.32 for 100.

Post-processing: ``shrinkage="james_stein"`` of the s released values by their known noise level;
``sparsity_choice="noise_level"``.

Reference: Cai, Wang & Zhang, The Cost of Privacy, Algorithms 3.2 and 3.3.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpalgos.accounting.calibration import NoisePlan, gaussians, least_noise, split_plan
from dpalgos.catalog import Form, Release, register
from dpalgos.mechanisms.noisy_iht import peeling, printed_multiplier, unmet_conditions
from dpalgos.mechanisms.sensitivity import ball_mean, box
from dpalgos.mechanisms.top_k import SparseRelease, gumbel_top_k
from dpalgos.models.shrinkage import hard_threshold, james_stein, prune_noise, shrinkage_choice
from dpalgos.params import positive
from dpalgos.release.checks import check_how_many
from dpalgos.release.spend import Spend
from dpalgos.release.transcript import Transcript
from dpalgos.rows.clipping import truncate
from dpalgos.rows.moments import clipped_means
from dpalgos.rows.sample import Sample
from dpalgos.tuning.sparsity import PRINTED_CHOICE, SparsityParams, as_printed, mean_losses
from dpalgos.tuning.truncation import (
    COLUMN_RELEASES,
    COLUMNS_SHARE,
    LABEL,
    LEVELS,
    check_truncation,
    private_interval,
    truncated_means,
    truncation_choice,
)
from dpalgos.typing import FloatArray

_SHARES = {"selection": 0.6, "values": 0.4}


@dataclass(frozen=True, kw_only=True)
class DPSparseMeanParams(SparsityParams):
    """Keywords of :func:`dp_sparse_mean`."""

    value_bound: float = positive("R: every entry is truncated to ±R")
    truncation: str = truncation_choice()
    shrinkage: str | None = shrinkage_choice()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_truncation(self.truncation, self.calibration, prints_quantiles=False)


SELECTION = Release("mean: selection", ball_mean)
VALUES = Release("mean: values", box)
RELEASES = SELECTION, VALUES, *COLUMN_RELEASES, PRINTED_CHOICE


@register(
    title="Private sparse mean",
    order=10,
    task="mean",
    reference="Cai, Wang & Zhang, The Cost of Privacy, Algorithm 3.3",
    summary="The largest entries of the truncated mean, selected and released with noise.",
    no_interval="a support that was selected is not the one that a new sample would select",
    example={"value_bound": 1.0, "sparsity": 2},
    releases=RELEASES,
    forms={
        "private quantiles": Form(keywords={"truncation": "private_quantiles"}, in_memory=True),
        "shrunk": Form(keywords={"shrinkage": "james_stein", "sparsity": 3}, calibrations=("tight", "paper")),
        "no truncation": Form(keywords={"truncation": "none"}, calibrations=("paper",), protected=False),
        "s by noise level": Form(
            keywords={"sparsity_choice": "noise_level"}, calibrations=("tight", "paper")
        ),
        "s by printed cross-validation": Form(
            keywords={"sparsity_choice": "printed_cross_validation"},
            calibrations=("paper",),
            protected=False,
            in_memory=True,
        ),
    },
)
def dp_sparse_mean(sample: Sample, params: DPSparseMeanParams, transcript: Transcript) -> FloatArray:
    """Return the sparse mean, (d, R)."""
    check_how_many("sparsity", params.sparsity, sample.n_features)
    if params.is_printed:
        bound = params.value_bound**2  # losses are in ± that
        losses = partial(mean_losses, bound)
        return as_printed(sample, params, transcript, _thresholded_means, losses, 2 * bound, dp_sparse_mean)
    if params.calibration == "paper":
        released = _peeled_as_printed(sample, params, transcript)
    else:
        released = _selected_by_gumbel(sample, params, transcript)
    values, noise_std = released.values, released.noise_std
    if params.shrinkage == "james_stein":
        values = james_stein(values, noise_std**2)
    if params.sparsity_choice == "noise_level":
        values = np.where(prune_noise(released.values, noise_std) != 0, values, 0.0)
    return replace(released, values=values).dense()


def _means(sample: Sample, params: DPSparseMeanParams, transcript: Transcript) -> FloatArray:
    if params.truncation == "none":
        transcript.unprotected("untruncated entries")
    bound = np.inf if params.truncation == "none" else params.value_bound
    return clipped_means(sample, truncate, bound)


def _thresholded_means(sample: Sample, params: DPSparseMeanParams) -> list[FloatArray]:
    means = clipped_means(sample, truncate, params.value_bound)
    return [hard_threshold(means, s) for s in params.grid]


def _selected_by_gumbel(sample: Sample, params: DPSparseMeanParams, transcript: Transcript) -> SparseRelease:
    means, bound = _means(sample, params, transcript), params.value_bound
    noise = planned_noise(params)
    selection, multiplier = 2 / noise.epsilon_of("selection"), noise.multiplier("values")
    support = gumbel_top_k(
        transcript,
        SELECTION,
        means,
        sensitivity=ball_mean(bound, sample.n_rows),
        noise_multiplier=selection,
        k=params.sparsity,
        by_magnitude=True,
    )
    selected, widths = np.take_along_axis(means, support, axis=0), np.full(support.shape, 2 * bound)
    if params.truncation == "private_quantiles":
        lower, upper = private_interval(
            transcript, sample, bound, epsilon=noise.epsilon_of(LABEL), columns=support
        )
        selected, widths = truncated_means(sample, lower, upper, support), upper - lower
    spend = Spend(transcript, {VALUES.label: gaussians(multiplier)})
    values, std = spend(VALUES, box.of(selected, widths, sample.n_rows))
    return SparseRelease(support=support, values=values, n_features=len(means), noise_std=std)


def _peeled_as_printed(sample: Sample, params: DPSparseMeanParams, transcript: Transcript) -> SparseRelease:
    transcript.note("conditions", unmet_conditions(params.epsilon, params.delta, params.sparsity))
    return peeling(
        transcript,
        (SELECTION, VALUES),
        _means(sample, params, transcript),
        linf_sensitivity=ball_mean(params.value_bound, sample.n_rows),
        sparsity=params.sparsity,
        noise_multiplier=printed_multiplier(params.epsilon, params.delta, params.sparsity),
    )


def planned_noise(params: DPSparseMeanParams) -> NoisePlan:
    """Return the smallest noise that is (ε, δ)-DP."""
    budget = params.split_budget(_SHARES, gaussian=False)
    plan = split_plan(budget, selected={"selection": params.sparsity}, released={"values": 1})
    if params.truncation != "private_quantiles":
        return least_noise(plan)
    n_quantiles = len(LEVELS) * params.sparsity
    return least_noise(plan.after_selections(LABEL, n_quantiles, COLUMNS_SHARE), holds=False)
