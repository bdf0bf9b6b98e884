"""How the budget of means over users is spent on ranges, means and what an interval needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from dpalgos.accounting.budget import Budget
from dpalgos.accounting.calibration import least_noise, least_noise_factor
from dpalgos.accounting.events import BoundedRangeEvent, Event, PureEvent
from dpalgos.intervals.entries import CUBE_SHARE, INTERVAL
from dpalgos.intervals.half_widths import MEAN_SHARE, interval_shares
from dpalgos.mechanisms.winsorized_mean import WinsorizedNoise

_SHARES = {"ranges": 0.1, "first means": 0.15, "refined means": 0.75}  # of ρ
_START = 2.0  # factor on all noise from which the search for the least begins


@lru_cache(maxsize=1024)
def planned_steps(
    epsilon: float, delta: float, size: int, n_queries: int, interval: bool = False
) -> WinsorizedNoise:
    """Return the least noise at which T winsorized means of D coordinates are together (ε, δ)-DP.

    With an interval, what it releases is among them.
    """
    reserved = interval_shares(0.5 if interval else None, MEAN_SHARE)
    noise = least_noise(
        users_budget(epsilon, delta, _SHARES, reserved, gaussian=False),
        selections={"ranges": n_queries * size},
        gaussians=dict.fromkeys(("first means", "refined means", *reserved), n_queries),
        renyi_first=True,
    )
    return WinsorizedNoise(
        range_epsilon=noise["ranges"],
        first_multiplier=noise["first means"],
        refined_multiplier=noise["refined means"],
        interval_multipliers={part: noise[part] for part in reserved},
    )


@dataclass(frozen=True, kw_only=True)
class Halves:
    """ε of each range and of each Laplace release of one-dimensional means; and of an interval's squares."""

    each: float
    squares: float


@lru_cache(maxsize=1024)
def planned_halves(epsilon: float, delta: float, n_queries: int, interval: bool = False) -> Halves:
    """Return how ε is spent on T one-dimensional winsorized means, with an interval of a single one."""
    reserved = {INTERVAL: CUBE_SHARE} if interval else {}
    budget = users_budget(epsilon, delta, {"ranges": 0.5, "means": 0.5}, reserved)
    half = budget.split_epsilon("means", n_queries)
    squares = budget.split_epsilon(INTERVAL) if interval else 0.0

    def events(factor: float) -> list[Event]:
        return [
            BoundedRangeEvent(label="", epsilon=half / factor, sensitivity=1.0, count=n_queries),
            *(
                PureEvent(label="", epsilon=one / factor, sensitivity=1.0, count=n_queries)
                for one in (half, squares)
                if one
            ),
        ]

    by_renyi = least_noise_factor(events, epsilon, delta, most=_START, renyi_only=True)
    factor = least_noise_factor(events, epsilon, delta, most=min(by_renyi, 1.0))
    return Halves(each=half / factor, squares=squares / factor)


def users_budget(
    epsilon: float,
    delta: float,
    shares: Mapping[str, float],
    reserved: Mapping[str, float],
    *,
    gaussian: bool = True,
) -> Budget:
    """Return a budget with the shares ``reserved`` for an interval; the rest is split."""
    rest = 1 - sum(reserved.values())
    all_shares = {part: rest * share for part, share in shares.items()} | dict(reserved)
    return Budget(epsilon=epsilon, delta=delta, shares=all_shares, gaussian=gaussian)
