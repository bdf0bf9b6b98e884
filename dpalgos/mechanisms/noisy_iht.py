"""Noisy iterative hard thresholding of any loss (paper A, Algorithm 4.2; paper B, Algorithm 4).

    θ ← Π( NoisyHT( θ − η ∇L_n(θ), s ) ),   t = 1 … T,   from θ = 0

Why it is private. θ is public when a round begins, so that a neighbor moves the new point only by what it
moves the gradient; the caller states by how much at most, in any coordinate. A round selects s coordinates
and releases their values, both charged and composed adaptively over rounds. Π is post-processing.

Two forms of NoisyHT:

``tight``
    One Gumbel vector selects, Gaussian noise on the values; shares of ρ that grow by 1.4 from round to round
    (30 in all at most), and a last round that spends less on its selection; then all noise is scaled down to
    what the accountant just proves. The sensitivity may follow θ, since noise over sensitivity is fixed.
``paper``
    Peeling with Laplace noise of scale η (B/n) 2 √(3 s log(T/δ)) T / ε: ε and δ split evenly.

References
----------
Cai, Wang & Zhang, The Cost of Privacy, Algorithms 3.2 and 4.2; Cost of privacy in generalized linear models,
Algorithms 3 and 4, Lemma 4.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from dpalgos.accounting.budget import Budget
from dpalgos.accounting.calibration import least_noise
from dpalgos.mechanisms.peeling import peeling, printed_multiplier, unmet_conditions
from dpalgos.mechanisms.top_k import SparseRelease, noisy_top_k
from dpalgos.release.transcript import Transcript
from dpalgos.typing import FloatArray

_LABEL = "step"
_SELECTION_SHARE = 0.5
_LAST_SELECTION_SHARE = 0.3  # the last round's values are the answer
_GROWTH = 1.4  # of ρ from round to round: later rounds mend what early ones spoil, not the reverse
_LARGEST_GROWTH = 30.0  # from the first round to the last


@dataclass(frozen=True)
class NoisyHT:
    """One round: what selects and releases values, and their noise's standard deviation over sensitivity."""

    release: Callable[..., SparseRelease]
    noise_std: float


def noisy_iht(
    transcript: Transcript,
    moved: Callable[[FloatArray], FloatArray],
    linf_sensitivity: Callable[[FloatArray], FloatArray],
    rounds: Sequence[NoisyHT],
    *,
    n_features: int,
    project: Callable[[FloatArray], FloatArray],
    prune: Callable[[FloatArray, FloatArray], FloatArray] | None = None,
) -> FloatArray:
    """Return the last iterate, (d, R), from θ = 0.

    ``moved`` maps θ (d, R) to the private θ − η ∇L_n(θ), ``linf_sensitivity`` to how far a neighbor moves any
    entry of that, (R,); ``rounds`` are :func:`tight_rounds` or :func:`printed_rounds`. ``project`` is applied
    to every iterate; ``prune`` to the values (s, R) of the last round, given their noise's standard
    deviation: post-processing.
    """
    coef: FloatArray = np.zeros((n_features, transcript.n_replicates))
    for t, noisy_ht in enumerate(rounds, start=1):
        sensitivity = linf_sensitivity(coef)
        released = noisy_ht.release(transcript, moved(coef), linf_sensitivity=sensitivity)
        if prune is not None and t == len(rounds):
            released = replace(released, values=prune(released.values, noisy_ht.noise_std * sensitivity))
        coef = project(released.dense())
    return coef


def tight_rounds(planned: Iterable[tuple[float, float]], sparsity: int) -> list[NoisyHT]:
    """Return rounds of Gumbel selection and Gaussian values with :func:`planned_multipliers`."""
    shared = partial(noisy_top_k, sparsity=sparsity, label=_LABEL)
    return [
        NoisyHT(
            partial(shared, selection_multiplier=selection, release_multiplier=values),
            float(values * np.sqrt(sparsity)),
        )
        for selection, values in planned
    ]


def printed_rounds(
    transcript: Transcript, epsilon: float, delta: float, sparsity: int, n_rounds: int, *, excess: float
) -> list[NoisyHT]:
    """Return rounds as printed, of ε/T and δ/T each, whose B is ``excess`` times the true sensitivity.

    Which of the printed proof's own conditions fail goes into the transcript's diagnostics.
    """
    each = epsilon / n_rounds, delta / n_rounds
    transcript.note("conditions", unmet_conditions(*each, sparsity))
    multiplier = excess * printed_multiplier(*each, sparsity)
    release = partial(peeling, sparsity=sparsity, noise_multiplier=multiplier, label=_LABEL)
    return [NoisyHT(release, float(np.sqrt(2) * multiplier))] * n_rounds


@lru_cache(maxsize=4096)
def planned_multipliers(
    epsilon: float, delta: float, sparsity: int, n_rounds: int
) -> tuple[tuple[float, float], ...]:
    """Return the least (selection, release) multipliers of every round that are together (ε, δ)-DP."""
    growth = min(_GROWTH, _LARGEST_GROWTH ** (1 / max(n_rounds - 1, 1)))
    weights = growth ** np.arange(n_rounds)
    shares = {}
    for t, weight in enumerate(weights / weights.sum()):
        selected = _SELECTION_SHARE if t < n_rounds - 1 else _LAST_SELECTION_SHARE
        shares[f"selection {t}"], shares[f"values {t}"] = weight * selected, weight * (1 - selected)
    noise = least_noise(
        Budget(epsilon=epsilon, delta=delta, shares=shares, gaussian=False),
        selections={f"selection {t}": sparsity for t in range(n_rounds)},
        gaussians={f"values {t}": 1 for t in range(n_rounds)},
    )
    return tuple((2 / noise[f"selection {t}"], noise[f"values {t}"]) for t in range(n_rounds))
