"""A budget (ε, δ): split into named shares among the parts of one estimator, or spent by several calls.

Shares are of the quantity that adds up: μ² where every release is Gaussian (exact), else ρ of
zero-concentrated DP. What the parts really spend is certified from their events at the end. Calls inside
``with Budget(...)`` are summed by :func:`dpalgos.accounting.composition.adaptive_epsilon`, which holds when
each call is chosen by the answers of those before it.
"""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

import numpy as np
import scipy

from dpalgos.accounting.composition import adaptive_epsilon
from dpalgos.accounting.events import Event, Relation
from dpalgos.accounting.gaussian_dp import check_budget, gaussian_mu
from dpalgos.errors import InputError

_ORDERS_FROM, _ORDERS_TO = 1e-6, 1e8


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


def printed_rho(epsilon: float, delta: float) -> float:
    """Return the ρ that papers put for (ε, δ): ε = ρ + 2 √(ρ log 1/δ) (Bun & Steinke 2016)."""
    log_term = -np.log(delta)
    return float((epsilon / (np.sqrt(epsilon + log_term) + np.sqrt(log_term))) ** 2)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """An (ε, δ) under one neighboring relation, split into named shares or spent by several calls.

    An estimator states the shares of its releases. A user opens a budget with ``with``: every private answer
    of :func:`dpalgos.estimate` (and of the scikit-learn classes) inside is summed, and an answer that would
    exceed the budget is withheld. What processes started inside spend is not seen: use ``n_jobs=1``.

    Parameters
    ----------
    epsilon, delta : float
        The whole.
    shares : mapping of str to float, optional
        Part → its share.
    gaussian : bool
        Whether every release is Gaussian, so that shares are of μ² and nothing is lost.
    failure : float
        Part of δ set aside for events that may fail.
    relation : Relation
        What neighbors differ in.

    Raises
    ------
    InputError
        If a share is not positive, or they do not sum to 1; inside ``with``, if an answer would exceed the
        budget, states its guarantee under another neighboring relation, or asks for several replicates.

    Examples
    --------
    >>> budget = Budget(epsilon=0.5, delta=1e-5, shares={"range": 0.1, "mean": 0.9})
    >>> budget.gaussian_multiplier("mean") < budget.gaussian_multiplier("range")
    True
    >>> import numpy as np, dpalgos
    >>> ages = np.array([[34.0], [51.0], [29.0], [62.0]])
    >>> settings = {"delta": 1e-6, "lower": 0.0, "upper": 100.0, "rng": np.random.default_rng(0)}
    >>> with dpalgos.Budget(epsilon=2, delta=1e-6) as budget:
    ...     first = dpalgos.estimate("box_mean", ages, epsilon=1, **settings)
    >>> round(budget.spent_epsilon, 2)
    1.0
    """

    epsilon: float
    delta: float
    shares: Mapping[str, float] = field(default_factory=dict)
    gaussian: bool = True
    failure: float = 0.0
    relation: Relation = field(default=Relation.CENTRAL)
    _calls: list[tuple[Event, ...]] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        object.__setattr__(self, "shares", MappingProxyType(dict(self.shares)))
        if not 0 <= self.failure < self.delta:
            raise InputError(f"failure must lie in [0, delta = {self.delta:g}), got {self.failure!r}")
        for part, share in self.shares.items():
            if not 0 < share <= 1:
                raise InputError(f"the share of {part!r} must be above 0 and at most 1, got {share!r}")
        total = sum(self.shares.values())
        if self.shares and abs(total - 1) > 1e-9:
            raise InputError(f"shares must sum to 1, got {total:g} for {', '.join(self.shares)}; change one")

    def gaussian_multiplier(self, part: str, releases: int = 1) -> float:
        """Return the noise multiplier of each of a part's ``releases`` Gaussian releases."""
        share = self._share(part)
        if self.gaussian:
            mu = gaussian_mu(self.epsilon, self.delta - self.failure)
            return float(np.sqrt(releases / share) / mu)
        return float(np.sqrt(releases / (2 * share * self._rho)))

    def selection_epsilon(self, part: str, selections: int = 1) -> float:
        """Return ε0 of each of a part's ``selections`` bounded-range selections, which cost ε0²/8 each."""
        if self.gaussian:
            raise InputError("a purely Gaussian budget has no selections; construct it with gaussian=False")
        return float(np.sqrt(8 * self._share(part) * self._rho / selections))

    def split_epsilon(self, part: str, releases: int = 1) -> float:
        """Return the ε of each of a part's releases where the ε of all releases simply add up."""
        return self.epsilon * self._share(part) / releases

    def __enter__(self) -> "Budget":
        _OPEN.set((*_OPEN.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _OPEN.set(_OPEN.get()[:-1])

    @property
    def spent_epsilon(self) -> float:
        """The ε at ``delta`` that the answers inside ``with`` prove together."""
        return adaptive_epsilon(self._calls, self.delta) if self._calls else 0.0

    @property
    def _rho(self) -> float:
        return concentrated_rho(self.epsilon, self.delta - self.failure)

    def _share(self, part: str) -> float:
        if part not in self.shares:
            raise InputError(f"part must be one of {', '.join(self.shares)}, got {part!r}")
        return self.shares[part]


_OPEN: ContextVar[tuple[Budget, ...]] = ContextVar("open budgets", default=())


def charge_open_budgets(events: Sequence[Event], replicates: int) -> None:
    """Add one call's events to every budget opened by ``with``, or refuse where one would be exceeded."""
    budgets = _OPEN.get()
    if budgets and replicates != 1:
        raise InputError(
            f"replicates must be 1 inside a Budget, got {replicates}: each would be another release"
        )
    for budget in budgets:
        if any(event.relation is not budget.relation for event in events):
            raise InputError(
                f"the budget protects a {budget.relation.unit_of_privacy}, got an answer that protects a "
                f"{events[0].relation.unit_of_privacy}; guarantees of different units do not add up, open a "
                "Budget with the other relation"
            )
        total = adaptive_epsilon([*budget._calls, tuple(events)], budget.delta)
        if total > budget.epsilon * (1 + 1e-9):
            raise InputError(
                f"epsilon of the budget is {budget.epsilon:g} at delta = {budget.delta:g}, got answers that "
                f"prove {total:.4g} together ({budget.spent_epsilon:.4g} before this one); the answer is "
                "withheld, ask for less or open a larger budget"
            )
    for budget in budgets:
        budget._calls.append(tuple(events))
