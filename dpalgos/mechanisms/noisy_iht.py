"""Noisy iterative hard thresholding of any loss (paper B, Algorithm 4).

    θ ← NoisyHT( θ − η ∇L_n(θ), s ),   t = 1 … T

Why it is private. θ is public when a round begins, so that a neighbour moves the new point by η times what it
moves the gradient, in every coordinate; a round selects s coordinates and releases their values, both charged
and composed adaptively over rounds. The caller states the gradient's ℓ∞ sensitivity at θ.

Two forms of NoisyHT (Algorithm 3):

``tight``
    One Gumbel vector selects, Gaussian noise on the values; shares of ρ that grow by 1.4 from round to round
    (30 in all at most), and a last round that spends less on its selection; then all noise is scaled down to
    what the accountant just proves. The sensitivity may follow θ, since noise over sensitivity is fixed.
``paper``
    Peeling with Laplace noise of scale η (B/n) 2 √(3 s log(T/δ)) T / ε: ε and δ split evenly.

References
----------
Cai, Wang & Zhang, Cost of privacy in generalized linear models, Algorithms 3 and 4, Lemma 4.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from dpalgos.accounting.budget import concentrated_rho
from dpalgos.accounting.calibration import least_noise_factor
from dpalgos.accounting.events import BoundedRangeEvent, Event, GaussianEvent
from dpalgos.mechanisms.peeling import peeling, printed_multiplier
from dpalgos.mechanisms.top_k import SparseRelease, multipliers, noisy_top_k
from dpalgos.mechanisms.transcript import Transcript
from dpalgos.typing import FloatArray

_SELECTION_SHARE = 0.5
_LAST_SELECTION_SHARE = 0.3  # the last round's values are the answer
_GROWTH = 1.4  # of ρ from round to round: later rounds mend what early ones spoil, not the reverse
_LARGEST_GROWTH = 30.0  # from the first round to the last

# (transcript, values (d, R), ℓ∞ sensitivity, round) → what the round releases of the values.
NoisyHT = Callable[[Transcript, FloatArray, FloatArray, int], SparseRelease]


def noisy_iht(
    transcript: Transcript,
    gradient: Callable[[FloatArray], FloatArray],
    linf_sensitivity: Callable[[FloatArray], FloatArray],
    noisy_ht: NoisyHT,
    *,
    n_features: int,
    n_rounds: int,
    step_size: float,
    project: Callable[[FloatArray], FloatArray],
) -> FloatArray:
    """Return the last iterate, (d, R), from θ = 0.

    Parameters
    ----------
    transcript : Transcript
    gradient : callable
        θ (d, R) → ∇L_n(θ) (d, R), private.
    linf_sensitivity : callable
        θ → how far a neighbour moves any entry of the gradient at θ, (R,); public.
    noisy_ht : callable
        :func:`tight_noisy_ht` or :func:`printed_noisy_ht`.
    n_features, n_rounds : int
        d and T.
    step_size : float
        η.
    project : callable
        Applied to every iterate, e.g. onto a ball, or the identity; post-processing.
    """
    coef: FloatArray = np.zeros((n_features, transcript.n_replicates))
    for t in range(n_rounds):
        sensitivity = step_size * linf_sensitivity(coef)
        coef = project(noisy_ht(transcript, coef - step_size * gradient(coef), sensitivity, t).dense())
    return coef


def tight_noisy_ht(
    epsilon: float, delta: float, sparsity: int, n_rounds: int, label: str = "step"
) -> NoisyHT:
    """Return the tight NoisyHT of ``n_rounds`` rounds that are together (ε, δ)-DP."""
    rounds = planned_multipliers(epsilon, delta, sparsity, n_rounds)

    def released(
        transcript: Transcript, values: FloatArray, sensitivity: FloatArray, t: int
    ) -> SparseRelease:
        selection, release = rounds[t]
        return noisy_top_k(
            transcript,
            values,
            linf_sensitivity=sensitivity,
            sparsity=sparsity,
            selection_multiplier=selection,
            release_multiplier=release,
            label=label,
        )

    return released


def printed_noisy_ht(
    epsilon: float, delta: float, sparsity: int, n_rounds: int, *, excess: float, label: str = "step"
) -> NoisyHT:
    """Return Algorithm 3 as printed, with ε/T and δ/T, whose B is ``excess`` times the true sensitivity."""
    printed = printed_multiplier(epsilon / n_rounds, delta / n_rounds, sparsity)

    def released(
        transcript: Transcript, values: FloatArray, sensitivity: FloatArray, t: int
    ) -> SparseRelease:
        return peeling(
            transcript,
            values,
            linf_sensitivity=sensitivity,
            sparsity=sparsity,
            noise_multiplier=excess * printed,
            label=label,
        )

    return released


@lru_cache(maxsize=4096)
def planned_multipliers(
    epsilon: float, delta: float, sparsity: int, n_rounds: int
) -> tuple[tuple[float, float], ...]:
    """Return the least (selection, release) multipliers of every round that are together (ε, δ)-DP."""
    growth = min(_GROWTH, _LARGEST_GROWTH ** (1 / max(n_rounds - 1, 1)))
    shares = growth ** np.arange(n_rounds)
    rhos = concentrated_rho(epsilon, delta) * shares / shares.sum()
    rounds = [multipliers(float(rho), sparsity, _SELECTION_SHARE) for rho in rhos[:-1]]
    rounds.append(multipliers(float(rhos[-1]), sparsity, _LAST_SELECTION_SHARE))

    def planned(factor: float) -> list[Event]:
        events: list[Event] = []
        for selection, release in rounds:
            ratio = 2 / (factor * selection)
            events.append(BoundedRangeEvent(label="", epsilon=ratio, sensitivity=1.0, count=sparsity))
            events.append(GaussianEvent(label="", noise_multiplier=factor * release, l2_sensitivity=1.0))
        return events

    factor = least_noise_factor(planned, epsilon, delta)
    return tuple((factor * selection, factor * release) for selection, release in rounds)
