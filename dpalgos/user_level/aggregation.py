"""How the mean over users of one vector each is released, once or at every step of an optimization.

    "winsorized"     a winsorized mean (:mod:`dpalgos.mechanisms.winsorized_mean`): noise ∝ the radius τ
    "clipped"        vectors clipped to the public norm B, Gaussian noise: noise ∝ B, whatever τ is; Laplace
                     noise on a single number that is released once
    "group_privacy"  noise for rows at (ε/m, δ / (m e^((m−1)ε/m))), which m rows of a user add up to (ε, δ)

Replacing a user replaces one vector. The first two are calibrated for that; the third is what a row-level
mechanism has to pay, and exists as printed only: calibrated exactly it is the second.

``tight``: zero-concentrated DP split .1 to ranges, .15 to first means, .75 to refined ones (in one dimension
ε is split evenly), then all noise scaled down to what is proved. ``paper``: Algorithms 1 and 2, with what
Theorem 3 gives each of T queries, ε / (2√(2T log(2/δ))) and δ/(2T).

Reference: Levy et al., Learning with User-Level Privacy, Algorithms 1 and 2, Theorems 2 and 3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.calibration import NoisePlan, least_noise, selections, split_plan
from dpalgos.accounting.events import Event, PureEvent
from dpalgos.catalog import Release
from dpalgos.errors import InputError
from dpalgos.intervals.half_widths import coordinate_std, normal_equivalent
from dpalgos.intervals.means import (
    CUBE_SHARE,
    INTERVAL,
    SHARES,
    UNSEEN_ENTRIES,
    ReleasedOffset,
    RowSpread,
    ball_interval,
    entry_interval,
    pure_spend,
)
from dpalgos.intervals.spread import TruncatedEntries
from dpalgos.intervals.tails import shares_by_level
from dpalgos.mechanisms.private_range import count_bins, miss_probability, values_needed
from dpalgos.mechanisms.sensitivity import ball_mean
from dpalgos.mechanisms.sensitivity import count as row_count
from dpalgos.mechanisms.winsorized_mean import (
    FINE_WINDOW,
    PRINTED_WINDOW,
    HadamardRotation,
    RefinedMean,
    Vicinity,
    Window,
    WinsorizedNoise,
    rotated_radius,
    winsorized_mean,
    winsorized_means_by_column,
)
from dpalgos.params import PrivateParams, checked, choice, count, positive
from dpalgos.release.checks import check_probability
from dpalgos.release.declared import Witness
from dpalgos.release.spend import Allowance, Spend
from dpalgos.release.transcript import Transcript
from dpalgos.rows.ball import Ball
from dpalgos.rows.sample import Sample
from dpalgos.rows.users import UserRows
from dpalgos.steps.clipping import ball_squares, mean_in_ball
from dpalgos.typing import FloatArray

_SHARES = {"ranges": 0.1, "first means": 0.15, "refined means": 0.75}  # of ρ
PUBLIC_SEED = 0  # of the random rotation and other public choices
_LEAVING = 0.01  # γ, of vectors leaving τ in rotated coordinates; affects accuracy only


def _check_allowed(name: str, value: Any) -> float:
    return 1.0 if value == 1 else check_probability(name, value)


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


class UserAggregation:
    """Releases means over users, ``n_queries`` times under one budget.

    Vectors are clipped to the ℓ2 norm ``bound`` B, public. ``interval`` is the level of the intervals of a
    mean that is released once. Where vectors are clipped only, a ``budget`` may be given: its part "steps" is
    for these releases, and the caller spends the others.
    """

    def __init__(
        self,
        params: AggregationParams,
        *,
        bound: float,
        n_features: int,
        n_queries: int,
        interval: float | None = None,
        budget: SplitBudget | None = None,
    ) -> None:
        self._params, self._bound, self._n_queries, self._interval = params, bound, n_queries, interval
        self._budget = budget or params.split_budget({"steps": 1.0}, SHARES if interval else {})
        self._alone = n_features == n_queries == 1 and budget is None  # then noise is Laplace's
        self._rotation = HadamardRotation(n_features, PUBLIC_SEED)

    def check(self, n_users: float) -> None:
        """Refuse too few users to find the ranges; says how many are needed."""
        params, size = self._params, self._rotation.size
        if params.aggregation != "winsorized":
            return
        some: FloatArray = np.array([n_users])
        if self._in_a_ball:
            tau: FloatArray = np.array([params.concentration_radius])
            width = float(rotated_radius(tau, size, some, _LEAVING)[0]) / 2
            epsilon = self._steps.range_epsilon
        else:
            window, epsilon = self._columns(some)
            width = float(window.bin_width[0])
        n_bins, times = count_bins(self._bound, width), size * self._n_queries
        check_range_is_found(n_users, n_bins, epsilon, times, params.range_failure)

    @property
    def _in_a_ball(self) -> bool:
        """Whether winsorized vectors are clipped as such; otherwise rotated coordinates are, one by one."""
        return self._rotation.size > 1 and self._params.calibration == "tight"

    def mean(self, transcript: Transcript, vectors: Sequence[FloatArray], label: str) -> FloatArray:
        """Release the mean of each replicate's vectors (n_r, d), (d, R).

        Too few users to find the range are refused, with the number that is needed.
        """
        n_users = np.array([len(X) for X in vectors], dtype=float)
        for n in set(n_users.tolist()):
            self.check(n)
        if self._params.aggregation != "winsorized":
            return self._clipped(transcript, vectors, n_users, label)
        if self._in_a_ball:
            return self._refined(transcript, vectors, label)
        return self._by_column(transcript, vectors, n_users, label)

    def _clipped(
        self, transcript: Transcript, vectors: Sequence[FloatArray], n_users: FloatArray, label: str
    ) -> FloatArray:
        """Release the mean of vectors clipped to B; that of a single number, released once, with pure ε."""
        center: FloatArray = np.zeros((vectors[0].shape[1], len(vectors)))
        radius = np.full(len(vectors), self._bound)
        clipped, release = mean_in_ball(vectors, center, radius), Release(label, "the rest", ball_mean)
        pure = self._params.aggregation == "clipped" and self._alone
        if pure:
            squares = {} if self._interval is None else {INTERVAL: CUBE_SHARE}
            budget = self._params.split_budget({"mean": 1.0}, squares)
            spend = Spend(transcript, {label: Allowance(epsilon=budget.split_epsilon("mean"))})
        else:
            spend = Spend.of_multipliers(transcript, {label: self._clipped_multiplier()})
        mean, noise_std = spend(release, clipped, radius, n_users)
        released = RefinedMean(mean=mean, center=center, radius=radius, noise_std=noise_std)
        if pure:
            spent = budget.split_epsilon(INTERVAL) if squares else 0.0
            return self._column_mean_with_interval(transcript, vectors, released, spent)
        return self._mean_with_interval(transcript, vectors, released, self._budget.gaussian_multiplier)

    def _column_mean_with_interval(
        self, transcript: Transcript, vectors: Sequence[FloatArray], one: RefinedMean, epsilon: float
    ) -> FloatArray:
        """Return the mean of a single column, and record its half-width where requested."""
        if self._interval is None:
            return one.mean
        n_users = np.array([len(X) for X in vectors], dtype=float)
        squares, _ = ball_squares(vectors, one.center, one.radius)
        entries = TruncatedEntries(
            lower=one.center - one.radius, upper=one.center + one.radius, mean=one.mean
        )
        above = shares_by_level([entries.sizes(X, r)[:, 0] for r, X in enumerate(vectors)])
        transcript.interval = entry_interval(
            pure_spend(transcript, epsilon),
            self._interval,
            entries,
            n_users,
            RowSpread(squares / one.radius**2, above, UNSEEN_ENTRIES),
            one.noise_std * normal_equivalent(1, self._interval) / coordinate_std(1),
        )
        return one.mean

    def _refined(self, transcript: Transcript, vectors: Sequence[FloatArray], label: str) -> FloatArray:
        public = Vicinity(
            bound=self._bound,
            radius=np.full(len(vectors), self._params.concentration_radius),
            rotation=self._rotation,
            failure=_LEAVING,
        )
        refined = winsorized_mean(transcript, vectors, public, self._steps, label)
        return self._mean_with_interval(
            transcript, vectors, refined, lambda part: self._steps.interval_multipliers[part]
        )

    @property
    def _steps(self) -> WinsorizedNoise:
        return planned_steps(self._params, self._rotation.size, self._n_queries, self._interval)

    def _mean_with_interval(
        self,
        transcript: Transcript,
        vectors: Sequence[FloatArray],
        refined: RefinedMean,
        multiplier: Callable[[str], float],
    ) -> FloatArray:
        """Return the mean, and record its half-widths where requested; the sampled units are users."""
        if self._interval is None:
            return refined.mean
        n_users = np.array([len(X) for X in vectors], dtype=float)
        squares, sizes = ball_squares(vectors, refined.center, refined.radius)
        transcript.interval = ball_interval(
            Spend.of_multipliers(transcript, {part: multiplier(part) for part in SHARES}),
            self._interval,
            Ball(refined.center, refined.radius),
            ReleasedOffset(refined.mean - refined.center, refined.noise_std, n_users),
            RowSpread(squares, shares_by_level(sizes)),
        )
        return refined.mean

    def _by_column(
        self, transcript: Transcript, vectors: Sequence[FloatArray], n_users: FloatArray, label: str
    ) -> FloatArray:
        """Release rotated coordinates one by one: as printed, and in one dimension."""
        window, epsilon = self._columns(n_users)
        rotated = {id(X): self._rotation.rotate(X) for X in vectors}
        turned = [rotated[id(X)] for X in vectors]
        released = winsorized_means_by_column(
            transcript,
            turned,
            bound=self._bound,
            window=window,
            epsilon=epsilon,
            label=label,
        )
        if self._rotation.size == 1:
            self._column_mean_with_interval(transcript, turned, released, self._halves[1])
        return self._rotation.rotate_back(released.mean)

    def _columns(self, n_users: FloatArray) -> tuple[Window, float]:
        """Return the window of columns, and the ε of a column's range and of its mean."""
        params, size = self._params, self._rotation.size
        radius = np.full(len(n_users), params.concentration_radius)
        if params.calibration == "tight":
            return FINE_WINDOW.times(radius), self._halves[0]
        if size > 1:
            radius = printed_radius(radius, size, n_users, _LEAVING)
        return PRINTED_WINDOW.times(radius), self._printed_epsilon() / 2

    @property
    def _halves(self) -> tuple[float, float]:
        return planned_halves(self._params, self._n_queries, self._interval)

    def _clipped_multiplier(self) -> float:
        """Return the noise standard deviation over the sensitivity 2B/n of replacing a user."""
        params = self._params
        if params.calibration == "tight":
            return self._budget.gaussian_multiplier("steps", self._n_queries)
        if params.aggregation == "group_privacy":
            assert params.samples_per_user is not None
            m = params.samples_per_user
            delta = params.delta / m * np.exp(-(m - 1) * params.epsilon / m)
            # A row moves the mean by 2B / (nm).
            budget = SplitBudget(epsilon=params.epsilon / m, delta=float(delta), shares={"steps": 1.0})
            return budget.gaussian_multiplier("steps", self._n_queries) / m
        epsilon, delta = self._printed_budget()
        return float(np.sqrt(2 * np.log(1.25 / delta)) / epsilon)

    def _printed_budget(self) -> tuple[float, float]:
        epsilon, delta, queries = self._params.epsilon, self._params.delta, self._n_queries
        if queries == 1:
            return epsilon, delta
        return epsilon / (2 * np.sqrt(2 * queries * np.log(2 / delta))), delta / (2 * queries)

    def _printed_epsilon(self) -> float:
        epsilon, delta = self._printed_budget()
        size = self._rotation.size
        return epsilon if size == 1 else float(epsilon / np.sqrt(8 * size * np.log(1 / delta)))


def printed_radius(radius: FloatArray, size: int, n_users: FloatArray, failure: float) -> FloatArray:
    """Return τ' = 10 τ √(log(Dn/γ)/D) of Algorithm 2, (R,)."""
    return np.asarray(10 * radius * np.sqrt(np.log(size * n_users / failure) / size))


def planned_steps(
    params: AggregationParams, size: int, n_queries: int, interval: float | None
) -> WinsorizedNoise:
    """Return the least noise at which T winsorized means of D coordinates are together (ε, δ)-DP.

    With an interval, what it releases is among them.
    """
    reserved = SHARES if interval else {}
    plan = split_plan(
        params.split_budget(_SHARES, reserved, gaussian=False),
        selected={"ranges": n_queries * size},
        released=dict.fromkeys(("first means", "refined means", *reserved), n_queries),
    )
    noise = least_noise(plan, many=True)
    return WinsorizedNoise(
        range_epsilon=noise.epsilon_of("ranges"),
        first_multiplier=noise.multiplier("first means"),
        refined_multiplier=noise.multiplier("refined means"),
        interval_multipliers={part: noise.multiplier(part) for part in reserved},
    )


def planned_halves(params: AggregationParams, n_queries: int, interval: float | None) -> tuple[float, float]:
    """Return the ε of each range, and of each mean, of T winsorized means of one column; and of squares.

    The latter are for an interval of a single mean.
    """
    reserved = {INTERVAL: CUBE_SHARE} if interval else {}
    budget = params.split_budget({"ranges": 0.5, "means": 0.5}, reserved)
    half = budget.split_epsilon("means", n_queries)
    means = PureEvent(label="", epsilon=half, sensitivity=1.0, count=n_queries)
    events: dict[str, Event] = {"ranges": selections(half, n_queries), "means": means}
    if interval:
        events["squares"] = replace(means, epsilon=budget.split_epsilon(INTERVAL))
    noise = least_noise(NoisePlan(params.epsilon, params.delta, events), many=True)
    return noise.epsilon_of("means"), noise.epsilon_of("squares") if interval else 0.0


def mean_releases(
    name: str, of: str = "", *, bins: Witness, first: Witness, last: Witness
) -> tuple[Release, ...]:
    """Return the releases of means over users called ``name``, with their witnesses.

    ``of`` says of what their shares are.
    """
    ranges, first_share, _ = (f"{share}{of}" if of else share for share in _SHARES.values())
    return (
        Release(f"range of the {name}", ranges, row_count, when=_has_range, witness=bins),
        Release(f"first {name}", first_share, ball_mean, when=_is_refined, witness=first),
        Release(name, "the rest", ball_mean, witness=last),
    )


def _has_range(params: Any) -> bool:
    return bool(params.aggregation == "winsorized")


def _is_refined(params: Any) -> bool:
    return _has_range(params) and params.calibration == "tight"
