"""The origin of rows [x, y]: released centers of columns, and the released unit of the response.

The estimator works with (z_j − c_j x_d)/s_j. The coefficients are the same, except for the intercept.

    c_j = the mean about the median, where the last column of X is the constant, x_d = 1
    s   = a power of two near the root mean square of y − c x_d; 1 for columns of x

- Medians are found for all columns at once by a search of eleven counts, to six binary digits where units may
  lie. They need no unit to begin with.
- The unit of the response comes from the numbers of rows with 2^k ≤ |y − c| < 2^(k+1), in which replacing a
  row moves two numbers by one. Only numbers that stand out of the noise count, for 4^(k + ½) a row. A unit
  smaller than the declared one needs most rows to stand out: others might be rare and large.
- Means are those of rows about the medians, clipped to a norm R of 1.5 √(p + 1): 2R/n. Each is shrunk by its
  noise. If a mean exceeds 2/3 of R, noise misled the search for the median, and the center is 0.
- Below nμ = 140, means come in two rounds, about 0 and about the first means. Rows are clipped to 2 √p, then
  to 1.2 √p or more, as the noise of the first round says.
- Between the two, four counts say how far rows lie from 0. Eight rounds of means follow, of rows about the
  last center, clipped to a norm that falls with what noise leaves unknown. One more count says whether rows
  are near now. If not, centers stay as they were: a column may be in a wrong unit.

Generalized linear models use medians of the columns of x alone, where they are far from 0. Indicators in
bounds (0, 1) lie at ±2 units. For counts, their median is a center. For events and classes, they stay.
"""

from dataclasses import dataclass, replace

import numpy as np

from dpalgos.central.preconditioned import plan as plans
from dpalgos.central.preconditioned.queries import (
    clipped_mean,
    columns,
    columns_and_response,
    counts_by_place,
    n_rows_of,
    row_norms,
)
from dpalgos.central.preconditioned.releases import DISTANCE, MEANS, MEDIANS, UNITS
from dpalgos.models.families import Family
from dpalgos.release.spend import Spend
from dpalgos.rows.sample import Grouped, Sample
from dpalgos.typing import FloatArray, IntArray

_DISTANCES = np.geomspace(0.7, 64, plans.N_DISTANCES)  # times √p, of rows from 0
_FAR_ROWS = 0.25  # the share of rows beyond the distance that is found
_CLOSE, _MOST_FAR = 2.0, 0.6  # times √p, and the share of rows that may lie farther from a center
_BOUNDS, _CENTERED = 2.0, 1.2  # times √p: the norm of rows at their bounds, and about their means
_MISLED = 2 / 3  # of the reach: rows lie on both sides of a median, so that no mean is so far from it

# Candidates of medians, between 2^low and 2^high, by binary digits after the first.
_LOWEST, _N_POWERS, _DIGITS = -24, 64, 5
_RANGES = (-22, -10, 2), (-10, 14, _DIGITS), (14, 40, 3)
_SIZES = np.concatenate(
    [
        np.outer(2.0 ** np.arange(low, high), 1 + np.arange(1 << digits) / (1 << digits)).ravel()
        for low, high, digits in _RANGES
    ]
)
_CENTERS = np.concatenate([-_SIZES[::-1], _SIZES])
# The place of a number among powers of two, and among centers, by its first bits: sign, exponent, digits.
_EXPONENTS = np.arange(1 << 11) - 1023 - _LOWEST + 1
_POWER_PLACES = np.clip(np.concatenate([_EXPONENTS, _EXPONENTS]), 0, _N_POWERS)
_SIZE_PLACES = np.searchsorted(
    _SIZES, (np.arange(1 << 11 + _DIGITS) << 52 - _DIGITS).view(float), side="right"
)
_CENTER_PLACES = len(_SIZES) + np.concatenate([_SIZE_PLACES, -_SIZE_PLACES])
_MOST_ROWS = 0.5  # of the rows, have to stand out where a unit is smaller than declared
_STANDS_OUT = 5.0  # noise standard deviations


@dataclass(frozen=True, eq=False)
class Origin:
    """Released centers of the columns of [x, y], (d + 1,), and the released unit of y."""

    centers: FloatArray
    unit: float = 1.0

    @property
    def coef(self) -> FloatArray:
        """The coefficients (d,) of the response's center alone."""
        coef = np.zeros(len(self.centers) - 1)
        coef[-1] = self.centers[-1]
        return coef

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
        units = np.ones(len(self.centers))
        units[-1] = self.unit
        return units


def released_origin(spend: Spend, sample: Sample) -> Origin:
    """Release the centers and the unit that the plan has, of the last columns of [x, y]."""
    d = sample.n_features
    origin, rows = Origin(np.zeros(d + 1)), columns_and_response(sample)
    others = np.delete(np.arange(d + 1), d - 1)  # all columns but the constant
    if MEDIANS in spend:
        columns = others[-1:] if DISTANCE in spend else others
        origin = _placed(origin, columns, _medians(spend, rows, columns))
    if UNITS in spend:
        origin = replace(origin, unit=_response_unit(spend, rows, origin.centers[-1]))
    origin = replace(origin, centers=np.where(np.abs(origin.centers) <= origin.units, 0.0, origin.centers))
    if DISTANCE in spend:
        return _means_of_few_rows(spend, rows, origin, others)
    if MEANS in spend and MEDIANS not in spend:
        return _means_about_middles(spend, rows, origin, others)
    if MEANS not in spend:
        return origin
    reach = plans.ROW_REACH * float(np.sqrt(d + 1))
    means, variance = _means(spend, rows, origin, reach, others)
    centers = origin.centers[others] + origin.units[others] * _shrunk(means, variance)
    return _placed(origin, others, np.where(np.abs(means) > _MISLED * reach, 0.0, centers))


def released_column_centers(spend: Spend, sample: Sample, family: Family) -> Origin:
    """Release centers of the columns of x except the constant, if the plan has them."""
    origin, chosen = Origin(np.zeros(sample.n_features + 1)), np.arange(sample.n_features - 1)
    if MEDIANS not in spend:
        return origin
    medians = _medians(spend, columns(sample), chosen)
    return _placed(
        origin, chosen, np.where(np.abs(medians) > plans.tuning_of(family).far_median, medians, 0.0)
    )


def _placed(origin: Origin, columns: IntArray, centers: FloatArray) -> Origin:
    whole = origin.centers.copy()
    whole[columns] = centers
    return replace(origin, centers=whole)


def _medians(spend: Spend, rows: Grouped[FloatArray], columns: IntArray) -> FloatArray:
    """Release between which candidates the medians of some columns lie, and return the middles, (p,)."""
    counts = counts_by_place(rows, columns, _CENTER_PLACES)
    above, each = counts[:, ::-1].cumsum(axis=1)[:, ::-1], np.arange(len(columns))
    medians = spend.searches(
        MEDIANS,
        above.shape[1],
        lambda middle: above[each, middle],
        (len(columns),),
        0.5 * n_rows_of(rows.sample),
    )
    return np.asarray((_CENTERS[np.maximum(medians - 1, 0)] + _CENTERS[medians]) / 2)


def _response_unit(spend: Spend, rows: Grouped[FloatArray], center: float) -> float:
    """Release the powers of two of the response, the last column, about its center; return its unit."""
    column = np.array([rows.sample.n_features])
    counts = counts_by_place(rows, column, _POWER_PLACES, float(center) or None)[0]
    released = spend(UNITS, counts)
    standing = np.where(released.value > _STANDS_OUT * released.std, released.value, 0.0)
    n_standing = float(standing.sum())
    if n_standing == 0:
        return 1.0
    mean = float(standing @ (2 * 4.0 ** (_LOWEST + np.arange(_N_POWERS)))) / n_standing
    power = float(np.round(np.log2(mean) / 2))
    if abs(power) == 1:  # a half and two count as right
        return 1.0
    return 2.0**power if power >= 0 or n_standing > _MOST_ROWS * n_rows_of(rows.sample) else 1.0


def _means(
    spend: Spend, rows: Grouped[FloatArray], origin: Origin, reach: float, others: IntArray
) -> tuple[FloatArray, float]:
    """Release means of rows about the origin, in units, clipped with the constant to a norm; (d,), variance.

    The mean of the constant itself is left out.
    """
    mean = clipped_mean(rows, origin.coordinates, reach)[others]
    released = spend(MEANS, mean, reach, n_rows_of(rows.sample))
    return released.value, float(released.std**2)


def _means_about_middles(spend: Spend, rows: Grouped[FloatArray], origin: Origin, others: IntArray) -> Origin:
    """Return the origin after rounds of means, the first about 0."""
    root, sums, precision = float(np.sqrt(len(others))), np.zeros(len(others)), 0.0
    reach = _BOUNDS * root
    for _ in range(plans.N_FEW_ROUNDS):
        means, variance = _means(spend, rows, origin, reach, others)
        sums, precision = sums + (origin.centers[others] + means) / variance, precision + 1 / variance
        origin = _placed(origin, others, _shrunk(sums / precision, 1 / precision))
        near = max(_CENTERED * root, float(np.sqrt(root**2 + (root + 1) ** 2 / precision)))
        reach = min(reach, near)
    return origin


def _means_of_few_rows(spend: Spend, rows: Grouped[FloatArray], origin: Origin, others: IntArray) -> Origin:
    """Return the origin after rounds of means, each about the last one."""
    n_rows, root = n_rows_of(rows.sample), float(np.sqrt(len(others)))

    def distance(origin: Origin, candidates: FloatArray, beyond: float) -> float:
        thresholds = root * candidates
        above = row_norms(rows, origin.coordinates).counts_above(thresholds)
        return spend.search(DISTANCE, thresholds, beyond * n_rows, above)

    reach = distance(origin, _DISTANCES, _FAR_ROWS)
    if reach == _DISTANCES[-1] * root:
        origin = replace(origin, centers=np.zeros_like(origin.centers))
    first, units = origin.centers[others], origin.units[others]
    near = min(reach, root)  # of rows about their own centers
    sums, precision, shifted = np.zeros_like(first), 0.0, origin
    for _ in range(plans.N_ROUNDS):
        means, variance = _means(spend, rows, shifted, reach, others)
        means = (shifted.centers[others] - first) / units + means
        sums, precision = sums + means / variance, precision + 1 / variance
        shifted = _placed(shifted, others, first + units * sums / precision)
        reach = min(reach, float(np.sqrt(near**2 + (root + 1) ** 2 / precision)))
    shifted = _placed(shifted, others, first + units * _shrunk(sums / precision, 1 / precision))
    is_lost = np.isinf(distance(shifted, np.array([_CLOSE, np.inf]), _MOST_FAR))
    return origin if is_lost else shifted


def _shrunk(means: FloatArray, variance: float) -> FloatArray:
    """Return means shrunk to 0 by their noise."""
    return np.asarray(means * np.maximum(1 - variance / np.maximum(means**2, np.finfo(float).tiny), 0))
