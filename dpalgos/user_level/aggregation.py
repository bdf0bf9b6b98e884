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
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dpalgos.accounting.events import Event, Gaussian
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.accounting.other_events import Laplace, Selection
from dpalgos.catalog import Release
from dpalgos.core.ball import Ball, mean_offset, mean_squares
from dpalgos.core.estimator import PrivateEstimator
from dpalgos.core.other_plans import concentrated_plan, least_noise_plan
from dpalgos.core.plans import Share, gaussian_plan
from dpalgos.core.record import Noisy
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError
from dpalgos.intervals.half_widths import normal_equivalent
from dpalgos.intervals.means import (
    SHARES,
    UNSEEN_ENTRIES,
    ReleasedOffset,
    RowSpread,
    entry_interval,
    interval_in_ball,
    pure_parts,
    pure_slots,
)
from dpalgos.intervals.spread import TruncatedEntries
from dpalgos.intervals.tails import NONE_UNSEEN
from dpalgos.mechanisms.private_range import (
    MOST_LISTED_BINS,
    BinnedColumns,
    bin_middles,
    count_bins,
    miss_probability,
    values_needed,
)
from dpalgos.mechanisms.sensitivity import Lemmas, ball_mean
from dpalgos.mechanisms.sensitivity import count as count_sensitivity
from dpalgos.mechanisms.winsorized_mean import (
    FINE_WINDOW,
    PRINTED_WINDOW,
    HadamardRotation,
    Window,
    rotated_radius,
    truncated_means,
)
from dpalgos.params import checked, choice, count, positive
from dpalgos.release.checks import check_probability
from dpalgos.rows.sample import Sample
from dpalgos.rows.units import public_positions
from dpalgos.typing import FloatArray, IntArray

_SHARES = 0.1, 0.15, 0.75  # of ρ: of ranges, first means and refined means
PUBLIC_SEED = 0  # of the random rotation and other public choices
LEAVING = 0.01  # γ, probability that vectors leave τ in rotated coordinates; affects accuracy only


def _check_failure(name: str, value: Any) -> float:
    return 1.0 if value == 1 else check_probability(name, value)


@dataclass(frozen=True, kw_only=True)
class UserLevelEstimator(PrivateEstimator):
    """An estimator that protects whole users."""

    concentration_radius: float = positive("τ: users' vectors lie within this ℓ2 distance of their mean")
    samples_per_user: int | None = count(
        "m, public: at most m rows of a user are used; the choice does not depend on values", default=None
    )
    range_failure: float = checked(
        "largest accepted probability of missing the range; 1: any", _check_failure, default=0.05
    )

    weighs_people = True

    def with_units(self, sample: Sample) -> Sample:
        """Return at most ``samples_per_user`` rows of each user, with weights that sum to 1.

        The choice depends on no value and on no other user: replacing a user changes only that user's rows.
        A refusal of too many rows would disclose their number. Streamed rows are refused.
        """
        sample.rows.array()
        if self.samples_per_user is not None and sample.user_codes is not None:
            sample = sample.derived(rows=public_positions(sample.user_codes) < self.samples_per_user)
        return super().with_units(sample)

    def check_range(self, n_users: float, n_bins: int, epsilon: float, n_ranges: float) -> None:
        """Refuse too few users to find as many ranges of ε each; all of these numbers are public."""
        allowed = self.range_failure
        if n_ranges * miss_probability(n_users, n_bins, epsilon) <= allowed or allowed == 1:
            return
        needed = values_needed(n_bins, epsilon, allowed / n_ranges)
        raise InputError(
            f"the range of users' vectors cannot be found from {n_users:.0f} users: about {needed:,} are "
            "needed at this epsilon and these bounds; pass a larger epsilon, a method without a range, or a "
            f"larger range_failure than {allowed:g}, the accepted probability of missing it"
        )


@dataclass(frozen=True, kw_only=True)
class AggregatingEstimator(UserLevelEstimator):
    """An estimator that releases means over users."""

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

    @property
    def lemmas(self) -> Lemmas:
        """The lemma of each label."""
        return {each.label: each.lemma for each in self}


@dataclass(frozen=True)
class BinSelection(Selection):
    """A bin for each of ``count`` columns, one of ``n_bins``; floating-point-safe noise is drawn by bin."""

    n_bins: int = 1

    instead = f"declare a tighter bound or a larger concentration radius, for at most {MOST_LISTED_BINS} bins"

    @property
    def has_exact_sampler(self) -> bool:
        return self.n_bins * self.count <= MOST_LISTED_BINS


@dataclass(frozen=True, kw_only=True)
class UserAggregation:
    """Means over users, released ``n_queries`` times under one budget.

    Vectors are clipped to the public ℓ2 norm ``bound`` B. ``interval`` is the level of the intervals of a
    mean that is released once. ``group`` is the number of a group of users, if groups are disjoint.
    """

    params: AggregatingEstimator
    releases: MeanReleases
    bound: float
    n_features: int
    n_queries: int
    interval: float | None = None
    group: int | None = None

    @cached_property
    def rotation(self) -> HadamardRotation:
        """The public rotation of vectors."""
        return HadamardRotation(self.n_features, PUBLIC_SEED)

    def plan(self, n_users: float) -> dict[str, Event]:
        """Return the slots of all releases; refuse too few users to find the ranges."""
        if self.params.aggregation != "winsorized":
            slots = self._clipped_slots()
        else:
            slots = self._ball_slots(n_users) if self._in_a_ball else self._column_slots(n_users)
            ranges = slots[self.releases.ranges.label]
            assert isinstance(ranges, BinSelection)
            self.params.check_range(n_users, ranges.n_bins, ranges.epsilon, ranges.count * self.n_queries)
        return {
            self._name(label): replace(slot, times=self.n_queries, group=self.group)
            for label, slot in slots.items()
        }

    def mean(self, spend: Spend, vectors: FloatArray, n_replicates: int = 1) -> FloatArray:
        """Release the mean of vectors (n, d) that replicates share, (d, R)."""
        users = _rows_of(vectors, n_replicates)
        if self.params.aggregation == "winsorized" and not self._in_a_ball:
            return self._by_column(spend, users)
        return users.by_column((self._refined if self._in_a_ball else self._clipped)(spend, users))

    @property
    def _size(self) -> int:
        return 1 << (self.n_features - 1).bit_length()

    @property
    def _in_a_ball(self) -> bool:
        """Whether winsorized vectors are clipped to a ball; otherwise rotated coordinates are, one by one."""
        is_tight = self.params.aggregation == "winsorized" and self.params.calibration == "tight"
        return is_tight and self._size > 1

    @property
    def _is_pure(self) -> bool:
        """Whether clipped means are single numbers that are released once: with pure ε."""
        return self.params.aggregation == "clipped" and self.n_features == self.n_queries == 1

    def _name(self, label: str) -> str:
        return label if self.group is None else f"{label} {self.group}"

    def _bins(self, width: float, epsilon: float) -> BinSelection:
        """Return the slot of the ranges of a query."""
        n_bins, ends = count_bins(self.bound, width), (-self.bound, self.bound)
        return BinSelection(epsilon, count=self._size, support=ends, n_bins=n_bins, times=self.n_queries)

    def _ball_slots(self, n_users: float) -> dict[str, Event]:
        """Return slots with the smallest noise at which T winsorized means of D coordinates are (ε, δ)-DP."""
        params, reserved = self.params, SHARES if self.interval else {}
        width = rotated_radius(params.concentration_radius, self._size, n_users, LEAVING) / 2
        gaussian, left = Gaussian(1.0, times=self.n_queries), 1 - sum(reserved.values())
        parts: tuple[Event, ...] = (self._bins(width, 1.0), gaussian, gaussian)
        labels = [release.label for release in self.releases]
        shares = {
            label: (left * share, part) for label, share, part in zip(labels, _SHARES, parts, strict=True)
        }
        shares |= {label: (share, gaussian) for label, share in reserved.items()}
        plan = concentrated_plan(params.epsilon, params.delta, shares)
        return least_noise_plan(params.epsilon, params.delta, plan, many=True)

    def _column_slots(self, n_users: float) -> dict[str, Event]:
        epsilon, of_interval = self._column_epsilon()
        slots: dict[str, Event] = {
            self.releases.ranges.label: self._bins(self._window(n_users).bin_width, epsilon),
            self.releases.last.label: Laplace(epsilon, count=self._size),
        }
        return slots | pure_slots(of_interval) if self.interval and self._size == 1 else slots

    def _clipped_slots(self) -> dict[str, Event]:
        params, last, has_interval = self.params, self.releases.last.label, bool(self.interval)
        if self._is_pure:
            epsilon, of_interval = pure_parts(params.epsilon, interval=has_interval)
            return {last: Laplace(epsilon), **(pure_slots(of_interval) if has_interval else {})}
        if params.calibration == "paper":
            return {last: Gaussian(self._printed_multiplier())}
        reserved = {label: Share(share) for label, share in SHARES.items()} if has_interval else {}
        left = 1 - sum(one.share for one in reserved.values())
        return {
            **gaussian_plan(params.epsilon, params.delta, {last: Share(left, self.n_queries), **reserved})
        }

    def _clipped(self, spend: Spend, users: Rows) -> FloatArray:
        """Release the mean of vectors clipped to B. A single number that is released once has pure ε."""
        ball = Ball.plain(users.zeros(users.d), self.bound)
        mean, std = self._release(spend, self.releases.last, users, ball)
        if self._is_pure:
            self._column_interval(spend, users, ball, users.by_column(mean), std)
        else:
            self._ball_interval(spend, users, ball, ReleasedOffset(mean, std))
        return mean

    def _refined(self, spend: Spend, users: Rows) -> FloatArray:
        """Release the mean by the three steps of the module."""
        rotation, vectors, (_, first, refined) = self.rotation, users.whole().X, self.releases
        tau, (d, size) = self.params.concentration_radius, (rotation.n_features, rotation.size)
        each = rotated_radius(tau, size, len(vectors), LEAVING)
        center = self._range(spend, rotation.rotate(vectors), each / 2)
        radius = tau + np.sqrt(size) * (each + each / 4)
        ball = Ball.plain(users.by_replicate(rotation.rotate_back(center)), radius)
        offset, _ = self._release(spend, first, users, ball)
        noise_std = spend.multiplier(self._name(first.label)) * ball_mean(ball.radius, users.n)
        moved = noise_std * (np.sqrt(d) + np.sqrt(2 * np.log(1 / LEAVING)))
        ball = Ball.plain(ball.center + offset, np.minimum(tau + moved, ball.radius))
        offset, std = self._release(spend, refined, users, ball)
        self._ball_interval(spend, users, ball, ReleasedOffset(offset, std))
        return ball.center + offset

    def _by_column(self, spend: Spend, users: Rows) -> FloatArray:
        """Release rotated coordinates one by one, (d, R): as printed, and in one dimension."""
        rotated, last = self.rotation.rotate(users.whole().X), self.releases.last
        window = self._window(users.n)
        center = self._range(spend, rotated, window.bin_width)
        half = np.full(center.shape[1], window.half_width)
        means = truncated_means(rotated, center, window.half_width)
        mean, std = spend.columns(self._name(last.label), ball_mean.of(means, half, users.n))
        if self._size == 1:
            ball = Ball.plain(users.by_replicate(center), window.half_width)
            self._column_interval(spend, _rows_of(rotated, center.shape[1]), ball, mean, std)
        return self.rotation.rotate_back(mean)

    def _range(self, spend: Spend, values: FloatArray, width: float) -> FloatArray:
        """Release the middle of a bin for every column of values (n, D), (D, R)."""
        label = self._name(self.releases.ranges.label)
        return private_range(spend, label, values, bound=self.bound, bin_width=width)

    def _release(self, spend: Spend, release: Release, users: Rows, ball: Ball) -> Noisy:
        """Release the mean offset from the center of a ball."""
        return spend(self._name(release.label), ball_mean.of(mean_offset(users, ball), ball.radius, users.n))

    def _ball_interval(self, spend: Spend, users: Rows, ball: Ball, offset: ReleasedOffset) -> None:
        """Keep the half-widths, if requested; the sampled units are users."""
        interval = interval_in_ball(users, spend, self.interval, ball, offset, NONE_UNSEEN)
        if interval is not None:
            spend.keep_interval(interval)

    def _column_interval(
        self, spend: Spend, users: Rows, ball: Ball, mean: FloatArray, std: FloatArray
    ) -> None:
        """Keep the half-width of the mean of a single column, whose noise is Laplace's, if requested."""
        if self.interval is None:
            return
        center, radius = users.by_column(ball.center), float(ball.radius)
        entries = TruncatedEntries(lower=center - radius, upper=center + radius, mean=mean)
        squares = users.by_column(mean_squares(users, ball)) / radius**2
        spread = RowSpread(squares, entries.shares_above(users), UNSEEN_ENTRIES)
        half_width = std / np.sqrt(2) * normal_equivalent(1, self.interval)
        spend.keep_interval(entry_interval(users, spend, self.interval, entries, spread, half_width))

    def _window(self, n_users: float) -> Window:
        """Return the window of columns that are winsorized one by one."""
        size, radius = self._size, self.params.concentration_radius
        if self.params.calibration == "tight":
            return FINE_WINDOW.scaled_by(radius)
        if size > 1:  # τ' of Algorithm 2
            radius = 10 * radius * float(np.sqrt(np.log(size * n_users / LEAVING) / size))
        return PRINTED_WINDOW.scaled_by(radius)

    def _column_epsilon(self) -> tuple[float, float]:
        """Return the ε of a column's range and of its mean, each, and of its interval."""
        if self.params.calibration == "tight":
            return planned_halves(self.params, self.n_queries, self.interval)
        (epsilon, delta), size = self._printed_budget(), self._size
        if size > 1:
            epsilon /= float(np.sqrt(8 * size * np.log(1 / delta)))
        return epsilon / 2, 0.0

    def _printed_multiplier(self) -> float:
        """Return the paper's noise standard deviation over the sensitivity 2B/n of replacing a user."""
        params = self.params
        if params.aggregation == "group_privacy":
            assert params.samples_per_user is not None
            m = params.samples_per_user
            delta = float(params.delta / m * np.exp(-(m - 1) * params.epsilon / m))
            # A row moves the mean by 2B / (nm).
            return float(np.sqrt(self.n_queries) / gaussian_mu(params.epsilon / m, delta)) / m
        epsilon, delta = self._printed_budget()
        return float(np.sqrt(2 * np.log(1.25 / delta)) / epsilon)

    def _printed_budget(self) -> tuple[float, float]:
        epsilon, delta, queries = self.params.epsilon, self.params.delta, self.n_queries
        if queries == 1:
            return epsilon, delta
        return float(epsilon / (2 * np.sqrt(2 * queries * np.log(2 / delta)))), delta / (2 * queries)


def _rows_of(vectors: FloatArray, n_replicates: int) -> Rows:
    """Return vectors (n, d) of users as rows, which replicates share."""
    return Rows.of_sample(Sample.of_vectors(vectors, n_replicates), is_batch=n_replicates > 1)


def planned_halves(
    params: AggregatingEstimator, n_queries: int, interval: float | None
) -> tuple[float, float]:
    """Return the ε of each range and of each mean of T winsorized means of one column, and of an interval."""
    left, of_interval = pure_parts(params.epsilon, interval=bool(interval))
    half = left * 0.5 / n_queries
    means = Laplace(half, times=n_queries)
    plan: dict[str, Event] = {"ranges": Selection(half, count=n_queries), "means": means}
    if interval:
        plan["squares"] = replace(means, epsilon=of_interval)
    noise = least_noise_plan(params.epsilon, params.delta, plan, many=True)
    halves = [slot.epsilon for slot in noise.values() if isinstance(slot, Laplace)]
    return halves[0], halves[1] if interval else 0.0


def mean_releases(name: str) -> MeanReleases:
    """Return the releases of a mean over users called ``name``."""
    return MeanReleases(
        Release(f"range of the {name}", count_sensitivity),
        Release(f"first {name}", ball_mean),
        Release(name, ball_mean),
    )


def private_range(
    spend: Spend, label: str, values: FloatArray, *, bound: float, bin_width: float
) -> FloatArray:
    """Release the middle (k, R) of a bin near the middle of every column of private values (n, k).

    Public: ``bound`` B, to which values are truncated, and ``bin_width`` w. The slot is a selection for each
    column, by the law of :mod:`dpalgos.mechanisms.private_range`.
    """
    epsilon = spend.slot(label, Selection).epsilon
    binned, (_, k) = BinnedColumns(values, bound, bin_width), values.shape

    def draw() -> IntArray:
        return binned.draw(epsilon, spend.noise.normal(2, k))

    if spend.lists_candidates:
        scores = count_sensitivity.of(-binned.costs_of_all()[..., None])
        return bin_middles(spend.choose_each(label, scores, draw), bound, bin_width)
    # Costs of a few public bins are recorded instead of those of all bins.
    probes = np.repeat(binned.costs_at_probes()[:, None], spend.noise.n_replicates, axis=1)
    released = spend.release(label, probes, lambda: draw().astype(float), sensitivity=count_sensitivity())
    return bin_middles(released, bound, bin_width)
