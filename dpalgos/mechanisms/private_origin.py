"""Units and centers of rows [x, y], released: an estimator then works with (z_j − c_j x_d) / s_j.

    s_j = 2^(k − 1),  2^k the lowest power of two that about a quarter of the magnitudes exceed
    c_j = the mean about the median, where the last column of X is the constant, x_d = 1

Units are found by a search of six counts for each of p columns at once, of which replacing a row moves every
count by 1. Of normal values of standard deviation 1 the quarter lies at 1.15, so that s is 1, and nothing
changes where the declared unit was right; s = 1/2 counts as right, too. Columns get a unit, up to 256, only
if they are more than four times too large: where most values are small the others may be large but rare (an
indicator), and a smaller unit would have them clipped.

The constant of a generalized linear model follows from the mean response: numbers up to 1, indicators of
classes, or counts cut at a level that a search of four counts finds, about 3 % of them exceed it. With an
offset it follows from the mean of e^offset, too: exactly for counts, nearly for rare events.

Centered rows have the same regressions, with another constant. Medians are found among public candidates by
such a search: for the response all numbers of four binary digits, so that it needs no unit, for columns odd
numbers up to 63 of their units. Means are those of rows about the medians, in units, clipped to norm 1.5√p:
opposite rows, 3√p/n. A median within one unit of 0 counts as 0, and a mean is shrunk by its noise. The
response is centered where nμ ≥ 140, columns where nμ ≥ 70√p, too: below that counts say too little.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.mechanisms.clip_levels import (
    counts_above_places,
    counts_needed,
    search_by_counts,
    search_level,
    with_response,
)
from dpalgos.models.families import Family
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Group, Sample
from dpalgos.steps.clipping import ball_mean_sensitivity
from dpalgos.steps.moments import clipped_row_sums
from dpalgos.typing import FloatArray, IntArray

CONSTANT, RESPONSES_ABOVE, EXPOSURE = "mean response", "responses above a level", "mean exposure"
LARGEST_RESPONSE = "largest response"
_COUNTS = 2.0 ** np.arange(16) - 0.5
_LARGE_COUNTS, _MOST_LARGE, _TOLD = 0.03, 0.25, 4.0  # of the rows; and times the noise of a count
# Shares of μ²: a number over nμ, squared; at least and at most.
_MEAN_SHARE, _LEVEL_SHARE, _EXPOSURE_SHARE = (30.0, 0.02, 0.6), (24.0, 0.01, 0.3), (10.0, 0.005, 0.05)

UNITS = "values above a level"
_POWERS = np.arange(-24, 40)
UNIT_COUNTS = counts_needed(len(_POWERS))
_ABOVE = 0.25  # of the rows
_TOO_LARGE, _LARGEST = 4.0, 256.0  # the unit from which a column gets it; larger ones would cost digits
_SURE_OF_UNITS = 16.0  # the rows over the noise of a count: errors are then four standard deviations away
_UNIT_SHARES = (0.01, 0.08)

MEDIANS, MEANS = "values above a candidate center", "means about the medians"
RESPONSE_MEDIAN, COLUMN_MEDIANS = "response median", "column medians"
_SIZES = (2.0 ** np.arange(-24, 40)[:, None] * (1 + np.arange(8) / 8)).ravel()
_OF_RESPONSE = np.concatenate([-_SIZES[::-1], _SIZES])
_OF_COLUMNS = np.arange(-63.0, 64.0, 2.0)
_RESPONSE_COUNTS, _COLUMN_COUNTS = counts_needed(len(_OF_RESPONSE)), counts_needed(len(_OF_COLUMNS))
_REACH = 1.5  # times √p, of rows about their medians
_ENOUGH, _ENOUGH_PER_ROOT = 140.0, 70.0  # the nμ from which centers are released, the second times √p
_SURE_OF_MEDIANS = 10.0  # the rows over the noise of a count: a median is found within a tenth of the rows
_MEAN_STD = 0.15  # of a mean, in units
_MEDIAN_SHARES, _MEAN_SHARES = (0.005, 0.08), (0.02, 0.05)


def counts_sensitivity(n_columns: int) -> float:
    """Return √p: replacing a row moves the count of each of p columns by one at most."""
    return float(np.sqrt(n_columns))


def units_share(size: float) -> float:
    """Return the share of μ² at which counts of responses are sure where ``size`` is nμ; 0: too much."""
    share = UNIT_COUNTS * (_SURE_OF_UNITS / size) ** 2
    return 0.0 if share > _UNIT_SHARES[1] else float(max(share, _UNIT_SHARES[0]))


def constant_shares(size: float, *, has_offset: bool) -> dict[str, float]:
    """Return the shares of μ² that a mean of counts takes where ``size`` is nμ: more the fewer rows."""
    parts = {CONSTANT: _MEAN_SHARE, LARGEST_RESPONSE: _LEVEL_SHARE}
    parts |= {EXPOSURE: _EXPOSURE_SHARE} if has_offset else {}
    return {
        part: float(np.clip((rate / size) ** 2, least, most)) for part, (rate, least, most) in parts.items()
    }


def mean_response_sensitivity(n_rows: FloatArray, largest: FloatArray, *, of_classes: bool) -> FloatArray:
    """Return c/n for responses within [0, c], and √2/n for indicators of classes, of which two change."""
    return np.asarray((np.sqrt(2) if of_classes else largest) / n_rows)


def private_constant(
    transcript: Transcript, sample: Sample, family: Family, budget: SplitBudget
) -> FloatArray:
    """Release the mean response, and return the predictor of which it is the mean, (R,) or (K, R).

    Counts are cut at a level that is released first. A mean below its noise counts as that.
    """
    n_rows, classes = sample.n_rows, bool(family.classes)
    largest: FloatArray = np.ones(transcript.n_replicates)
    if not np.isfinite(family.residual_bound):
        multiplier = budget.gaussian_multiplier(LARGEST_RESPONSE, counts_needed(len(_COUNTS)))
        wanted = np.maximum(_LARGE_COUNTS * n_rows, _TOLD * multiplier)
        largest = search_level(
            transcript,
            _COUNTS,
            np.minimum(wanted, _MOST_LARGE * n_rows),
            sample.grouped(lambda group: np.asarray(group.y[:, None] * group.weights)),
            noise_multiplier=multiplier,
            label=RESPONSES_ABOVE,
        )

    def part(group: Group, y: FloatArray) -> FloatArray:
        cut = np.minimum(y, largest[group.replicates])
        weights = group.weights[:, None] if classes else group.weights
        return np.asarray((cut * weights).sum(axis=0))

    encoded = sample.grouped(lambda group: np.maximum(family.encode(group.y), 0))
    total = encoded.total((*family.classes, transcript.n_replicates), part)
    sensitivity = mean_response_sensitivity(n_rows, largest, of_classes=classes)
    multiplier = budget.gaussian_multiplier(CONSTANT)
    released = transcript.gaussian(
        np.atleast_2d(total / n_rows),
        l2_sensitivity=sensitivity,
        noise_multiplier=multiplier,
        label=CONSTANT,
    )
    noise = transcript.noise_std(sensitivity, multiplier, len(released))
    mean = np.maximum(released, np.maximum(noise, np.finfo(float).tiny))
    if classes:
        return np.asarray(np.log(mean / mean.sum(axis=0)))
    if np.isfinite(family.residual_bound):
        mean = np.minimum(mean, np.maximum(1 - noise, 0.5))
        return np.asarray(np.log(mean / (1 - mean))[0])
    return np.asarray(np.log(mean)[0])


def mean_exposure_sensitivity(n_rows: FloatArray) -> FloatArray:
    """Return 1/n: e^offset over its public upper bound, times a constant in [0, 1], lies in [0, 1]."""
    return np.asarray(1 / n_rows)


def private_typical_offset(transcript: Transcript, sample: Sample, budget: SplitBudget) -> FloatArray:
    """Release the mean of e^offset, and return its logarithm, (R,).

    A row whose constant, the last column, is 0 counts as left out.
    """
    assert sample.offset_bounds is not None
    low, high = sample.offset_bounds

    def part(group: Group, constant: FloatArray) -> FloatArray:
        return np.asarray((np.exp(group.offset - high) * constant * group.weights).sum(axis=0)[None])

    constants = sample.grouped(lambda group: np.clip(group.X[:, -1:], 0, 1))
    sensitivity = mean_exposure_sensitivity(sample.n_rows)
    multiplier = budget.gaussian_multiplier(EXPOSURE)
    released = transcript.gaussian(
        constants.total((1, transcript.n_replicates), part) / sample.n_rows,
        l2_sensitivity=sensitivity,
        noise_multiplier=multiplier,
        label=EXPOSURE,
    )[0]
    least = np.maximum(transcript.noise_std(sensitivity, multiplier, 1), np.exp(low - high))
    return np.asarray(high + np.log(np.clip(released, np.minimum(least, 1), 1)))


def private_units(
    transcript: Transcript,
    sample: Sample,
    centers: FloatArray | None,
    *,
    with_columns: bool,
    noise_multiplier: float,
) -> FloatArray:
    """Release units of the columns of X, if wanted, and of y: (d + 1, R), 1 where none was released.

    ``centers`` (d + 1, R) times the last column of X are subtracted first.
    """
    first = 0 if with_columns else sample.n_features
    p, n_levels = sample.n_features + 1 - first, len(_POWERS)

    def powers(group: Group) -> IntArray:
        """Return the place among the levels of the lowest power of two that is not exceeded."""
        values = group.y[:, None, None] if p == 1 else with_response(group)[:, first:, None]
        if centers is not None:
            values = values - group.X[:, -1, None, None] * centers[first:, group.replicates]
        mantissa, exponent = np.frexp(np.abs(values))
        lowest = np.where(mantissa == 0, _POWERS[0], exponent - (mantissa == 0.5))
        return np.asarray(np.clip(lowest - _POWERS[0], 0, n_levels))

    above = counts_above_places(sample, powers, (n_levels, p, transcript.n_replicates))
    found = search_by_counts(
        transcript,
        lambda middle: np.asarray(np.take_along_axis(above, middle[None], axis=0)[0]),
        above.shape,
        _ABOVE * sample.n_rows,
        l2_sensitivity=counts_sensitivity(p),
        noise_multiplier=noise_multiplier,
        label=UNITS,
    )
    units = np.ones((sample.n_features + 1, transcript.n_replicates))
    # At the lowest level most values are 0, which says nothing of the others.
    units[first:] = np.where(found > 0, 2.0 ** (_POWERS[found] - 1), 1.0)
    units[units == 0.5] = 1.0
    columns = units[:-1]
    columns[columns <= _TOO_LARGE] = 1.0
    columns[:] = np.minimum(columns, _LARGEST)
    return units


def center_shares(size: float, n_columns: int, *, by_name: bool) -> dict[str, float]:
    """Return the shares of μ² that centers of p columns of [x, y] take where ``size`` is nμ; empty: too few.

    With p = 1 only the response has a center; ``by_name`` releases centers at any nμ.
    """
    counts = {RESPONSE_MEDIAN: _RESPONSE_COUNTS, COLUMN_MEDIANS: _COLUMN_COUNTS * (n_columns - 1)}
    found = {
        part: float(np.clip(number * (_SURE_OF_MEDIANS / size) ** 2, *_MEDIAN_SHARES))
        for part, number in counts.items()
    }
    mean = float(np.clip((mean_std(n_columns, size) / _MEAN_STD) ** 2, *_MEAN_SHARES))
    if n_columns > 1 and (by_name or size >= max(_ENOUGH, _ENOUGH_PER_ROOT * np.sqrt(n_columns))):
        return found | {MEANS: mean}
    return {RESPONSE_MEDIAN: found[RESPONSE_MEDIAN]} if by_name or size >= _ENOUGH else {}


def mean_std(n_columns: int, size: float) -> float:
    """Return the standard deviation of means that all of μ² is spent on, in units."""
    return 2 * _REACH * float(np.sqrt(n_columns)) / size


@dataclass(frozen=True, eq=False)
class Origin:
    """Released centers and units of rows [x, y], (d + 1, R) each."""

    centers: FloatArray
    units: FloatArray

    @property
    def coef(self) -> FloatArray:
        """The coefficients (d, R) of the response's center alone."""
        coef = np.zeros_like(self.centers[:-1])
        coef[-1] = self.centers[-1]
        return coef

    @property
    def maps(self) -> FloatArray:
        """C (R, d + 1, d + 1), with rows [x, y] C centered and in units."""
        maps = np.einsum("jr,jk->rjk", 1 / self.units, np.eye(len(self.units)))
        maps[:, -2] -= (self.centers / self.units).T  # of the constant, whose own center is 0
        return np.asarray(maps)

    def before(self, coordinates: FloatArray | None) -> FloatArray | None:
        """Return coordinates (R, d + 1, d + 1) of rows [x, y] that are centered and in units first."""
        if not self.centers.any() and (self.units == 1).all():
            return coordinates
        return self.maps if coordinates is None else np.asarray(self.maps @ coordinates)


def private_origin(
    transcript: Transcript, sample: Sample, budget: SplitBudget, *, units_of_columns: bool
) -> Origin:
    """Release the centers and units that the budget has shares for."""
    d, shape = sample.n_features, (sample.n_features + 1, transcript.n_replicates)
    centers: FloatArray = np.zeros(shape)
    units: FloatArray = np.ones(shape)
    for part, columns, candidates in (
        (RESPONSE_MEDIAN, slice(d, d + 1), _OF_RESPONSE),
        (COLUMN_MEDIANS, slice(0, d - 1), _OF_COLUMNS),
    ):
        if part in budget.shares:
            multiplier = budget.gaussian_multiplier(part, counts_needed(len(candidates)))
            centers[columns] = _medians(transcript, sample, columns, candidates, multiplier)
    if "units" in budget.shares:
        units = private_units(
            transcript,
            sample,
            centers,
            with_columns=units_of_columns,
            noise_multiplier=budget.gaussian_multiplier("units", UNIT_COUNTS),
        )
    centers[np.abs(centers) <= units] = 0
    origin = Origin(centers, units)
    if MEANS not in budget.shares:
        return origin
    return Origin(_means(transcript, sample, origin, budget.gaussian_multiplier(MEANS)), units)


def _medians(
    transcript: Transcript, sample: Sample, columns: slice, candidates: FloatArray, noise_multiplier: float
) -> FloatArray:
    """Release between which candidates the medians of some columns of [x, y] lie: their middle, (p, R)."""
    m, p = len(candidates), columns.stop - columns.start

    def places(group: Group) -> IntArray:
        if columns.start == sample.n_features:
            return np.searchsorted(candidates, group.y)[:, None, None]
        step = candidates[1] - candidates[0]  # of a regular grid, in less time than a search
        found = np.ceil((group.X[:, columns] - candidates[0]) / step)
        return np.asarray(np.clip(found, 0, m), dtype=np.intp)[..., None]

    above = counts_above_places(sample, places, (m, p, transcript.n_replicates))
    found = search_by_counts(
        transcript,
        lambda middle: np.asarray(np.take_along_axis(above, middle[None], axis=0)[0]),
        above.shape,
        0.5 * sample.n_rows,
        l2_sensitivity=counts_sensitivity(p),
        noise_multiplier=noise_multiplier,
        label=MEDIANS,
    )
    return np.asarray((candidates[found] + candidates[np.maximum(found - 1, 0)]) / 2)


def _means(transcript: Transcript, sample: Sample, origin: Origin, noise_multiplier: float) -> FloatArray:
    """Release means of rows [x, y] about their medians, and return the centers that follow, (d + 1, R)."""
    n_rows, p = sample.n_rows, sample.n_features
    others = np.arange(p + 1) != p - 1  # all but the constant
    level = np.full(transcript.n_replicates, _REACH * np.sqrt(p))
    maps = origin.maps * others

    def part(group: Group, rows: FloatArray) -> FloatArray:
        own = maps[group.replicates]
        weights = np.broadcast_to(group.weights, (len(rows), len(own)))
        return clipped_row_sums(rows, own, weights, level[group.replicates])

    total = sample.grouped(with_response).total(origin.centers.shape, part)
    sensitivity = ball_mean_sensitivity(level, n_rows)
    released = transcript.gaussian(
        total[others] / n_rows, l2_sensitivity=sensitivity, noise_multiplier=noise_multiplier, label=MEANS
    )
    noise = transcript.noise_std(sensitivity, noise_multiplier, p)
    kept = np.maximum(1 - noise**2 / np.maximum(released**2, np.finfo(float).tiny), 0)
    moved = origin.centers.copy()
    moved[others] += origin.units[others] * kept * released
    return moved
