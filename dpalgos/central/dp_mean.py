"""The private mean (paper A, Algorithm 3.1).

    m̂ = (1/n) Σ_i Π_R(x_i) + N(0, sd² I_d),   Π_R clips every entry to [−R, R]

Guarantee: (ε, δ) under replacing one row; n is public. Public: ``value_bound`` R.

Sensitivity: Δ = ‖u − l‖₂ / n for entries truncated to [l_j, u_j]
(:func:`dpalgos.mechanisms.sensitivity.box`). It is 2R√d / n for ± R. The rows l and u attain it.

Truncation (:mod:`dpalgos.tuning.truncation`)
    ``"bound"``: to [−R, R].
    ``"private_quantiles"``: between the released 2.5% and 97.5% quantiles of every column. These are 2d
    selections that take 0.1 of ρ. Then l and u are public, and the mean gets the rest.
    ``"none"``: not private.

Calibrations
    ``tight``: sd = Δ z1(ε, δ), exact.
    ``paper``: sd = Δ √log(1/δ) / ε as printed, half the variance of the classical Gaussian mechanism. It
    proves more than ε for small δ (0.5198 at ε = 0.5, δ = 1e-5) and less for large δ; the certificate states
    which. The paper does not count quantiles, but the certificate does.

``shrinkage="james_stein"`` multiplies the released mean by max(0, 1 − (d − 2) sd² / ‖m̂‖²), from the release
and the public noise level alone. ``interval`` (:mod:`dpalgos.intervals.means`) needs ``truncation="bound"``:
quantiles clip entries on purpose.

Reference: Cai, Wang & Zhang, The Cost of Privacy, Algorithm 3.1 (its output line prints X_R for the mean).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dpalgos.accounting.calibration import NoisePlan, gaussians, least_noise, selections
from dpalgos.accounting.events import Event
from dpalgos.catalog import Form, Release, register
from dpalgos.errors import InputError
from dpalgos.intervals.means import (
    ENTRY_SQUARES,
    ENTRY_TAIL,
    interval_of_entries,
    interval_plan,
)
from dpalgos.intervals.spread import TruncatedEntries
from dpalgos.intervals.tails import Unseen
from dpalgos.mechanisms.sensitivity import box
from dpalgos.models.shrinkage import james_stein, shrinkage_choice
from dpalgos.params import IntervalParams, positive
from dpalgos.release.spend import Planned, Spend, left_of, planned_events
from dpalgos.release.transcript import Transcript
from dpalgos.rows.clipping import truncate
from dpalgos.rows.moments import clipped_means
from dpalgos.rows.sample import Sample
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

_UNSEEN = Unseen(near=1.5, far=5.0)


@dataclass(frozen=True, kw_only=True)
class DPMeanParams(IntervalParams):
    """Keywords of :func:`dp_mean`."""

    value_bound: float = positive("R: every entry is truncated to ±R")
    truncation: str = truncation_choice()
    shrinkage: str | None = shrinkage_choice()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_truncation(self.truncation, self.calibration)
        if self.interval is not None and self.truncation != "bound":
            raise InputError(
                f"interval must be left out for truncation={self.truncation!r}, which cuts off entries by "
                f"design, got {self.interval!r}; use truncation='bound'"
            )


MEAN = Release("mean", box)


@register(
    title="Private mean",
    order=6,
    task="mean",
    reference="Cai, Wang & Zhang, The Cost of Privacy, Algorithm 3.1",
    summary="The mean of truncated entries with Gaussian noise.",
    example={"value_bound": 1.0},
    releases=(
        MEAN,
        *COLUMN_RELEASES,
        ENTRY_SQUARES,
        ENTRY_TAIL,
    ),
    forms={
        "private quantiles": Form(
            keywords={"truncation": "private_quantiles"}, calibrations=("tight", "paper"), in_memory=True
        ),
        "interval": Form(keywords={"interval": 0.95}),
        "people": Form(keywords={"interval": 0.95}, of_people=True, in_memory=True),
        "shrunk": Form(keywords={"shrinkage": "james_stein"}, calibrations=("tight", "paper")),
        "no truncation": Form(keywords={"truncation": "none"}, calibrations=("paper",), protected=False),
    },
    takes_people=True,
)
def dp_mean(sample: Sample, params: DPMeanParams, transcript: Transcript) -> FloatArray:
    """Return the mean, (d, R)."""
    bound, shape = params.value_bound, (sample.n_features, sample.n_replicates)
    shares = interval_plan(params, ENTRY_SQUARES, ENTRY_TAIL)
    plan = planned_events(params.epsilon, params.delta, {**shares, MEAN: Planned(left_of(shares))})
    if params.calibration == "paper":
        plan[MEAN.label] = gaussians(float(np.sqrt(np.log(1 / params.delta)) / params.epsilon))
    widths = np.full(shape, 2 * bound)
    if params.truncation == "private_quantiles":
        noise = planned_noise(params, sample.n_features, plan)
        plan = {MEAN.label: noise.events[MEAN.label]}
        lower, upper = private_interval(transcript, sample, bound, epsilon=noise.epsilon_of(LABEL))
        means, widths = truncated_means(sample, lower, upper), upper - lower
    elif params.truncation == "none":
        transcript.unprotected("untruncated entries")
        means = clipped_means(sample, truncate, np.inf)
    else:
        means = clipped_means(sample, truncate, bound)
    spend = Spend(transcript, plan)
    released, std = spend(MEAN, box.of(means, widths, sample.n_rows))
    if params.shrinkage == "james_stein":
        released = james_stein(released, std**2)
    if params.interval is not None:
        ends = np.full((sample.n_features, 1), bound)
        entries = TruncatedEntries(lower=-ends, upper=ends, mean=released)
        transcript.interval = interval_of_entries(spend, params.interval, sample, entries, std, _UNSEEN)
    spend.check_complete()
    return released


def planned_noise(params: DPMeanParams, d: int, plan: Mapping[str, Event]) -> NoisePlan:
    """Return the smallest noise of quantiles and mean; for ``paper``, the printed one."""
    n_quantiles = len(LEVELS) * d
    mean = NoisePlan(params.epsilon, params.delta, plan)
    if params.calibration == "tight":
        return least_noise(mean.after_selections(LABEL, n_quantiles, COLUMNS_SHARE), holds=False)
    shares = {LABEL: COLUMNS_SHARE, "mean": 1 - COLUMNS_SHARE}
    budget = params.split_budget(shares, gaussian=False)
    quantiles = selections(budget.selection_epsilon(LABEL, n_quantiles), n_quantiles)
    return replace(mean, events={**mean.events, LABEL: quantiles})
