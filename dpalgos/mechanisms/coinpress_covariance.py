"""CoinPress for covariances: rows whitened a little better round after round (Biswas et al. 2020).

    A ← I/σ;   v_i = (x_i − x_(i+n/2)) / √2, which has the rows' covariance and mean zero
    Z = (2/n) Σ_i clip(A v_i, γ) clip(A v_i, γ)' + N;   A ← (Z⁺ + (η + ν) I)^(−1/2) A,   in every round

    γ² = d + 2 √(d log 1/β) + 2 log 1/β, β = .1;   η = √(2d/n) + d/n;   ν = 2 √d · (noise sd of an entry of Z)

clip shortens a vector to ℓ2 norm γ, Z⁺ has no negative eigenvalue. η and ν keep directions from being
stretched that sampling or noise alone made look short; the authors' code leaves ν out. σ bounds the standard
deviation in every direction, publicly. Few A v are longer than γ once A has made their spreads alike.

Why it is private: a row is in one difference v, hence it moves Σ clip clip' by √2 γ² at most in the Frobenius
norm (:func:`dpalgos.steps.moments.gram_sensitivity`); A comes from the rounds before.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.steps.moments import gram_sensitivity, svec, unsvec
from dpalgos.typing import FloatArray

_MISS = 0.1  # β; affects accuracy only
_STACK_ELEMENTS = 40_000  # of rows that are worked on together


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
    gamma = float(np.sqrt(d + 2 * np.sqrt(-d * np.log(_MISS)) - 2 * np.log(_MISS)))
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
