"""Non-interactive sparse linear regression under local privacy (paper C, Algorithm 1).

    Σ̂ = mean of noisy x̄x̄',   v̂ = mean of noisy x̃ỹ,   θ̂ = S( Σ̂⁻¹ v̂ )

Guarantee: each person's one report is ε-DP, or (ε, δ)-DP with Gaussian noise: any input of that person
against any other. Public: τ₁ ``covariate_bound``, r ``row_bound``, τ₂ ``response_bound``, eigenvalue bounds
of E xx', n.

Why it is private: a device clips its vectors and sends noisy functions of them. x̄ has norm ≤ r, x̃ entries
within ±τ₁, and ỹ lies within ±τ₂. Then the norms of x̄x̄'/r² and x̃ỹ/(√d τ₁τ₂) are at most 1. Rows r e_1 and
r e_2 move the first by √2, and τ₁1 with ±τ₂ the second by 2.

Calibrations
    ``tight``, pure ε (``mechanism`` ``"auto"``, ``"l2"``, ``"privunit"``): one vector of norm ≤ 1,
    (√q g, √(1 − q) x̃ỹ/(Rτ₂)). x̃ is truncated to ±τ₁ and clipped to R = min(r, √d τ₁). g is x̃x̃' scaled as in
    :mod:`dpalgos.local.noisy_moments`; q makes the sum of both noises smallest.
    ``tight``, ``"gaussian"``: both parts with Gaussian noise, together exactly (ε, δ) by
    Δ₁²/σ₁² + Δ₂²/σ₂² = μ²; symmetric noise, √2 smaller off the diagonal; shares of μ² by r² and 2√d τ₁τ₂.
    ``paper``: σ₁ = √(32 log(2.5/δ)) r²/ε on the upper triangle, σ₂ = √(32 d log(2.5/δ)) τ₁τ₂/ε: half of
    (ε, δ) for each, at a sensitivity of 2r² instead of the exact √2 r².

    release        sensitivity                                cost
    xx' and xy     2: vectors of norm ≤ 1                     ε, pure
    xx'            √2 for xx'/r²                              its share of μ², Gaussian
    xy             2 for x̃ỹ/(√d τ₁τ₂)                         its share of μ², Gaussian

The server's computations, a floor for eigenvalues and the threshold S, are in
:mod:`dpalgos.local.noisy_moments`.

Reference: Paper C (ICLR 2024), Algorithm 1, Theorems 1, 3 and 5.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.catalog import Form, register
from dpalgos.core.plans import Plan, Share, gaussian_plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.local.noisy_moments import (
    GramReport,
    MomentEstimator,
    MomentNoise,
    NoisyMoments,
    crosses,
    isometric,
    least_noise_scaling,
    regression,
    score_variance_bound,
)
from dpalgos.local.randomizers import (
    GaussianReport,
    PureRandomizer,
    product_sensitivity,
    pure_randomizer,
    report_sensitivity,
)
from dpalgos.local.rounds import People, ReportPart, report_plan
from dpalgos.mechanisms.sensitivity import Lemmas
from dpalgos.rows.products import clip_rows_l2, truncate
from dpalgos.typing import FloatArray

_LEAST_SHARE = 0.01
BOTH, GRAM, CROSS = "xx' and xy", "xx'", "xy"


class PureReport(NamedTuple):
    """How both moments are written as one vector of norm ≤ 1: its parts, q, Rτ₂, and what protects it."""

    gram: GramReport
    share: float
    bound: float
    randomizer: PureRandomizer


class GaussianReports(NamedTuple):
    """How xx' is written, √d τ₁τ₂, and what protects both moments."""

    gram: GramReport
    bound: float
    of_gram: GaussianReport
    of_cross: GaussianReport


@register(
    name="ldp_nldp",
    title="Local noisy moments",
    order=70,
    task="linear_regression",
    relation=Relation.LOCAL,
    reference="paper C (ICLR 2024), Algorithm 1",
    summary="Each person sends noisy second moments once; the server solves the normal equations.",
    example={"covariate_bound": 1.0, "response_bound": 3.0, "covariance_eigenvalue_bounds": (0.3, 0.5)},
    public="n",
    forms={
        "Gaussian reports": Form(keywords={"mechanism": "gaussian"}),
        "half-spaces": Form(keywords={"mechanism": "l2"}),
        "interval": Form(keywords={"interval": 0.95}),
        "rows clipped": Form(keywords={"row_bound": 1.2}),
        "sparse": Form(keywords={"sparsity": 2}, calibrations=("tight", "paper")),
        "heavy-tailed responses": Form(
            keywords={"response_bound": None, "response_moment": (4.0, 20.0)}, calibrations=("tight", "paper")
        ),
    },
)
@dataclass(frozen=True, kw_only=True)
class LDPNLDP(MomentEstimator):
    """The solution of normal equations of noisy moments."""

    lemmas: ClassVar[Lemmas] = {
        BOTH: report_sensitivity,
        GRAM: product_sensitivity,
        CROSS: report_sensitivity,
    }

    def plan(self, n: float, d: int) -> Plan:
        self.check_columns(d)
        level = self.response_level(d, int(n))
        if not self.gaussian:
            return report_plan(n, {BOTH: self.pure_report(d, level).randomizer})
        reports = self.gaussian_reports(d, level)
        return report_plan(n, {GRAM: reports.of_gram, CROSS: reports.of_cross})

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        level, people = self.response_level(rows.d, int(rows.n)), People(rows, spend)
        release = self.gaussian_moments if self.gaussian else self.pure_moments
        moments = release(people, rows.d, level)
        sampling = partial(score_variance_bound, moments, self, level)
        return rows.by_replicate(regression(moments, self, spend, sampling))

    def pure_report(self, d: int, response_level: float) -> PureReport:
        """Return how both moments are reported, (√q g, √(1 − q) x̃ỹ/(Rτ₂)), of norm² ≤ q + 1 − q.

        Over √q and √(1 − q) the two bounds multiply the noise of x_j x_k and of x_j y, and ‖θ‖ is near 1.
        """
        row = self.row_norm(d)
        gram = least_noise_scaling(d, row, self.covariate_bound)
        bound = float(min(row, np.sqrt(d) * self.covariate_bound) * response_level)  # Rτ₂
        randomizer = pure_randomizer(self.epsilon, 1.0, gram.size + d, self.mechanism)
        return PureReport(gram, _share(gram.off_diagonal, bound), bound, randomizer)

    def pure_moments(self, people: People, d: int, response_level: float) -> NoisyMoments:
        """Return both moments from one ε-DP report of norm at most 1."""
        gram, share, bound, randomizer = self.pure_report(d, response_level)

        def vectors(X: FloatArray, y: FloatArray) -> FloatArray:
            X = self.clipped(X)
            products, cross = gram.vectors(X)[:, :, None], crosses(X, y, response_level, bound)
            return np.concatenate([np.sqrt(share) * products, np.sqrt(1 - share) * cross], axis=1)

        (mean,), n_reports = people.report(ReportPart(label=BOTH, randomizer=randomizer, vectors=vectors))
        products, cross = np.split(mean, [gram.size])
        std = randomizer.noise_std
        noise = MomentNoise(
            diagonal=std * gram.largest_norm / np.sqrt(share),
            off_diagonal=std * gram.off_diagonal / np.sqrt(share),
            cross=std * bound / np.sqrt(1 - share),
        )
        cross = cross * (bound / np.sqrt(1 - share))
        return NoisyMoments(gram.matrices(products / np.sqrt(share)), cross, noise, n_reports)

    def gaussian_reports(self, d: int, response_level: float) -> GaussianReports:
        """Return how the two moments are reported, with the paper's noise or the smallest that is proved.

        Noise is per sensitivity of the normalized parts, √2 and 2. As printed, that of xx' has one size on
        the upper triangle, whose entries are not weighted.
        """
        row, gram = self.row_norm(d), isometric(d, self.row_norm(d))
        bound = float(np.sqrt(d)) * self.covariate_bound * response_level  # the largest ‖x̃ỹ‖
        gram_moves, cross_moves = product_sensitivity(), report_sensitivity()
        if self.calibration == "paper":
            gram = replace(gram, weight=1.0)
            printed = np.sqrt(32 * np.log(2.5 / self.delta)) / self.epsilon
            z_gram, z_cross = float(printed / gram_moves), float(printed / cross_moves)
        else:
            share = _share(row**2, 2 * bound)
            plan = gaussian_plan(self.epsilon, self.delta, {GRAM: Share(share), CROSS: Share(1 - share)})
            z_gram, z_cross = plan[GRAM].noise_multiplier, plan[CROSS].noise_multiplier
        return GaussianReports(
            gram=gram,
            bound=bound,
            of_gram=GaussianReport(
                noise_multiplier=z_gram, sensitivity=gram_moves, radius=1.0, size=gram.size
            ),
            of_cross=GaussianReport(noise_multiplier=z_cross, sensitivity=cross_moves, radius=1.0, size=d),
        )

    def gaussian_moments(self, people: People, d: int, response_level: float) -> NoisyMoments:
        """Return the two moments with Gaussian noise each."""
        row = self.row_norm(d)
        gram, bound, of_gram, of_cross = self.gaussian_reports(d, response_level)

        def products(X: FloatArray, y: FloatArray) -> FloatArray:
            return gram.vectors(clip_rows_l2(X, row))[:, :, None]

        def cross(X: FloatArray, y: FloatArray) -> FloatArray:
            return crosses(truncate(X, self.covariate_bound), y, response_level, bound)

        means, n_reports = people.report(
            ReportPart(label=GRAM, randomizer=of_gram, vectors=products),
            ReportPart(label=CROSS, randomizer=of_cross, vectors=cross),
        )
        noise = MomentNoise(
            diagonal=of_gram.noise_std * gram.largest_norm,
            off_diagonal=of_gram.noise_std * gram.off_diagonal,
            cross=of_cross.noise_std * bound,
        )
        return NoisyMoments(gram.matrices(means[0]), means[1] * bound, noise, n_reports)


def _share(first: float, second: float) -> float:
    """Return q, at which first²/q + second²/(1 − q) is least, not too near to 0 or 1."""
    return float(np.clip(first / (first + second), _LEAST_SHARE, 1 - _LEAST_SHARE))
