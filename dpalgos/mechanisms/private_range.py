"""A private range: the middle of one bin of a public interval near which most values of a column lie.

    P(bin b) ∝ exp(−ε c_b / 2),   c_b = max(#values below bin b, #values above it)

The bins of width w cover [−B, B], to which values are truncated. Replacing one value changes either count of
any bin by at most 1, up for some bins and down for others. Therefore c_b changes by at most 1 (witness: a
value that leaves bin b). Log-probability ratios span at most ε: one bounded-range event per column, ε-DP.

The law is sampled exactly for any number of bins. c_b is constant on every run of empty bins, so n values
make at most n + 1 runs and n occupied bins. Each is drawn with weight (number of bins) · exp(−ε c_b / 2),
then a bin uniformly within. Indices of bins are exact integers up to 2^52.

All values in one of l bins: another one is returned with probability (l − 1) / (l − 1 + e^(nε/2)). Values
within τ of each other: a bin farther than τ from all of them with probability at most l e^(−nε/8).

References
----------
Levy et al., Learning with User-Level Privacy, Algorithm 6 (PrivateRange).
"""

from collections.abc import Iterator

import numpy as np
import scipy

from dpalgos.errors import InputError
from dpalgos.typing import FloatArray, IntArray

MOST_BINS = 2**52  # beyond, bins are narrower than the numbers that would tell them apart

MOST_LISTED_BINS = 1_000_000  # whose floating-point-safe noise is drawn one by one
_COLUMNS_AT_ONCE = 16
_PROBES = np.arange(1, 8) / 8


def repeated_ranges(
    values: FloatArray, normals: FloatArray, *, bound: float, bin_width: float, epsilon: float
) -> FloatArray:
    """Return independent middles for one column (n,), one per pair of standard normals (2, N).

    They are not released. This is for mechanisms that account for the repetitions themselves.
    """
    column = BinnedColumns(values[:, None], bound, bin_width)
    return bin_middles(column.draw(epsilon, normals[:, None, :])[0], bound, bin_width)


def count_bins(bound: float, bin_width: float) -> int:
    """Return the number ⌈2B/w⌉ of bins that cover [−B, B], or refuse more than floats can distinguish."""
    n_bins = np.ceil(2 * bound / bin_width)
    if not n_bins <= MOST_BINS:
        raise InputError(
            f"a range of ±{bound:g} in bins of {bin_width:g} must have at most 2^52 bins, got {n_bins:.3g}; "
            "declare a tighter bound or a larger concentration radius"
        )
    return int(n_bins)


def miss_probability(n_values: float, n_bins: float, epsilon: float) -> float:
    """Return the bound l e^(−nε/8) on the probability that a bin far from all of n values is returned."""
    return 0.0 if n_bins <= 1 else float(n_bins * np.exp(-n_values * epsilon / 8))


def values_needed(n_bins: float, epsilon: float, probability: float) -> int:
    """Return the number of values from which on :func:`miss_probability` is at most ``probability``."""
    return 0 if n_bins <= 1 else int(np.ceil(8 / epsilon * np.log(n_bins / probability)))


class BinnedColumns:
    """Private values (n, k) in bins, sorted by column.

    Public: ``bound`` B, to which values are truncated, and ``bin_width`` w; more than 2^52 bins are refused.
    """

    def __init__(self, values: FloatArray, bound: float, bin_width: float) -> None:
        self._values, self._bound, self._width = values, bound, bin_width
        self._n_bins = count_bins(bound, bin_width)

    def bins(self, columns: slice) -> IntArray:
        """Return the sorted bins of some columns, (k, n)."""
        position = (np.clip(self._values[:, columns], -self._bound, self._bound) + self._bound) / self._width
        bins = np.minimum(position, self._n_bins - 1).T.astype(np.int64)
        return np.asarray(np.sort(bins, axis=1))

    def costs_at_probes(self) -> FloatArray:
        """Return the costs of the bins at a few places of the range and at 0, (k · probes,)."""
        places = np.append(self._n_bins * _PROBES, self._bound / self._width)
        probes = np.minimum(places, self._n_bins - 1).astype(np.int64)
        n, k = self._values.shape
        costs = np.empty((k, len(probes)))
        for block in _slices(k):
            for row, bins in zip(range(block.start, block.stop), self.bins(block), strict=True):
                below = np.searchsorted(bins, probes, side="left")
                costs[row] = np.maximum(below, n - np.searchsorted(bins, probes, side="right"))
        return costs.ravel()

    def costs_of_all(self) -> FloatArray:
        """Return the costs of all bins, (l, k), for noise that has to be drawn bin by bin."""
        n, k = self._values.shape
        if self._n_bins * k > MOST_LISTED_BINS:
            raise InputError(
                f"floating-point-safe noise needs at most {MOST_LISTED_BINS} bins, got "
                f"{self._n_bins * k:.3g}; declare a tighter bound or a larger concentration radius"
            )
        costs = np.empty((self._n_bins, k))
        for block in _slices(k):
            for j, bins in zip(range(block.start, block.stop), self.bins(block), strict=True):
                counts = np.bincount(bins, minlength=self._n_bins)
                below = np.cumsum(counts) - counts
                costs[:, j] = np.maximum(below, n - below - counts)
        return costs

    def draw(self, epsilon: float, normals: FloatArray) -> IntArray:
        """Return a bin per column and replicate, (k, R), from standard normals (2, k, R)."""
        k = self._values.shape[1]
        uniforms = np.minimum(scipy.special.ndtr(normals), 1 - 2.0**-52)
        drawn = np.empty(uniforms.shape[1:], dtype=np.int64)
        for block in _slices(k):
            bins = self.bins(block)
            first, n_within, log_weights = _runs(bins, self._n_bins, epsilon)
            cumulative = np.exp(log_weights - log_weights.max(axis=1, keepdims=True)).cumsum(axis=1)
            for row, j in enumerate(range(block.start, block.stop)):
                target = uniforms[0, j] * cumulative[row, -1]
                run = np.searchsorted(cumulative[row], target, side="right")
                within = (uniforms[1, j] * n_within[row, run]).astype(np.int64)
                drawn[j] = first[row, run] + np.minimum(within, n_within[row, run] - 1)
        return drawn


def _runs(bins: IntArray, n_bins: int, epsilon: float) -> tuple[IntArray, IntArray, FloatArray]:
    """Return all runs of bins of one cost: first bin, number of bins, log-weight; each (k, 2n + 1).

    Runs in order: the gap before the first value, its bin, the gap to the next value and so on. The bin of
    values that tie belongs to the first of them. Gaps and bins without bins of their own have weight 0.
    """
    k, n = bins.shape
    edge = np.full((k, 1), -1), np.full((k, 1), n_bins)
    gaps = np.diff(np.concatenate([edge[0], bins, edge[1]], axis=1), axis=1) - 1
    is_first = np.ones((k, n), dtype=bool)
    is_first[:, 1:] = gaps[:, 1:-1] >= 0
    ends = np.arange(n)
    below = np.maximum.accumulate(np.where(is_first, ends, 0), axis=1)
    is_last = np.concatenate([is_first[:, 1:], np.ones((k, 1), dtype=bool)], axis=1)
    last = np.minimum.accumulate(np.where(is_last, ends, n)[:, ::-1], axis=1)[:, ::-1]

    first, n_within, costs = (np.empty((k, 2 * n + 1), dtype=np.int64) for _ in range(3))
    first[:, 0], first[:, 1::2], first[:, 2::2] = 0, bins, bins + 1
    n_within[:, 1::2], n_within[:, 0::2] = is_first, np.maximum(gaps, 0)
    costs[:, 1::2] = np.maximum(below, n - 1 - last)
    costs[:, 0::2] = np.maximum(np.arange(n + 1), n - np.arange(n + 1))
    with np.errstate(divide="ignore"):
        return first, n_within, np.log(n_within) - epsilon / 2 * costs


def bin_middles(bins: FloatArray | IntArray, bound: float, bin_width: float) -> FloatArray:
    """Return the middles of bins, (k, R), by their numbers."""
    return np.asarray(np.minimum(-bound + (bins + 0.5) * bin_width, bound))


def _slices(k: int) -> Iterator[slice]:
    for start in range(0, k, _COLUMNS_AT_ONCE):
        yield slice(start, min(start + _COLUMNS_AT_ONCE, k))
