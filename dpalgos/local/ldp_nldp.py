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

The server's computations, a floor for eigenvalues and the threshold S, are in
:mod:`dpalgos.local.noisy_moments`.

Reference: Paper C (ICLR 2024), Algorithm 1, Theorems 1, 3 and 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from dpalgos.accounting.events import Relation
from dpalgos.catalog import Form, Release, register
from dpalgos.local.noisy_moments import (
    GramReport,
    MomentNoise,
    MomentParams,
    MomentRound,
    NoisyMoments,
    isometric,
    least_noise_scaling,
    regression,
    score_variance_bound,
)
from dpalgos.local.randomizers import GaussianReport, Randomizer, pure_randomizer, report_sensitivity
from dpalgos.local.rounds import LocalAlgorithm, PublicState, ReportPart, run_rounds
from dpalgos.mechanisms.sensitivity import outer_product
from dpalgos.release.transcript import Transcript
from dpalgos.rows.clipping import clip_rows_l2, truncate
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

_LEAST_SHARE = 0.01


RELEASES = (
    Release("xx' and xy", report_sensitivity, share=1.0, when=lambda p: not p.gaussian),
    Release("xx'", outer_product),
    Release("xy", report_sensitivity),
)


def algorithm(params: MomentParams, n_features: int, n_people: int) -> LocalAlgorithm:
    """Return the computations of devices and server."""
    kind = GaussianMoments if params.gaussian else PureMoments
    return kind.of(params, n_features, n_people)


@register(
    title="Local noisy moments",
    order=70,
    task="linear_regression",
    relation=Relation.LOCAL,
    reference="paper C (ICLR 2024), Algorithm 1",
    summary="Each person sends noisy second moments once; the server solves the normal equations.",
    example={"covariate_bound": 1.0, "response_bound": 3.0, "covariance_eigenvalue_bounds": (0.3, 0.5)},
    releases=RELEASES,
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
def ldp_nldp(sample: Sample, params: MomentParams, transcript: Transcript) -> FloatArray:
    """Return the coefficients, (d, R)."""
    return run_rounds(sample, params, transcript, algorithm)


def _share(first: float, second: float) -> float:
    """Return q, at which first²/q + second²/(1 − q) is least, not too near to 0 or 1."""
    return float(np.clip(first / (first + second), _LEAST_SHARE, 1 - _LEAST_SHARE))


@dataclass(frozen=True, kw_only=True)
class _Moments(MomentRound):
    """Devices and servers of both kinds."""

    @property
    def _row(self) -> float:
        return self.params.row_norm(self.n_features)

    def _answer(self, moments: NoisyMoments) -> PublicState:
        sampling = partial(score_variance_bound, moments, self.params, self.response_level)
        return regression(moments, self.params, sampling)


@dataclass(frozen=True, kw_only=True)
class PureMoments(_Moments):
    """Both moments as one ε-DP report of norm at most 1."""

    def client(self, state: PublicState) -> tuple[ReportPart, ...]:
        return (ReportPart(label="xx' and xy", randomizer=self._randomizer, vectors=self._vectors),)

    def server(self, state: PublicState, means: Sequence[FloatArray], n_reports: int) -> PublicState:
        gram, cross = np.split(means[0], [self._gram.size])
        share, std = self._gram_share, self._randomizer.noise_std
        noise = MomentNoise(
            diagonal=std * self._gram.largest_norm / np.sqrt(share),
            off_diagonal=std * self._gram.off_diagonal / np.sqrt(share),
            cross=std * self._cross_bound / np.sqrt(1 - share),
        )
        crosses = cross * (self._cross_bound / np.sqrt(1 - share))
        return self._answer(
            NoisyMoments(self._gram.matrices(gram / np.sqrt(share)), crosses, noise, n_reports)
        )

    def _vectors(self, X: FloatArray, y: FloatArray) -> FloatArray:
        """Return (√q g, √(1 − q) x̃ỹ/(Rτ₂)): norm² ≤ q + 1 − q."""
        X = self.params.clipped(X)
        gram, cross = self._gram.vectors(X)[:, :, None], self.crosses(X, y, self._cross_bound)
        share = self._gram_share
        return np.concatenate([np.sqrt(share) * gram, np.sqrt(1 - share) * cross], axis=1)

    @cached_property
    def _randomizer(self) -> Randomizer:
        size = self._gram.size + self.n_features
        return pure_randomizer(self.params.epsilon, 1.0, size, self.params.mechanism)

    @cached_property
    def _gram(self) -> GramReport:
        return least_noise_scaling(self.n_features, self._row, self.params.covariate_bound)

    @property
    def _cross_bound(self) -> float:
        """Rτ₂, the largest ‖x̃ỹ‖."""
        box = np.sqrt(self.n_features) * self.params.covariate_bound
        return float(min(self._row, box) * self.response_level)

    @property
    def _gram_share(self) -> float:
        """q: over √q and √(1 − q) these multiply the noise of x_j x_k and of x_j y, and ‖θ‖ is near 1."""
        return _share(self._gram.off_diagonal, self._cross_bound)


@dataclass(frozen=True, kw_only=True)
class GaussianMoments(_Moments):
    """The two moments with Gaussian noise each, as printed or with the smallest that is proved."""

    def client(self, state: PublicState) -> tuple[ReportPart, ...]:
        gram, cross = self._randomizers
        return (
            ReportPart(label="xx'", randomizer=gram, vectors=self._products),
            ReportPart(label="xy", randomizer=cross, vectors=self._crosses),
        )

    def server(self, state: PublicState, means: Sequence[FloatArray], n_reports: int) -> PublicState:
        gram, cross = self._randomizers
        noise = MomentNoise(
            diagonal=gram.noise_std * self._gram.largest_norm,
            off_diagonal=gram.noise_std * self._gram.off_diagonal,
            cross=cross.noise_std * self._cross_bound,
        )
        crosses = means[1] * self._cross_bound
        return self._answer(NoisyMoments(self._gram.matrices(means[0]), crosses, noise, n_reports))

    def _products(self, X: FloatArray, y: FloatArray) -> FloatArray:
        return self._gram.vectors(clip_rows_l2(X, self._row))[:, :, None]

    def _crosses(self, X: FloatArray, y: FloatArray) -> FloatArray:
        return self.crosses(truncate(X, self.params.covariate_bound), y, self._cross_bound)

    @cached_property
    def _gram(self) -> GramReport:
        # As printed: one size of noise on the upper triangle, whose entries are not weighted.
        plain = isometric(self.n_features, self._row)
        return plain if self.params.calibration == "tight" else replace(plain, weight=1.0)

    @property
    def _cross_bound(self) -> float:
        """√d τ₁τ₂, the largest ‖x̃ỹ‖."""
        return float(np.sqrt(self.n_features)) * self.params.covariate_bound * self.response_level

    @cached_property
    def _randomizers(self) -> tuple[GaussianReport, GaussianReport]:
        """Noise per sensitivity of the normalized parts, √2 and 2."""
        gram_moves, cross_moves, params = outer_product(1, 1), report_sensitivity(), self.params
        if params.calibration == "paper":
            printed = np.sqrt(32 * np.log(2.5 / params.delta)) / params.epsilon
            z_gram, z_cross = float(printed / gram_moves), float(printed / cross_moves)
        else:
            share = _share(self._row**2, 2 * self._cross_bound)
            budget = params.split_budget({"xx'": share, "xy": 1 - share})
            z_gram, z_cross = map(budget.gaussian_multiplier, budget.shares)
        return (
            GaussianReport(
                noise_multiplier=z_gram, l2_sensitivity=gram_moves, radius=1.0, size=self._gram.size
            ),
            GaussianReport(
                noise_multiplier=z_cross, l2_sensitivity=cross_moves, radius=1.0, size=self.n_features
            ),
        )
