"""The mean of rows clipped to an ℓ2 ball around a center, in units of each column's spread (ours).

    m̂ = c + u · [ (1/n) Σ_i clip((x_i − c) / u, r) + N(0, sd² I_d) ],   clip shortens a vector to ℓ2 norm r

Guarantee: (ε, δ) under replacing one row; n is public. Public: either ``center`` c and ``clip_norm`` r, with
u = 1; or ``mean_bound`` B ≥ |μ_j| and ``std_bounds`` (low, high) of the columns' standard deviations. In the
second case the center is found privately, coarse to fine, by the same release from larger balls:

    c₀ = 0, s₀ = B;   c_k = the release with r_k = √d √(σ² + s²_(k−1)) + 2σ around c_(k−1), s_k its noise sd

If coordinates are independent with standard deviation σ = high, a row lies within √d √(σ² + s²) of the
center, up to 2σ. If low = high, that is the last ball, with u = 1. If low < high, then

    r₀ = of 16 levels the one that about 12√d/μ rows are outside of
    c  = one more release from that ball;   t_j² = the mean square of (x_j − c_j), released from that ball
    u_j = √t_j,   r = of 16 levels around r₀ √(Σ t_j / Σ t_j²) the one that about 4√d/μ rows are outside of

The noise in column j is then in proportion to √t_j, and its norm to Σ t_j instead of √d √(Σ t_j²). This is
the minimum for Gaussian noise of one size per column. The two are equal if all spreads are.

    release                   sensitivity (ℓ2)    share of μ²
    center                    2r/n                0.1; 0.08 if spreads differ
    rows outside a level      1                   0.03, if spreads differ
    spread                    √2 r²/n             0.05, if spreads differ
    rows outside the ball     1                   0.06, if spreads differ
    mean                      2r/n                the rest
    squares of offsets        √2 r²/n             0.05, with an interval
    shares of rows by size    √3/n                0.12, with an interval

Why it is private. The bracket is released, that is, the mean offset from the center. Rounding next to a
center that is large for the radius could move the mean itself by more than its sensitivity. Opposite rows on
the ball move the mean offset by 2r/n (:func:`dpalgos.mechanisms.sensitivity.ball_mean`). Rows on the ball
along two axes move the mean squares by √2 r₀²/n (:func:`dpalgos.mechanisms.sensitivity.outer_product`). One
row moves a count by 1. All releases are Gaussian with shares of μ² that sum to 1. Therefore they compose to
exactly (ε, δ), for any released centers, levels and spreads.

``shrinkage="james_stein"`` shrinks the estimate, in units of u, towards the public center (0 if the center is
private). It uses the release and its known noise level alone. For ``interval`` a row's size is its distance
over the radius (:mod:`dpalgos.intervals.means`).

Clipping biases the mean of skewed data. Take centered exponential columns, clipped at two standard deviations
above the typical norm (d = 20). The bias is below the sampling error up to n of about 20,000.

References
----------
Aumüller, Lebeda, Nelson & Pagh (2023), PLAN: variance-aware private mean estimation, for the units √t_j. They
find the spreads by quantiles; mean squares also count columns with rare values.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.catalog import Form, register
from dpalgos.core.ball import Ball, counts_above, mean_squares
from dpalgos.core.estimator import IntervalEstimator
from dpalgos.core.plans import Plan, Share, gaussian_plan
from dpalgos.core.rows import Rows
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError
from dpalgos.intervals.means import BALL_LEMMAS, SHARES, interval_in_ball, released_offset
from dpalgos.mechanisms.sensitivity import Lemmas, ball_mean, count, outer_product
from dpalgos.models.newton_steps import james_stein, shrinkage_choice
from dpalgos.params import check_for_columns, check_std_bounds, checked, for_columns, positive
from dpalgos.rows.products import truncate
from dpalgos.tuning.threshold_search import counts_needed, search
from dpalgos.typing import FloatArray

CENTER, OUTSIDE_LEVEL, SPREAD = "center", "rows outside a level", "spread"
OUTSIDE_BALL, MEAN = "rows outside the ball", "mean"
_N_LEVELS = 16
_OUTSIDE_LEVEL, _OUTSIDE_BALL = 12.0, 4.0  # times √d/μ rows
_BALL_LEVELS = np.geomspace(0.4, 3.2, _N_LEVELS)
_REDUCTION = 30.0  # by which a coarse mean is expected to improve on the center before it, at least


@register(
    name="clipped_mean",
    title="Clipped mean",
    order=14,
    task="mean",
    reference="ours; centered, clipped in ℓ2",
    summary="The mean of rows clipped to a ball, with noise in proportion to the columns' spreads.",
    calibrations=("tight",),
    example={"mean_bound": 1.0, "std_bounds": (0.6, 0.6)},
    forms={
        "interval": Form(keywords={"interval": 0.95}),
        "private radius": Form(keywords={"std_bounds": (0.2, 1.0)}),
        "interval, private radius": Form(keywords={"std_bounds": (0.2, 1.0), "interval": 0.95}),
        "public center": Form(
            keywords={"mean_bound": None, "std_bounds": None, "center": 0.1, "clip_norm": 2.0}
        ),
        "people": Form(
            keywords={"mean_bound": None, "std_bounds": None, "center": 0.1, "clip_norm": 2.0},
            of_people=True,
            in_memory=True,
        ),
    },
    public="mean_bound and std_bounds, or center and clip_norm",
    takes_people=True,
)
@dataclass(frozen=True, kw_only=True)
class ClippedMean(IntervalEstimator):
    """The mean of rows clipped to a ball: a public one, or one that is found within bounds."""

    center: tuple[float, ...] | None = checked(
        "public center c: a number or one per column", check_for_columns, default=None, optional=True
    )
    clip_norm: float | None = positive("r: rows are clipped to this distance from the center", default=None)
    mean_bound: float | None = positive(
        "B: every coordinate of the mean lies in ±B (private center)", default=None
    )
    std_bounds: tuple[float, float] | None = checked(
        "(low, high) of the columns' standard deviations; equal if known (private center)",
        check_std_bounds,
        default=None,
        optional=True,
    )
    shrinkage: str | None = shrinkage_choice()

    batch = True
    lemmas: ClassVar[Lemmas] = {
        CENTER: ball_mean,
        OUTSIDE_LEVEL: count,
        SPREAD: outer_product,
        OUTSIDE_BALL: count,
        MEAN: ball_mean,
        **BALL_LEMMAS,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        public = (self.center is not None, self.clip_norm is not None)
        private = (self.mean_bound is not None, self.std_bounds is not None)
        if (public, private) not in (((True, True), (False, False)), ((False, False), (True, True))):
            raise InputError(
                "clipped_mean needs either center and clip_norm, or mean_bound and std_bounds, got "
                f"center={self.center!r}, clip_norm={self.clip_norm!r}, mean_bound={self.mean_bound!r}, "
                f"std_bounds={self.std_bounds!r}"
            )

    @property
    def spreads_differ(self) -> bool:
        return self.std_bounds is not None and self.std_bounds[0] < self.std_bounds[1]

    @property
    def n_stages(self) -> int:
        """How many coarse means lead to the center: two, or more for a wide public range."""
        assert self.mean_bound is not None
        assert self.std_bounds is not None
        return max(2, int(np.ceil(np.log(self.mean_bound / self.std_bounds[1]) / np.log(_REDUCTION))))

    def public_center(self, d: int) -> FloatArray:
        assert self.center is not None
        return for_columns("center", self.center, d)

    def plan(self, n: float, d: int) -> Plan:
        shares: dict[str, Share] = {}
        if self.mean_bound is None:
            self.public_center(d)
        elif not self.spreads_differ:
            shares[CENTER] = Share(0.1, self.n_stages)
        else:
            n_counts, each = counts_needed(_N_LEVELS), 0.08 / (self.n_stages + 1)
            shares[f"{CENTER} 0"] = Share(self.n_stages * each, self.n_stages)
            shares[OUTSIDE_LEVEL] = Share(0.03, n_counts)
            shares[f"{CENTER} 1"] = Share(each)
            shares |= {SPREAD: Share(0.05), OUTSIDE_BALL: Share(0.06, n_counts)}
        of_interval = {} if self.interval is None else {label: Share(one) for label, one in SHARES.items()}
        left = 1 - sum(one.share for one in (shares | of_interval).values())
        return gaussian_plan(self.epsilon, self.delta, shares | {MEAN: Share(left)} | of_interval)

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        towards = rows.zeros(rows.d)
        if self.clip_norm is not None:
            towards = rows.by_replicate(self.public_center(rows.d))
            ball = Ball.plain(towards, self.clip_norm)
        else:
            ball = self.private_ball(rows, spend)
        offset = released_offset(rows, spend, MEAN, ball)
        released = ball.center + ball.unit * offset.value
        interval = interval_in_ball(rows, spend, self.interval, ball, offset)
        if interval is not None:
            spend.keep_interval(interval)
        if self.shrinkage == "james_stein":
            relative = rows.by_column((released - towards) / ball.unit)
            released = towards + ball.unit * rows.by_replicate(james_stein(relative, offset.noise_std**2))
        return released

    def private_ball(self, rows: Rows, spend: Spend) -> Ball:
        """Release a center, and the radius and units that suit it."""
        assert self.mean_bound is not None
        assert self.std_bounds is not None
        bound, (low, high) = self.mean_bound, self.std_bounds
        root_d, center, error = np.sqrt(rows.d), rows.zeros(rows.d), rows.zeros() + bound
        first = f"{CENTER} 0" if self.spreads_differ else CENTER
        for _ in range(self.n_stages):
            ball = Ball.plain(center, root_d * np.sqrt(high**2 + error**2) + 2 * high)
            offset = released_offset(rows, spend, first, ball)
            center, error = truncate(center + offset.value, bound), np.minimum(offset.noise_std, bound)
        if not self.spreads_differ:
            return Ball.plain(center, root_d * np.sqrt(high**2 + error**2) + 2 * high)

        levels = root_d * np.sqrt(np.geomspace(low, high, _N_LEVELS) ** 2 + error[..., None] ** 2)
        ball = Ball.plain(center, ball.radius)
        ball = Ball.plain(center, self.searched(rows, spend, OUTSIDE_LEVEL, ball, levels))
        offset = released_offset(rows, spend, f"{CENTER} 1", ball)
        center, error = truncate(center + offset.value, bound), np.minimum(offset.noise_std, bound)
        query = outer_product.of(mean_squares(rows, ball), ball.radius, rows.n, rows.d)
        squares, std = (np.asarray(each) for each in spend(SPREAD, query))
        variance = np.maximum(squares - offset.value**2 + error[..., None] ** 2, 0) + std[..., None]
        spread = np.sqrt(np.clip(variance, low**2, high**2) + error[..., None] ** 2)
        ratio = np.sqrt(spread.sum(axis=-1) / (spread**2).sum(axis=-1))
        ball = Ball(center, ball.radius, np.sqrt(spread))
        levels = (ball.radius * ratio)[..., None] * _BALL_LEVELS
        return Ball(center, self.searched(rows, spend, OUTSIDE_BALL, ball, levels), ball.unit)

    def searched(self, rows: Rows, spend: Spend, label: str, ball: Ball, levels: FloatArray) -> FloatArray:
        """Release which of ascending levels (…, 16) about a public number of rows exceed, (…,)."""
        factor = _OUTSIDE_LEVEL if label == OUTSIDE_LEVEL else _OUTSIDE_BALL
        target = factor * np.sqrt(rows.d) / gaussian_mu(self.epsilon, self.delta)
        above = counts_above(rows, ball, levels)[..., None, :]
        chosen = search(spend, label, above, min(target, rows.n / 2))
        return np.asarray(np.take_along_axis(levels, chosen, axis=-1)[..., 0])
