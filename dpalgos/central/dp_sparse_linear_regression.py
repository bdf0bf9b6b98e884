"""Private sparse linear regression by noisy iterative hard thresholding (paper A, Algorithm 4.2).

    v = β − η (1/n) Σ_i (x_i'β − Π_R(y_i)) x_i
    β ← Π_C( the s noisily largest entries of v, released with noise ),   t = 1 … T,   from β = 0

    release               sensitivity (ℓ2)      share of ρ
    private quantiles     1                     0.05, or 0
    step: selection       2 η r x_max/n (ℓ∞)    half; 0.3 in the last round
    step: values          √s 2 η r x_max/n      the rest

Guarantee: (ε, δ) under replacing one row (x, y); n is public. Public: ``covariate_bound`` x_max (entries are
truncated to ±x_max here), ``response_bound`` R, ``coef_bound`` C, ``sparsity`` s, ``n_iterations`` T,
``step_size`` η.

The rounds and their proof are those of :mod:`dpalgos.central.dp_sparse_glm`, with truncated responses
(:class:`dpalgos.models.families.gaussian.TruncatedGaussian`): r = |x'β − y| ≤ R + x_max ‖β‖₁.

Choices from the data (:mod:`dpalgos.tuning`)
    ``truncation="private_quantiles"``: R is the larger magnitude of the released 2.5% and 97.5% quantiles,
    two selections that take 0.05 of ρ. R is then public.
    ``sparsity_choice``: ``"noise_level"`` drops values of the last round that noise alone explains.
    ``"printed_cross_validation"`` chooses by :mod:`dpalgos.central.printed_cross_validation`.

Calibrations
    ``tight``: the smallest noise of :mod:`dpalgos.central.noisy_iht`, with the exact sensitivity at the
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
from typing import ClassVar

from dpalgos.accounting.events import Gaussian
from dpalgos.accounting.other_events import UNPROTECTED, Selection
from dpalgos.catalog import Form, register
from dpalgos.central import printed_cross_validation
from dpalgos.central.dp_linear_regression import TruncatedRegression
from dpalgos.central.dp_sparse_glm import sparse_descent
from dpalgos.central.noisy_iht import STEP_LEMMAS, planned_rounds, printed_rounds
from dpalgos.core.other_plans import after_selections, concentrated_plan
from dpalgos.core.plans import Plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Lemmas
from dpalgos.models.estimators import SparsityEstimator
from dpalgos.models.newton_steps import prune_noise
from dpalgos.params import check_how_many, count, positive
from dpalgos.tuning.truncation import LABEL, LEVELS, RESPONSE_RELEASES, RESPONSE_SHARE, released_levels
from dpalgos.typing import FloatArray

QUANTILES, UNTRUNCATED = RESPONSE_RELEASES


@register(
    name="dp_sparse_linear_regression",
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
@dataclass(frozen=True, kw_only=True)
class DPSparseLinearRegression(SparsityEstimator, TruncatedRegression):
    """Noisy hard thresholding on least squares with truncated responses."""

    covariate_bound: float = positive("x_max: entries of X are truncated to ± this bound")
    n_iterations: int = count("T, number of rounds", default=10)
    step_size: float | None = positive(
        "η; None: 1.5 / covariate_bound², half the inverse second moment of uniform entries", default=None
    )

    batch = True
    lemmas: ClassVar[Lemmas] = {
        **STEP_LEMMAS,
        QUANTILES.label: QUANTILES.lemma,
        UNTRUNCATED.label: UNTRUNCATED.lemma,
        printed_cross_validation.CHOICE.label: printed_cross_validation.CHOICE.lemma,
    }

    @property
    def step(self) -> float:
        return self.step_size or 1.5 / self.covariate_bound**2

    def plan(self, n: float, d: int) -> Plan:
        check_how_many("sparsity", self.sparsity, d)
        if self.is_cross_validated:
            return printed_cross_validation.PLAN
        budget = self.epsilon, self.delta, self.sparsity, self.n_iterations
        is_tight = self.calibration == "tight"
        # As printed, B = 4 (R + C √s x_max) x_max is twice the true sensitivity.
        rounds = planned_rounds(*budget) if is_tight else printed_rounds(*budget, excess=2.0)
        if self.truncation == "none":
            return {UNTRUNCATED.label: UNPROTECTED, **rounds}
        if self.truncation != "private_quantiles":
            return rounds
        quantiles = Selection(
            1.0, count=len(LEVELS), support=(-self.response_bound, self.response_bound), by="density"
        )
        if is_tight:
            return after_selections(self.epsilon, self.delta, LABEL, quantiles, RESPONSE_SHARE, rounds)
        first = {LABEL: (RESPONSE_SHARE, quantiles), "rest": (1 - RESPONSE_SHARE, Gaussian(1.0))}
        return {LABEL: concentrated_plan(self.epsilon, self.delta, first)[LABEL], **rounds}

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        if self.is_cross_validated:
            bound = self.response_bound
            return printed_cross_validation.choose_of_descents(
                rows, spend, self, descent=self, family=self.family_at(bound, bound), response_bound=bound
            )
        pruned = prune_noise if self.sparsity_choice == "noise_level" else None
        family = self.family_at(*released_levels(rows, spend, self.response_bound, self.truncation))
        return sparse_descent(rows, spend, self, family, pruned)
