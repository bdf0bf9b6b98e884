"""Privacy cost of a dataset over many releases: the arithmetic of the ledger and of `dpalgos.Budget`.

Releases are chosen adaptively, parameters included. Zero-concentrated DP composes under that freedom
(Whitehouse, Ramdas, Rogers & Wu 2023): stop when Σρ would exceed what (ε, δ) allows, and everything
released stays (ε, δ)-DP. δ of steps that may fail adds up. A dataset whose releases are all pure is also
covered by the sum of their ε.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dpalgos.accounting.composition import by_group, certified_epsilon, renyi_epsilon
from dpalgos.accounting.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    DiscreteGaussianEvent,
    Event,
    FailureEvent,
    GaussianEvent,
    PureEvent,
)
from dpalgos.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Spending:
    """The cost of releases: zCDP ρ; the sum of ε if all are pure, else infinity; δ of steps that may fail."""

    rho: float = 0.0
    pure_epsilon: float = 0.0
    failure: float = 0.0

    def __add__(self, other: "Spending") -> "Spending":
        return Spending(
            rho=self.rho + other.rho,
            pure_epsilon=self.pure_epsilon + other.pure_epsilon,
            failure=self.failure + other.failure,
        )

    def epsilon(self, delta: float) -> float:
        """Return the ε at δ that the spending proves."""
        remaining = delta - self.failure
        if remaining < 0:
            return float("inf")
        if self.rho == 0:
            return 0.0
        if remaining == 0:
            return self.pure_epsilon
        as_gaussian = DiscreteGaussianEvent(
            label="spent", noise_multiplier=(2 * self.rho) ** -0.5, l2_sensitivity=1.0
        )
        return min(self.pure_epsilon, renyi_epsilon([as_gaussian], remaining))


def spending(events: Sequence[Event]) -> Spending:
    """Return what a run's events cost; refuse one without a zero-concentrated cost."""
    if any(event.group is not None for event in events):
        groups = [spending(those) for those in by_group(events)]
        return Spending(
            rho=max(group.rho for group in groups),
            pure_epsilon=max(group.pure_epsilon for group in groups),
            failure=max(group.failure for group in groups),
        )
    return sum((_cost(event) for event in events), Spending())


def adaptive_epsilon(calls: Sequence[Sequence[Event]], delta: float) -> float:
    """Return the ε at δ that several calls prove, each chosen by the answers of those before it.

    The events of one call are composed exactly. So are Gaussian events alone, whose μ² adds up under adaptive
    choice too (Koskela, Tobaben & Honkela 2023). All others are summed as zero-concentrated DP.
    """
    events = [event for call in calls for event in call]
    if len(calls) <= 1 or all(isinstance(event, GaussianEvent) for event in events):
        return certified_epsilon(events, delta)
    return sum((spending(call) for call in calls), Spending()).epsilon(delta)


def _cost(event: Event) -> Spending:
    infinite = float("inf")
    match event:
        case (
            GaussianEvent(noise_multiplier=z, count=count)
            | DiscreteGaussianEvent(noise_multiplier=z, count=count)
        ):
            return Spending(rho=count / (2 * z * z), pure_epsilon=infinite)
        case PureEvent(epsilon=epsilon, count=count):
            return Spending(rho=count * epsilon**2 / 2, pure_epsilon=count * epsilon)
        case BoundedRangeEvent(epsilon=epsilon, count=count):
            return Spending(rho=count * epsilon**2 / 8, pure_epsilon=count * epsilon)
        case ApproximateEvent(epsilon=epsilon, delta=delta):
            return Spending(rho=epsilon**2 / 2, pure_epsilon=epsilon, failure=delta)
        case FailureEvent(delta=delta):
            return Spending(failure=delta)
        case _:
            raise InputError(
                f"{event.label} has no cost that composes over releases; choose another estimator"
            )
