"""How far clipping may have moved a mean: a bound from released shares of rows by size.

A row of size t, its norm over the clip level, is moved by (t − 1)₊ levels. Released are the shares of rows
whose sizes lie in the bins between 0, 1/64, 1/16, 1/4, 1/2, 1, 2 and ∞. A row lies in one bin, so that
replacing it moves them by √2/n together (:func:`tail_sensitivity`), however many bins there are.

With T(t) the share of rows larger than t, what clipping does is at most

    E (t^p − 1)₊ = ∫₁^∞ p t^(p−1) T(t) dt ≤ p T(1) / (a − p)

(p = 1; 2 where covariate and residual grow together) where T falls at least as t^(−a) beyond 1. Without an
assumption no release bounds a far tail. Here log T is taken to fall ever faster, or as fast, in log t, as it
does for normal, exponential, log-normal, Student's and Pareto's laws, so that slopes between released levels
bound the slope beyond, and T(1) by extrapolation. Against the answer count

- noise: shares that bound from above are raised by a standard deviation, others lowered;
- a slope seen directly, from 1/4 to 1, if it is lower: a heavy tail behind a light middle;
- steepness: none above 3 is extrapolated, and the mean excess is at least two thirds of a level (p = 1).

A released T(1) or T(2) two standard deviations above what remains, as outliers make it, has no bound. What
remains unseen are outliers that are fewer than the noise in the shares.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Group, Grouped, Sample
from dpalgos.typing import FloatArray

TAIL = "shares by size"
LEVELS = np.array([1 / 64, 1 / 16, 1 / 4, 1 / 2, 1, 2])

_FAR = 4.0
_DEVIATIONS, _IRREGULAR, _CLEAR = 1.0, 2.5, 3.0  # standard deviations
_STEEPEST, _STEEPEST_BEYOND = 3.0, 1.5  # the latter more than p
_INNER, _CLIP = 2, 4  # sizes 1/4 and 1
_TINY = 1e-12


def tail_sensitivity(n_rows: FloatArray) -> FloatArray:
    """Return the ℓ2 sensitivity √2/n of shares in bins: a row leaves one and enters another; 2/n in ℓ1."""
    return np.asarray(np.sqrt(2) / n_rows)


def counts_by_level(sample: Sample, group: Group, sizes: FloatArray) -> FloatArray:
    """Return how many sizes (n, R) of a group's rows exceed each level, (6, R).

    Rows of which a cell was moved to a bound before count as far beyond: by how much nobody knows.
    """
    moved = sample.moved_rows(group)
    if moved is not None:
        sizes = np.where(moved[:, None], _FAR, sizes)
    return _counts(sizes * group.weights)


def shares_above(sample: Sample, norms: Grouped[FloatArray], clip_level: FloatArray) -> FloatArray:
    """Return the shares of rows whose norms over ``clip_level`` (R,) exceed each level, (6, R)."""
    above = np.zeros((len(LEVELS), sample.n_replicates))
    for group, found in norms:
        above[:, group.replicates] += counts_by_level(sample, group, found / clip_level[group.replicates])
    return above / sample.n_rows


def _counts(sizes: FloatArray) -> FloatArray:
    return np.stack([(sizes > level).sum(axis=0) for level in LEVELS]).astype(float)


def shares_by_level(sizes: Sequence[FloatArray]) -> FloatArray:
    """Return the shares of each replicate's sizes (n_r,) above each level, (6, R)."""
    return np.stack([_counts(one[:, None])[:, 0] / len(one) for one in sizes], axis=1)


@dataclass(frozen=True, eq=False, kw_only=True)
class Tail:
    """Released shares of rows larger than each level, (6, R), and their noise, (6, R)."""

    above: FloatArray
    std: FloatArray

    def moved(self, reach: FloatArray, power: float = 1.0) -> FloatArray:
        """Return how far clipping moved a mean at most, (…, R): by (t^p − 1)₊ ``reach`` for each row."""
        excess = np.broadcast_to(self.excess(power), np.shape(reach))
        unbounded = np.isinf(excess)
        return np.where(unbounded, np.inf, np.where(unbounded, 0.0, excess) * reach)

    def excess(self, power: float = 1.0) -> FloatArray:
        """Return a bound on E (t^p − 1)₊ for sizes t, (R,); infinite where there is none."""
        above, unsure = self.above, self.std
        low, high = above - _DEVIATIONS * unsure, above + _DEVIATIONS * unsure
        slope, most = np.zeros_like(above[0]), np.clip(high[0], _TINY, 1.0)
        for k in range(1, _CLIP + 1):
            ratio = LEVELS[k] / LEVELS[k - 1]
            most = np.maximum(np.minimum(most * ratio ** -np.minimum(slope, _STEEPEST), high[k]), _TINY)
            slope = np.maximum(slope, np.log(np.maximum(low[k - 1], _TINY) / most) / np.log(ratio))
        seen = np.log(np.maximum(above[_INNER], _TINY) / np.maximum(above[_CLIP], unsure[_CLIP]))
        clear = above[_INNER] > _CLEAR * unsure[_INNER]
        slope = np.where(clear, np.minimum(slope, seen / np.log(1 / LEVELS[_INNER])), slope)
        slope = np.minimum(slope, power + _STEEPEST_BEYOND)
        allowed = np.stack([most, most * 2.0**-slope]) + _IRREGULAR * unsure[_CLIP:]
        regular = (above[_CLIP:] <= allowed).all(axis=0) & (slope > power)
        most = np.maximum(most, low[_CLIP])
        return np.where(regular, power * most / np.where(regular, slope - power, 1.0), np.inf)


def release_tail(transcript: Transcript, above: FloatArray, *, n_rows: FloatArray, multiplier: float) -> Tail:
    """Release the shares of rows above each level, (6, R), with Gaussian noise on those in the bins."""
    bins, moved = _bins(above), tail_sensitivity(n_rows)
    released = transcript.gaussian(bins, l2_sensitivity=moved, noise_multiplier=multiplier, label=TAIL)
    return _cumulated(released, transcript.noise_std(moved, multiplier, len(bins)))


def release_tail_by_laplace(
    transcript: Transcript, above: FloatArray, *, n_rows: FloatArray, epsilon: float
) -> Tail:
    """Release them with Laplace noise."""
    bins, moved = _bins(above), np.sqrt(2) * tail_sensitivity(n_rows)
    released = transcript.laplace(bins, l1_sensitivity=moved, epsilon=epsilon, label=TAIL)
    return _cumulated(released, np.sqrt(2) * transcript.box_scale(moved, epsilon, 1))


def _bins(above: FloatArray) -> FloatArray:
    return -np.diff(above, axis=0, prepend=1.0, append=0.0)


def _cumulated(bins: FloatArray, std: FloatArray) -> Tail:
    outer = bins[:0:-1].cumsum(axis=0)[::-1]
    return Tail(above=outer, std=np.sqrt(np.arange(len(outer), 0, -1))[:, None] * std)
