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
from typing import Any

import numpy as np

from dpalgos.accounting.budget import Budget
from dpalgos.intervals.half_widths import (
    MEAN_SHARE,
    interval_shares,
    note_mean_interval,
    reach_along,
    release_score_moments,
)
from dpalgos.intervals.means import CUBE_SHARE, INTERVAL, TruncatedEntries
from dpalgos.intervals.tails import shares_by_level
from dpalgos.mechanisms.private_range import count_bins
from dpalgos.mechanisms.winsorized_mean import (
    FINE_WINDOW,
    PRINTED_WINDOW,
    HadamardRotation,
    RefinedMean,
    Window,
    WinsorizedNoise,
    rotated_radius,
    weighted_winsorized_mean,
    winsorized_mean,
    winsorized_means_by_column,
)
from dpalgos.release.transcript import Transcript
from dpalgos.steps.clipping import ball_mean, ball_mean_sensitivity, ball_squares
from dpalgos.steps.denoising import coordinate_std, normal_equivalent
from dpalgos.typing import FloatArray
from dpalgos.user_level.settings import (
    AggregationParams,
    check_range_is_found,
    planned_halves,
    planned_steps,
    users_budget,
)


class UserAggregation:
    """Releases means over users, ``n_queries`` times under one budget.

    Vectors are clipped to the ℓ2 norm ``bound`` B, public. ``interval`` is the level of the intervals of a
    mean that is released once. Where vectors are clipped only, a ``budget`` may be given: its part "steps" is
    for these releases, and the caller spends the others. With a ``least_weight`` winsorized means are
    weighted, by weights from it to 1.
    """

    def __init__(
        self,
        params: AggregationParams,
        *,
        bound: float,
        n_features: int,
        n_queries: int,
        interval: float | None = None,
        budget: Budget | None = None,
        least_weight: float | None = None,
    ) -> None:
        self._params, self._bound, self._n_queries, self._interval = params, bound, n_queries, interval
        self._least_weight = least_weight
        self._budget = budget or users_budget(
            params.epsilon, params.delta, {"steps": 1.0}, interval_shares(interval, MEAN_SHARE)
        )
        self._alone = n_features == n_queries == 1 and budget is None  # then noise is Laplace's
        self._rotation = HadamardRotation(n_features, params.public_seed)

    def check(self, n_users: float) -> None:
        """Refuse too few users to find the ranges; says how many are needed."""
        params, size = self._params, self._rotation.size
        if params.aggregation != "winsorized":
            return
        some: FloatArray = np.array([n_users])
        if self._in_a_ball:
            tau: FloatArray = np.array([params.concentration_radius])
            width = float(rotated_radius(tau, size, some, params.failure_probability)[0]) / 2
            epsilon = self._steps.range_epsilon
        else:
            window, radius, epsilon = self._columns(some)
            width = window.bin_width * float(radius[0])
        n_bins, times = count_bins(self._bound, width), size * self._n_queries
        check_range_is_found(n_users, n_bins, epsilon, times, params.range_failure)

    @property
    def _in_a_ball(self) -> bool:
        """Whether winsorized vectors are clipped as such; otherwise rotated coordinates are, one by one."""
        several = self._rotation.size > 1 and self._params.calibration == "tight"
        return several or self._least_weight is not None

    def mean(
        self,
        transcript: Transcript,
        vectors: Sequence[FloatArray],
        label: str,
        weights: Sequence[FloatArray] = (),
    ) -> FloatArray:
        """Release the mean of each replicate's vectors (n_r, d), (d, R), or that with weights (n_r,) each.

        Too few users to find the range are refused, with the number that is needed.
        """
        n_users = np.array([len(X) for X in vectors], dtype=float)
        for n in set(n_users.tolist()):
            self.check(n)
        if self._params.aggregation != "winsorized":
            return self._clipped(transcript, vectors, n_users, label)
        if self._in_a_ball:
            return self._refined(transcript, vectors, label, weights)
        return self._by_column(transcript, vectors, n_users, label)

    def _clipped(
        self, transcript: Transcript, vectors: Sequence[FloatArray], n_users: FloatArray, label: str
    ) -> FloatArray:
        """Release the mean of vectors clipped to B; that of a single number, released once, with pure ε."""
        center: FloatArray = np.zeros((vectors[0].shape[1], len(vectors)))
        radius = np.full(len(vectors), self._bound)
        clipped, sensitivity = ball_mean(vectors, center, radius), ball_mean_sensitivity(radius, n_users)
        if self._params.aggregation == "clipped" and self._alone:
            squares = {} if self._interval is None else {INTERVAL: CUBE_SHARE}
            budget = users_budget(self._params.epsilon, self._params.delta, {"mean": 1.0}, squares)
            epsilon = budget.split_epsilon("mean")
            mean = transcript.laplace(clipped, l1_sensitivity=sensitivity, epsilon=epsilon, label=label)
            noise_std = transcript.box_scale(sensitivity, epsilon, 1) * coordinate_std(1)
            one = RefinedMean(mean=mean, center=center, radius=radius, noise_std=noise_std)
            spent = budget.split_epsilon(INTERVAL) if squares else 0.0
            return self._column_mean_with_interval(transcript, vectors, one, spent)
        multiplier = self._clipped_multiplier()
        mean = transcript.gaussian(
            clipped, l2_sensitivity=sensitivity, noise_multiplier=multiplier, label=label
        )
        noise_std = transcript.noise_std(sensitivity, multiplier, len(center))
        released = RefinedMean(mean=mean, center=center, radius=radius, noise_std=noise_std)
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
        entries.note_interval(
            transcript,
            self._interval,
            squares=squares / one.radius**2,
            above=shares_by_level([entries.sizes(X, r)[:, 0] for r, X in enumerate(vectors)]),
            n_rows=n_users,
            noise_std=one.noise_std * normal_equivalent(1, self._interval) / coordinate_std(1),
            epsilon=epsilon,
        )
        return one.mean

    def _refined(
        self,
        transcript: Transcript,
        vectors: Sequence[FloatArray],
        label: str,
        weights: Sequence[FloatArray],
    ) -> FloatArray:
        public: dict[str, Any] = {
            "bound": self._bound,
            "radius": np.full(len(vectors), self._params.concentration_radius),
            "rotation": self._rotation,
            "noise": self._steps,
            "failure": self._params.failure_probability,
            "label": label,
        }
        if self._least_weight is not None:
            return weighted_winsorized_mean(transcript, vectors, weights, least=self._least_weight, **public)
        refined = winsorized_mean(transcript, vectors, **public)
        return self._mean_with_interval(
            transcript, vectors, refined, lambda part: self._steps.interval_multipliers[part]
        )

    @property
    def _steps(self) -> WinsorizedNoise:
        params, interval = self._params, self._interval is not None
        return planned_steps(params.epsilon, params.delta, self._rotation.size, self._n_queries, interval)

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
        above = shares_by_level(sizes)
        scores = release_score_moments(
            transcript, squares, above, bound=refined.radius, n_rows=n_users, multiplier=multiplier
        )
        along = reach_along(scores.moments, np.maximum(scores.moments, 0).sum(axis=0))
        note_mean_interval(
            transcript,
            self._interval,
            squares=scores.moments,
            squares_std=scores.std,
            offset=refined.mean - refined.center,
            noise_std=refined.noise_std,
            clipping=scores.tail.moved(along * refined.radius),
            n_rows=n_users,
        )
        return refined.mean

    def _by_column(
        self, transcript: Transcript, vectors: Sequence[FloatArray], n_users: FloatArray, label: str
    ) -> FloatArray:
        """Release rotated coordinates one by one: as printed, and in one dimension."""
        window, radius, epsilon = self._columns(n_users)
        rotated = {id(X): self._rotation.rotate(X) for X in vectors}
        turned = [rotated[id(X)] for X in vectors]
        released = winsorized_means_by_column(
            transcript,
            turned,
            bound=self._bound,
            radius=radius,
            window=window,
            range_epsilon=epsilon,
            mean_epsilon=epsilon,
            label=label,
        )
        if self._rotation.size == 1:
            self._column_mean_with_interval(transcript, turned, released, self._halves[1])
        return self._rotation.rotate_back(released.mean)

    def _columns(self, n_users: FloatArray) -> tuple[Window, FloatArray, float]:
        """Return window, radius (R,), and the ε of a column's range and of its mean."""
        params, size = self._params, self._rotation.size
        radius = np.full(len(n_users), params.concentration_radius)
        if params.calibration == "tight":
            return FINE_WINDOW, radius, self._halves[0]
        if size > 1:
            radius = printed_radius(radius, size, n_users, params.failure_probability)
        return PRINTED_WINDOW, radius, self._printed_epsilon() / 2

    @property
    def _halves(self) -> tuple[float, float]:
        params, interval = self._params, self._interval is not None
        return planned_halves(params.epsilon, params.delta, self._n_queries, interval)

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
            budget = users_budget(params.epsilon / m, float(delta), {"steps": 1.0}, {})
            return budget.gaussian_multiplier("steps", self._n_queries) / m
        epsilon, delta = self._printed_budget()
        return float(np.sqrt(2 * np.log(1.25 / delta)) / epsilon)

    def _printed_budget(self) -> tuple[float, float]:
        """Return the (ε, δ) of each query, Theorem 3."""
        epsilon, delta, queries = self._params.epsilon, self._params.delta, self._n_queries
        if queries == 1:
            return epsilon, delta
        return epsilon / (2 * np.sqrt(2 * queries * np.log(2 / delta))), delta / (2 * queries)

    def _printed_epsilon(self) -> float:
        """Return the ε of each rotated coordinate of a query, Algorithm 2."""
        epsilon, delta = self._printed_budget()
        size = self._rotation.size
        return epsilon if size == 1 else float(epsilon / np.sqrt(8 * size * np.log(1 / delta)))


def printed_radius(radius: FloatArray, size: int, n_users: FloatArray, failure: float) -> FloatArray:
    """Return τ' = 10 τ √(log(Dn/γ)/D) of Algorithm 2, (R,)."""
    return np.asarray(10 * radius * np.sqrt(np.log(size * n_users / failure) / size))
