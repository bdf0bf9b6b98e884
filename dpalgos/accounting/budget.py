"""Privacy budgets: an (ε, δ) split among the releases of one estimator, or spent by several estimates.

**Split.** If every release is Gaussian, shares are of μ², which adds up exactly. Otherwise they are of the ρ
of zero-concentrated DP. At the end, the certified ε follows from the released events.

**Several estimates.** This is a privacy filter. It withholds an estimate whose events would raise a total
above a bound. The bound is fixed before the first estimate. The analyst may choose each question as a
function of the earlier estimates. P and Q are the distributions of all estimates under two neighboring
datasets. The noise of an estimate is independent of all earlier noise: a Budget draws it from a separate
generator. Totals are taken along the path of estimates that occurred. They cannot decrease.

Estimate i costs ρ_i of zero-concentrated DP and, if it is pure, ε_i. This holds except with probability δ_i,
the probability of a failure. When the budget is opened, φ is set aside for failures. The filter admits an
estimate if Σδ_i ≤ φ and one of two conditions holds:

- (a) Σρ_i ≤ r, where r-zCDP is (ε, δ − φ)-DP;
- (b) all estimates are pure and Σε_i ≤ ε.

*Proof.*

1. Failures. Estimate i has the distribution (1 − δ_i) A_i + δ_i B_i under P and (1 − δ_i) A'_i + δ_i B'_i
   under Q. The rest of its cost bounds the divergence between A_i and A'_i (Kairouz, Oh & Viswanath 2015;
   Bun & Steinke 2016). Paths on which some estimate fails have P-probability at most E Σδ_i ≤ φ. On the
   other paths the densities are Π(1 − δ_i) ≤ 1 times those of ΠA_i and ΠA'_i. Therefore these paths add at
   most ∫(ΠA_i − e^ε ΠA'_i)⁺ to the hockey-stick divergence of P from Q. It remains to bound this by δ − φ,
   as if nothing failed.
2. Paths with (b). The density ratio is at most e^(Σε_i) ≤ e^ε: they add nothing.
3. Paths with (a). Stop the interaction where Σρ_i would exceed r. As totals cannot decrease, these paths
   have the same densities as before. For each order α > 1, E_Q[(A_i/A'_i)^α | past] ≤ e^((α − 1) α ρ_i).
   The reason is that the noise of estimate i is independent of all earlier noise, and ρ_i was proved for
   its distribution. The ρ_i depend on the past only. Therefore (ΠA_i/ΠA'_i)^α e^(−(α − 1) α Σρ_i) is a
   supermartingale under Q, and the stopped interaction is r-zCDP (Rogers et al. 2016; Whitehouse, Ramdas,
   Rogers & Wu 2023). These paths add at most δ − φ. ∎

**A single estimate.** The first question is chosen before any estimate is seen. If it meets neither (a) nor
(b), it may spend the whole budget by the exact composition of its events. After it, nothing fits.

**Disjoint groups.** If events concern disjoint groups of people, the cost is that of the most expensive
group. Two estimates may have different groups.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np
import scipy

from dpalgos.accounting.events import Event
from dpalgos.accounting.gaussian_dp import check_budget
from dpalgos.typing import FloatArray

_ORDERS_FROM, _ORDERS_TO = 1e-6, 1e8
ORDERS: FloatArray = 1 + np.logspace(-3, 6, 2000)
_ROUNDING = 1e-9  # of costs: less than what is left below the budget


@lru_cache(maxsize=4096)
def concentrated_rho(epsilon: float, delta: float) -> float:
    """Return the largest ρ for which ρ-zCDP gives (ε, δ)-DP, rounded down by a relative 1e-8.

    By the best order of Canonne, Kamath & Steinke (2020), Proposition 12:
    log δ = min over α > 1 of (α − 1)(αρ − ε) − log(α − 1) + α log(1 − 1/α).
    """
    check_budget(epsilon, delta)
    # The best order grows as log(1/δ)/ε.
    largest = max(_ORDERS_TO, -1e3 * float(np.log(delta)) / epsilon)
    orders = 1 + np.geomspace(_ORDERS_FROM, largest, 40_000)
    constant = -np.log(orders - 1) + orders * np.log1p(-1 / orders) - np.log(delta)

    def excess(log_rho: float) -> float:
        return float(np.min((orders - 1) * (orders * np.exp(log_rho) - epsilon) + constant))

    return float(np.exp(scipy.optimize.brentq(excess, -700.0, np.log(epsilon + 10), xtol=1e-12))) * (1 - 1e-8)


def by_group(events: Sequence[Event]) -> list[list[Event]]:
    """Return, for each disjoint group of people, the events about it and those about everyone.

    Groups with equal costs are returned once.
    """
    groups: dict[int | None, list[Event]] = {}
    for event in events:
        groups.setdefault(event.group, []).append(replace(event, group=None))
    about_all = groups.pop(None, [])
    different = {costs_of(those): those for those in groups.values()}
    return [about_all + those for those in different.values()]


def epsilon_of_curve(curve: Callable[[FloatArray], FloatArray], delta: float) -> float:
    """Return the ε at δ of a bound on Rényi divergences, a function of their orders."""

    def bound(orders: FloatArray) -> FloatArray:
        return renyi_bound(curve(orders), delta, orders)

    values = bound(ORDERS)
    best = int(np.argmin(values))
    near = ORDERS[[max(best - 1, 0), min(best + 1, len(ORDERS) - 1)]]
    finer = 1 + np.geomspace(near[0] - 1, near[1] - 1, 2001)
    return max(0.0, float(min(values[best], np.min(bound(finer)))))


def costs_of(events: Sequence[Event]) -> tuple[tuple[object, ...], ...]:
    """Return what decides the cost of events, to compare them by."""
    silent = ("label", "relation", "group", "sensitivity", "support", "forms")
    return tuple(
        (type(event), *(getattr(event, item.name) for item in fields(event) if item.name not in silent))
        for event in events
    )


def renyi_bound(curve: FloatArray, delta: float, orders: FloatArray) -> FloatArray:
    """Return the ε at δ by each order; Canonne, Kamath & Steinke (2020), Proposition 12."""
    return np.asarray(curve + np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1))


@dataclass(frozen=True, kw_only=True)
class Spending:
    """The cost of releases: ρ of zCDP, the sum of ε (infinite unless all are pure), and δ of failures."""

    rho: float = 0.0
    pure_epsilon: float = 0.0
    failure: float = 0.0

    def __add__(self, other: "Spending") -> "Spending":
        return Spending(
            rho=self.rho + other.rho,
            pure_epsilon=self.pure_epsilon + other.pure_epsilon,
            failure=self.failure + other.failure,
        )

    def epsilon(self, delta: float, failure_delta: float | None = None) -> float:
        """Return the ε at δ that the spending proves.

        ``failure_delta`` is the part of δ set aside for failures; by default, what the releases need. If
        releases depend on earlier results, it must be fixed before the first one.
        """
        set_aside = self.failure if failure_delta is None else failure_delta
        if self.failure > set_aside * (1 + 1e-9):
            return float("inf")
        remaining = delta - set_aside
        if remaining < 0:
            return float("inf")
        if self.rho == 0:
            return 0.0
        if remaining == 0:
            return self.pure_epsilon
        return min(self.pure_epsilon, epsilon_of_curve(lambda orders: orders * self.rho, remaining))

    def is_within(self, planned: "Spending") -> bool:
        """Return whether it is at most another cost, up to rounding: sums may be in another order."""
        pairs = [
            (self.rho, planned.rho),
            (self.pure_epsilon, planned.pure_epsilon),
            (self.failure, planned.failure),
        ]
        return all(own <= other * (1 + _ROUNDING) for own, other in pairs)


def spending(events: Sequence[Event]) -> Spending:
    """Return the cost of a run's events; refuse an event that zero-concentrated DP cannot account for."""
    if any(event.group is not None for event in events):
        groups = [spending(those) for those in by_group(events)]
        return Spending(
            rho=max(group.rho for group in groups),
            pure_epsilon=max(group.pure_epsilon for group in groups),
            failure=max(group.failure for group in groups),
        )
    return Spending(
        rho=sum(event.rho for event in events),
        pure_epsilon=sum(event.pure_epsilon for event in events),
        failure=sum(event.failure for event in events),
    )
