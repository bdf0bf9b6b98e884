"""The private sparse mean (paper A, Algorithm 3.3: Algorithm 3.2, "peeling", on the truncated mean).

    m = (1/n) Σ_i Π_R(x_i),   Π_R clips every entry to [−R, R]
    S = the s coordinates of largest |m_j| + noise
    m̂_S = m_S + noise,   m̂ = 0 elsewhere

    release              sensitivity (ℓ2)    share of ρ
    mean: selection      2R/n (ℓ∞)           0.6
    private quantiles    1                   0.1 of all, or 0
    mean: values         ‖u − l‖₂/n          0.4

Guarantee: (ε, δ) under replacing one row; n is public. Public: ``value_bound`` R, ``sparsity`` s.

Why it is private. Replacing a row moves every entry of m, and every |m_j|, by at most λ = 2R/n. The rows R·1
and −R·1 attain that. The selection and the release of the s selected entries both use m, and both are
charged. Given the published S, the s entries move by √s λ in ℓ2, or by ‖u − l‖₂ / n if they are truncated to
intervals.

Choices from the data (:mod:`dpalgos.tuning`)
    ``truncation="private_quantiles"``: after the selection, the 2.5% and 97.5% quantiles of the s selected
    columns are released. These are 2s selections that take 0.1 of ρ. The values are truncated between them.
    ``sparsity_choice="printed_cross_validation"``: see :mod:`dpalgos.central.printed_cross_validation`.

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

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpalgos.accounting.events import Event, Gaussian
from dpalgos.accounting.other_events import UNPROTECTED, Laplace, Selection
from dpalgos.catalog import Form, register
from dpalgos.central import printed_cross_validation
from dpalgos.central.noisy_iht import dense
from dpalgos.core.other_plans import after_selections, concentrated_plan, least_noise_plan
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Rows, clipped_mean
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Bounded, Lemmas, ball_mean, box
from dpalgos.mechanisms.top_k import printed_multiplier, unmet_conditions
from dpalgos.models.estimators import SparsityEstimator
from dpalgos.models.newton_steps import james_stein, prune_noise, shrinkage_choice
from dpalgos.params import check_how_many, positive
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
from dpalgos.typing import FloatArray, IntArray

SELECTION, VALUES = "mean: selection", "mean: values"
QUANTILES, UNTRUNCATED = COLUMN_RELEASES
_SELECTION_SHARE = 0.6


@register(
    name="dp_sparse_mean",
    title="Private sparse mean",
    order=10,
    task="mean",
    reference="Cai, Wang & Zhang, The Cost of Privacy, Algorithm 3.3",
    summary="The largest entries of the truncated mean, selected and released with noise.",
    no_interval="a support that was selected is not the one that a new sample would select",
    example={"value_bound": 1.0, "sparsity": 2},
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
@dataclass(frozen=True, kw_only=True)
class DPSparseMean(SparsityEstimator):
    """The largest entries of the truncated mean, selected and released with noise."""

    value_bound: float = positive("R: every entry is truncated to ±R")
    truncation: str = truncation_choice()
    shrinkage: str | None = shrinkage_choice()

    batch = True
    lemmas: ClassVar[Lemmas] = {
        SELECTION: ball_mean,
        VALUES: (box, ball_mean),  # Laplace noise is of each entry, by its sensitivity in ℓ∞
        QUANTILES.label: QUANTILES.lemma,
        UNTRUNCATED.label: UNTRUNCATED.lemma,
        printed_cross_validation.CHOICE.label: printed_cross_validation.CHOICE.lemma,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_truncation(self.truncation, self.calibration, prints_quantiles=False)

    def plan(self, n: float, d: int) -> Plan:
        check_how_many("sparsity", self.sparsity, d)
        if self.is_cross_validated:
            return printed_cross_validation.PLAN
        s, bound = self.sparsity, self.value_bound
        if self.calibration == "paper":
            multiplier = printed_multiplier(self.epsilon, self.delta, s)
            peeled = {
                SELECTION: Selection(2 / multiplier, count=s, by_magnitude=True, by="peeling"),
                VALUES: Laplace(1 / multiplier, count=s),
            }
            if self.truncation == "none":
                return {UNTRUNCATED.label: UNPROTECTED, **peeled}
            return peeled
        shares: dict[str, tuple[float, Event]] = {
            SELECTION: (_SELECTION_SHARE, Selection(1.0, count=s, by_magnitude=True)),
            VALUES: (1 - _SELECTION_SHARE, Gaussian(1.0)),
        }
        budget = self.epsilon, self.delta
        plan = least_noise_plan(*budget, concentrated_plan(*budget, shares))
        if self.truncation != "private_quantiles":
            return plan
        quantiles = Selection(1.0, count=len(LEVELS) * s, support=(-bound, bound), by="density")
        plan = after_selections(*budget, LABEL, quantiles, COLUMNS_SHARE, plan)
        return {label: plan[label] for label in (SELECTION, LABEL, VALUES)}

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        bound = self.value_bound
        if self.is_cross_validated:
            return printed_cross_validation.choose_of_means(rows, spend, self, bound)
        if self.calibration == "paper":
            spend.note("conditions", unmet_conditions(self.epsilon, self.delta, self.sparsity))
        if self.truncation == "none":
            spend.charge(UNTRUNCATED.label)
        means = clipped_mean(rows, truncate, np.inf if self.truncation == "none" else bound)
        moved = ball_mean.of(means, bound, rows.n)
        support = spend.choose(SELECTION, moved)
        released, std = spend(VALUES, self.selected(rows, spend, moved, support))
        values = released
        if self.shrinkage == "james_stein":
            values = rows.by_replicate(james_stein(rows.by_column(released), std**2))
        if self.sparsity_choice == "noise_level":
            is_kept = prune_noise(rows.by_column(released), std) != 0
            values = np.where(rows.by_replicate(is_kept), values, 0.0)
        return dense(support, values, rows.d)

    def selected(self, rows: Rows, spend: Spend, moved: Bounded, support: IntArray) -> Bounded:
        """Return the means of the selected columns, and how far a neighbor moves them."""
        values, bound = np.take_along_axis(moved.value, support, axis=-1), self.value_bound
        if self.calibration == "paper":
            return moved._replace(value=values)
        columns = rows.by_column(support)
        if self.truncation != "private_quantiles":
            return box.of(values, np.full(columns.shape, 2 * bound), rows.n)
        lower, upper = private_interval(spend, rows.sample, bound, columns=columns)
        means = truncated_means(rows, lower, upper, columns)
        return box.of(rows.by_replicate(means), upper - lower, rows.n)
