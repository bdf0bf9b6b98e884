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

import numpy as np

from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.catalog import Form, Release, register
from dpalgos.errors import InputError
from dpalgos.intervals.means import (
    BALL_SQUARES,
    BALL_TAIL,
    ReleasedOffset,
    interval_in_ball,
    interval_plan,
)
from dpalgos.mechanisms.sensitivity import ball_mean, count, outer_product
from dpalgos.models.shrinkage import james_stein, shrinkage_choice
from dpalgos.params import IntervalParams, checked, positive
from dpalgos.release.checks import check_for_columns, check_std_bounds, for_columns
from dpalgos.release.spend import Planned, Spend, counts_needed, left_of
from dpalgos.release.transcript import Transcript
from dpalgos.rows.ball import Ball, counts_above, mean_offset, mean_squares
from dpalgos.rows.clipping import truncate
from dpalgos.rows.grouped import Grouped, map_groups
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

_N_LEVELS = 16
_OUTSIDE_LEVEL, _OUTSIDE_BALL = 12.0, 4.0  # times √d/μ rows
_BALL_LEVELS = np.geomspace(0.4, 3.2, _N_LEVELS)
_REDUCTION = 30.0  # by which a coarse mean is expected to improve on the center before it, at least


@dataclass(frozen=True, kw_only=True)
class ClippedMeanParams(IntervalParams):
    """Keywords of :func:`clipped_mean`: a public center and radius, or bounds to find them within."""

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


CENTER = Release("center", ball_mean)
OUTSIDE_LEVEL = Release("rows outside a level", count)
MEAN = Release("mean", ball_mean)
SPREAD = Release("spread", outer_product)
OUTSIDE_BALL = Release("rows outside the ball", count)
RELEASES = (
    CENTER,
    OUTSIDE_LEVEL,
    MEAN,
    SPREAD,
    OUTSIDE_BALL,
    BALL_SQUARES,
    BALL_TAIL,
)


@register(
    title="Clipped mean",
    order=14,
    task="mean",
    reference="ours; centered, clipped in ℓ2",
    summary="The mean of rows clipped to a ball, with noise in proportion to the columns' spreads.",
    calibrations=("tight",),
    example={"mean_bound": 1.0, "std_bounds": (0.6, 0.6)},
    releases=RELEASES,
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
def clipped_mean(sample: Sample, params: ClippedMeanParams, transcript: Transcript) -> FloatArray:
    """Return the mean, (d, R)."""
    spend = Spend.of_plan(transcript, params.epsilon, params.delta, plan_of(params))
    if params.clip_norm is not None:
        towards = _public_center(params, sample.n_features)
        ball = Ball(towards, np.full(sample.n_replicates, params.clip_norm))
    else:
        towards, ball = np.zeros((sample.n_features, 1)), _private_ball(sample, params, spend)
    offset, std = spend(MEAN, ball_mean.of(mean_offset(sample, ball), ball.radius, sample.n_rows))
    released = ball.center + ball.unit * offset
    transcript.interval = interval_in_ball(
        spend, params.interval, sample, ball, ReleasedOffset(offset, std, sample.n_rows)
    )
    spend.check_complete()
    if params.shrinkage == "james_stein":
        shrunk = james_stein((released - towards) / ball.unit, std**2)
        released = towards + ball.unit * shrunk
    return released


def plan_of(params: ClippedMeanParams) -> dict[Release, Planned]:
    """Return the shares of μ² of all releases."""
    plan, differ = interval_plan(params, BALL_SQUARES, BALL_TAIL), params.spreads_differ
    if params.mean_bound is not None:
        plan[CENTER] = Planned(0.08 if differ else 0.1, _n_stages(params) + differ)
    if differ:
        n_counts = counts_needed(_N_LEVELS)
        plan |= {OUTSIDE_LEVEL: Planned(0.03, n_counts), SPREAD: Planned(0.05)}
        plan |= {OUTSIDE_BALL: Planned(0.06, n_counts)}
    return plan | {MEAN: Planned(left_of(plan))}


def _n_stages(params: ClippedMeanParams) -> int:
    """Return how many coarse means lead to the center: two, or more for a wide public range."""
    assert params.mean_bound is not None
    assert params.std_bounds is not None
    return max(2, int(np.ceil(np.log(params.mean_bound / params.std_bounds[1]) / np.log(_REDUCTION))))


def _public_center(params: ClippedMeanParams, d: int) -> FloatArray:
    assert params.center is not None
    return for_columns("center", params.center, d)


def _private_ball(sample: Sample, params: ClippedMeanParams, spend: Spend) -> Ball:
    """Release a center, and the radius and units that suit it."""
    assert params.mean_bound is not None
    assert params.std_bounds is not None
    bound, (low, high) = params.mean_bound, params.std_bounds
    d, root_d = sample.n_features, np.sqrt(sample.n_features)

    def moved(ball: Ball) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Release the mean offset from the center; return the next center and its error, too."""
        offset, std = spend(CENTER, ball_mean.of(mean_offset(sample, ball), ball.radius, sample.n_rows))
        return offset, truncate(ball.center + offset, bound), np.minimum(std, bound)

    def searched(ball: Ball, levels: FloatArray, factor: float, release: Release) -> FloatArray:
        """Release which of ascending levels (16, R) about factor · √d/μ rows exceed."""
        target = factor * root_d / gaussian_mu(params.epsilon, params.delta)
        distances: Grouped[FloatArray] = map_groups(
            sample, lambda group: ball.distances(group) * group.weights, all_replicates=True
        )
        above = counts_above(distances, levels)
        chosen = spend.searches(
            release,
            _N_LEVELS,
            lambda middle: above(middle[0])[None],
            (1, sample.n_replicates),
            np.minimum(target, sample.n_rows / 2),
        )[0]
        return np.asarray(levels[chosen, np.arange(sample.n_replicates)])

    center: FloatArray = np.zeros((d, sample.n_replicates))
    error = np.full(sample.n_replicates, bound)
    for _ in range(_n_stages(params)):
        ball = Ball(center, root_d * np.sqrt(high**2 + error**2) + 2 * high)
        _, center, error = moved(ball)
    if not params.spreads_differ:
        return Ball(center, np.asarray(root_d * np.sqrt(high**2 + error**2) + 2 * high))

    levels = root_d * np.sqrt(np.geomspace(low, high, _N_LEVELS)[:, None] ** 2 + error**2)
    ball = Ball(center, ball.radius)
    ball = Ball(center, searched(ball, levels, _OUTSIDE_LEVEL, OUTSIDE_LEVEL))
    offset, center, error = moved(ball)
    squares, std = spend(SPREAD, outer_product.of(mean_squares(sample, ball), ball.radius, sample.n_rows, d))
    variance = np.maximum(squares - offset**2 + error**2, 0) + std
    spread = np.sqrt(np.clip(variance, low**2, high**2) + error**2)
    levels = ball.radius * np.sqrt(spread.sum(axis=0) / (spread**2).sum(axis=0)) * _BALL_LEVELS[:, None]
    ball = Ball(center, ball.radius, np.sqrt(spread))
    radius = searched(ball, levels, _OUTSIDE_BALL, OUTSIDE_BALL)
    return Ball(center, radius, ball.unit)
