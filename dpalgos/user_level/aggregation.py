"""The mean over users of one vector each, released once or at every step of an optimization.

- ``"winsorized"``: a winsorized mean (:mod:`dpalgos.mechanisms.winsorized_mean`), noise ∝ the radius τ.
- ``"clipped"``: vectors clipped to the public norm B, noise ∝ B for any τ. The noise is Gaussian, or Laplace
  for a single number that is released once.
- ``"group_privacy"``: noise for rows at (ε/m, δ / (m e^((m−1)ε/m))); m rows of a user add up to (ε, δ).

Replacing a user replaces one vector. The first two are calibrated for that. The third is the cost of a
row-level mechanism, and exists as printed only: with exact calibration it is the second.

Several dimensions, ``tight``. Rotated coordinates of a vector lie within τ' of the mean's with probability
1 − γ (:class:`dpalgos.mechanisms.winsorized_mean.HadamardRotation`). Three steps follow.

1. A range for every rotated coordinate, bins of width w = τ'/2: a center c with ‖c − mean‖ ≤ √D (τ' + w/2).
2. The mean of vectors clipped to the ball of radius τ + √D (τ' + w/2) around c, with Gaussian noise.
3. The same around the mean of step 2, with radius τ + a bound on its noise. The noise is 2r/n. Separate
   coordinates would cost √D log(n) times as much.

The balls of steps 2 and 3 clip the original coordinates. The guarantee of each step follows from its own
clipping, for any data and any released center. If τ is too small, the estimate is biased, and as private as
before.

``tight``: shares of ρ, 0.1 for ranges, 0.15 for first means, 0.75 for refined ones (in one dimension ε is
split evenly). All noise is then scaled down to what is proved. ``paper``: Algorithms 1 and 2;
each of T queries has ε / (2√(2T log(2/δ))) and δ/(2T) (Theorem 3).

Reference: Levy et al., Learning with User-Level Privacy, Algorithms 1 and 2, Theorems 2 and 3; step 3 and the
radii are ours.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.calibration import NoisePlan, gaussians, laplace, least_noise, selections, split_plan
from dpalgos.accounting.events import Event, PureEvent
from dpalgos.catalog import Release
from dpalgos.errors import InputError
from dpalgos.intervals.half_widths import normal_equivalent
from dpalgos.intervals.means import (
    CUBE_SHARE,
    INTERVAL,
    SHARES,
    UNSEEN_ENTRIES,
    ReleasedOffset,
    RowSpread,
    entry_interval,
    interval_in_ball,
    pure_spend,
)
from dpalgos.intervals.spread import TruncatedEntries
from dpalgos.intervals.tails import NONE_UNSEEN
from dpalgos.mechanisms.private_range import count_bins, miss_probability, private_range, values_needed
from dpalgos.mechanisms.sensitivity import ball_mean
from dpalgos.mechanisms.sensitivity import count as row_count
from dpalgos.mechanisms.winsorized_mean import (
    FINE_WINDOW,
    PRINTED_WINDOW,
    HadamardRotation,
    Window,
    rotated_radius,
    winsorized_columns,
)
from dpalgos.params import PrivateParams, checked, choice, count, positive
from dpalgos.release.checks import check_probability
from dpalgos.release.spend import Spend
from dpalgos.release.transcript import Transcript
from dpalgos.rows.ball import Ball, mean_offset, mean_squares
from dpalgos.rows.sample import Sample
from dpalgos.rows.users import UserRows
from dpalgos.typing import FloatArray

_SHARES = {"ranges": 0.1, "first means": 0.15, "refined means": 0.75}  # of ρ
PUBLIC_SEED = 0  # of the random rotation and other public choices
LEAVING = 0.01  # γ, probability that vectors leave τ in rotated coordinates; affects accuracy only


def _check_failure(name: str, value: Any) -> float:
    return 1.0 if value == 1 else check_probability(name, value)


@dataclass(frozen=True, kw_only=True)
class UserLevelParams(PrivateParams):
    """Keywords of all estimators that protect whole users."""

    concentration_radius: float = positive("τ: users' vectors lie within this ℓ2 distance of their mean")
    samples_per_user: int | None = count(
        "m, public: at most m rows of a user are used; the choice does not depend on values", default=None
    )
    range_failure: float = checked(
        "largest accepted probability of missing the range; 1: any", _check_failure, default=0.05
    )

    def users(self, sample: Sample) -> UserRows:
        """Return at most ``samples_per_user`` rows of each user; a refusal would disclose their number."""
        users = sample.users
        return users if self.samples_per_user is None else users.at_most(self.samples_per_user)

    def check_range(self, n_users: float, n_bins: int, epsilon: float, times: float) -> None:
        """Refuse too few users to find as many ranges of ε each; all of these numbers are public."""
        allowed = self.range_failure
        if times * miss_probability(n_users, n_bins, epsilon) <= allowed or allowed == 1:
            return
        needed = values_needed(n_bins, epsilon, allowed / times)
        raise InputError(
            f"the range of users' vectors cannot be found from {n_users:.0f} users: about {needed:,} are "
            "needed at this epsilon and these bounds; pass a larger epsilon, a method without a range, or a "
            f"larger range_failure than {allowed:g}, the accepted probability of missing it"
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


class MeanReleases(NamedTuple):
    """The releases of a mean over users."""

    ranges: Release
    first: Release
    last: Release


class UserAggregation:
    """Releases means over users, ``n_queries`` times under one budget.

    Vectors are clipped to the public ℓ2 norm ``bound`` B. ``interval`` is the level of the intervals of a
    mean that is released once.
    """

    def __init__(
        self,
        params: AggregationParams,
        releases: MeanReleases,
        *,
        bound: float,
        n_features: int,
        n_queries: int,
        interval: float | None = None,
    ) -> None:
        self._params, self._releases, self._bound, self._n_queries = params, releases, bound, n_queries
        self._interval, self._is_one_number = interval, n_features == n_queries == 1
        self._budget = params.split_budget({"steps": 1.0}, SHARES if interval else {})
        self._rotation = HadamardRotation(n_features, PUBLIC_SEED)

    def check(self, n_users: float) -> None:
        """Refuse too few users to find the ranges. The message states the number needed."""
        size = self._rotation.size
        if self._params.aggregation != "winsorized":
            return
        if self._in_a_ball:
            width = rotated_radius(self._params.concentration_radius, size, n_users, LEAVING) / 2
            epsilon = planned_steps(self._params, size, self._n_queries, self._interval).epsilon_of("ranges")
        else:
            window, epsilon = self._columns(n_users)
            width = window.bin_width
        self._params.check_range(n_users, count_bins(self._bound, width), epsilon, size * self._n_queries)

    @property
    def _in_a_ball(self) -> bool:
        """Whether winsorized vectors are clipped to a ball; otherwise rotated coordinates are, one by one."""
        is_tight = self._params.aggregation == "winsorized" and self._params.calibration == "tight"
        return is_tight and self._rotation.size > 1

    def mean(self, transcript: Transcript, vectors: FloatArray) -> FloatArray:
        """Release the mean of vectors (n, d) that replicates share, (d, R); refuse too few for a range."""
        self.check(len(vectors))
        if self._params.aggregation == "winsorized" and not self._in_a_ball:
            return self._by_column(transcript, vectors)
        users = Sample.of_vectors(vectors, transcript.n_replicates)
        return (self._refined if self._in_a_ball else self._clipped)(transcript, users)

    def _clipped(self, transcript: Transcript, users: Sample) -> FloatArray:
        """Release the mean of vectors clipped to B. A single number that is released once has pure ε."""
        params, radius = self._params, np.full(users.n_replicates, self._bound)
        ball = Ball(np.zeros((users.n_features, 1)), radius)
        is_pure, last = params.aggregation == "clipped" and self._is_one_number, self._releases.last
        if is_pure:
            budget = params.split_budget({"mean": 1.0}, {INTERVAL: CUBE_SHARE} if self._interval else {})
            spend = Spend(transcript, {last.label: laplace(budget.split_epsilon("mean"))})
        else:
            plan = {part: gaussians(self._budget.gaussian_multiplier(part)) for part in self._parts}
            spend = Spend(transcript, plan | {last.label: gaussians(self._clipped_multiplier())})
        mean, std = spend(last, last.lemma.of(mean_offset(users, ball), radius, users.n_rows))
        if is_pure and self._interval:
            self._column_interval(transcript, users, ball, mean, std, budget.split_epsilon(INTERVAL))
        elif not is_pure:
            self._ball_interval(transcript, spend, users, ball, ReleasedOffset(mean, std, users.n_rows))
        return mean

    def _refined(self, transcript: Transcript, users: Sample) -> FloatArray:
        """Release the mean by the three steps of the module."""
        rotation, n_users = self._rotation, len(users.X)
        tau, (d, size) = self._params.concentration_radius, (rotation.n_features, rotation.size)
        ranges, first, refined = self._releases
        noise = planned_steps(self._params, size, self._n_queries, self._interval)
        plan = {part: noise.events[part] for part in self._parts}
        plan |= {first.label: noise.events["first means"], refined.label: noise.events["refined means"]}
        spend = Spend(transcript, plan)
        each = rotated_radius(tau, size, n_users, LEAVING)
        rotated, epsilon = rotation.rotate(users.X), noise.epsilon_of("ranges")
        center = private_range(
            transcript, ranges, rotated, bound=self._bound, bin_width=each / 2, epsilon=epsilon
        )
        radius = np.full(users.n_replicates, tau + np.sqrt(size) * (each + each / 4))
        ball = Ball(rotation.rotate_back(center), radius)
        offset, _ = spend(first, first.lemma.of(mean_offset(users, ball), ball.radius, users.n_rows))
        noise_std = noise.multiplier("first means") * ball_mean(ball.radius, users.n_rows)
        moved = noise_std * (np.sqrt(d) + np.sqrt(2 * np.log(1 / LEAVING)))
        ball = Ball(ball.center + offset, np.minimum(tau + moved, ball.radius))
        offset, std = spend(refined, refined.lemma.of(mean_offset(users, ball), ball.radius, users.n_rows))
        self._ball_interval(transcript, spend, users, ball, ReleasedOffset(offset, std, users.n_rows))
        return ball.center + offset

    def _by_column(self, transcript: Transcript, vectors: FloatArray) -> FloatArray:
        """Release rotated coordinates one by one: as printed, and in one dimension."""
        (window, epsilon), rotated = self._columns(len(vectors)), self._rotation.rotate(vectors)
        ranges, _, last = self._releases
        mean, center, std = winsorized_columns(
            transcript, (ranges, last), rotated, bound=self._bound, window=window, epsilon=epsilon
        )
        if self._rotation.size == 1 and self._interval:
            users, half = Sample.of_vectors(rotated, center.shape[1]), window.half_width
            spent = planned_halves(self._params, self._n_queries, self._interval)[1]
            self._column_interval(
                transcript, users, Ball(center, np.full(center.shape[1], half)), mean, std, spent
            )
        return self._rotation.rotate_back(mean)

    @property
    def _parts(self) -> tuple[str, ...]:
        """The releases for an interval in a ball."""
        return tuple(SHARES) if self._interval else ()

    def _ball_interval(
        self, transcript: Transcript, spend: Spend, users: Sample, ball: Ball, offset: ReleasedOffset
    ) -> None:
        """Record the half-widths, if requested; the sampled units are users."""
        transcript.interval = interval_in_ball(spend, self._interval, users, ball, offset, NONE_UNSEEN)

    def _column_interval(
        self,
        transcript: Transcript,
        users: Sample,
        ball: Ball,
        mean: FloatArray,
        std: FloatArray,
        epsilon: float,
    ) -> None:
        """Record the half-width of the mean of a single column, whose noise is Laplace's."""
        assert self._interval is not None
        entries = TruncatedEntries(
            lower=ball.center - ball.radius, upper=ball.center + ball.radius, mean=mean
        )
        squares = mean_squares(users, ball) / ball.radius**2
        spread = RowSpread(squares, entries.shares_above(users), UNSEEN_ENTRIES)
        reach = std / np.sqrt(2) * normal_equivalent(1, self._interval)
        spend = pure_spend(transcript, epsilon)
        transcript.interval = entry_interval(spend, self._interval, entries, users.n_rows, spread, reach)

    def _columns(self, n_users: float) -> tuple[Window, float]:
        """Return the window of columns, and the ε of a column's range and of its mean."""
        params, size, radius = self._params, self._rotation.size, self._params.concentration_radius
        if params.calibration == "tight":
            return FINE_WINDOW.times(radius), planned_halves(params, self._n_queries, self._interval)[0]
        epsilon, delta = self._printed_budget()
        if size > 1:  # τ' of Algorithm 2
            radius = 10 * radius * float(np.sqrt(np.log(size * n_users / LEAVING) / size))
            epsilon /= float(np.sqrt(8 * size * np.log(1 / delta)))
        return PRINTED_WINDOW.times(radius), epsilon / 2

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
        return float(epsilon / (2 * np.sqrt(2 * queries * np.log(2 / delta)))), delta / (2 * queries)


def planned_steps(params: AggregationParams, size: int, n_queries: int, interval: float | None) -> NoisePlan:
    """Return the smallest noise at which T winsorized means of D coordinates are together (ε, δ)-DP.

    The releases for an interval are included.
    """
    reserved = SHARES if interval else {}
    plan = split_plan(
        params.split_budget(_SHARES, reserved, gaussian=False),
        selected={"ranges": n_queries * size},
        released=dict.fromkeys(("first means", "refined means", *reserved), n_queries),
    )
    return least_noise(plan, many=True)


def planned_halves(params: AggregationParams, n_queries: int, interval: float | None) -> tuple[float, float]:
    """Return the ε of each range and of each mean of T winsorized means of one column, and of an interval."""
    reserved = {INTERVAL: CUBE_SHARE} if interval else {}
    budget = params.split_budget({"ranges": 0.5, "means": 0.5}, reserved)
    half = budget.split_epsilon("means", n_queries)
    means = PureEvent(label="", epsilon=half, sensitivity=1.0, count=n_queries)
    events: dict[str, Event] = {"ranges": selections(half, n_queries), "means": means}
    if interval:
        events["squares"] = replace(means, epsilon=budget.split_epsilon(INTERVAL))
    noise = least_noise(NoisePlan(params.epsilon, params.delta, events), many=True)
    return noise.epsilon_of("means"), noise.epsilon_of("squares") if interval else 0.0


def mean_releases(name: str) -> MeanReleases:
    """Return the releases of a mean over users called ``name``."""
    return MeanReleases(
        Release(f"range of the {name}", row_count),
        Release(f"first {name}", ball_mean),
        Release(name, ball_mean),
    )
