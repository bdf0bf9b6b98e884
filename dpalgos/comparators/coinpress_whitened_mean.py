"""CoinPress with unknown covariance: rows are whitened by released rounds first (Biswas et al. 2020).

    A ← I/σ;   v_i = (x_i − x_(i+n/2)) / √2, which has the rows' covariance and mean zero
    Z = (2/n) Σ_i clip(A v_i, γ) clip(A v_i, γ)' + N;   A ← (Z⁺ + (η + ν) I)^(−1/2) A,   three times
    m ← m + [ (1/n) Σ_i clip(A x_i − m, r_t) + N(0, s_t² I) ],   t = 1 … T,   from m = 0 and ρ_0 = ‖A‖ √d B
    the answer is A^(−1) m;   r_t and ρ_t as in :mod:`dpalgos.comparators.coinpress_mean`, with σ = 1

    γ² = d + 2 √(d log 1/β) + 2 log 1/β, β = .1;   η = √(2d/n) + d/n;   ν = 2 √d · (noise sd of an entry of Z)

clip shortens a vector to ℓ2 norm γ, Z⁺ has no negative eigenvalue. η and ν keep directions from being
stretched that sampling or noise alone made look short; the authors' code leaves ν out. Few A v are longer
than γ once A has made their spreads alike.

For columns that are correlated, or of quite different spread: noise is as large as the rows' spread in every
direction, where ``coinpress_mean`` adds as much everywhere as the widest direction needs.

Guarantee: (ε, δ) under replacing one row; n is public. Public: ``mean_bound`` B (every coordinate of the mean
lies in ±B), ``std_bound`` σ (the standard deviation in every direction is at most that), ``n_rounds`` T.

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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.budget import printed_rho
from dpalgos.catalog import Published, Witnesses, pair, register
from dpalgos.comparators.coinpress_mean import ball_radius, tail_norm
from dpalgos.params import PrivateParams, count, positive
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.steps.clipping import ball_mean_sensitivity
from dpalgos.steps.moments import gram_sensitivity, svec, unsvec
from dpalgos.typing import FloatArray

_COVARIANCE_ROUNDS = 3
_COVARIANCE_SHARE, _LAST_SHARE = 0.4, 0.75
_MISS, _COVARIANCE_MISS = 0.01, 0.1  # β of the balls and of γ; affect accuracy only
_STACK_ELEMENTS = 40_000  # of rows that are worked on together


@dataclass(frozen=True, kw_only=True)
class CoinPressWhitenedMeanParams(PrivateParams):
    """Keywords of :func:`coinpress_whitened_mean`."""

    mean_bound: float = positive("B: every coordinate of the mean lies in ±B")
    std_bound: float = positive("the standard deviation in every direction is at most that")
    n_rounds: int = count("T, number of balls", default=4)


def witnesses(params: CoinPressWhitenedMeanParams, d: int, published: Published) -> Witnesses:
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
    masks = [slice(None)] * len(A) if sample.row_mask is None else list(sample.row_mask.T)
    rows = [sample.X[own] @ one.T for own, one in zip(masks, A, strict=True)]
    tail = tail_norm(d, _MISS)
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
    budget = params.split_budget(shares)
    return {part: budget.gaussian_multiplier(part, rounds[part]) for part in shares}


def _offsets(rows: list[FloatArray], center: FloatArray, radius: FloatArray) -> FloatArray:
    """Return the mean of each replicate's rows less its center, clipped to its radius, (d, R)."""
    offsets = np.empty_like(center)
    for those, own in stacked(rows):
        away, most = own - center.T[those, None], radius[those, None, None]
        away *= most / np.maximum(np.linalg.norm(away, axis=2, keepdims=True), most)
        offsets[:, those] = away.mean(axis=1).T
    return offsets


def whitening(
    transcript: Transcript,
    sample: Sample,
    *,
    std_bound: float,
    noise_multiplier: float,
    n_rounds: int,
    label: str,
) -> FloatArray:
    """Release matrices A (R, d, d) such that A x has a covariance near I, or less where n is small.

    ``std_bound`` is σ, ``noise_multiplier`` that of every round; ``label`` names the rounds in the record.
    """
    d, differences = sample.n_features, _differences(sample)
    n_pairs = np.maximum(sample.n_rows // 2, 1)
    gamma = tail_norm(d, _COVARIANCE_MISS)
    eta = np.sqrt(d / n_pairs) + d / (2 * n_pairs)
    nu = 2 * np.sqrt(d) * noise_multiplier * gamma**2 / n_pairs
    A = np.tile(np.eye(d) / std_bound, (sample.n_replicates, 1, 1))
    for _ in range(n_rounds):
        sums = np.concatenate([_clipped_grams(v, A[those], gamma) for those, v in stacked(differences)])
        released = transcript.gaussian(
            svec(sums),
            l2_sensitivity=gram_sensitivity(gamma),
            noise_multiplier=noise_multiplier,
            label=label,
        )
        eigenvalues, vectors = np.linalg.eigh(unsvec(released, d) / n_pairs[:, None, None])
        stretched = 1 / np.sqrt(np.maximum(eigenvalues, 0) + (eta + nu)[:, None])
        A = (vectors * stretched[:, None, :]) @ np.swapaxes(vectors, 1, 2) @ A
    return np.asarray(A)


def _differences(sample: Sample) -> list[FloatArray]:
    """Return (x_i − x_(i+n/2)) / √2 of each replicate's rows, the same array where they share them."""
    if sample.row_mask is None:
        return [_halves(sample.X)] * sample.n_replicates
    return [_halves(sample.X[rows]) for rows in sample.row_mask.T]


def _halves(X: FloatArray) -> FloatArray:
    half = len(X) // 2
    return np.asarray((X[:half] - X[half : 2 * half]) / np.sqrt(2))


def stacked(rows: Sequence[FloatArray]) -> Iterator[tuple[slice, FloatArray]]:
    """Yield the rows (m, d) of a few replicates in one array (r, m, d): of equally many rows, cache-sized."""
    start = 0
    while start < len(rows):
        first, stop = rows[start], start + 1
        most = start + max(1, _STACK_ELEMENTS // max(first.size, 1))
        while stop < min(most, len(rows)) and len(rows[stop]) == len(first):
            stop += 1
        yield slice(start, stop), first[None] if stop == start + 1 else np.stack(rows[start:stop])
        start = stop


def _clipped_grams(rows: FloatArray, A: FloatArray, norm: float) -> FloatArray:
    """Return the sums of z z' over rows z = A x shortened to a norm, (r, d, d)."""
    z = rows @ np.swapaxes(A, 1, 2)
    z *= norm / np.maximum(np.linalg.norm(z, axis=2, keepdims=True), norm)
    return np.asarray(np.swapaxes(z, 1, 2) @ z)
