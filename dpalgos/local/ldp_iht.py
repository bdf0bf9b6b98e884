"""Interactive sparse linear regression under local privacy (paper C, Algorithms 2 and 4).

    round t, group S_t:   z_i = randomized x̃_i · Π_{±τ₃}(x̃_i'θ − ỹ_i)
                          θ ← Π_ϱ( H_k'( θ − η mean z_i ) )

Guarantee: each person is in one group and sends one report, which is ε-DP: any input against any other. θ is
public, and follows from other people's reports.

Why it is private: a device clips before it reports. x̃ is truncated to ±τ₁ and clipped to norm R = min(r, √d
τ₁), ỹ to ±τ₂. At the public θ

    ‖x̃ (x̃'θ − ỹ)‖ ≤ R min( τ₃, min(τ₁‖θ‖₁, R‖θ‖₂) + τ₂ ) =: r_t,   attained by x̃ along sign(θ), ỹ = −τ₂.

The report is that of a vector of norm ≤ 1, the gradient over r_t.

    release     sensitivity                cost
    gradient    2: vectors of norm ≤ 1     ε of a randomizer, once per person

The iteration is hard thresholding from zero. ``ldp_iht`` has defaults for covariates that are about
uncorrelated with equal variances, and coefficients of norm at most 1. ``ldp_iht_general``, a preset, has
others for correlated covariates. Eigenvalues of E xx' lie in ``covariance_eigenvalue_bounds`` = (low, high),
κ = high/low.

Calibrations
    ``tight``: radius r_t. τ₃ = ``residual_bound``, by default τ₂: a group's rows do not depend on θ, so
    residuals are as concentrated as responses are. The radius then lacks the printed √k', which leads to k √d
    instead of √(kd). By default T = 2, k' = k, η = 1/high, ϱ = 1. The 8k of the proof would cost √8 in noise,
    and every round √T. The preset has T = ⌈3κ⌉, at most 10, η = 2/(3 high), ϱ = 2.
    ``paper``: entries are truncated and residuals are not clipped. The radius, √d τ₁(ϱ √k' τ₁ + τ₂), is that
    of the worst θ in the ball; half-space reports. By default T = 5 for the printed O(log n), k' = 8k. The
    preset has T = ⌈5κ⌉, at most 50, for the printed O(κ log n), k' = 72 κ² k, at most d.

The printed theorem for correlated covariates starts within √(1/κ)/2 of the truth, which is not possible here.
From zero, the error of the start shrinks by the factor 1 − 2/(3κ) in every round.

Reference: Paper C (ICLR 2024), Algorithms 2 and 4, Theorems 6, 7 and 34.
"""

from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.catalog import Form, register
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.local.randomizers import HalfSpaceRandomizer, Randomizer, pure_randomizer, report_sensitivity
from dpalgos.local.rounds import (
    LocalEstimator,
    People,
    ReportPart,
    check_printed,
    mechanism_choice,
    report_plan,
)
from dpalgos.mechanisms.sensitivity import Lemmas
from dpalgos.models.newton_steps import hard_threshold
from dpalgos.params import check_how_many, count, positive
from dpalgos.rows.products import project_l2_ball, truncate
from dpalgos.typing import FloatArray

GRADIENT = "gradient"
_SHARED: dict[str, Any] = {
    "task": "linear_regression",
    "relation": Relation.LOCAL,
    "no_interval": "a support that was selected is not the one that a new sample would select",
    "public": "n, and which group a person is in",
    "forms": {
        "exact radius": Form(keywords={"residual_bound": 100.0, "n_rounds": 3}),
        "half-spaces": Form(keywords={"mechanism": "l2", "n_rounds": 1}),
        "rows clipped": Form(keywords={"row_bound": 1.2}),
    },
}
_EXAMPLE: dict[str, Any] = {
    "covariate_bound": 1.0,
    "response_bound": 3.0,
    "covariance_eigenvalue_bounds": (0.3, 0.5),
    "sparsity": 2,
}


class RoundSettings(NamedTuple):
    """How an iteration goes: T, k', η and ϱ."""

    n_rounds: int
    working_sparsity: int
    step_size: float
    coef_bound: float


@register(
    name="ldp_iht",
    title="Local hard thresholding",
    order=72,
    reference="paper C (ICLR 2024), Algorithm 2",
    summary="Each group sends noisy gradients at what the groups before it have found; isotropic rows.",
    example={**_EXAMPLE, "coef_bound": 1.5},
    **_SHARED,
)
@dataclass(frozen=True, kw_only=True)
class LDPIHT(LocalEstimator):
    """The last iterate of noisy gradient steps, each from the reports of other people."""

    sparsity: int = count("k, number of coefficients other than zero")
    n_rounds: int | None = count("T, number of disjoint groups", default=None)
    working_sparsity: int | None = count("k', number of coefficients kept in every round", default=None)
    step_size: float | None = positive("η", default=None)
    residual_bound: float | None = positive("τ₃: residuals are clipped to ±τ₃; None: τ₂", default=None)
    coef_bound: float | None = positive(
        "ϱ: iterates are projected onto the ℓ2 ball of this radius", default=None
    )
    mechanism: str = mechanism_choice()

    batch = True
    batch_of_same_rows = True
    lemmas: ClassVar[Lemmas] = {GRADIENT: report_sensitivity}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_printed(self, "l2", residual_bound=self.residual_bound)

    def plan(self, n: float, d: int) -> Plan:
        return report_plan(n, {GRADIENT: self.randomizer(d)}, self.settings(d).n_rounds)

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        d, level = rows.d, self.response_level(rows.d, int(rows.n))
        settings, randomizer = self.settings(d), self.randomizer(d)
        people = People(rows, spend, settings.n_rounds)
        coef = rows.by_column(rows.zeros(d))
        for _ in range(settings.n_rounds):
            scale = self.radius(coef, level)
            (mean,), n_reports = people.report(self.report_at(coef, level))
            step_end = hard_threshold(coef - settings.step_size * scale * mean, settings.working_sparsity)
            noise = settings.step_size * scale * randomizer.noise_std / np.sqrt(n_reports)
            if noise.max() * np.sqrt(settings.working_sparsity) > settings.coef_bound:
                spend.note(
                    "conditions",
                    f"{n_reports} people in a round are too few: the noise of the kept coefficients alone is "
                    f"longer than coef_bound = {settings.coef_bound:g}",
                )
            coef = project_l2_ball(step_end, settings.coef_bound)
        return rows.by_replicate(coef)

    def defaults(self, d: int) -> RoundSettings:
        """Return the settings of keywords that are None."""
        printed = self.calibration == "paper"
        return RoundSettings(
            n_rounds=5 if printed else 2,
            working_sparsity=(8 if printed else 1) * self.sparsity,
            step_size=1 / self.eigenvalue_bounds[1],
            coef_bound=1.0,
        )

    def settings(self, d: int) -> RoundSettings:
        """Return how the iteration goes with d columns; refuse a sparsity above d."""
        defaults = self.defaults(d)
        check_how_many("sparsity", self.sparsity, d)
        working = self.working_sparsity or min(defaults.working_sparsity, d)
        return RoundSettings(
            n_rounds=self.n_rounds or defaults.n_rounds,
            working_sparsity=check_how_many("working_sparsity", working, d),
            step_size=self.step_size or defaults.step_size,
            coef_bound=self.coef_bound or defaults.coef_bound,
        )

    def randomizer(self, d: int) -> Randomizer:
        """Return what protects a report of d numbers."""
        if self.calibration == "paper":
            return HalfSpaceRandomizer(epsilon=self.epsilon, radius=1.0, size=d)
        return pure_randomizer(self.epsilon, 1.0, d, self.mechanism)

    def report_at(self, coef: FloatArray, response_level: float) -> ReportPart:
        """Return what devices report at public iterates (d, R): gradients over their largest norm."""
        radius = self.radius(coef, response_level)

        def vectors(X: FloatArray, y: FloatArray) -> FloatArray:
            X = self.clipped(X)
            residual: FloatArray = X @ coef - truncate(y, response_level)[:, None]
            if self.calibration == "tight":
                residual = truncate(residual, self.residual_bound or response_level)
            return np.asarray(X[:, :, None] * (residual / radius)[:, None, :])

        return ReportPart(label=GRADIENT, randomizer=self.randomizer(len(coef)), vectors=vectors)

    def radius(self, coef: FloatArray, response_level: float) -> FloatArray:
        """Return r_t at public iterates (d, R), (R,); see the module's proof."""
        tau, settings = self.covariate_bound, self.settings(len(coef))
        longest = float(np.linalg.norm(self.longest_row(len(coef))))
        if self.calibration == "paper":
            worst = settings.coef_bound * np.sqrt(settings.working_sparsity) * tau + response_level
            return np.full(coef.shape[1], longest * worst)
        predictor = np.minimum(tau * np.abs(coef).sum(axis=0), longest * np.linalg.norm(coef, axis=0))
        bound = self.residual_bound or response_level
        return np.asarray(longest * np.minimum(bound, predictor + response_level))


@register(
    name="ldp_iht_general",
    title="Local hard thresholding, any covariance",
    order=73,
    reference="paper C (ICLR 2024), Algorithm 4",
    summary="Each group sends noisy gradients at what the groups before it have found; correlated rows.",
    example={**_EXAMPLE, "n_rounds": 3},
    **_SHARED,
)
@dataclass(frozen=True, kw_only=True)
class LDPIHTGeneral(LDPIHT):
    """The iteration with defaults for correlated covariates."""

    def defaults(self, d: int) -> RoundSettings:
        low, high = self.eigenvalue_bounds
        condition, printed = high / low, self.calibration == "paper"
        sparsity_factor = ceil(min(72 * condition**2, d)) if printed else 1
        return RoundSettings(
            n_rounds=min(50, ceil(5 * condition)) if printed else min(10, ceil(3 * condition)),
            working_sparsity=sparsity_factor * self.sparsity,
            step_size=2 / (3 * high),
            coef_bound=2.0,
        )
