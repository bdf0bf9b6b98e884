"""The k largest in one shot: one Gumbel vector instead of k rounds of noise.

    S = the k largest of score_j + Gumbel(g), in order

S has the joint law of k exponential mechanisms without replacement. Each has weights ∝ exp(score_j / g) on
the coordinates that are left.

Why. exp(−(score_j + Gumbel(g)) / g) is an exponential variable of rate exp(score_j / g). Therefore S are the
first k to ring in a race of independent clocks. The first is j with probability ∝ its rate. After it, the
others start afresh, because exponential clocks have no memory.

The cost. Let a neighbor move every score by at most λ. A choice among the coordinates that are left changes
its log-probabilities by (Δscore_j)/g less a common constant. Their ratios span at most ε₀ = 2λ/g: an
ε₀-bounded-range event, with ε₀²/8 zCDP. The k choices compose adaptively: k such events. This is *not* true
of one-shot Laplace noise, whose single choice already exceeds ε₀²/8.

The selected values are then released with fresh noise. Given the published support, k coordinates move by λ
each: √k λ in ℓ2 (Gaussian), or k Laplace releases of sensitivity λ.

The exponential mechanism is k = 1, with g = 2λ/ε₀: an index has probability ∝ exp(ε₀ score / (2λ)).

**Peeling** (papers A and B): the largest entries one after the other, each selected with fresh Laplace noise.

    S = ∅
    for i = 1 … s:  S ← S ∪ argmax_{j ∉ S} |v_j| + w_j,   w ~ Laplace(b)^d, fresh
    out_S = v_S + Laplace(b)^s,  out_{S^c} = 0,            b = λ · 2 √(3 s log(1/δ)) / ε

Public: λ (how far a neighbor moves any coordinate of v), s. :func:`gumbel_top_k`
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
McSherry & Talwar (2007), Mechanism design via differential privacy.
Dong, Durfee & Rogers (2020), Optimal differential privacy composition for exponential mechanisms.
Durfee & Rogers (2019), Practical differentially private top-k selection with pay-what-you-get composition.
Cesar & Rogers (2021), Bounding, concentrating, and truncating.
Cai, Wang & Zhang, The Cost of Privacy, Algorithm 3.2; Cost of privacy in generalized linear models,
Algorithm 3 (NoisyHT), Lemma 4. Dwork, Su & Zhang (2021), Differentially private false discovery rate control.
"""

from functools import lru_cache

import numpy as np

from dpalgos.accounting.gaussian_dp import check_budget
from dpalgos.mechanisms.sensitivity import lemma
from dpalgos.release.noise_source import N_SAMPLERS, Noise, Sampler, integer_vectors
from dpalgos.typing import FloatArray, IntArray

_GROUP_ELEMENTS = 40_000


def gumbel_top_k(
    noise: Noise, scores: FloatArray, *, scale: FloatArray, k: int, by_magnitude: bool = False
) -> IntArray:
    """Draw the k largest scores (d, R), in order, (k, R).

    ``scale`` is g, () or (R,): k events of bounded range ε₀ = 2λ/g, where a neighbor moves any one score by
    at most λ. Witness: one score up by λ, another down by λ. With ``by_magnitude``, |score| decides. It moves
    by no more than the score: ||v| − |v'|| ≤ |v − v'|.
    """
    # Replicates are rows here: a few at a time stay in the cache.
    rows = (np.abs(scores) if by_magnitude else scores).T
    scales = np.broadcast_to(scale, (len(rows),))[:, None]
    support = np.empty((k, len(rows)), dtype=np.intp)
    step = max(1, _GROUP_ELEMENTS // len(scores))
    for group, noisy in noise.gumbel_rows(len(scores), step):
        noisy *= scales[group]
        noisy += rows[group]
        support[:, group] = _largest_in_order(noisy, k).T
    return support


@lemma("√k λ")
def selected_l2_sensitivity(linf_sensitivity: float | FloatArray, k: int) -> FloatArray:
    """Return √k λ, how far k published coordinates can move in ℓ2.

    Given the support, each of the k coordinates moves by at most λ. Witness: all of them by λ. With Laplace
    noise of scale λ/ε on each, the charge is k releases of ε each: k ε²/2 in zCDP. One release of ℓ1
    sensitivity kλ would cost (kε)²/2.
    """
    return np.asarray(float(np.sqrt(k)) * linf_sensitivity)


def _largest_in_order(rows: FloatArray, k: int) -> IntArray:
    """Return the places of the k largest entries of each row, in order, (r, k)."""
    if k == 1:
        return np.asarray(rows.argmax(axis=1)[:, None])
    d, n_chunks = rows.shape[1], 4 * k
    length = d // n_chunks
    if length < 4:
        largest = np.argpartition(rows, d - k, axis=1)[:, d - k :]
        order = np.argsort(-np.take_along_axis(rows, largest, axis=1), axis=1)
        return np.take_along_axis(largest, order, axis=1)
    # The k-th largest of some entries, here the maxima of chunks, is at most that of all: few lie above it.
    maxima = rows[:, : n_chunks * length].reshape(len(rows), length, n_chunks).max(axis=1)
    least = np.partition(maxima, n_chunks - k, axis=1)[:, n_chunks - k]
    row, column = np.divmod(np.flatnonzero(rows >= least[:, None]), d)
    order = np.lexsort((-rows[row, column], row))
    starts = np.searchsorted(row, np.arange(len(rows)))
    return np.asarray(column[order[starts[:, None] + np.arange(k)]])


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


@lru_cache(maxsize=N_SAMPLERS)
def top_k_sampler(scale: float, k: int) -> Sampler:
    """Return OpenDP's noisy top-k on integer scores: Gumbel noise, the k largest in order."""
    from opendp.measurements import make_noisy_top_k
    from opendp.measures import zero_concentrated_divergence
    from opendp.metrics import linf_distance

    space = integer_vectors(), linf_distance(T="i64")
    measure = zero_concentrated_divergence()
    sampler: Sampler = make_noisy_top_k(*space, measure, k=k, scale=scale)
    return sampler
