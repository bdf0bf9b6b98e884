"""Rounds of noisy hard thresholding of any loss (paper A, Algorithm 4.2; paper B, Algorithm 4).

    θ ← Π( NoisyHT( θ − η ∇L_n(θ), s ) ),   t = 1 … T,   from θ = 0

Why it is private. θ is public when a round begins, so a neighbor moves the new point only by the move of the
gradient. The caller bounds that move in any coordinate. A round selects s coordinates and releases their
values. Both are charged and composed adaptively over rounds. Π is post-processing.

``tight``
    One Gumbel vector selects, and values get Gaussian noise. Shares of ρ grow by 1.4 from round to round (30
    in all at most). The last round spends less on its selection. All noise is then scaled down to what the
    accountant just proves. The sensitivity may follow θ, since noise over sensitivity is fixed.
``paper``
    Peeling with Laplace noise of scale η (B/n) 2 √(3 s log(T/δ)) T / ε: ε and δ split evenly.

Peeling as printed: a fresh Laplace vector for each of s selections, and another for their values.

    S = ∅
    for i = 1 … s:  S ← S ∪ argmax_{j ∉ S} |v_j| + w_j,   w ~ Laplace(b)^d, fresh
    out_S = v_S + Laplace(b)^s,  out_{S^c} = 0,            b = λ · 2 √(3 s log(1/δ)) / ε

Public: λ (how far a neighbor moves any coordinate of v), s. :func:`dpalgos.mechanisms.top_k.noisy_top_k`
does the same with less noise and one vector of it.

Why peeling is private, by zCDP and for every s, ε and δ (the lemma cited with it needs ε ≤ 0.5, δ ≤ 0.011, s
≥ 10). For a selection, fix the other coordinates' noise: j wins if w_j exceeds the best rival's score less
|v_j|. A neighbor moves either by at most λ in either direction, and that level by at most 2λ: ε₀ = 2λ/b,
pure. Bounded range does *not* hold for Laplace noise, so ε₀²/2. For the release, s coordinates, given S, move
by at most λ each: λ/b each, pure. In all

    ρ = s (2λ/b)²/2 + s (λ/b)²/2 = (5/2) s (λ/b)² = (5/24) ε² / log(1/δ)      for the printed b,

for any s: at most (0.3555, 1e-5) for a requested (0.5, 1e-5), and less by the events of few s.

References
----------
Cai, Wang & Zhang, The Cost of Privacy, Algorithms 3.2 and 4.2; Cost of privacy in generalized linear models,
Algorithms 3 (NoisyHT) and 4, Lemma 4. Dwork, Su & Zhang (2021), Differentially private false discovery rate
control.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.calibration import NoisePlan, least_noise, split_plan
from dpalgos.accounting.events import PureEvent
from dpalgos.accounting.gaussian_dp import check_budget
from dpalgos.mechanisms.top_k import SparseRelease, noisy_top_k, release_laplace
from dpalgos.release.declared import Release
from dpalgos.release.transcript import Transcript, plain_sensitivity
from dpalgos.typing import FloatArray, IntArray

# (transcript, releases, values (d, R), linf_sensitivity=…) → one round of NoisyHT.
Round = Callable[..., SparseRelease]

_SELECTION_SHARE = 0.5
_LAST_SELECTION_SHARE = 0.3  # the last round's values are the answer
_GROWTH = 1.4  # of ρ from round to round: later rounds mend what early ones spoil, not the reverse
_LARGEST_GROWTH = 30.0  # from the first round to the last


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
    releases: tuple[Release, Release],
    values: FloatArray,
    *,
    linf_sensitivity: float | FloatArray,
    sparsity: int,
    noise_multiplier: float,
) -> SparseRelease:
    """Release the ``sparsity`` coordinates of about largest magnitude of ``values`` (d, R), and their values.

    ``releases`` are those of the selection and of the values. ``linf_sensitivity`` is λ, () or (R,). Witness
    for the selection: one coordinate up, another down; for the values: all up. ``noise_multiplier`` is b/λ;
    :func:`printed_multiplier` is the papers' own.
    """
    d, n_replicates = values.shape
    scale = noise_multiplier * np.asarray(linf_sensitivity)

    def draw() -> IntArray:
        left = np.array(np.abs(values).T, order="C")
        support = np.empty((sparsity, n_replicates), dtype=np.intp)
        for selected in support:
            noisy = transcript.noise.laplace(d).T  # each draw is used once, so that it may be written to
            noisy *= np.atleast_1d(scale)[:, None]
            noisy += left
            selected[:] = noisy.argmax(axis=1)
            left[np.arange(n_replicates), selected] = -np.inf
        return support

    event = PureEvent(
        label=releases[0].label,
        epsilon=2 / noise_multiplier,
        sensitivity=plain_sensitivity(linf_sensitivity),
        count=sparsity,
        norm=np.inf,
    )
    support = transcript.choose(values, draw, event)
    released = release_laplace(
        transcript,
        releases[1],
        np.take_along_axis(values, support, axis=0),
        linf_sensitivity=linf_sensitivity,
        epsilon=1 / noise_multiplier,
    )
    return SparseRelease(support=support, values=released, n_features=d, noise_std=np.sqrt(2) * scale)


def tight_rounds(noise: NoisePlan, sparsity: int, n_rounds: int) -> list[Round]:
    """Return rounds of Gumbel selection and Gaussian values with the noise of :func:`planned_rounds`."""
    return [
        partial(
            noisy_top_k,
            sparsity=sparsity,
            selection_multiplier=2 / noise.epsilon_of(f"selection {t}"),
            release_multiplier=noise.multiplier(f"values {t}"),
        )
        for t in range(n_rounds)
    ]


def printed_rounds(
    transcript: Transcript, epsilon: float, delta: float, sparsity: int, n_rounds: int, *, excess: float
) -> list[Round]:
    """Return rounds as printed, of ε/T and δ/T each, whose B is ``excess`` times the true sensitivity.

    A diagnostic lists the conditions of the printed proof that do not hold.
    """
    each = epsilon / n_rounds, delta / n_rounds
    transcript.note("conditions", unmet_conditions(*each, sparsity))
    multiplier = excess * printed_multiplier(*each, sparsity)
    return [partial(peeling, sparsity=sparsity, noise_multiplier=multiplier)] * n_rounds


def planned_rounds(epsilon: float, delta: float, sparsity: int, n_rounds: int) -> NoisePlan:
    """Return the smallest noise of the selections and the values of every round."""
    growth = min(_GROWTH, _LARGEST_GROWTH ** (1 / max(n_rounds - 1, 1)))
    weights = growth ** np.arange(n_rounds)
    shares = {}
    for t, weight in enumerate(weights / weights.sum()):
        selected = _SELECTION_SHARE if t < n_rounds - 1 else _LAST_SELECTION_SHARE
        shares[f"selection {t}"], shares[f"values {t}"] = weight * selected, weight * (1 - selected)
    budget = SplitBudget(epsilon=epsilon, delta=delta, shares=shares, gaussian=False)
    plan = split_plan(
        budget,
        selected={f"selection {t}": sparsity for t in range(n_rounds)},
        released={f"values {t}": 1 for t in range(n_rounds)},
    )
    return least_noise(plan)
