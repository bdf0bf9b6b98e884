"""Peeling as printed: a fresh Laplace vector for each of s selections, and another for their values.

    S = ∅
    for i = 1 … s:  S ← S ∪ argmax_{j ∉ S} |v_j| + w_j,   w ~ Laplace(b)^d, fresh
    out_S = v_S + Laplace(b)^s,  out_{S^c} = 0,            b = λ · 2 √(3 s log(1/δ)) / ε

Public: λ (how far a neighbor moves any coordinate of v), s. :func:`dpalgos.mechanisms.top_k.noisy_top_k`
does the same with less noise and one vector of it.

Why it is private, by zCDP and for every s, ε and δ (the lemma cited with it needs ε ≤ .5, δ ≤ .011, s ≥ 10).
A selection: fix the other coordinates' noise; j wins if w_j exceeds the best rival's score less |v_j|; a
neighbor moves either by at most λ in either direction, so that level by at most 2λ: ε₀ = 2λ/b, pure.
Bounded range does *not* hold for Laplace noise, so ε₀²/2. The release: s coordinates, given S, each moved by
at most λ: λ/b each, pure. In all

    ρ = s (2λ/b)²/2 + s (λ/b)²/2 = (5/2) s (λ/b)² = (5/24) ε² / log(1/δ)      for the printed b,

whatever s is: (.3555, 1e-5) where (.5, 1e-5) was asked.

References
----------
Cai, Wang & Zhang, The cost of privacy, Algorithm 3.2; Cost of privacy in generalized linear models,
Algorithm 3 (NoisyHT). Dwork, Su & Zhang (2021), Differentially private false discovery rate control.
"""

import numpy as np

from dpalgos.accounting.events import PureEvent
from dpalgos.accounting.gaussian_dp import check_budget
from dpalgos.mechanisms.top_k import SparseRelease, release_laplace
from dpalgos.release.checks import check_columns, check_how_many, check_positive, check_sensitivity
from dpalgos.release.transcript import Transcript, plain_sensitivity
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


def peeling(
    transcript: Transcript,
    values: FloatArray,
    *,
    linf_sensitivity: float | FloatArray,
    sparsity: int,
    noise_multiplier: float,
    label: str,
) -> SparseRelease:
    """Release the ``sparsity`` coordinates of about largest magnitude and their values.

    Parameters
    ----------
    values : (d, R) array
        Private vectors v.
    linf_sensitivity : float or (R,) array
        λ. Witness for the selection: one coordinate up, another down; for the values: all up.
    noise_multiplier : float
        b/λ; :func:`printed_multiplier` for the papers' own.
    label : str
        The events are named ``"<label>: selection"`` and ``"<label>: values"``.
    """
    values = check_columns("values", values, transcript.n_replicates)
    d, n_replicates = values.shape
    sparsity = check_how_many("sparsity", sparsity, d)
    noise_multiplier = check_positive("noise_multiplier", noise_multiplier)
    scale = noise_multiplier * check_sensitivity("linf_sensitivity", linf_sensitivity)

    def draw() -> IntArray:
        left = np.array(np.abs(values).T, order="C")
        support = np.empty((sparsity, n_replicates), dtype=np.intp)
        for chosen in support:
            noisy = transcript.noise.laplace(d).T  # handed out once, so that it may be written to
            noisy *= np.atleast_1d(scale)[:, None]
            noisy += left
            chosen[:] = noisy.argmax(axis=1)
            left[np.arange(n_replicates), chosen] = -np.inf
        return support

    selection = PureEvent(
        label=f"{label}: selection",
        epsilon=2 / noise_multiplier,
        sensitivity=plain_sensitivity(linf_sensitivity),
        count=sparsity,
        norm=np.inf,
    )
    support = transcript.choose(values, draw, selection)
    released = release_laplace(
        transcript,
        np.take_along_axis(values, support, axis=0),
        linf_sensitivity=linf_sensitivity,
        epsilon=1 / noise_multiplier,
        label=f"{label}: values",
    )
    return SparseRelease(support=support, values=released, n_features=d)
