"""Keywords of estimators over users, the users that count, how many are needed, and how budgets are spent."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dpalgos.accounting.budget import Budget
from dpalgos.accounting.calibration import least_noise, least_noise_factor
from dpalgos.accounting.events import BoundedRangeEvent, Event, PureEvent
from dpalgos.errors import InputError
from dpalgos.intervals.half_widths import MEAN_SHARE, interval_shares
from dpalgos.intervals.means import CUBE_SHARE, INTERVAL
from dpalgos.mechanisms.private_range import miss_probability, values_needed
from dpalgos.mechanisms.winsorized_mean import WinsorizedNoise
from dpalgos.params import PrivateParams, checked, choice, count, positive
from dpalgos.release.checks import check_probability
from dpalgos.rows.sample import Sample
from dpalgos.rows.users import UserRows

_SHARES = {"ranges": 0.1, "first means": 0.15, "refined means": 0.75}  # of ρ
_START = 2.0  # factor on all noise from which the search for the least begins


def _check_allowed(name: str, value: Any) -> float:
    return 1.0 if value == 1 else check_probability(name, value)


def _check_seed(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise InputError(f"{name} must be a whole number of at least 0, got {value!r}; pass e.g. {name}=0")
    return int(value)


@dataclass(frozen=True, kw_only=True)
class UserLevelParams(PrivateParams):
    """Keywords of all estimators that protect whole users."""

    concentration_radius: float = positive("τ: users' vectors lie within this ℓ2 distance of their mean")
    samples_per_user: int | None = count(
        "m, public: the most rows of a user that count; which, does not depend on values", default=None
    )
    range_failure: float = checked(
        "largest chance of missing the range that is answered; 1: any", _check_allowed, default=0.05
    )


@dataclass(frozen=True, kw_only=True)
class AggregationParams(UserLevelParams):
    """Keywords of those that release means over users."""

    aggregation: str = choice(
        "'winsorized': noise in proportion to τ; 'clipped': to the public bound; 'group_privacy': for rows",
        ("winsorized", "clipped", "group_privacy"),
        default="winsorized",
    )
    failure_probability: float = checked(
        "γ, of vectors leaving τ in rotated coordinates; affects accuracy only",
        check_probability,
        default=0.01,
    )
    public_seed: int = checked("of the random rotation and other public choices", _check_seed, default=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.aggregation == "group_privacy":
            if self.calibration != "paper":
                raise InputError(
                    "aggregation must be 'winsorized' or 'clipped' for calibration='tight', got "
                    "'group_privacy', which calibrated tightly is 'clipped'"
                )
            if self.samples_per_user is None:
                raise InputError("samples_per_user is needed for aggregation='group_privacy', got None")


def users_of(sample: Sample, params: UserLevelParams) -> list[UserRows]:
    """Return every replicate's users, each with at most ``samples_per_user`` rows.

    A refusal instead would tell, at no cost, how many rows some user has.
    """
    most = params.samples_per_user
    if most is None:
        return sample.users
    users = {id(one): one.at_most(most) for one in set(sample.users)}
    return [users[id(one)] for one in sample.users]


def check_range_is_found(n_users: float, n_bins: int, epsilon: float, times: float, allowed: float) -> None:
    """Refuse too few users to find as many ranges of ε each; n is public, and so is all else here."""
    if times * miss_probability(n_users, n_bins, epsilon) <= allowed or allowed == 1:
        return
    needed = values_needed(n_bins, epsilon, allowed / times)
    raise InputError(
        f"the range of users' vectors cannot be found from {n_users:.0f} users: about {needed:,} are needed "
        "at this epsilon and these bounds; pass a larger epsilon, a method without a range, or a larger "
        f"range_failure than {allowed:g}, the chance of missing it that is allowed"
    )


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


@lru_cache(maxsize=1024)
def planned_halves(
    epsilon: float, delta: float, n_queries: int, interval: bool = False
) -> tuple[float, float]:
    """Return the ε of each range, and of each mean, of T winsorized means of one column; and of squares.

    The latter are for an interval of a single mean.
    """
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
    return half / factor, squares / factor


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
