"""Thresholds found by a private binary search: about a target number of rows exceeds the threshold.

A count of rows above a public threshold moves by 1 when a row is replaced. Each halving of m candidates is
one Gaussian release of a count: ⌈log₂ m⌉ of them for any data. The result errs by about the noise of one
count. The target should exceed that noise.
"""

from collections.abc import Callable

import numpy as np

from dpalgos.cautions import at_the_last_level
from dpalgos.release.declared import Release
from dpalgos.release.spend import Spend
from dpalgos.typing import FloatArray, IntArray, Number


def counts_needed(n_candidates: int) -> int:
    """Return how many counts a search releases."""
    return max(1, int(np.ceil(np.log2(n_candidates))))


def search_threshold(
    spend: Spend, release: Release, candidates: FloatArray, target: float, above: Callable[[int], float]
) -> float:
    """Release the lowest candidate (m,), ascending, that at most about ``target`` rows exceed.

    ``above`` returns the number of rows that exceed a candidate. A diagnostic says whether the search ended
    at the last candidate: then the rows are larger than the candidates.
    """
    index = search_by_counts(
        spend, release, len(candidates), lambda middle: np.array([above(int(middle[0]))]), (1,), target
    )[0]
    spend.note(at_the_last_level(release.label), index == len(candidates) - 1)
    return float(candidates[index])


def search_by_counts(
    spend: Spend,
    release: Release,
    n_candidates: int,
    above: Callable[[IntArray], FloatArray],
    shape: tuple[int, ...],
    target: Number,
) -> IntArray:
    """Release for p searches at once the lowest candidate that at most about ``target`` rows exceed.

    ``shape`` is (p,), or (p, R) with replicates. ``above`` brings one candidate per search to counts of rows,
    both of that shape.
    """
    low, high = np.zeros(shape, dtype=int), np.full(shape, n_candidates - 1)
    for _ in range(counts_needed(n_candidates)):
        middle = (low + high) // 2
        too_many = spend(release, above(middle), shape[0]).value > target
        low = np.where(too_many, np.minimum(middle + 1, high), low)
        high = np.where(too_many, high, middle)
    return high
