"""Privacy filters: which answers fit into a budget (ε, δ) when every question follows earlier answers.

A filter withholds an answer whose events would push a total over a bound. The bound is fixed before the
first answer. The union of two filters, of which the analyst picks one after seeing answers, is no filter:
the δ of both would add up. So it is fixed beforehand, too, which of the following a budget holds. P and Q
are the laws of all answers under two neighboring datasets, for an analyst who chooses each question as a
function of the answers so far. Totals are taken along the path of answers that occurred, and cannot
decrease.

**Gaussian answers only** (Smith & Thakurta 2022; Koskela, Tobaben & Honkela 2023). Admit while Σμ² ≤ m²,
where m-Gaussian DP is exactly (ε, δ)-DP. *Proof.* Let a last Gaussian answer spend m² − Σμ², which is known
by then; dropping it is post-processing. An answer of cost μ² is dominated by N(μ, 1) against N(0, 1),
whatever came before, and this is the state at time μ² of a Brownian motion with and without unit drift.
Concatenated over answers, with times that depend on the past only, they are one Brownian motion on [0, m²],
by the strong Markov property. Its state at time m² is sufficient: the log-likelihood ratio is that of N(m,
1) against N(0, 1). ∎

**All answers with a concentrated cost.** An answer costs ρ_i of zero-concentrated DP and, if it is pure,
ε_i; all that but for failures of probability δ_i. With φ set aside when the budget is opened, admit while
Σδ_i ≤ φ and one of (a) Σρ_i ≤ r, where r-zCDP is (ε, δ − φ)-DP, or (b) all answers are pure and Σε_i ≤ ε.
*Proof.*

1. Failures. Answer i has the law (1 − δ_i) A_i + δ_i B_i under P and (1 − δ_i) A'_i + δ_i B'_i under Q,
   where A_i and A'_i are as close as the rest of its cost says (Kairouz, Oh & Viswanath 2015; Bun & Steinke
   2016). Paths on which some answer fails have P-probability at most E Σδ_i ≤ φ. On the others the
   densities are Π(1 − δ_i) times those of ΠA_i and ΠA'_i, with Π(1 − δ_i) ≤ 1, so they add at most ∫(ΠA_i −
   e^ε ΠA'_i)⁺ to the hockey-stick divergence of P from Q. It remains to bound this by δ − φ, as if nothing
   failed.
2. Paths with (b). The density ratio is at most e^(Σε_i) ≤ e^ε: they add nothing.
3. Paths with (a). Stop the interaction where Σρ_i would exceed r. As totals cannot decrease, these paths
   have the same densities as before. For each order α > 1, E_Q[(A_i/A'_i)^α | past] ≤ e^((α − 1) α ρ_i),
   and the ρ_i depend on the past only, so (ΠA_i/ΠA'_i)^α e^(−(α − 1) α Σρ_i) is a supermartingale under Q,
   and what is stopped is r-zCDP (Rogers et al. 2016; Whitehouse, Ramdas, Rogers & Wu 2023). So these paths
   add at most δ − φ. ∎

**A single answer.** The first question is chosen before any answer. Where it does not fit into (a) or (b),
it may spend the whole budget by the composition of its own events, whatever they are; nothing fits after
it.

Disjoint groups of people, each with events of its own, cost the most that one of them does; the groups of
two answers need not be the same.
"""

from collections.abc import Sequence

import numpy as np

from dpalgos.accounting.composition import Spending, by_group, certified_epsilon, spending, total_mu
from dpalgos.accounting.events import Event, GaussianEvent
from dpalgos.accounting.gaussian_dp import gaussian_epsilon


def gaussian_filter_epsilon(calls: Sequence[Sequence[Event]], delta: float) -> float:
    """Return the ε at δ that adaptively chosen Gaussian answers prove; infinite with any other event."""
    if not all(isinstance(event, GaussianEvent) for call in calls for event in call):
        return float("inf")
    groups = [by_group(call) or [list(call)] for call in calls]
    mus = [max(total_mu(those) for those in of_call) for of_call in groups]  # type: ignore[arg-type]
    return gaussian_epsilon(delta, float(np.sqrt(sum(mu * mu for mu in mus))))


def concentrated_filter_epsilon(
    calls: Sequence[Sequence[Event]], delta: float, failure_delta: float
) -> float:
    """Return the ε at δ that adaptively chosen answers prove, ``failure_delta`` of δ being set aside.

    Infinite where failures exceed it. The first answer, by itself, is composed exactly.
    """
    if len(calls) <= 1:
        return certified_epsilon([event for call in calls for event in call], delta)
    return sum((spending(call) for call in calls), Spending()).epsilon(delta, failure_delta)
