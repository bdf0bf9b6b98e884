"""Released squares for intervals of means whose entries are truncated to an interval per column.

With c_j the middle of column j's interval and h_j half of its width, per column

    the mean of ((clip(x) − c)/h)²   and   the share of entries that lie beyond the interval

A row moves each of these 2d numbers by at most 1/n, hence together by 1/n in ℓ∞ and √(2d)/n in ℓ2
(:func:`square_sensitivity`): a row of middles against one that lies beyond every interval. The first tells
the spread of the entries, the second whether cutting them may have moved the mean
(:mod:`dpalgos.intervals.half_widths`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpalgos.release.transcript import Transcript
from dpalgos.steps.clipping import unit_mean_sensitivity
from dpalgos.steps.denoising import coordinate_std
from dpalgos.typing import FloatArray

SQUARES = "squares"
CUBE_SHARE = 0.15  # of ε, where noise is of pure ε; a share of μ² is worth its square root


@dataclass(frozen=True, eq=False, kw_only=True)
class EntrySquares:
    """Released squares of entries (d, R), their noise, and the share of entries beyond the interval, (d, R).

    ``squares`` are means of squared offsets from the middle of the interval; two standard deviations of its
    noise have been taken off ``share``.
    """

    squares: FloatArray
    std: FloatArray
    share: FloatArray


def square_sensitivity(d: int, n_rows: FloatArray) -> FloatArray:
    """Return the ℓ2 sensitivity √(2d)/n of d means of squares in [0, 1] and d shares of rows.

    Attained by a row of middles against one beyond every interval.
    """
    return np.asarray(np.sqrt(2 * d) / n_rows)


def relative_squares(middle: FloatArray, half: FloatArray) -> Callable[[FloatArray, float], FloatArray]:
    """Return the function of rows (n, d) with values ((clip(x) − c)/h)² in [0, 1]; c and h are (d,)."""
    return _Squares(tuple(middle.tolist()), tuple(half.tolist()))


def beyond(middle: FloatArray, half: FloatArray) -> Callable[[FloatArray, float], FloatArray]:
    """Return the function of rows that is 1 for entries beyond c ± h, else 0."""
    return _Beyond(tuple(middle.tolist()), tuple(half.tolist()))


@dataclass(frozen=True)
class _Entries:
    """A function of rows, equal to another of the same interval, so that a sample's means are made once."""

    middle: tuple[float, ...]
    half: tuple[float, ...]

    def relative(self, rows: FloatArray) -> FloatArray:
        return np.asarray((rows - np.array(self.middle)) / np.array(self.half))


class _Squares(_Entries):
    def __call__(self, rows: FloatArray, _: float) -> FloatArray:
        return np.asarray(np.clip(self.relative(rows), -1, 1) ** 2)


class _Beyond(_Entries):
    def __call__(self, rows: FloatArray, _: float) -> FloatArray:
        return (np.abs(self.relative(rows)) > 1).astype(float)


def release_squares(
    transcript: Transcript,
    squares: FloatArray,
    shares: FloatArray,
    *,
    half: FloatArray,
    n_rows: FloatArray,
    multiplier: float,
) -> EntrySquares:
    """Release mean relative squares and shares of entries beyond the interval with Gaussian noise.

    ``half``, (d, R) or (d, 1), is h, public or released; ``multiplier`` is noise over sensitivity.
    """
    sensitivity = square_sensitivity(len(squares), n_rows)
    both = np.concatenate([squares, shares])
    released = transcript.gaussian(
        both, l2_sensitivity=sensitivity, noise_multiplier=multiplier, label=SQUARES
    )
    return _made(released, transcript.noise_std(sensitivity, multiplier, len(both)), half)


def release_squares_in_a_cube(
    transcript: Transcript,
    squares: FloatArray,
    shares: FloatArray,
    *,
    half: FloatArray,
    n_rows: FloatArray,
    epsilon: float,
) -> EntrySquares:
    """Release both with noise in a cube, for ``epsilon``; otherwise as :func:`release_squares`."""
    both = np.concatenate([squares, shares])
    sensitivity = unit_mean_sensitivity(n_rows)
    released = transcript.box(both, linf_sensitivity=sensitivity, epsilon=epsilon, label=SQUARES)
    std = transcript.box_scale(sensitivity, epsilon, len(both)) * coordinate_std(len(both))
    return _made(released, std, half)


def _made(released: FloatArray, std: FloatArray, half: FloatArray) -> EntrySquares:
    squares, shares = np.split(released, 2)
    return EntrySquares(squares=half**2 * squares, std=half**2 * std, share=np.maximum(shares - 2 * std, 0.0))
