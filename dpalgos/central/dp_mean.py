"""The private mean (paper A, Algorithm 3.1).

    m̂ = (1/n) Σ_i Π_R(x_i) + N(0, sd² I_d),   Π_R clips every entry to [−R, R]

    release                     sensitivity (ℓ2)    share
    mean                        ‖u − l‖₂/n          the rest
    quantiles of columns        1 (of a count)      0.1 of ρ, if truncation is at them
    squares of entries          √d/n                0.05 of μ², with an interval
    shares of rows by size      √3/n                0.12 of μ², with an interval

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

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpalgos.accounting.events import Event, Gaussian
from dpalgos.accounting.other_events import UNPROTECTED, Selection
from dpalgos.catalog import Form, register
from dpalgos.core.estimator import IntervalEstimator
from dpalgos.core.other_plans import after_selections, concentrated_plan
from dpalgos.core.plans import Plan, Share, gaussian_plan
from dpalgos.core.rows import Rows, clipped_mean
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError
from dpalgos.intervals.means import ENTRY_SQUARES, ENTRY_TAIL, SHARES, interval_of_entries
from dpalgos.intervals.spread import TruncatedEntries
from dpalgos.intervals.tails import Unseen
from dpalgos.mechanisms.sensitivity import Lemmas, box
from dpalgos.models.newton_steps import james_stein, shrinkage_choice
from dpalgos.params import positive
from dpalgos.rows.products import truncate
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

MEAN = "mean"
QUANTILES, UNTRUNCATED = COLUMN_RELEASES
ENTRY_LEMMAS = {each.label: each.lemma for each in (ENTRY_SQUARES, ENTRY_TAIL)}
INTERVAL_SHARES = {label: Share(share) for label, share in SHARES.items()}
_UNSEEN = Unseen(near=1.5, far=5.0)


@register(
    name="dp_mean",
    title="Private mean",
    order=6,
    task="mean",
    reference="Cai, Wang & Zhang, The Cost of Privacy, Algorithm 3.1",
    summary="The mean of truncated entries with Gaussian noise.",
    example={"value_bound": 1.0},
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
@dataclass(frozen=True, kw_only=True)
class DPMean(IntervalEstimator):
    """The mean of truncated entries with Gaussian noise."""

    value_bound: float = positive("R: every entry is truncated to ±R")
    truncation: str = truncation_choice()
    shrinkage: str | None = shrinkage_choice()

    batch = True
    lemmas: ClassVar[Lemmas] = {
        MEAN: box,
        QUANTILES.label: QUANTILES.lemma,
        UNTRUNCATED.label: UNTRUNCATED.lemma,
        **ENTRY_LEMMAS,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_truncation(self.truncation, self.calibration)
        if self.interval is not None and self.truncation != "bound":
            raise InputError(
                f"interval must be left out for truncation={self.truncation!r}, which cuts off entries by "
                f"design, got {self.interval!r}; use truncation='bound'"
            )

    def plan(self, n: float, d: int) -> Plan:
        shares = {} if self.interval is None else INTERVAL_SHARES
        left = 1 - sum(share.share for share in shares.values())
        plan: dict[str, Event] = {**gaussian_plan(self.epsilon, self.delta, {MEAN: Share(left), **shares})}
        if self.calibration == "paper":
            plan[MEAN] = Gaussian(float(np.sqrt(np.log(1 / self.delta)) / self.epsilon))
        if self.truncation == "none":
            return {UNTRUNCATED.label: UNPROTECTED, **plan}
        if self.truncation == "bound":
            return plan
        bound = self.value_bound
        quantiles = Selection(1.0, count=len(LEVELS) * d, support=(-bound, bound), by="density")
        if self.calibration == "tight":
            return after_selections(self.epsilon, self.delta, LABEL, quantiles, COLUMNS_SHARE, plan)
        both = {LABEL: (COLUMNS_SHARE, quantiles), MEAN: (1 - COLUMNS_SHARE, plan[MEAN])}
        return {LABEL: concentrated_plan(self.epsilon, self.delta, both)[LABEL], **plan}

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        bound = self.value_bound
        means, widths = self.truncated(rows, spend)
        released, std = spend(MEAN, box.of(means, widths, rows.n))
        if self.shrinkage == "james_stein":
            released = rows.by_replicate(james_stein(rows.by_column(released), std**2))
        if self.interval is not None:
            ends = np.full((rows.d, 1), bound)
            entries = TruncatedEntries(lower=-ends, upper=ends, mean=rows.by_column(released))
            spend.keep_interval(interval_of_entries(rows, spend, self.interval, entries, std, _UNSEEN))
        return released

    def truncated(self, rows: Rows, spend: Spend) -> tuple[FloatArray, FloatArray]:
        """Return the mean of truncated entries (…, d), and the widths of the intervals, (d, R) or (d, 1)."""
        bound, widths = self.value_bound, np.full((rows.d, 1), 2 * self.value_bound)
        if self.truncation == "none":
            spend.charge(UNTRUNCATED.label)
            return clipped_mean(rows, truncate, np.inf), widths
        if self.truncation == "bound":
            return clipped_mean(rows, truncate, bound), widths
        lower, upper = private_interval(spend, rows.sample, bound)
        return rows.by_replicate(truncated_means(rows, lower, upper)), upper - lower
