"""Medians of columns of rows [x, y], and the unit of the response, released by counts of rows.

Medians are found for all columns at once by a search of eleven counts, to six binary digits where units may
lie. They need no unit to begin with.

The unit of the response comes from the numbers of rows with 2^k ≤ |y − c| < 2^(k+1), in which replacing a row
moves two numbers by one. Only numbers that stand out of the noise count, for 4^(k + ½) a row. The unit is a
power of two near the root mean square, and smaller than the declared one only where most rows stand out:
others might be rare and large.
"""

from collections.abc import Iterator

import numpy as np

from dpalgos.mechanisms.clip_levels import counts_needed, search_by_counts
from dpalgos.mechanisms.sensitivity import count, histogram
from dpalgos.release.transcript import Transcript
from dpalgos.rows.group import Group
from dpalgos.rows.sample import Grouped
from dpalgos.steps.moments import replicates_in_cache
from dpalgos.typing import FloatArray, IntArray

MEDIANS, UNITS = "values above a candidate center", "values by power of two"
_LOWEST, _N_POWERS, _DIGITS = -24, 64, 5  # the least power of two; how many; binary digits after the first
# Candidates between 2^low and 2^high, by digits after the first: five where units of columns may lie.
_RANGES = (-22, -10, 2), (-10, 14, _DIGITS), (14, 40, 3)
_SIZES = np.concatenate(
    [
        np.outer(2.0 ** np.arange(low, high), 1 + np.arange(1 << digits) / (1 << digits)).ravel()
        for low, high, digits in _RANGES
    ]
)
_CENTERS = np.concatenate([-_SIZES[::-1], _SIZES])
N_COUNTS = counts_needed(len(_CENTERS))
# The place of a number among powers of two, and among centers, by its first bits: sign, exponent, digits.
_EXPONENTS = np.arange(1 << 11) - 1023 - _LOWEST + 1
_POWER_PLACES = np.clip(np.concatenate([_EXPONENTS, _EXPONENTS]), 0, _N_POWERS)
_SIZE_PLACES = np.searchsorted(
    _SIZES, (np.arange(1 << 11 + _DIGITS) << 52 - _DIGITS).view(float), side="right"
)
_CENTER_PLACES = len(_SIZES) + np.concatenate([_SIZE_PLACES, -_SIZE_PLACES])
_MOST = 0.5  # of the rows, have to stand out where a unit is smaller than declared
_STANDS_OUT = 5.0  # standard deviations of the noise
_SURE_OF_MEDIANS = 8.0  # the rows over the noise of a count: a median is found within an eighth of the rows
_HIDDEN = 0.06  # of the rows, that do not stand out
_TOGETHER = 2**14  # numbers of a block of rows, which fit the cache


def medians_share(n_columns: int, size: float) -> float:
    """Return the share of μ² of which medians are found where ``size`` is nμ."""
    return N_COUNTS * n_columns * (_SURE_OF_MEDIANS / size) ** 2


def unit_share(size: float) -> float:
    """Return the share of μ² of which few rows are hidden in the noise of a unit where ``size`` is nμ."""
    return (_STANDS_OUT * float(histogram()) / (_HIDDEN * size)) ** 2


def _blocks(values: FloatArray, columns: IntArray) -> Iterator[tuple[slice, FloatArray]]:
    """Yield rows that fit the cache together, and some columns (p, m) of their values (n, d + 1)."""
    step = max(1, _TOGETHER // len(columns))
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


def released_medians(
    transcript: Transcript, rows: Grouped[FloatArray], columns: IntArray, noise_multiplier: float
) -> FloatArray:
    """Release between which candidates medians of columns of [x, y] lie, and return the middle, (p, R)."""
    counts = _counts(rows, columns, _CENTER_PLACES)
    above = counts[..., ::-1].cumsum(axis=-1)[..., ::-1]
    each = np.arange(len(counts))[:, None], np.arange(len(columns))
    found = search_by_counts(
        transcript,
        lambda middle: np.asarray(above[(*each, middle.T)].T),
        above.shape[::-1],
        0.5 * rows.sample.n_rows,
        l2_sensitivity=count(len(columns)),
        noise_multiplier=noise_multiplier,
        label=MEDIANS,
    )
    low, high = _CENTERS[np.maximum(found - 1, 0)], _CENTERS[found]
    return np.asarray((low + high) / 2)


def released_response_unit(
    transcript: Transcript, rows: Grouped[FloatArray], centers: FloatArray, noise_multiplier: float
) -> FloatArray:
    """Release the powers of two of the response, the last column, about its center; return its unit, (R,)."""
    column, n_rows = np.array([rows.sample.n_features]), rows.sample.n_rows
    counts = _counts(rows, column, _POWER_PLACES, centers if centers.any() else None)[:, 0].T
    released = transcript.gaussian(
        counts, l2_sensitivity=histogram(), noise_multiplier=noise_multiplier, label=UNITS
    )
    hidden = _STANDS_OUT * noise_multiplier * histogram()
    standing = np.where(released > hidden, released, 0)
    squares = 2 * 4.0 ** (_LOWEST + np.arange(_N_POWERS)[:, None])
    number = standing.sum(axis=0)
    mean = (standing * squares).sum(axis=0) / np.maximum(number, 1)
    unit = 2.0 ** np.round(np.log2(np.maximum(mean, np.finfo(float).tiny)) / 2)
    unit[np.abs(np.log2(unit)) == 1] = 1.0  # a half and two count as right
    # Where no number stands out nothing is known, and little where those that do are few.
    known = (number > 0) & ((unit >= 1) | (number > _MOST * n_rows))
    return np.where(known, unit, 1.0)
