"""The plan of a preconditioned regression: its releases and their shares in order, from public numbers.

A plan brings each release to its share of μ² = μ(ε, δ)² and to how often it is made. Shares sum to 1. If only
the intercept is estimated, noise is Laplace noise, and shares are of ε. Size is nμ: a mean of n numbers
within ±1 that takes the whole budget would have noise 2/(nμ).

If rows have weights, or count up to a maximum per person, the sum of all weights is private. It is released
first, with Gaussian noise and a share by the public number of units. The rest is then planned again, with it
in place of n: weights of a tenth of their maximum are as few rows. All noise is then Gaussian, and the cost
is the same (:func:`dpalgos.core.other_plans.replan`).

- Below a limit, a model with an intercept estimates the intercept alone. The limit is 17 √(d + 1) and 30 for
  linear models, 20 √(d + 1) and 50 for counts, and 10 √(d + 1) for events.
- Below 40 √(d + 1) or 140, a linear model with an intercept has few rows. It takes eight steps at public
  thresholds. Before them, it searches for the median and the unit of the response.
- Below 15 √d, a linear model without an intercept has few rows.
- From 30 √d, an interval is possible. It takes its shares first.
- From 60 √d, rows may be whitened a second time, in place of the first step.
- From 140, the center and the unit of a linear model's response are released.
- From 100 √d, all columns of a linear model are centered at medians. With fewer rows, they are centered at
  two rounds of means. For other models, it is one round.

``dpcost estimators preconditioned_glm --n 5000 --d 9 --family logistic`` prints a plan in numbers.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpalgos.central.preconditioned.life_table import life_table_sensitivity
from dpalgos.central.preconditioned.scores import (
    curvature_sensitivity,
    people_residual_sensitivity,
    residual_sensitivity,
)
from dpalgos.core.estimator import Witnesses
from dpalgos.core.plans import Share
from dpalgos.intervals.tails import tail_sensitivity
from dpalgos.mechanisms.sensitivity import Lemmas, Neighbors, ball_mean, count, interval, outer_product
from dpalgos.models.families import Family
from dpalgos.tuning.threshold_search import counts_needed
from dpalgos.typing import FloatArray

ROBUST, LEAST_SQUARES = "robust", "least squares"


def _many_rows(params: Any, d: int) -> Neighbors:
    """A person with all rows that count, against a person with one row."""
    k = params.max_rows or 1
    return np.zeros((k, d)), np.zeros(k), np.zeros((1, d)), np.zeros(1)


# The total weight, the intercept, and the origin and unit of columns.
WEIGHT = "mean weight"
RESPONSES_ABOVE = "responses above a level"
LOGARITHM = "mean logarithm"
CONSTANT = "mean response"
EXPOSURE = "mean exposure"
MEDIANS = "values above a candidate center"
FAR_RESPONSES = "responses far from their center"
FAR_FROM_CENTERS = "rows far from centers"
MEANS = "means about centers"

LIFE_TABLE = "life table"

# Whitening and steps.
ROWS_ABOVE = "rows above a level"
MOMENTS = "second moments"
SCORES_ABOVE = "scores above a level"
WHITE_MOMENTS = "second moments of white rows"
STEP = "preconditioned score"
LAST_STEP = "last preconditioned score"
INSTEAD_OF_STEPS = WHITE_MOMENTS, CONSTANT

# The interval.
CURVATURES_ABOVE = "curvatures above a level"
CURVATURE = "curvature"
SCORE_MOMENTS = "score moments"
RESIDUAL = "mean residual"
PEOPLE_RESIDUAL = "mean residual of people"  # in place of the former
FAR_ROWS = "rows far away"
LATE_SCORE = "late scores"
WIDE_SCORE = "wide gradient"
TAIL = "shares by size"

LEMMAS: Lemmas = {
    WEIGHT: interval,
    RESPONSES_ABOVE: count,
    LOGARITHM: interval,
    CONSTANT: interval,
    EXPOSURE: interval,
    MEDIANS: count,
    FAR_RESPONSES: count,
    FAR_FROM_CENTERS: count,
    MEANS: ball_mean,
    LIFE_TABLE: life_table_sensitivity,
    ROWS_ABOVE: count,
    MOMENTS: outer_product,
    SCORES_ABOVE: count,
    WHITE_MOMENTS: outer_product,
    STEP: ball_mean,
    LAST_STEP: ball_mean,
    CURVATURES_ABOVE: count,
    CURVATURE: curvature_sensitivity,
    SCORE_MOMENTS: outer_product,
    RESIDUAL: residual_sensitivity,
    PEOPLE_RESIDUAL: people_residual_sensitivity,
    FAR_ROWS: count,
    LATE_SCORE: ball_mean,
    WIDE_SCORE: ball_mean,
    TAIL: tail_sensitivity,
}
WITNESSES: Witnesses = {WEIGHT: _many_rows}

_FEWEST = {"linear": (17.0, 30.0), "events": (10.0, 0.0), "counts": (20.0, 50.0)}  # nμ/√(d + 1), nμ of slopes
_FEW = 40.0
_NO_SEARCH = 15.0  # the nμ/√d from which thresholds are searched for, without an intercept
RESOLVABLE = 30.0  # the nμ/√d from which intervals are made
WHITENED_TWICE = 60.0  # the nμ/√d from which a first step may whiten
_MANY, _MANY_PER_ROOT = 140.0, 100.0  # the nμ from which the response's unit is found; per √d for medians

# Shares of μ², or of what is left of it. A share (needed/nμ)² is cut to a minimum and a maximum.
_WEIGHT = (300.0, 0.02, 0.05)  # with 1/10 of the rows' weight, a total is known to a few percent
_RATE, _EXPOSURE = (30.0, 0.01, 0.1), (10.0, 0.005, 0.05)
_MEAN_OF_COUNTS, _CUT = (30.0, 0.02, 0.6), (24.0, 0.01, 0.3)
_LOW_BOUND = 20.0  # alone, a search for a cut of counts costs two fifths of ε, and finds six times the mean
_MEDIAN, _MEDIANS = 8.0, (0.005, 0.08)  # n over the noise of a count: the rank error of a median is about n/8
_UNIT = (60.0, 0.01, 0.08)
_MEAN, _ONE_MEAN = (20.0, 0.02, 0.06), (40.0, 0.01, 0.05)  # times √d
_FEW_CENTER, _FEW_UNIT, _FEW_MEANS = 0.04, 0.05, 0.15
_LIFE_TABLE = 0.03
_FAR = 0.012  # for each round of means
_ALONE = {CONSTANT: 0.6, LOGARITHM: 0.4, EXPOSURE: 0.25}  # of ε, among those that are released
_ROWS_ABOVE, _SCORES_ABOVE = 0.0146, 0.0583
_FEW_MOMENTS, _FEW_STEPS = 0.25, 8
# The second is of single events, whose steps start at the pooled hazard.
_MOMENTS, _CURVATURE, _SCORE_MOMENTS = (0.1, 0.06), (0.04, 0.12), (0.015, 0.03)
_N_EARLY, _LATE = (9, 4), (0.8, 0.92)  # steps before the last ones, and the share of these
_LATE_SCORE = 0.05  # of an interval, for a check of proportional hazards
_MOVED = 0.02  # of rows with a cell that was moved to a bound

N_STEPS, N_CENTERED, N_SEARCHES, N_WHITENINGS = 12, 3, 7, 4
N_ROW_LEVELS, N_LEVELS, N_NEAR, N_COUNT_CUTS = 32, 16, 4, 16  # candidates of searches
N_FEW_CENTERS, N_FEW_UNITS, N_UNITS = 64, 8, 64
N_CENTERS = 2 * (12 * 4 + 24 * 32 + 26 * 8)

Shares = dict[str, Share]


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """The public numbers from which a plan follows; ``n_rows`` is the number of units of privacy."""

    n_rows: float
    d: int
    mu: float
    family: Family
    intercept: bool
    has_offset: bool = False
    interval: bool = False
    target: str = ROBUST
    has_private_total: bool = False  # whether weights are private, so that their total is released
    n_periods: int = 0  # of the life table of a time to an event
    hazard_limit: float = 1.25  # the cumulative hazard at which follow-up stops
    fixed_limit: float | None = None  # that limit, if it is a setting
    count_bound: float = np.inf  # the public maximum of counts

    @property
    def size(self) -> float:
        return self.n_rows * self.mu

    @property
    def root(self) -> float:
        return float(np.sqrt(self.d))

    @property
    def has_few_rows(self) -> bool:
        """Whether a linear model has too few rows to search for thresholds."""
        if not self.family.is_linear:
            return False
        few = max(_FEW * float(np.sqrt(self.d + 1)), _MANY) if self.intercept else _NO_SEARCH * self.root
        return self.size < few

    @property
    def may_omit_slopes(self) -> bool:
        """Whether the slopes are set to 0 if released steps show none."""
        return self.intercept and not self.interval and not self.family.classes and self.d > 1

    def row_clip(self, threshold: float) -> float:
        """Return the length over √d to which rows are shortened at a threshold of scores."""
        return threshold / (self.root * self.row_length)

    @property
    def row_length(self) -> float:
        """The factor of rows' lengths before they are compared with a threshold of scores."""
        return max(self.hazard_limit, 1.0) if self.has_single_events else 1.0

    @property
    def seeks_cut(self) -> bool:
        """Whether the cut of counts is released before their mean: a low public maximum is the cut itself."""
        return self.family.has_counts and not self.family.is_bounded and self.count_bound > _LOW_BOUND

    @property
    def has_single_events(self) -> bool:
        """Whether rows are of persons who have at most one event."""
        return self.family.has_counts and self.family.is_bounded

    def with_events(self, mean: float) -> "Numbers":
        """Return the numbers that follow from the released mean number of events of a person.

        If few persons have an event, few reach a cumulative hazard of 1. If many do, the limit rises with
        the number of persons and the budget: it then weights early hazards less.
        """
        if not self.has_single_events:
            return self
        if self.fixed_limit is not None:
            return replace(self, hazard_limit=self.fixed_limit)
        often = float(np.clip((mean - _RARE) / (_OFTEN - _RARE), 0, 1))
        most = _STOP * max(self.size / _MUCH, 1.0) ** _RISE
        return replace(self, hazard_limit=1 + often * (most - 1))

    def share(self, needed: float, least: float, most: float) -> float:
        return float(np.clip((needed / self.size) ** 2, least, most))


def shares_of(numbers: Numbers, total: float | None = None) -> Shares:
    """Return the releases in order, each with its share and how often it is made.

    If the total weight is private, its share follows from the public number of units. It is released first,
    and the rest is planned with the released ``total`` in place of the number of units.
    """
    if not numbers.has_private_total:
        return _shares_of_rows(numbers)
    own = numbers.share(*_WEIGHT)
    rest = _shares_of_rows(numbers if total is None else replace(numbers, n_rows=total))
    return {WEIGHT: Share(own), **_scaled(rest, 1 - own)}


def _scaled(shares: Shares, factor: float) -> Shares:
    return {label: one._replace(share=factor * one.share) for label, one in shares.items()}


def _shares_of_rows(numbers: Numbers) -> Shares:
    root = float(np.sqrt(numbers.d + 1))
    per_root, least = _FEWEST[_kind(numbers.family)]
    if numbers.intercept and numbers.size < max(per_root * root, least):
        return intercept_alone(numbers)
    of_interval = _interval(numbers)
    plan = _life_table(numbers) | _intercept(numbers) | _origin(numbers)
    left = 1 - _total(plan)
    if numbers.has_few_rows:
        return plan | {
            MOMENTS: Share(_FEW_MOMENTS * left),
            STEP: Share((1 - _FEW_MOMENTS) * left, _FEW_STEPS, INSTEAD_OF_STEPS),
        }
    plan[ROWS_ABOVE] = Share(left * _ROWS_ABOVE, counts_needed(N_ROW_LEVELS))
    plan[MOMENTS] = Share(left * _MOMENTS[numbers.has_single_events])
    if not numbers.family.is_bounded:
        n_counts = counts_needed(N_LEVELS) + (N_SEARCHES - 1) * counts_needed(N_NEAR)
        plan[SCORES_ABOVE] = Share(left * _SCORES_ABOVE, n_counts)
    steps = 1 - _total(plan)
    if numbers.interval and not numbers.family.is_linear:
        late, n_early = _LATE[numbers.has_single_events], _N_EARLY[numbers.has_single_events]
        plan[STEP] = Share((1 - late) * steps, n_early, INSTEAD_OF_STEPS)
        plan[LAST_STEP] = Share(late * steps, N_CENTERED, INSTEAD_OF_STEPS)
    else:
        plan[STEP] = Share(steps, N_STEPS, INSTEAD_OF_STEPS)
    rest = 1 - _total(of_interval)
    return _scaled(plan, rest) | of_interval


def _kind(family: Family) -> str:
    return "linear" if family.is_linear else "events" if family.is_bounded else "counts"


def _total(plan: Shares) -> float:
    return sum(one.share for one in plan.values())


def intercept_alone(numbers: Numbers) -> Shares:
    """Return the plan of the intercept alone; shares are of ε, or of μ² after a total weight."""
    parts = [LOGARITHM] * numbers.seeks_cut
    parts += [CONSTANT] + [EXPOSURE] * (numbers.has_offset and not numbers.family.is_linear)
    total = sum(_ALONE[part] for part in parts)
    return {part: Share(_ALONE[part] / total) for part in parts}


def _life_table(numbers: Numbers) -> Shares:
    """Events and times at risk by period, which give the scale of time."""
    return {LIFE_TABLE: Share(_LIFE_TABLE)} if numbers.n_periods else {}


def _intercept(numbers: Numbers) -> Shares:
    """The mean response of models that are not linear; steps for counts start at it in any case."""
    if numbers.family.is_linear or not (numbers.intercept or numbers.family.has_counts):
        return {}
    if not numbers.family.has_counts:
        return {CONSTANT: Share(numbers.share(*_RATE))}
    cut = Share(numbers.share(*_CUT), counts_needed(N_COUNT_CUTS))
    plan = {RESPONSES_ABOVE: cut} if numbers.seeks_cut else {}
    plan |= {CONSTANT: Share(numbers.share(*_MEAN_OF_COUNTS))}
    return plan | ({EXPOSURE: Share(numbers.share(*_EXPOSURE))} if numbers.has_offset else {})


def _origin(numbers: Numbers) -> Shares:
    """Centers of the columns, and the unit of a linear model's response."""
    if not numbers.family.is_linear:
        enough = numbers.intercept and numbers.d > 1 and numbers.size >= RESOLVABLE * numbers.root
        return _means(numbers, 1, _ONE_MEAN) if enough else {}
    units = {FAR_RESPONSES: Share(numbers.share(*_UNIT), counts_needed(N_UNITS))}
    if not numbers.intercept:
        return units if numbers.size >= _MANY else {}
    n_counts = counts_needed(N_CENTERS)
    if numbers.has_few_rows:
        return {
            MEDIANS: Share(_FEW_CENTER, counts_needed(N_FEW_CENTERS)),
            FAR_RESPONSES: Share(_FEW_UNIT, counts_needed(N_FEW_UNITS)),
            MEANS: Share(_FEW_MEANS, 2),
        }
    few = numbers.size < _MANY_PER_ROOT * numbers.root
    needed = _MEDIAN * np.sqrt(n_counts * (1 if few else numbers.d))
    units = {MEDIANS: Share(numbers.share(needed, *_MEDIANS), n_counts), **units}
    if few:
        return units | _means(numbers, 2, (2 * _MEAN[0], *_MEAN[1:]))
    means = {MEANS: Share(numbers.share(_MEAN[0] * numbers.root, *_MEAN[1:]))} if numbers.d > 1 else {}
    return units | means


def _means(numbers: Numbers, rounds: int, limits: tuple[float, float, float]) -> Shares:
    """Rounds of means, each of rows clipped where a search says."""
    needed, least, most = limits
    far = Share(rounds * _FAR, rounds * counts_needed(N_LEVELS))
    return {
        FAR_FROM_CENTERS: far,
        MEANS: Share(rounds * numbers.share(needed * numbers.root, least, most), rounds),
    }


def _interval(numbers: Numbers) -> Shares:
    """The releases of an interval; none without one, or with too few rows."""
    if not numbers.interval or numbers.size < RESOLVABLE * numbers.root:
        return {}
    single = numbers.has_single_events
    plan = {CURVATURES_ABOVE: Share(0.012, counts_needed(N_LEVELS)), CURVATURE: Share(_CURVATURE[single])}
    plan[SCORE_MOMENTS] = Share(_SCORE_MOMENTS[single])
    if numbers.target == LEAST_SQUARES:
        far_rows = {FAR_ROWS: Share(0.32)} if numbers.family.is_linear else {}
        return {WIDE_SCORE: Share(0.06)} | plan | {TAIL: Share(0.19)} | far_rows
    if numbers.family.is_bounded:
        late = {LATE_SCORE: Share(_LATE_SCORE)} if single and numbers.n_periods > 1 else {}
        return plan | {FAR_ROWS: Share(_MOVED), **late}
    return plan | {RESIDUAL: Share(0.055, forms=(PEOPLE_RESIDUAL,)), FAR_ROWS: Share(0.03)}


# Thresholds: a row beyond the threshold biases a mean by about C/n, noise moves it by about 2C√d/(nμ).

_ROWS = np.concatenate([np.geomspace(0.5, 8, 16), 8 * np.sqrt(2.0) ** np.arange(1, 17)])  # times √(d + 1)
_SCORES = np.geomspace(0.15, 24, N_LEVELS)  # times √d and the unit of residuals
_NEAR = np.geomspace(0.63, 1.41, N_NEAR)  # times the threshold of the step before
WHITE_ROWS, WHITE = np.geomspace(1, 4, N_NEAR), 1.25  # times √d; the second is the usual one
MOMENT_NOISE, _LEAST_ROWS = 0.2, 0.001
_CLIPPED_ROWS, _CLIPPED_SCORES, _REFERENCE_SIZE = 60.0, 20.0, 489.0
_MOST_ROWS, _MOST_SCORES = 0.9, 0.25  # of the rows; of scores that are not linear
_DETECTABLE = 4.0  # noise standard deviations of the smallest count that a search can see
_PEOPLE_LIMIT, _MUCH, _NO_LIMIT = 2.0, 1000.0, 8.0  # κ up to that nμ, and its maximum
_CLIP = 0.2  # times √d, of scores whose residuals are bounded
_WIDE, _WIDE_PER_SIZE = 1.5, 0.01  # noise of the mean is then 0.02 units or more
_FEW_CLIP = 0.05, 0.25  # least and most times √d and the unit of the response
_QUIET, _LONG = 0.02, 5.0  # times μ √n; times √d
_RARE, _OFTEN = 0.35, 0.7  # events of a person
_STOP, _RISE = 1.25, 0.23  # the cumulative hazard at which follow-up stops if events are frequent


def largest_length(d: int, n_rows: float, noise_multiplier: float) -> float:
    """Return the length to which white rows of lines are shortened: 5 √d, or more at large budgets.

    A rare column in a unit that is far too small then costs no more than it explains. At large budgets, noise
    of moments of rows of this length raises no eigenvalue by more than a tenth.
    """
    of_noise = MOMENT_NOISE * n_rows / (noise_multiplier * np.sqrt(2) * spectral_norm(d, 1.0))
    return float(max(_LONG * np.sqrt(d), np.sqrt(of_noise)))


def spectral_norm(d: int, noise_std: float) -> float:
    """Return about the spectral norm of the noise in moments: √(2d) of its diagonal standard deviation."""
    return float(1.2 * np.sqrt(d) * noise_std)


def row_search(numbers: Numbers, noise_std: float) -> tuple[FloatArray, float]:
    """Return candidates of the threshold of rows z, and how many rows are to exceed it."""
    target = max(_target(numbers, _CLIPPED_ROWS), _DETECTABLE * noise_std)
    target = max(target, _LEAST_ROWS * numbers.n_rows)
    return np.sqrt(numbers.d + 1) * _ROWS, min(target, _MOST_ROWS * numbers.n_rows)


def score_candidates(numbers: Numbers, unit: float, last: float | None) -> FloatArray:
    """Return candidates of the threshold of scores, near the ``last`` one; ``unit`` is that of residuals."""
    return numbers.root * unit * _SCORES if last is None else last * _NEAR


def clipped_scores(numbers: Numbers) -> float:
    """Return how many scores are to exceed their threshold."""
    most = _MOST_ROWS if numbers.family.is_linear else _MOST_SCORES
    return min(_target(numbers, _CLIPPED_SCORES), most * numbers.n_rows)


def mean_width(numbers: Numbers) -> float:
    """Return the units about its center at which a linear response is cut before its mean is released."""
    return max(_WIDE, numbers.size * _WIDE_PER_SIZE)


def public_threshold(numbers: Numbers) -> float:
    """Return the threshold of scores whose residuals are bounded: 0.2 √d (nμ/√d)^(1/5), or 0.02 μ √n.

    At the latter, noise is a tenth of the sampling error. It is the larger one at large budgets only, and at
    most 5 √d.

    For few rows of a linear model it is √d nμ/200 units of the response,
    and between 0.05 √d and 0.25 √d.

    If the model is right, clipping does not bias these scores, and noise is in proportion to the threshold.
    Therefore many are clipped: white rows have norms of about √d, and largest residuals of 1/2 to 1. If the
    model is wrong, clipped rows weigh less. Therefore the threshold rises with the number of rows.
    """
    if numbers.family.is_linear:
        return numbers.root * float(np.clip(numbers.size / 200, *_FEW_CLIP))
    of_limit = max(numbers.hazard_limit, 1.0) / _STOP if numbers.has_single_events else 1.0
    of_limit = np.sqrt(of_limit) if of_limit < 1 else of_limit
    low = _CLIP * numbers.root * (numbers.size / numbers.root) ** 0.2
    quiet = min(_QUIET * numbers.mu * float(np.sqrt(numbers.n_rows)), _LONG * numbers.root)
    return float(of_limit * max(low, quiet))


def people_limit(numbers: Numbers) -> float | None:
    """Return κ of the thresholds of people's counts, which rises with the budget.

    There are none for least squares, nor above κ = 8: one threshold then clips few people.
    """
    limit = float(_PEOPLE_LIMIT * max((numbers.size / _MUCH) ** 0.25, 1.0))
    return limit if numbers.target != LEAST_SQUARES and limit <= _NO_LIMIT else None


def _target(numbers: Numbers, base: float) -> float:
    """Return how many rows are to be clipped: about c √d/μ (nμ/489)^(−1/4)."""
    return float(base * numbers.root / numbers.mu * (numbers.size / _REFERENCE_SIZE) ** -0.25)
