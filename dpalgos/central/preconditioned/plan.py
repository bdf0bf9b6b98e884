"""How a preconditioned regression spends its budget, from public numbers alone: n, d, ε, δ and the model.

Size is nμ: a mean of n numbers within ±1 that takes the whole budget would have noise 2/(nμ).

- Below k √(d + 1), a model with an intercept estimates the intercept alone, with Laplace noise. k is 24 for
  events and 30 for other models.
  Without an intercept, a linear model of few rows takes steps at public thresholds, and shrinks its slopes.
- Below 140, a linear model stays in its declared units. Its columns are centered at means.
- From 100 √d, columns are centered at medians.
- From 30 √d, an interval is possible.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dpalgos.central.preconditioned.releases import (
    CONSTANT,
    DISTANCE,
    EXPOSURE,
    LAST_STEP,
    LOGARITHM,
    MEANS,
    MEDIANS,
    MOMENTS,
    RESPONSES_ABOVE,
    ROWS_ABOVE,
    SCORES_ABOVE,
    STEP,
    UNITS,
    WEIGHT,
)
from dpalgos.models.families import Family
from dpalgos.release.declared import Release
from dpalgos.release.spend import counts_needed
from dpalgos.typing import FloatArray

RESOLVABLE = 30.0  # the nμ/√d from which intervals are made
_ENOUGH, _ENOUGH_PER_ROOT = 140.0, 100.0  # the nμ from which the origin is released; per √p for medians

# Shares of μ². A share (needed/nμ)² is cut to a minimum and a maximum.
_MEAN_SHARE, _CUT_SHARE, _EXPOSURE_SHARE = (30.0, 0.02, 0.6), (24.0, 0.01, 0.3), (10.0, 0.005, 0.05)
_RATE_SHARE, _WEIGHT_SHARE = (30.0, 0.01, 0.1), (10.0, 0.005, 0.05)
_ORIGIN_SHARES = {MEDIANS: (0.005, 0.08), UNITS: (0.01, 0.03), MEANS: (0.02, 0.06), DISTANCE: (0.008, 0.008)}
_ALONE = {CONSTANT: 0.6, LOGARITHM: 0.4, EXPOSURE: 0.25, WEIGHT: 0.25}  # of ε, among those that are released
_MOMENT_SHARE, _START_SHARE = 0.1, 0.02  # of what the origin leaves
_ROW_SHARE, _SCORE_SHARE = 0.0875 / 6, 0.35 / 6  # the same, for searches of thresholds
_MEAN_STD = 0.15  # noise in a mean, in units
_FEW_MEANS = 10.0, 0.05, 0.3  # the share of means about the middle of units, times √d
_SURE_OF_MEDIANS = 8.0  # n over the noise of a count: the rank error of a median is about n/8
_STANDS_OUT, _HIDDEN = (
    5.0,
    0.06,
)  # noise standard deviations of a detectable count; the largest undetected share of rows

N_STEPS, N_WHITENINGS, N_SEARCHES = 12, 4, 7  # the first may whiten rows again; the first search thresholds
N_CENTERED, _LATE_SHARE = 3, 0.8  # the last steps, at which intervals of nonlinear models are centered
N_ROUNDS, N_FEW_ROUNDS = 8, 2  # of means about the last center, where rows are few
_FEW_STEPS, _FEW_MOMENTS, _LEFT_OUT, _NO_INTERCEPT = 5, 0.2, 2, 15.0  # the last is nμ/√d
_TOO_FEW = 14.0  # below this nμ the estimate is mostly noise, and shrinks by the square of the shortfall
_REACH = 5.0  # times √d: a rare column in a unit far too small costs no more than it explains

# The sizes of searches: candidates of each.
N_ROW_LEVELS, N_LEVELS, N_RESPONSES, N_COUNT_CUTS, N_DISTANCES, N_CURVATURES = 32, 16, 32, 16, 16, 16
N_CENTERS = 2 * (12 * 4 + 24 * 32 + 26 * 8)


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Constants of Newton steps for a kind of family.

    Attributes
    ----------
    few_rows : float
        The nμ/√(d + 1) below which slopes are not worth their noise.
    step_ridge : float
        Times √d and the noise of a score: what is added to the curvature for a step.
    step_size : float
        The part of a Newton step that is taken.
    most_clipped : float
        The largest share of rows whose scores are clipped.
    far_median : float
        The distance from 0, in units, from which the median of a column is its center.
    """

    few_rows: float = 24.0
    step_ridge: float = 0.75
    step_size: float = 1.0
    most_clipped: float = 0.25
    far_median: float = 2.25


_LINEAR = Tuning(few_rows=30.0, step_ridge=0.0, most_clipped=0.9)
_COUNTS = Tuning(few_rows=30.0, step_ridge=1.5, step_size=0.85, far_median=1.25)


def tuning_of(family: Family) -> Tuning:
    """Return the constants for a family's kind."""
    if family.is_linear:
        return _LINEAR
    return _COUNTS if family.has_counts else Tuning()


@dataclass(frozen=True, kw_only=True)
class FitPlan:
    """The releases with their shares of μ² (of ε, where only the intercept is estimated), and the steps."""

    shares: Mapping[Release, float]
    times: Mapping[Release, int] = field(default_factory=dict)  # the number of releases; by default 1
    size: float  # nμ
    mu: float
    n_steps: int = 0
    n_whitenings: int = 0  # the number of first steps that may whiten rows again
    n_searches: int = 0  # of thresholds, at the first steps
    row_threshold: float | None = None  # public, in place of a search
    score_threshold: float | None = None  # the same
    longest: float | None = None  # the maximum norm of white coefficients
    n_left_out: int = 0  # the number of first steps that the combination omits
    intercept_only: bool = False
    for_interval: bool = False
    # The length to which white rows of linear models are shortened, with their responses.
    reach: float = np.inf

    def relative_clip(self, d: int) -> float:
        """The public threshold of scores over √d; infinite without one."""
        return np.inf if self.score_threshold is None else self.score_threshold / float(np.sqrt(d))


def plan_of(
    mu: float,
    n_rows: float,
    d: int,
    family: Family,
    *,
    intercept: bool,
    has_offset: bool = False,
    for_interval: bool = False,
    has_private_total: bool = False,
) -> FitPlan:
    """Return how the budget is spent; ``has_private_total`` tells that the sum of weights is released."""
    size, root = mu * n_rows, float(np.sqrt(d))
    first = {WEIGHT: _share(size, *_WEIGHT_SHARE)} if has_private_total else {}
    if intercept and size < tuning_of(family).few_rows * np.sqrt(d + 1):
        parts = [*first, CONSTANT, *[LOGARITHM] * family.has_counts, *[EXPOSURE] * has_offset]
        total = sum(_ALONE[part] for part in parts)
        shares = {part: _ALONE[part] / total for part in parts}
        return FitPlan(shares=shares, size=size, mu=mu, intercept_only=True)
    if family.is_linear and not intercept and size < _NO_INTERCEPT * root:
        return _few_rows(mu, size, d, first, for_interval=for_interval)
    times: dict[Release, int] = {}
    shares = {}
    if family.is_linear:
        shares, times = _origin(size, d, intercept=intercept)
    elif intercept:
        shares, times = _intercept(size, d, family, has_offset=has_offset)
    elif family.has_counts:
        shares, times = {RESPONSES_ABOVE: _START_SHARE}, {RESPONSES_ABOVE: counts_needed(N_RESPONSES)}
    shares = first | {part: share * (1 - sum(first.values())) for part, share in shares.items()}
    left = 1 - sum(shares.values())
    shares |= {MOMENTS: left * _MOMENT_SHARE, ROWS_ABOVE: left * _ROW_SHARE}
    if not family.is_bounded:
        shares |= {SCORES_ABOVE: left * _SCORE_SHARE}
    shares |= {STEP: 1 - sum(shares.values())}
    n_early = N_STEPS
    if for_interval and not family.is_linear:
        n_early = N_STEPS - N_CENTERED
        shares |= {STEP: (1 - _LATE_SHARE) * shares[STEP], LAST_STEP: _LATE_SHARE * shares[STEP]}
        times |= {LAST_STEP: N_CENTERED}
    times |= {ROWS_ABOVE: counts_needed(N_ROW_LEVELS), SCORES_ABOVE: N_SEARCHES * counts_needed(N_LEVELS)}
    return FitPlan(
        shares=shares,
        times={**times, STEP: n_early},
        size=size,
        mu=mu,
        n_steps=N_STEPS,
        n_whitenings=N_WHITENINGS,
        n_searches=N_SEARCHES,
        for_interval=for_interval,
        reach=_REACH * root if family.is_linear and not for_interval else np.inf,
    )


def _few_rows(
    mu: float, size: float, d: int, first: Mapping[Release, float], *, for_interval: bool
) -> FitPlan:
    """Return the plan of a linear model of few rows: five steps at public thresholds.

    Noise moves a mean of d columns by about √d C/nμ, so that C falls with nμ, down to a part of √d.
    """
    return FitPlan(
        shares={**first, MOMENTS: _FEW_MOMENTS, STEP: 1 - _FEW_MOMENTS - sum(first.values())},
        times={STEP: _FEW_STEPS},
        size=size,
        mu=mu,
        n_steps=_FEW_STEPS,
        n_left_out=_LEFT_OUT,
        row_threshold=float(np.sqrt(d + 1)),
        score_threshold=float(np.sqrt(d)) * max(0.07, size / 200),
        longest=(size / _TOO_FEW) ** 2 if size < _TOO_FEW else None,
        reach=np.inf if for_interval else _REACH * float(np.sqrt(d)),
    )


def _origin(size: float, d: int, *, intercept: bool) -> tuple[dict[Release, float], dict[Release, int]]:
    """Return shares and numbers of releases for centers of the columns of [x, y] and the unit of y.

    All columns but the constant have centers: about medians where there are enough rows for the counts, else
    by rounds of means from 0.
    """
    if not intercept:
        return ({UNITS: _cut(_unit_share(size), UNITS)} if size >= _ENOUGH else {}), {}
    if size < _ENOUGH:
        needed, least, most = _FEW_MEANS
        return {MEANS: _share(size, needed * float(np.sqrt(d)), least, most)}, {MEANS: N_FEW_ROUNDS}
    if size < _ENOUGH_PER_ROOT * np.sqrt(d):
        shares = {MEDIANS: medians_share(1, size), UNITS: _unit_share(size), DISTANCE: 0.0}
        shares |= {MEANS: (_mean_std(d, size, 1.0) / _MEAN_STD) ** 2}
        times = {MEANS: N_ROUNDS, DISTANCE: counts_needed(N_DISTANCES) + 1}
    else:
        shares = {MEDIANS: medians_share(d, size), UNITS: _unit_share(size)}
        shares |= {MEANS: (_mean_std(d, size, ROW_REACH) / _MEAN_STD) ** 2} if d > 1 else {}
        times = {}
    order = [part for part in (MEDIANS, UNITS, MEANS, DISTANCE) if part in shares]
    return {part: _cut(shares[part], part) for part in order}, {**times, MEDIANS: counts_needed(N_CENTERS)}


ROW_REACH = 1.5  # times √p: the norm to which rows about their medians are clipped


def _intercept(
    size: float, d: int, family: Family, *, has_offset: bool
) -> tuple[dict[Release, float], dict[Release, int]]:
    """Return shares and numbers of releases for the intercept, and for centers of the columns of x."""
    needed = {CONSTANT: _RATE_SHARE}
    times: dict[Release, int] = {}
    if family.has_counts:
        needed = {CONSTANT: _MEAN_SHARE, RESPONSES_ABOVE: _CUT_SHARE}
        needed |= {EXPOSURE: _EXPOSURE_SHARE} if has_offset else {}
        times = {RESPONSES_ABOVE: counts_needed(N_COUNT_CUTS)}
    shares = {part: _share(size, *limits) for part, limits in needed.items()}
    if d > 1 and size >= _ENOUGH_PER_ROOT * np.sqrt(d - 1):
        left = 1 - sum(shares.values())
        shares[MEDIANS] = left * _cut(medians_share(d - 1, size), MEDIANS)
        times[MEDIANS] = counts_needed(N_CENTERS)
    return shares, times


def _share(size: float, needed: float, least: float, most: float) -> float:
    return float(np.clip((needed / size) ** 2, least, most))


def _cut(share: float, part: Release) -> float:
    return float(np.clip(share, *_ORIGIN_SHARES[part]))


def medians_share(n_columns: int, size: float) -> float:
    """Return the share of μ² by which medians are found where ``size`` is nμ."""
    return counts_needed(N_CENTERS) * n_columns * (_SURE_OF_MEDIANS / size) ** 2


def _unit_share(size: float) -> float:
    """Return the share of μ² at which few rows stay undetected in the search for a unit."""
    return (_STANDS_OUT * float(np.sqrt(2)) / (_HIDDEN * size)) ** 2


def _mean_std(n_columns: int, size: float, reach: float) -> float:
    """Return the standard deviation of means that take all of μ², in units."""
    return 2 * reach * float(np.sqrt(n_columns)) / size


# Thresholds: a row beyond the threshold biases a mean by about C/n, noise moves it by about 2C√d/(nμ).

_ROWS = np.concatenate(
    [np.geomspace(0.5, 8, N_LEVELS), 8 * np.sqrt(2.0) ** np.arange(1, 17)]
)  # times √(d + 1)
_WHITE_ROWS = np.geomspace(0.5, 4, N_LEVELS)  # times √d
_SCORES = np.geomspace(0.15, 24, N_LEVELS)  # times √d and the unit of residuals
_NEAR = np.geomspace(0.5, 1.41, N_LEVELS)  # times the threshold of the step before
_CLIPPED_ROWS, _CLIPPED_SCORES = 60.0, 20.0
_CLIP = 0.2  # times √d, of scores whose residuals are bounded
WHITE_THRESHOLD = 1.25  # times √d, of white rows next to them
_MOST_ROWS = 0.9  # of the rows
_DETECTABLE = 4.0  # noise standard deviations of the smallest count that a search can see
_REFERENCE_SIZE = 489.0


class Search(NamedTuple):
    """Candidate thresholds in ascending order, and the target number of rows above the chosen one."""

    candidates: FloatArray
    target: float


def row_search(plan: FitPlan, n_rows: float, d: int, noise_std: float) -> Search:
    """Return the search for the threshold of rows z, whose counts have noise of ``noise_std``."""
    target = _target(plan, n_rows, d, _CLIPPED_ROWS, _MOST_ROWS, _DETECTABLE * noise_std)
    return Search(np.sqrt(d + 1) * _ROWS, target)


def step_search(
    plan: FitPlan,
    family: Family,
    n_rows: float,
    d: int,
    *,
    whitens: bool,
    last: float | None,
    unit: float,
) -> Search:
    """Return the search for the threshold of white rows, or of scores near to the ``last`` threshold.

    ``unit`` is that of residuals.
    """
    root = float(np.sqrt(d))
    target = _target(plan, n_rows, d, _CLIPPED_SCORES, tuning_of(family).most_clipped)
    if whitens:
        return Search(root * _WHITE_ROWS, target)
    return Search(root * (_SCORES * unit) if last is None else last * _NEAR, target)


def public_threshold(mu: float, n_rows: float, d: int) -> float:
    """Return the threshold of scores whose residuals are bounded: 0.2 √d (nμ/√d)^(1/5).

    If the model is right, clipping does not bias these scores, and noise is in proportion to the threshold.
    Therefore many are clipped: white rows have norms of about √d, and largest residuals of 1/2 to 1. If the
    model is wrong, clipped rows weigh less. Therefore the threshold rises with the number of rows.
    """
    root = float(np.sqrt(d))
    return float(_CLIP * root * (n_rows * mu / root) ** 0.2)


def _target(plan: FitPlan, n_rows: float, d: int, base: float, most: float, least: float = 0.0) -> float:
    """Return how many rows are to be clipped: about c √d/μ (nμ/489)^(−1/4), at most a share ``most``."""
    target = base * float(np.sqrt(d)) / plan.mu * (n_rows * plan.mu / _REFERENCE_SIZE) ** -0.25
    return float(min(max(target, least), most * n_rows))
