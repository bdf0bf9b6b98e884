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
    Peeling (:mod:`dpalgos.mechanisms.top_k`) with Laplace noise of scale η (B/n) 2 √(3 s log(T/δ)) T / ε: ε
    and δ are split evenly.

References
----------
Cai, Wang & Zhang, The Cost of Privacy, Algorithm 4.2; Cost of privacy in generalized linear models,
Algorithm 4.
"""

from functools import lru_cache
from types import MappingProxyType

import numpy as np

from dpalgos.accounting.events import Event, Gaussian
from dpalgos.accounting.other_events import Laplace, Selection
from dpalgos.core.other_plans import concentrated_plan, least_noise_plan
from dpalgos.core.plans import Plan
from dpalgos.core.record import Noisy
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Bounded, Lemmas, ball_mean
from dpalgos.mechanisms.top_k import printed_multiplier, selected_l2_sensitivity
from dpalgos.typing import FloatArray, IntArray

SELECTION, VALUES = "step: selection", "step: values"
# Laplace noise is of each entry, by its sensitivity in ℓ∞.
STEP_LEMMAS: Lemmas = {SELECTION: ball_mean, VALUES: (selected_l2_sensitivity, ball_mean)}

_SELECTION_SHARE = 0.5
_LAST_SELECTION_SHARE = 0.3  # the last round's values are the estimate
_GROWTH = 1.4  # of ρ from round to round: later rounds mend what early ones spoil, not the reverse
_LARGEST_GROWTH = 30.0  # from the first round to the last


@lru_cache(maxsize=256)
def planned_rounds(epsilon: float, delta: float, sparsity: int, n_rounds: int) -> Plan:
    """Return the smallest noise of the selections and the values of every round."""
    growth = min(_GROWTH, _LARGEST_GROWTH ** (1 / max(n_rounds - 1, 1)))
    weights = growth ** np.arange(n_rounds)
    shares: dict[str, tuple[float, Event]] = {}
    for t, weight in enumerate(weights / weights.sum()):
        selected = _SELECTION_SHARE if t < n_rounds - 1 else _LAST_SELECTION_SHARE
        shares[f"{SELECTION} {t}"] = weight * selected, Selection(1.0, count=sparsity, by_magnitude=True)
        shares[f"{VALUES} {t}"] = weight * (1 - selected), Gaussian(1.0)
    return MappingProxyType(least_noise_plan(epsilon, delta, concentrated_plan(epsilon, delta, shares)))


def printed_rounds(epsilon: float, delta: float, sparsity: int, n_rounds: int, *, excess: float) -> Plan:
    """Return rounds as printed, of ε/T and δ/T each, whose B is ``excess`` times the true sensitivity."""
    multiplier = excess * printed_multiplier(epsilon / n_rounds, delta / n_rounds, sparsity)
    plan: dict[str, Event] = {}
    for t in range(n_rounds):
        plan[f"{SELECTION} {t}"] = Selection(2 / multiplier, count=sparsity, by_magnitude=True, by="peeling")
        plan[f"{VALUES} {t}"] = Laplace(1 / multiplier, count=sparsity)
    return plan


def noisy_ht(spend: Spend, t: int, step_end: Bounded) -> tuple[IntArray, Noisy]:
    """Release in round t the noisily largest entries of (…, d): their places (…, s), and their values.

    The sensitivity of ``step_end`` is how far a neighbor moves any one entry.
    """
    label, moves = f"{VALUES} {t}", step_end.sensitivity
    support = spend.choose(f"{SELECTION} {t}", step_end)
    selected = np.take_along_axis(step_end.value, support, axis=-1)
    if isinstance(spend.plan[label], Laplace):
        return support, spend(label, step_end._replace(value=selected))
    return support, spend(label, selected_l2_sensitivity.of(selected, moves, support.shape[-1]))


def dense(support: IntArray, values: FloatArray, d: int) -> FloatArray:
    """Return vectors (…, d) with values (…, s) at places, and exact zeros elsewhere."""
    vectors = np.zeros((*values.shape[:-1], d))
    np.put_along_axis(vectors, support, values, axis=-1)
    return vectors
