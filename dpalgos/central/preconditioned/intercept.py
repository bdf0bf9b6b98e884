"""Where steps start: a released mean response, and the origin of rows [x, y].

**The mean response** of events, counts or classes. A positive mean m is released as r = m + noise of standard
deviation s. Its estimate is the mean of the normal distribution N(r, s²) truncated to positive values,
s (z + φ(z)/Φ(z)) with z = r/s. For events m is the share of the rarer label. With an offset the intercept
follows from the mean of e^offset, too: exactly for counts, nearly for rare events. If the mean shows that
slopes are not worth their noise, all that is left of the budget goes to further releases of it. Counts are
cut:

- Next to other releases, at three times the lowest power of two that no more counts exceed than noise may
  hide.
- Alone, at 6 (e^(m/q) − 1). Here m is the released mean of log(1 + y), and q the share of counts above zero:
  many zeros do not lower the cut. If q is less than four standard deviations of its noise, q is 1: a ratio of
  two noisy numbers would lead far up. For m counts are cut at 2¹⁵, or lower: its noise scale is at most
  a third. With L the largest logarithm, m and 0.3 L q are released together.

Alone, noise is Laplace noise. If a neighbor moves one number by Δ, its standard deviation is √2 Δ/ε. That is
less than the Δ/μ of Gaussian noise (14 Δ and 36 Δ at ε = 0.1, δ = 10⁻⁶).

**The origin.** The estimator works with (z_j − c_j x_d)/s_j, where x_d is the constant. The coefficients are
the same, except for the intercept. Medians are found for all columns at once by a search of eleven counts, to
six binary digits where units may lie. They need no unit to begin with. The unit of a linear model's response
is the lowest power of two that at most about 0.3 of the |y − c| exceed. With few rows, the median of the
response is found among 64 numbers within its bounds. Means of rows follow, about the medians or about 0,
clipped to a norm that is public or searched for. Each is shrunk by its noise.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy

from dpalgos.accounting.events import Gaussian
from dpalgos.accounting.other_events import Laplace
from dpalgos.cautions import CLIPPED_WEIGHTS, UNSURE_WEIGHT
from dpalgos.central.preconditioned.plan import (
    CONSTANT,
    EXPOSURE,
    FAR_FROM_CENTERS,
    FAR_RESPONSES,
    LOGARITHM,
    MEANS,
    MEDIANS,
    N_COUNT_CUTS,
    N_FEW_CENTERS,
    N_FEW_UNITS,
    N_LEVELS,
    N_UNITS,
    RESPONSES_ABOVE,
    WEIGHT,
    Numbers,
)
from dpalgos.central.preconditioned.queries import (
    Vectors,
    class_shares,
    clipped_mean,
    counts_above,
    counts_by_place,
    joined_in,
    mean_logarithm,
    mean_of_sums,
    mean_within,
)
from dpalgos.core.estimator import AnyEstimator
from dpalgos.core.record import Noisy
from dpalgos.core.rows import Block, Rows
from dpalgos.core.spend import Spend
from dpalgos.errors import InputError
from dpalgos.mechanisms.sensitivity import Bounded
from dpalgos.models.families import Family
from dpalgos.params import positive
from dpalgos.tuning.threshold_search import search
from dpalgos.typing import FloatArray, IntArray

_TINY = float(np.finfo(float).tiny)
_NORMAL = 1.96
_ENOUGH, _ENOUGH_EVENTS = 5.0, 6.0  # noise standard deviations at which slopes are worth their noise
_CUTS = 2.0 ** np.arange(N_COUNT_CUTS) - 0.5
_MOST_LARGE, _DETECTABLE = 0.25, 4.0  # of the rows; times the noise of a count
_ABOVE = 3.0  # times the power of two that is found; twice takes too much of the mean of skewed counts
_CUT_AT = 6.0  # times what the mean logarithm says
_LARGEST_COUNT = 2.0**15
_LARGEST_SCALE = 1 / 3  # of the noise in a mean logarithm
_WEIGHT, _CLEAR, _MARGIN = 0.3, 4.0, 2.0  # of q next to m; standard deviations of the noise in q
_CLIPPED_PART, _SURE_WEIGHT, _MOST_CLIPPED = 0.3, 0.15, 0.02  # next to a mean weight; parts of it
_WIDEST = 2.0  # units of the response of a linear model
_THRESHOLDS = np.geomspace(0.7, 64, N_LEVELS)  # times √p, of rows from centers
_FAR_ROWS, _SEEN = 0.15, 3.0  # the share of rows that are clipped; standard deviations of a count
_FAR_RESPONSES = 0.3
_BOUNDS, _CENTERED = 1.2, 0.6  # times √p: norms of rows at their bounds, and near means
_FAR_MEAN = 0.6  # of the second norm: a mean about centers
_ABOUT = 1.5  # times √p: norms of rows about medians

# Candidates of medians, between 2^low and 2^high, by binary digits after the first.
_LOWEST, _DIGITS = -24, 5
_RANGES = (-22, -10, 2), (-10, 14, _DIGITS), (14, 40, 3)
_SIZES = np.concatenate(
    [
        np.outer(2.0 ** np.arange(low, high), 1 + np.arange(1 << digits) / (1 << digits)).ravel()
        for low, high, digits in _RANGES
    ]
)
_CENTERS = np.concatenate([-_SIZES[::-1], _SIZES])
# The place of a number among centers, by its first bits: sign, exponent, digits.
_SIZE_PLACES = np.searchsorted(
    _SIZES, (np.arange(1 << 11 + _DIGITS) << 52 - _DIGITS).view(float), side="right"
)
_CENTER_PLACES = len(_SIZES) + np.concatenate([_SIZE_PLACES, -_SIZE_PLACES])


@dataclass(frozen=True, kw_only=True)
class CountBound(AnyEstimator):
    """The keyword of regressions whose response may be a count with a public maximum."""

    count_bound: float | None = positive(
        "with family='poisson': the public maximum of a response; by default found privately",
        default=None,
    )

    def check_count_bound(self, family: str) -> None:
        """Refuse the maximum of a response that is no count."""
        if self.count_bound is not None and family != "poisson":
            raise InputError(
                f"count_bound must be left out without family='poisson', got {self.count_bound!r}"
            )


def searched(
    spend: Spend, label: str, rows: Rows, lengths: Vectors, candidates: FloatArray, target: float
) -> float:
    """Release the first of m ascending candidates that at most about ``target`` lengths (n,) exceed."""
    return float(candidates[search(spend, label, counts_above(rows, lengths, candidates), target)[0]])


@dataclass(frozen=True, eq=False, kw_only=True)
class Start:
    """A released mean response, and what follows for residuals.

    Attributes
    ----------
    family : Family
    offset : float
        A typical one.
    value : () or (K,) array
        The released mean, of responses cut at ``largest`` if they are counts, or the predictors of classes.
    std : float
        The standard deviation of its noise.
    center : float
        The intercept about which residuals of a linear model are cut, at ``largest``.
    has_no_slopes : bool
        Whether released steps show no slopes.
    """

    family: Family
    offset: float
    value: FloatArray
    std: float = np.nan
    largest: float = 1.0
    center: float = 0.0
    has_no_slopes: bool = False

    @property
    def mean(self) -> float:
        """The mean count, or the share of the rarer label."""
        value = float(self.value)
        if self.family.has_counts:
            return positive_mean(value, self.std)
        return min(positive_mean(min(value, 1 - value), self.std), 0.5)

    @property
    def is_mean(self) -> bool:
        """Whether a mean count or a share of events was released."""
        return bool(np.isfinite(self.std))

    @property
    def predictor(self) -> FloatArray:
        """The linear predictor at the mean, () or (K,)."""
        if self.family.is_linear:
            return np.asarray(self.value + self.offset * self.has_no_slopes)
        if not self.is_mean:
            return self.value
        if self.family.has_counts:
            return np.asarray(np.log(self.mean))
        log_odds = np.log(self.mean / (1 - self.mean))
        return np.asarray(log_odds if self.value < 0.5 else -log_odds)

    @property
    def unit(self) -> float:
        """The unit of residuals."""
        return max(self.mean, 1.0) if self.family.has_counts else 1.0

    @property
    def least(self) -> float:
        """The minimum of thresholds of scores over √d.

        The scores of rare counts are not clipped below their own size: that would bias the intercept.
        """
        return max(1 - 2 * self.mean, 0.0) if self.family.has_counts else 0.0

    @property
    def is_unsure(self) -> bool:
        """Whether the mean is not known within a factor of two, at 95%."""
        return _NORMAL * self.std > self.mean / 2

    def hides_slopes(self, numbers: Numbers) -> bool:
        """Return whether the mean says that slopes are not worth their noise; with an interval they are.

        They are where m > k max(s, B √d/(nμ)): a score of d coordinates has √d times the noise of a number.
        """
        if self.has_no_slopes or not self.is_mean or numbers.interval:
            return self.has_no_slopes
        noise = max(self.std, self.largest * numbers.root / numbers.size)
        enough = _ENOUGH if self.family.has_counts else _ENOUGH_EVENTS
        return self.mean < enough * noise

    def query(self, rows: Rows) -> Bounded:
        """Return the mean of the cut responses; of a linear model, of residuals about the center.

        Residuals have 0 in the middle. A person of little weight adds nearly 0, not nearly the center.
        """
        if self.family.is_linear:
            return mean_within(rows, self._residuals, 2 * self.largest)
        encode, largest = self.family.encode, self.largest  # the first refuses what is no response
        return mean_of_sums(rows, lambda block: np.clip(encode(block.y)[..., 0], 0, largest), largest)

    def _residuals(self, block: Block) -> FloatArray:
        residuals = block.y - block.offset - self.center * block.X[:, -1]
        return np.clip(residuals, -self.largest, self.largest)

    def without_slopes(self, released: Noisy, largest: float) -> "Start":
        """Return the start of a model whose steps show no slopes; a linear one has a released intercept.

        The value is then that coefficient, next to which rows have their offsets.
        """
        if not self.family.is_linear:
            return replace(self, has_no_slopes=True)
        value, std = released.value, float(released.std)
        return replace(self, value=value, std=std, center=float(value), largest=largest, has_no_slopes=True)

    def after(self, again: Noisy) -> "Start":
        """Return the precision-weighted mean of this release and another one."""
        precision, other = self.std**-2, float(again.std) ** -2
        value = (precision * self.value + other * (again.value + self.center)) / (precision + other)
        return replace(self, value=value, std=float((precision + other) ** -0.5))


def with_released_total(spend: Spend, rows: Rows, largest: float, max_weight: float | None = None) -> Rows:
    """Release the mean weight of units, at least its noise; return the rows with the sum of weights.

    With weights of rows, the part of it that belongs to rows whose weights were clipped is released, too. Two
    units differ by at most ``largest`` in the first and by 1 in the second, which counts by 0.3.
    """
    row_weights = rows.sample.row_weights

    def values(block: Block) -> FloatArray:
        ones = np.ones(len(block.X))
        if row_weights is None or max_weight is None:
            return ones[:, None]
        return np.column_stack([ones, _CLIPPED_PART * (row_weights[block.rows] > max_weight)])

    count, has_weights = rows.n, max_weight is not None
    width = largest + _CLIPPED_PART * has_weights
    released = spend(WEIGHT, mean_within(rows, values, width))
    std, means = float(released.std), released.value
    mean = min(max(float(means[0]), std, 1 / count), 1.0)
    spend.note(UNSURE_WEIGHT, std > _SURE_WEIGHT * mean)
    if has_weights:
        spend.note(CLIPPED_WEIGHTS, float(means[1]) - _NORMAL * std > _CLIPPED_PART * _MOST_CLIPPED * mean)
    return rows.with_total(mean * count)


def released_start(spend: Spend, rows: Rows, family: Family, count_bound: float = np.inf) -> Start:
    """Release what the plan has of a mean response; counts are at most ``count_bound``."""
    offset = float(np.mean(rows.sample.offset_bounds or 0.0))
    start = Start(family=family, offset=offset, value=np.zeros(family.classes))
    if CONSTANT not in spend.plan:
        return start
    if family.is_linear:  # the width of declared bounds
        mean = mean_within(rows, lambda block: np.clip(block.y, -_WIDEST, _WIDEST), 2 * _WIDEST)
        return replace(start, value=np.clip(spend(CONSTANT, mean).value, -_WIDEST, _WIDEST))
    if family.classes:
        return replace(start, value=_class_predictors(spend, rows, family))
    if family.has_counts and not family.is_bounded:
        start = replace(start, largest=_cut_of_counts(spend, rows, count_bound))
    released = spend(CONSTANT, start.query(rows))
    offset = _typical_offset(spend, rows) if EXPOSURE in spend.plan else offset
    return replace(start, value=released.value, std=float(released.std), offset=offset)


def positive_mean(released: float, std: float) -> float:
    """Return E[m | m > 0] for m ~ N(released, std²)."""
    z = released / std
    log_ratio = -(z**2) / 2 - np.log(2 * np.pi) / 2 - scipy.special.log_ndtr(z)
    return float(max(std * (z + np.exp(log_ratio)), _TINY))


def _class_predictors(spend: Spend, rows: Rows, family: Family) -> FloatArray:
    """Release the shares of classes, and return predictors (K,) of which they are the means.

    A share below its noise counts as that.
    """
    released = spend(CONSTANT, class_shares(rows, family, in_l1=isinstance(spend.plan[CONSTANT], Laplace)))
    mean = np.maximum(released.value, np.maximum(released.std, _TINY))
    return np.asarray(np.log(mean / mean.sum()))


def _cut_of_counts(spend: Spend, rows: Rows, count_bound: float) -> float:
    """Return where counts are cut, at most at their public maximum."""
    if LOGARITHM in spend.plan:
        return min(_cut_alone(spend, rows, count_bound), count_bound)
    return min(_searched_cut(spend, rows), count_bound) if RESPONSES_ABOVE in spend.plan else count_bound


def _searched_cut(spend: Spend, rows: Rows) -> float:
    """Return three times the lowest power of two that no more counts exceed than noise may hide."""
    target = min(_DETECTABLE * spend.multiplier(RESPONSES_ABOVE), _MOST_LARGE * rows.n)
    return _ABOVE * searched(spend, RESPONSES_ABOVE, rows, lambda block: block.y, _CUTS, target)


def _cut_alone(spend: Spend, rows: Rows, count_bound: float) -> float:
    """Return where counts are cut, from the released means of logarithms and of counts above zero."""
    slot = spend.plan[LOGARITHM]
    assert isinstance(slot, Gaussian | Laplace)
    noise = slot.noise_multiplier if isinstance(slot, Gaussian) else 1 / slot.epsilon
    largest = float(min(_LARGEST_SCALE * rows.n / noise, np.log1p(min(_LARGEST_COUNT, count_bound))))
    weight = _WEIGHT * largest
    released = spend(LOGARITHM, mean_logarithm(rows, largest, weight))
    std = float(released.std)
    logarithm, share = float(released.value[0]), float(released.value[1]) / weight
    share = min(share + _MARGIN * std / weight, 1.0) if share > _CLEAR * std / weight else 1.0
    typical = np.expm1(np.clip(logarithm / share, min(std, largest), largest))
    return float(max(_CUT_AT * typical, 1.0))


def mean_exposure(rows: Rows) -> Bounded:
    """Return the mean over units of e^offset over its public upper bound, cut to [0, 1], ().

    A row whose constant, the last column, is 0 counts as left out. Exposures are in operational time.
    """
    assert rows.sample.offset_bounds is not None
    high = rows.sample.offset_bounds[1]

    def values(block: Block) -> FloatArray:
        exposures = np.exp(block.offset - high) * np.clip(block.X[:, -1], 0, 1)
        return exposures if block.follow_up is None else exposures * block.follow_up.hazard_ratios

    return mean_of_sums(rows, values, 1.0)


def _typical_offset(spend: Spend, rows: Rows) -> float:
    """Release the mean of e^offset, and return its logarithm."""
    assert rows.sample.offset_bounds is not None
    low, high = rows.sample.offset_bounds
    released = spend(EXPOSURE, mean_exposure(rows))
    least = np.maximum(released.std, np.exp(low - high))
    return float(high + np.log(np.clip(released.value, np.minimum(least, 1), 1)))


@dataclass(frozen=True, eq=False)
class Origin:
    """Released centers of the columns of [x, y], (d + 1,), and the released unit of y.

    ``is_far`` says whether rows are far from their centers. Columns are then not in their units.
    """

    centers: FloatArray
    unit: float = 1.0
    is_far: bool = False

    @property
    def coordinates(self) -> FloatArray:
        """B (d + 1, d + 1), with rows [x, y] B centered and in units."""
        units = self.units
        coordinates: FloatArray = np.diag(1 / units)
        coordinates[-2] -= self.centers / units  # the row of the constant, whose own center is 0
        return coordinates

    @property
    def units(self) -> FloatArray:
        """The units of all columns, (d + 1,)."""
        return np.append(np.ones(len(self.centers) - 1), self.unit)

    def placed(self, columns: IntArray, centers: FloatArray) -> "Origin":
        whole = self.centers.copy()
        whole[columns] = centers
        return replace(self, centers=whole)

    def moved(self, columns: IntArray, means: FloatArray) -> "Origin":
        """Return the origin whose centers of some columns are moved by means in units."""
        return self.placed(columns, self.centers[columns] + self.units[columns] * means)


def released_origin(spend: Spend, rows: Rows, *, linear: bool, few: bool) -> Origin:
    """Release the centers and the unit that the plan has; of models that are not linear, those of x alone.

    ``few`` says whether a linear model has few rows.
    """
    plan, d = spend.plan, rows.d
    columns = np.delete(np.arange(d + 1), d - 1) if linear else np.arange(d - 1)  # not the constant
    origin = Origin(np.zeros(d + 1))
    if few and MEDIANS in plan:
        origin = origin.placed(columns[-1:], np.array([_median_of_few(spend, rows)]))
    elif MEDIANS in plan:
        sought = columns[-1:] if FAR_FROM_CENTERS in plan else columns
        counts = counts_by_place(rows, sought, _CENTER_PLACES)  # between which candidates medians lie
        first = search(spend, MEDIANS, counts[:, ::-1].cumsum(axis=1)[:, ::-1], 0.5 * rows.n)
        origin = origin.placed(sought, (_CENTERS[np.maximum(first - 1, 0)] + _CENTERS[first]) / 2)
    if FAR_RESPONSES in plan:
        origin = replace(origin, unit=_response_unit(spend, rows, float(origin.centers[-1]), few=few))
    origin = replace(origin, centers=np.where(np.abs(origin.centers) <= origin.units, 0.0, origin.centers))
    about_medians = MEDIANS in plan and FAR_FROM_CENTERS not in plan and not few
    medians = origin
    root = float(np.sqrt(len(columns)))
    for t in range(plan[MEANS].times if MEANS in plan else 0):
        threshold = root * (_CENTERED if t else _BOUNDS)
        if about_medians:
            threshold = _ABOUT * float(np.sqrt(len(origin.centers)))
        vectors = joined_in(origin.coordinates[:, columns], with_response=linear)
        if FAR_FROM_CENTERS in plan:
            candidates = root * _THRESHOLDS
            target = max(_FAR_ROWS * rows.n, _SEEN * spend.multiplier(FAR_FROM_CENTERS))
            threshold = searched(spend, FAR_FROM_CENTERS, rows, vectors.lengths, candidates, target)
            if not t and threshold == candidates[-1]:  # noise misled the search for medians
                origin = replace(origin, centers=np.zeros_like(origin.centers), is_far=linear)
        released = spend(MEANS, clipped_mean(rows, vectors, threshold))
        if few and t:
            square = float((released.value**2).sum() - len(columns) * released.std**2)
            origin = replace(origin, is_far=square > (_FAR_MEAN * threshold) ** 2)
        noise = float(released.std**2) / np.maximum(released.value**2, _TINY)
        origin = origin.moved(columns, released.value * np.maximum(1 - noise, 0))
    if origin.is_far:  # noise of rows in wrong units hides the mean response
        return origin.placed(columns[-1:], medians.centers[-1:])
    return origin


def _median_of_few(spend: Spend, rows: Rows) -> float:
    """Release the median response within its bounds."""
    step = 2 * _WIDEST / N_FEW_CENTERS
    upper = np.linspace(step - _WIDEST, _WIDEST, N_FEW_CENTERS)
    return searched(spend, MEDIANS, rows, lambda block: block.y, upper, 0.5 * rows.n) - step / 2


def _response_unit(spend: Spend, rows: Rows, center: float, *, few: bool) -> float:
    """Return the lowest power of two that at most about a fifth of the responses exceed about a center."""
    units = 2.0 ** (np.arange(2 - N_FEW_UNITS, 2) if few else np.arange(N_UNITS) - N_UNITS // 2)

    def distances(block: Block) -> FloatArray:
        return np.abs(block.y - center * block.X[:, -1] if center else block.y)

    return searched(spend, FAR_RESPONSES, rows, distances, units, _FAR_RESPONSES * rows.n)
