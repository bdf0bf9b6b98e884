"""Peeling (papers A and B): the largest entries one after the other, each selected with fresh Laplace noise.

    S = ∅
    for i = 1 … s:  S ← S ∪ argmax_{j ∉ S} |v_j| + w_j,   w ~ Laplace(b)^d, fresh
    out_S = v_S + Laplace(b)^s,  out_{S^c} = 0,            b = λ · 2 √(3 s log(1/δ)) / ε

Public: λ (how far a neighbor moves any coordinate of v), s. :func:`dpalgos.mechanisms.top_k.gumbel_top_k`
selects with less noise and one vector of it.

Why peeling is private, by zCDP and for every s, ε and δ (the lemma cited with it needs ε ≤ 0.5, δ ≤ 0.011, s
≥ 10). For a selection, fix the other coordinates' noise: j wins if w_j exceeds the best rival's score less
|v_j|. A neighbor moves either by at most λ in either direction, and that level by at most 2λ: ε₀ = 2λ/b,
pure. Bounded range does *not* hold for Laplace noise, so ε₀²/2. For the release, s coordinates, given S, move
by at most λ each: λ/b each, pure. In all

    ρ = s (2λ/b)²/2 + s (λ/b)²/2 = (5/2) s (λ/b)² = (5/24) ε² / log(1/δ)      for the printed b,

for any s: at most (0.3555, 1e-5) for a requested (0.5, 1e-5), and less by the events of few s.

References
----------
Cai, Wang & Zhang, The Cost of Privacy, Algorithm 3.2; Cost of privacy in generalized linear models,
Algorithm 3 (NoisyHT), Lemma 4. Dwork, Su & Zhang (2021), Differentially private false discovery rate control.
"""

import numpy as np

from dpalgos.accounting.gaussian_dp import check_budget
from dpalgos.release.noise_source import Noise
from dpalgos.typing import FloatArray, IntArray


def printed_multiplier(epsilon: float, delta: float, sparsity: int) -> float:
    """Return b/λ = 2 √(3 s log(1/δ)) / ε."""
    check_budget(epsilon, delta)
    return float(2 * np.sqrt(3 * sparsity * np.log(1 / delta)) / epsilon)


def unmet_conditions(epsilon: float, delta: float, sparsity: int) -> str:
    """Return which conditions of the peeling lemma (Dwork, Su & Zhang) fail; empty if none does."""
    conditions = {
        "epsilon <= 0.5": epsilon <= 0.5,
        "delta <= 0.011": delta <= 0.011,
        "s >= 10": sparsity >= 10,
    }
    failed = [name for name, holds in conditions.items() if not holds]
    if not failed:
        return ""
    return f"the peeling lemma needs {', '.join(failed)}; the certificate is by zero-concentrated DP instead"


def peeling(noise: Noise, values: FloatArray, *, scale: FloatArray, k: int, by_magnitude: bool) -> IntArray:
    """Draw the k coordinates of about largest ``values`` (d, R), or magnitude, in order, (k, R).

    ``scale`` is b, () or (R,): the ε of each selection is 2λ/b, where a neighbor moves any one entry by at
    most λ. Witness: one entry up, another down.
    """
    d, n_replicates = values.shape
    left = np.array((np.abs(values) if by_magnitude else values).T, order="C")
    support = np.empty((k, n_replicates), dtype=np.intp)
    for selected in support:
        noisy = noise.laplace(d).T  # each draw is used once, so that it may be written to
        noisy *= np.atleast_1d(scale)[:, None]
        noisy += left
        selected[:] = noisy.argmax(axis=1)
        left[np.arange(n_replicates), selected] = -np.inf
    return support
