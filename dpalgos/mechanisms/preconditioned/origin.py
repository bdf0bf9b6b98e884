"""Centers of rows [x, y] and the unit of y, released: an estimator then works with (z_j − c_j x_d) / s_j.

    c_j = the mean about the median, where the last column of X is the constant, x_d = 1
    s   = a power of two near the root mean square of y − c x_d; 1 for columns of x

Centered rows have the same regressions, with another constant. Medians and the unit are found by counts
(:mod:`dpalgos.mechanisms.preconditioned.column_counts`). Means are those of rows [x, y] about the medians,
clipped to a norm R of 1.5√(p + 1): opposite rows, 2R/n; each is shrunk by its noise. One of more than √p says
that noise misled the search: then the center is 0.

The response has a center and a unit where nμ ≥ 140, columns a center, too: below that counts say too little.
Medians of columns are searched where nμ ≥ 100√p. Where rows are fewer, four counts, of sensitivity 1 whatever
p, say how far rows lie from 0. Eight rounds of means follow, 2R/n each, of rows about the last center,
clipped to a norm R that falls with what noise leaves unknown: from 20 units away four bring the center among
the rows, and all eight are averaged where it is there from the beginning. One more count says whether rows
are near now: if not, as where a column is in a wrong unit, centers stay as they were.

Generalized linear models release centers of columns alone, where nμ ≥ 100√p: medians farther from 0 than a
unit, so that indicators stay as they are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.mechanisms.clip_levels import counts_needed, search_level
from dpalgos.mechanisms.preconditioned.column_counts import (
    MEDIANS,
    N_COUNTS,
    UNITS,
    medians_share,
    released_medians,
    released_response_unit,
    unit_share,
)
from dpalgos.mechanisms.sensitivity import ball_mean
from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Grouped, Sample
from dpalgos.steps.moments import clipped_row_sums, row_norms
from dpalgos.typing import FloatArray, IntArray

MEANS, DISTANCE = "means about centers", "rows far from centers"
_FAR = 1.25  # units: from there on a median is a center
_REACH = 1.5  # times √p, of rows about their medians
_DISTANCES = np.geomspace(0.7, 64, 16)  # times √p, of rows from 0
_FAR_ROWS = 0.25  # of the rows, lie beyond the distance that is found
_N_ROUNDS = 8
_CLOSE, _MOST_FAR = 2.0, 0.6  # times √p, and the part of the rows that may lie farther from a center
_ENOUGH, _ENOUGH_PER_ROOT = 140.0, 100.0  # the nμ from which centers and a unit are released, and times √p
_MEAN_STD = 0.15  # of a mean, in units
_MISSED = 2 / 3  # of the reach: rows lie on both sides of a median, so that no mean is so far from it
# At least and at most.
_SHARES = {MEDIANS: (0.005, 0.08), UNITS: (0.01, 0.03), MEANS: (0.02, 0.06), DISTANCE: (0.008, 0.008)}


def released_columns(size: float, n_features: int, *, intercept: bool) -> dict[str, int]:
    """Return how many of the last columns of [x, y] have centers, and units, where ``size`` is nμ.

    The response alone has a unit. All have centers, but the constant, about medians where counts suffice.
    """
    if size < _ENOUGH:
        return {}
    if not intercept:
        return {UNITS: 1}
    if size < _ENOUGH_PER_ROOT * np.sqrt(n_features):
        return {MEDIANS: 1, UNITS: 1, MEANS: n_features, DISTANCE: n_features}
    return {MEDIANS: n_features, UNITS: 1, MEANS: n_features if n_features > 1 else 0}


def origin_shares(size: float, columns: Mapping[str, int]) -> dict[str, float]:
    """Return the shares of μ² that centers and units of so many columns take where ``size`` is nμ."""
    reach = 1.0 if DISTANCE in columns else _REACH
    needed: dict[str, Callable[[int], float]] = {
        MEDIANS: lambda p: medians_share(p, size),
        UNITS: lambda p: unit_share(size),
        MEANS: lambda p: (mean_std(p, size, reach) / _MEAN_STD) ** 2,
        DISTANCE: lambda p: 0.0,
    }
    return {part: float(np.clip(needed[part](p), *_SHARES[part])) for part, p in columns.items() if p}


def mean_std(n_columns: int, size: float, reach: float) -> float:
    """Return the standard deviation of means that all of μ² is spent on, in units."""
    return 2 * reach * float(np.sqrt(n_columns)) / size


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
        p, n_replicates = self.units.shape
        maps = np.zeros((n_replicates, p, p))
        maps.reshape(n_replicates, -1)[:, :: p + 1] = (1 / self.units).T  # the diagonals
        maps[:, -2] -= (self.centers / self.units).T  # of the constant, whose own center is 0
        return np.asarray(maps)

    @property
    def coordinates(self) -> FloatArray | None:
        """The maps, None where they change nothing."""
        return self.maps if self.centers.any() or (self.units != 1).any() else None


def private_origin(
    transcript: Transcript, sample: Sample, budget: SplitBudget, columns: Mapping[str, int]
) -> Origin:
    """Release the centers and units that the budget has shares for, of the last columns of [x, y]."""
    d, shape = sample.n_features, (sample.n_features + 1, transcript.n_replicates)
    origin = Origin(np.zeros(shape), np.ones(shape))
    every: IntArray = np.arange(d + 1)
    rows = sample.grouped(_by_column)
    if MEDIANS in budget.shares:
        every = _others(d)
        chosen = every[len(every) - columns[MEDIANS] :]
        multiplier = budget.gaussian_multiplier(MEDIANS, N_COUNTS)
        origin.centers[chosen] = released_medians(transcript, rows, chosen, multiplier)
    if UNITS in budget.shares:
        multiplier = budget.gaussian_multiplier(UNITS)
        origin.units[-1] = released_response_unit(transcript, rows, origin.centers, multiplier)
    origin.centers[np.abs(origin.centers) <= origin.units] = 0
    if DISTANCE in budget.shares:
        origin.centers[every] = _means_of_few(transcript, rows, origin, budget)
    elif MEANS in budget.shares:
        level = np.full(transcript.n_replicates, _REACH * float(np.sqrt(d + 1)))
        released, noise = _means(transcript, rows, origin, level, budget.gaussian_multiplier(MEANS))
        means = origin.centers[every] + origin.units[every] * _shrunk(released, noise**2)
        # A mean too far from a median says that noise misled the search for it.
        origin.centers[every] = np.where(np.abs(released) > _MISSED * level, 0, means)
    return origin


def column_shares(size: float, n_columns: int) -> dict[str, float]:
    """Return the shares of μ² that :func:`private_columns` takes where ``size`` is nμ."""
    enough = n_columns > 0 and size >= _ENOUGH_PER_ROOT * np.sqrt(n_columns)
    return origin_shares(size, {MEDIANS: n_columns}) if enough else {}


def private_columns(transcript: Transcript, sample: Sample, budget: SplitBudget) -> Origin:
    """Release centers of the columns of x but the constant, if the budget has a share for them.

    A center is a median that is farther from 0 than a unit.
    """
    shape = (sample.n_features + 1, transcript.n_replicates)
    origin, columns = Origin(np.zeros(shape), np.ones(shape)), np.arange(sample.n_features - 1)
    if MEDIANS not in budget.shares:
        return origin
    multiplier = budget.gaussian_multiplier(MEDIANS, N_COUNTS)
    rows = sample.grouped(lambda group: group.X)
    centers = released_medians(transcript, rows, columns, multiplier)
    origin.centers[columns] = np.where(np.abs(centers) > _FAR, centers, 0)
    return origin


def _by_column(group: Group) -> FloatArray:
    """Return the rows [x, y] of a group, stored by column."""
    return np.vstack([group.X.T, group.y]).T


def _means(
    transcript: Transcript,
    rows: Grouped[FloatArray],
    origin: Origin,
    level: FloatArray,
    noise_multiplier: float,
) -> tuple[FloatArray, FloatArray]:
    """Release means of rows [x, y] about centers, in units, and their noise, (d, R).

    Rows, with the constant, are clipped to levels (R,); its own mean is left out.
    """
    n_rows, p, maps = rows.sample.n_rows, rows.sample.n_features, origin.maps

    def part(group: Group, values: FloatArray) -> FloatArray:
        own = group.replicates
        return clipped_row_sums(values, maps[own], group.weights, level[own])

    total = rows.total((p + 1, transcript.n_replicates), part)[_others(p)]
    sensitivity = ball_mean(level, n_rows)
    released = transcript.gaussian(
        total / n_rows, l2_sensitivity=sensitivity, noise_multiplier=noise_multiplier, label=MEANS
    )
    return released, transcript.noise_std(sensitivity, noise_multiplier, p)


def _means_of_few(
    transcript: Transcript, rows: Grouped[FloatArray], origin: Origin, budget: SplitBudget
) -> FloatArray:
    """Return centers (d, R) by rounds of means, each about the last one; where none is near, from 0."""
    sample, d = rows.sample, rows.sample.n_features
    others, root = _others(d), float(np.sqrt(d))

    def distance(candidates: FloatArray, beyond: float) -> FloatArray:
        maps = origin.maps

        def distances(group: Group, values: FloatArray) -> FloatArray:
            return np.asarray(row_norms(values, maps[group.replicates]) * group.weights)

        return search_level(
            transcript,
            candidates * root,
            beyond * sample.n_rows,
            rows.then(distances),
            noise_multiplier=budget.gaussian_multiplier(DISTANCE, counts_needed(len(_DISTANCES)) + 1),
            label=DISTANCE,
        )

    level = distance(_DISTANCES, _FAR_ROWS)
    origin.centers[:, level == _DISTANCES[-1] * root] = 0
    first, units = origin.centers[others], origin.units[others]
    near = np.minimum(level, root)  # of rows about their own centers
    sums, precision = np.zeros_like(first), np.zeros_like(level)
    for _ in range(_N_ROUNDS):
        released, noise = _means(
            transcript, rows, origin, level, budget.gaussian_multiplier(MEANS, _N_ROUNDS)
        )
        means = (origin.centers[others] - first) / units + released
        sums, precision = sums + means / noise**2, precision + 1 / noise**2
        origin.centers[others] = first + units * sums / precision
        level = np.minimum(level, np.sqrt(near**2 + (root + 1) ** 2 / precision))
    origin.centers[others] = first + units * _shrunk(sums / precision, 1 / precision)
    lost = np.isinf(distance(np.array([_CLOSE, np.inf]), _MOST_FAR))
    return np.where(lost, first, origin.centers[others])


@cache
def _others(d: int) -> IntArray:
    """Return the places of all columns of [x, y] but that of the constant, the last of d columns of x."""
    return np.delete(np.arange(d + 1), d - 1)


def _shrunk(means: FloatArray, variance: FloatArray) -> FloatArray:
    """Return means shrunk to 0 by their noise."""
    return np.asarray(means * np.maximum(1 - variance / np.maximum(means**2, np.finfo(float).tiny), 0))
