"""Centers and units of rows [x, y], released: an estimator then works with (z_j − c_j x_d) / s_j.

    c_j = the mean about the median, where the last column of X is the constant, x_d = 1
    s_j = the root mean square of z_j − c_j x_d, by a histogram of its powers of two

Centered rows have the same regressions, with another constant. Medians are found for all columns at once by
a search of eleven counts, to six binary digits where units may lie: they need no unit. Means are those
of rows [x, y] about the medians, in units, clipped to a norm R of 1.5√(p + 1): opposite rows, 2R/n; each is
shrunk by its noise. One of more than √p says that noise misled the search: then the center is 0.

Units come from the numbers of rows with 2^k ≤ |z_j − c_j x_d| < 2^(k+1), in which replacing a row moves two
numbers by one for each column. Only numbers that stand out of the noise count, for 4^(k + ½) a row. A column
whose root mean square, without rows too close to the median to be told from it, is more than three times the
declared unit gets it: then no row is farther than it was. One that is smaller gets a unit as well, but rows
that do not stand out might be rare and large, and would be huge in that unit. So the mean is over the rows
that stand out alone (a rare category is as far as it was declared), those close to the median are as far as
it may be off, as many rows as noise can hide count as if they were four times as far as the farthest, in all
at most for as much as if every row were that far, and still it has to be less than .8 of the declared unit.
A column of which most rows are of one size, or of which only rows close to the median stand out, keeps its
unit: without a center, a bulk at -.01 would become a constant of order one.

The response has a center and a unit where nμ ≥ 140, columns a center, too, and a unit where nμ ≥ 300√p: below
that counts say too little. Medians of columns are searched where nμ ≥ 100√p. Where rows are fewer, four
counts, of sensitivity 1 whatever p, say how far rows lie from 0. Eight rounds of means follow, 2R/n each, of
rows about the last center, clipped to a norm R that falls with what noise leaves unknown: from 20 units away
four bring the center among the rows, and all eight are averaged where it is there from the beginning. One
more count says whether rows are near now: if not, as where a column is in a wrong unit, centers stay as they
were.

Generalized linear models release centers and units of columns alone, both where nμ ≥ 300√p. There a center is
a median farther from 0 than 1.5 times the root mean square about it, of rows that stand out, so that
indicators stay as they are. A median is known to 1/32: of a column that varies less than that the unit
stays.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.mechanisms.clip_levels import counts_needed, search_by_counts, search_level
from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Grouped, Sample
from dpalgos.steps.clipping import ball_mean_sensitivity
from dpalgos.steps.moments import clipped_row_sums, replicates_in_cache, row_norms
from dpalgos.typing import FloatArray, IntArray

MEDIANS, UNITS, MEANS = "values above a candidate center", "values by power of two", "means about centers"
DISTANCE = "rows far from centers"
_LOWEST, _N_POWERS, _DIGITS = -24, 64, 5  # the least power of two; how many; binary digits after the first
_IN_CACHE = 2**14  # numbers
# Candidates between 2^low and 2^high, by digits after the first: five where units of columns may lie.
_RANGES = (-22, -10, 2), (-10, 14, _DIGITS), (14, 40, 3)
_SIZES = np.concatenate(
    [
        np.outer(2.0 ** np.arange(low, high), 1 + np.arange(1 << digits) / (1 << digits)).ravel()
        for low, high, digits in _RANGES
    ]
)
_CENTERS = np.concatenate([-_SIZES[::-1], _SIZES])
_N_COUNTS = counts_needed(len(_CENTERS))
# The place of a number among powers of two, and among centers, by its first bits: sign, exponent, digits.
_EXPONENTS = np.arange(1 << 11) - 1023 - _LOWEST + 1
_POWER_PLACES = np.clip(np.concatenate([_EXPONENTS, _EXPONENTS]), 0, _N_POWERS)
_SIZE_PLACES = np.searchsorted(
    _SIZES, (np.arange(1 << 11 + _DIGITS) << 52 - _DIGITS).view(float), side="right"
)
_CENTER_PLACES = len(_SIZES) + np.concatenate([_SIZE_PLACES, -_SIZE_PLACES])
_LARGER, _SMALLER = 3.0, 0.8  # than declared: from there on a column gets its unit
_FARTHER = 16.0  # times the square of the farthest rows, that of rows which noise hides
_LARGEST = 1024.0  # of units, for larger ones would cost digits
_FAR = 1.5  # times the distance of rows from a median: from there on it is a center
_UNKNOWN = 2.0  # units, that distance where no rows stand out: declared bounds are so far
_MOST = 0.5  # of the rows, have to stand out where a unit is smaller than declared
_ALIKE = 0.6  # of the rows, are of one power of two in a column that might as well be a constant
_STANDS_OUT = 5.0  # standard deviations of the noise
_REACH = 1.5  # times √p, of rows about their medians
_DISTANCES = np.geomspace(0.7, 64, 16)  # times √p, of rows from 0
_FAR_ROWS = 0.25  # of the rows, lie beyond the distance that is found
_N_ROUNDS = 8
_CLOSE, _MOST_FAR = 2.0, 0.6  # times √p, and the part of the rows that may lie farther from a center
_NOISE = 2.0  # times its variance is taken off a mean of rounds
# The nμ from which centers and units are released, the last two times √p.
_ENOUGH, _ENOUGH_PER_ROOT, _ENOUGH_FOR_UNITS = 140.0, 100.0, 300.0
_SURE_OF_MEDIANS = 8.0  # the rows over the noise of a count: a median is found within an eighth of the rows
_HIDDEN = 0.06  # of the rows, that do not stand out
_MEAN_STD = 0.15  # of a mean, in units
_MISSED = 2 / 3  # of the reach: rows lie on both sides of a median, so that no mean is so far from it
# At least and at most.
_SHARES = {MEDIANS: (0.005, 0.08), UNITS: (0.01, 0.03), MEANS: (0.02, 0.06), DISTANCE: (0.008, 0.008)}


def counts_sensitivity(n_columns: int) -> float:
    """Return √p: replacing a row moves the count of each of p columns by one at most."""
    return float(np.sqrt(n_columns))


def powers_sensitivity(n_columns: int) -> float:
    """Return √(2p): in each of p columns replacing a row takes one from a number and adds one to another.

    Attained where both rows have a power of two, and different ones, in each column.
    """
    return float(np.sqrt(2 * n_columns))


def released_columns(size: float, n_features: int, *, intercept: bool, by_name: bool) -> dict[str, int]:
    """Return how many of the last columns of [x, y] have centers and units where ``size`` is nμ.

    All of them, but the constant; the response alone; or none. ``by_name`` releases all at any nμ.
    """
    p = n_features + (not intercept)
    least = {MEDIANS: _ENOUGH_PER_ROOT, UNITS: _ENOUGH_FOR_UNITS, MEANS: 0.0}
    columns = {part: int(size >= _ENOUGH) for part in least}
    columns |= {part: p for part, each in least.items() if by_name or size >= max(_ENOUGH, each * np.sqrt(p))}
    if columns[MEANS] == 1:
        columns[MEANS] = 0
    if columns[MEANS] and size < _ENOUGH_PER_ROOT * np.sqrt(p):
        columns[DISTANCE] = p
    return columns if intercept else {UNITS: columns[UNITS]}


def origin_shares(size: float, columns: Mapping[str, int]) -> dict[str, float]:
    """Return the shares of μ² that centers and units of so many columns take where ``size`` is nμ."""
    reach = 1.0 if DISTANCE in columns else _REACH
    needed: dict[str, Callable[[int], float]] = {
        MEDIANS: lambda p: _N_COUNTS * p * (_SURE_OF_MEDIANS / size) ** 2,
        UNITS: lambda p: (_STANDS_OUT * powers_sensitivity(p) / (_HIDDEN * size)) ** 2,
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

    def before(self, coordinates: FloatArray | None) -> FloatArray | None:
        """Return coordinates (R, d + 1, d + 1) of rows [x, y] that are centered and in units first."""
        if not self.centers.any() and (self.units == 1).all():
            return coordinates
        return self.maps if coordinates is None else np.asarray(self.maps @ coordinates)


def private_origin(
    transcript: Transcript, sample: Sample, budget: SplitBudget, columns: Mapping[str, int]
) -> Origin:
    """Release the centers and units that the budget has shares for, of the last columns of [x, y]."""
    d, shape = sample.n_features, (sample.n_features + 1, transcript.n_replicates)
    origin, widths = Origin(np.zeros(shape), np.ones(shape)), np.zeros(shape)
    every: IntArray = np.arange(d + 1)
    rows = sample.grouped(_by_column)
    if MEDIANS in budget.shares:
        every = _others(d)
        chosen = every[len(every) - columns[MEDIANS] :]
        multiplier = budget.gaussian_multiplier(MEDIANS, _N_COUNTS)
        origin.centers[chosen], widths[chosen] = _medians(transcript, rows, chosen, multiplier)
    if UNITS in budget.shares:
        chosen = every[len(every) - columns[UNITS] :]
        multiplier = budget.gaussian_multiplier(UNITS)
        origin.units[chosen], _ = _units(transcript, rows, chosen, origin.centers, widths, multiplier)
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


def column_shares(size: float, n_columns: int, *, by_name: bool) -> dict[str, float]:
    """Return the shares of μ² that :func:`private_columns` takes where ``size`` is nμ; ``by_name`` at any."""
    enough = by_name or size >= _ENOUGH_FOR_UNITS * np.sqrt(n_columns)
    return origin_shares(size, {MEDIANS: n_columns, UNITS: n_columns}) if enough else {}


def private_columns(transcript: Transcript, sample: Sample, budget: SplitBudget) -> Origin:
    """Release centers and units of the columns of x but the constant, if the budget has shares for them.

    A center is a median that is far from 0, by the distances of rows from it.
    """
    shape = (sample.n_features + 1, transcript.n_replicates)
    origin, columns = Origin(np.zeros(shape), np.ones(shape)), np.arange(sample.n_features - 1)
    if UNITS not in budget.shares:
        return origin
    rows = sample.grouped(lambda group: group.X)
    multiplier = budget.gaussian_multiplier(MEDIANS, _N_COUNTS)
    centers, widths = np.zeros((2, *shape))
    centers[columns], widths[columns] = _medians(transcript, rows, columns, multiplier)
    multiplier = budget.gaussian_multiplier(UNITS)
    units, spread = _units(transcript, rows, columns, centers, widths, multiplier)
    far = np.abs(centers[columns]) > _FAR * spread
    origin.centers[columns], origin.units[columns] = np.where(far, centers[columns], 0), units
    return origin


def _by_column(group: Group) -> FloatArray:
    """Return the rows [x, y] of a group, stored by column."""
    return np.vstack([group.X.T, group.y]).T


def _blocks(values: FloatArray, columns: IntArray) -> Iterator[tuple[slice, FloatArray]]:
    """Yield rows that fit the cache together, and some columns (p, m) of their values (n, d + 1)."""
    step = max(1, _IN_CACHE // len(columns))
    for start in range(0, len(values), step):
        rows = slice(start, start + step)
        yield rows, values[rows].T[columns]  # np.take would copy all columns first


def _about(columns: FloatArray, constant: FloatArray, centers: FloatArray) -> FloatArray:
    """Return columns (p, m) about centers (p, k) times the constant (m,), (k, p, m)."""
    return np.asarray(columns - centers.T[..., None] * constant)


def _counts(
    rows: Grouped[FloatArray], columns: IntArray, table: IntArray, centers: FloatArray | None = None
) -> FloatArray:
    """Return how many rows have each place of a table but the first, by the first bits of numbers, (R, p, m).

    ``centers`` (d + 1, R) times the constant are subtracted first.
    """
    n_places, p, shift = int(table.max()) + 1, len(columns), 65 - len(table).bit_length()
    masked = rows.sample.row_mask is not None

    def part(group: Group, values: FloatArray) -> FloatArray:
        own = None if centers is None else centers[columns, group.replicates]
        used = group.weights.T[:, None] > 0
        n_own = len(used) if own is None else own.shape[1]
        counts = np.zeros((n_own, p * n_places))
        for block, numbers in _blocks(values, columns):
            for some in replicates_in_cache(numbers, n_own):
                about = numbers[None] if own is None else _about(numbers, group.X[block, -1], own[:, some])
                places = table[about.view(np.int64) >> shift]
                if masked:
                    places = places * used[some, :, block]
                n_bins = n_places * p * len(places)
                places += np.arange(0, n_bins, n_places).reshape(-1, p, 1)
                counts[some] += np.bincount(places.ravel(), minlength=n_bins).reshape(len(places), -1)
        return counts.reshape(n_own, p, n_places)[..., 1:]

    return rows.total((rows.sample.n_replicates, p, n_places - 1), part, axis=0)


def _medians(
    transcript: Transcript, rows: Grouped[FloatArray], columns: IntArray, noise_multiplier: float
) -> tuple[FloatArray, FloatArray]:
    """Release between which candidates medians of columns of [x, y] lie: the middle, and half the width."""
    counts = _counts(rows, columns, _CENTER_PLACES)
    above = counts[..., ::-1].cumsum(axis=-1)[..., ::-1]
    each = np.arange(len(counts))[:, None], np.arange(len(columns))
    found = search_by_counts(
        transcript,
        lambda middle: np.asarray(above[(*each, middle.T)].T),
        above.shape[::-1],
        0.5 * rows.sample.n_rows,
        l2_sensitivity=counts_sensitivity(len(columns)),
        noise_multiplier=noise_multiplier,
        label=MEDIANS,
    )
    low, high = _CENTERS[np.maximum(found - 1, 0)], _CENTERS[found]
    return (low + high) / 2, (high - low) / 2


def _units(
    transcript: Transcript,
    rows: Grouped[FloatArray],
    columns: IntArray,
    centers: FloatArray,
    widths: FloatArray,
    noise_multiplier: float,
) -> tuple[FloatArray, FloatArray]:
    """Release the powers of two of columns of [x, y]; return units, and root mean squares that stand out."""
    p, n_rows = len(columns), rows.sample.n_rows
    counts = _counts(rows, columns, _POWER_PLACES, centers if centers.any() else None).T
    released = transcript.gaussian(
        counts.reshape(-1, len(n_rows)),
        l2_sensitivity=powers_sensitivity(p),
        noise_multiplier=noise_multiplier,
        label=UNITS,
    ).reshape(counts.shape)
    hidden = _STANDS_OUT * noise_multiplier * powers_sensitivity(p)
    powers = 2.0 ** (_LOWEST + np.arange(_N_POWERS)[:, None, None])
    standing = np.where(released > hidden, released, 0)
    number = standing * (powers > 1.01 * widths[columns])
    squares = 2 * powers**2
    sums = (number * squares).sum(axis=0)
    largest = np.where(number > 0, squares, 0).max(axis=0)
    whole = np.sqrt(sums / n_rows)
    near = np.where(whole > _LARGER, 0, (standing - number).sum(axis=0))
    every = number.sum(axis=0) + near
    unseen = np.minimum(_FARTHER * hidden, n_rows) * largest
    alone = np.sqrt((sums + near * 2 * widths[columns] ** 2 + unseen) / np.maximum(every, 1))
    units: FloatArray = np.where(whole > _LARGER, whole, np.where(alone < _SMALLER, alone, 1.0))
    units = np.clip(units, 1 / _LARGEST, _LARGEST)
    of_response = columns[-1] == rows.sample.n_features
    if of_response:
        response = (standing * squares)[:, -1].sum(axis=0) / np.maximum(standing[:, -1].sum(axis=0), 1)
        units[-1] = 2.0 ** np.round(np.log2(np.maximum(response, np.finfo(float).tiny)) / 2)
        units[-1, np.abs(np.log2(units[-1])) == 1] = 1.0  # a half and two count as right
        number[:, -1] = standing[:, -1]
    # Where no number stands out nothing is known, and little where those that do are few or of one size.
    known = (number.sum(axis=0) > 0) & ((units >= 1) | (every > _MOST * n_rows))
    alike = np.maximum(number.max(axis=0), near) > _ALIKE * n_rows
    alike[-1] &= not of_response
    known &= (units >= 1) | ~alike
    spread = np.sqrt(sums / np.maximum(number.sum(axis=0), 1))
    return np.where(known, units, 1.0), np.where(spread > 0, spread, _UNKNOWN)


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
    sensitivity = ball_mean_sensitivity(level, n_rows)
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
    origin.centers[others] = first + units * _shrunk(sums / precision, _NOISE / precision)
    lost = np.isinf(distance(np.array([_CLOSE, np.inf]), _MOST_FAR))
    return np.where(lost, first, origin.centers[others])


@cache
def _others(d: int) -> IntArray:
    """Return the places of all columns of [x, y] but that of the constant, the last of d columns of x."""
    return np.delete(np.arange(d + 1), d - 1)


def _shrunk(means: FloatArray, variance: FloatArray) -> FloatArray:
    """Return means shrunk to 0 by their noise."""
    return np.asarray(means * np.maximum(1 - variance / np.maximum(means**2, np.finfo(float).tiny), 0))
