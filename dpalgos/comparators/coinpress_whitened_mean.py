"""CoinPress with unknown covariance: rows are whitened by released rounds first (Biswas et al. 2020).

    A by the rounds of :mod:`dpalgos.mechanisms.coinpress_covariance`, so that A x has a covariance near I
    m ← m + [ (1/n) Σ_i clip(A x_i − m, r_t) + N(0, s_t² I) ],   t = 1 … T,   from m = 0 and ρ_0 = ‖A‖ √d B
    the answer is A^(−1) m;   r_t and ρ_t as in :mod:`dpalgos.comparators.coinpress_mean`, with σ = 1

For columns that are correlated, or of quite different spread: noise is as large as the rows' spread in every
direction, where ``coinpress_mean`` adds as much everywhere as the widest direction needs.

Guarantee: (ε, δ) under replacing one row; n is public. Public: ``mean_bound`` B (every coordinate of the mean
lies in ±B), ``std_bound`` (the standard deviation in every direction is at most that), ``n_rounds`` T.

Why it is private: a row is in one of the differences of rows whose clipped products make a round for the
covariance, Frobenius sensitivity √2 γ² (:func:`dpalgos.steps.moments.gram_sensitivity`). A round for
the mean releases the mean offset of clipped vectors, which opposite rows move by 2r/n
(:func:`dpalgos.steps.clipping.ball_mean_sensitivity`). A, center and radius come from the rounds before.
All noise is Gaussian: three rounds for the covariance take 40 % of the budget; of the rest the rounds before
the last share a quarter, and the last takes three.

Calibrations
    ``tight``: shares of μ², so that all rounds are exactly (ε, δ).
    ``paper``: shares of ρ of zero-concentrated DP, for the ρ with ρ + 2 √(ρ log 1/δ) = ε; same sensitivities.

Reference: Biswas, Dong, Kamath & Ullman (2020), CoinPress: practical private mean and covariance estimation,
Algorithms 1 to 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.budget import Budget, printed_rho
from dpalgos.catalog import Neighbors, pair, register
from dpalgos.comparators.coinpress_mean import ball_radius, tail_norm
from dpalgos.mechanisms.coinpress_covariance import stacked, whitening
from dpalgos.params import PrivateParams, count, positive
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import ball_mean_sensitivity
from dpalgos.typing import FloatArray

_COVARIANCE_ROUNDS = 3
_COVARIANCE_SHARE, _LAST_SHARE = 0.4, 0.75
_MISS = 0.01  # β; affects accuracy only


@dataclass(frozen=True, kw_only=True)
class CoinPressWhitenedMeanParams(PrivateParams):
    """Keywords of :func:`coinpress_whitened_mean`."""

    mean_bound: float = positive("B: every coordinate of the mean lies in ±B")
    std_bound: float = positive("the standard deviation in every direction is at most that")
    n_rounds: int = count("T, number of balls", default=4)


def witnesses(
    params: CoinPressWhitenedMeanParams, d: int, published: Sequence[FloatArray]
) -> dict[str, Neighbors]:
    """Return far rows on opposite sides, and a far row on one axis or another; all other rows are zero."""
    axes, zero = 1e25 * max(params.mean_bound, params.std_bound) * np.eye(d), np.zeros(d)
    rounds = ("center", "mean") if params.n_rounds > 1 else ("mean",)
    apart = pair([axes[0], zero], [axes[-1], zero])
    return {"covariance": apart, **dict.fromkeys(rounds, pair(axes[0], -axes[0]))}


@register(
    title="CoinPress, whitened",
    order=47,
    task="mean",
    reference="Biswas et al. (2020), Algorithms 1 to 4",
    summary="CoinPress in coordinates in which rounds for the covariance have made all spreads alike.",
    no_interval="second moments around the last center are not released; take coinpress_mean",
    example={"mean_bound": 1.0, "std_bound": 0.6},
    witnesses=witnesses,
    in_memory=True,
)
def coinpress_whitened_mean(
    sample: Sample, params: CoinPressWhitenedMeanParams, transcript: Transcript
) -> FloatArray:
    """Return the mean, (d, R)."""
    d, n, multipliers = sample.n_features, sample.n_rows, _multipliers(params)
    A = whitening(
        transcript,
        sample,
        std_bound=params.std_bound,
        noise_multiplier=multipliers["covariance"],
        n_rounds=_COVARIANCE_ROUNDS,
        label="covariance",
    )
    rows, tail = _whitened(sample, A), tail_norm(d, _MISS)
    center: FloatArray = np.zeros((d, sample.n_replicates))
    error = np.linalg.norm(A, ord=2, axis=(1, 2)) * np.sqrt(d) * params.mean_bound
    for label in ["center"] * (params.n_rounds - 1) + ["mean"]:
        radius = ball_radius(error, tail, 1.0)
        sensitivity, multiplier = ball_mean_sensitivity(radius, n), multipliers[label]
        center = center + transcript.gaussian(
            _offsets(rows, center, radius),
            l2_sensitivity=sensitivity,
            noise_multiplier=multiplier,
            label=label,
        )
        error = tail * np.sqrt(1 / n + (multiplier * sensitivity) ** 2)
    return np.asarray(np.linalg.solve(A, center.T[:, :, None])[:, :, 0].T)


def _multipliers(params: CoinPressWhitenedMeanParams) -> dict[str, float]:
    """Return the noise multiplier of every round of a kind."""
    rest, coarse = 1 - _COVARIANCE_SHARE, params.n_rounds - 1
    rounds = {"covariance": _COVARIANCE_ROUNDS, "mean": 1}
    shares = {"covariance": _COVARIANCE_SHARE, "mean": rest}
    if coarse:
        rounds["center"] = coarse
        shares.update({"center": (1 - _LAST_SHARE) * rest, "mean": _LAST_SHARE * rest})
    if params.calibration == "paper":
        rho = printed_rho(params.epsilon, params.delta)
        return {part: float(np.sqrt(rounds[part] / (2 * share * rho))) for part, share in shares.items()}
    budget = Budget(epsilon=params.epsilon, delta=params.delta, shares=shares)
    return {part: budget.gaussian_multiplier(part, rounds[part]) for part in shares}


def _whitened(sample: Sample, A: FloatArray) -> list[FloatArray]:
    """Return the rows A x of every replicate."""
    masks = [slice(None)] * len(A) if sample.row_mask is None else list(sample.row_mask.T)
    return [sample.X[rows] @ one.T for rows, one in zip(masks, A, strict=True)]


def _offsets(rows: list[FloatArray], center: FloatArray, radius: FloatArray) -> FloatArray:
    """Return the mean of each replicate's rows less its center, clipped to its radius, (d, R)."""
    offsets = np.empty_like(center)
    for those, own in stacked(rows):
        away, most = own - center.T[those, None], radius[those, None, None]
        away *= most / np.maximum(np.linalg.norm(away, axis=2, keepdims=True), most)
        offsets[:, those] = away.mean(axis=1).T
    return offsets
