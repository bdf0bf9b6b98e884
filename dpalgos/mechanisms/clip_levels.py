"""Levels at which to clip, by a private binary search: about a wanted number of norms lies above the level.

A count of rows above a public level moves by 1 when a row is replaced; each halving of m candidate levels is
one Gaussian release of a count, ⌈log₂ m⌉ of them whatever the data. The answer errs by about the noise of one
count, so that the wanted number should exceed it.
"""

from collections.abc import Callable

import numpy as np

from dpalgos.mechanisms.sensitivity import count
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Grouped
from dpalgos.steps.clipping import at_the_last_level, counts_above
from dpalgos.typing import FloatArray, IntArray


def counts_needed(n_candidates: int) -> int:
    """Return how many counts a search releases."""
    return max(1, int(np.ceil(np.log2(n_candidates))))


def search_level(
    transcript: Transcript,
    candidates: FloatArray,
    wanted: FloatArray,
    norms: Grouped[FloatArray],
    *,
    noise_multiplier: float,
    label: str,
) -> FloatArray:
    """Release the lowest candidate that at most about ``wanted`` of the ``norms`` exceed, (R,).

    A diagnostic says whether that is the last candidate: then the rows are larger than those tried.
    Candidates are rising public levels, (m,) or (m, R) where each replicate has its own. Streamed rows are
    read once, whatever the number of candidates.
    """
    replicate = np.arange(transcript.n_replicates)
    levels = np.broadcast_to(candidates.reshape(len(candidates), -1), (len(candidates), len(replicate)))
    above = counts_above(norms, levels)
    found = search_by_counts(
        transcript,
        lambda middle: above(middle[0])[None],
        (len(candidates), 1, len(replicate)),
        wanted,
        l2_sensitivity=count(),
        noise_multiplier=noise_multiplier,
        label=label,
    )[0]
    transcript.note(at_the_last_level(label), found == len(candidates) - 1)
    return np.asarray(levels[found, replicate])


def search_by_counts(
    transcript: Transcript,
    above: Callable[[IntArray], FloatArray],
    shape: tuple[int, int, int],
    wanted: FloatArray,
    *,
    l2_sensitivity: float | FloatArray,
    noise_multiplier: float,
    label: str,
) -> IntArray:
    """Release which is the lowest candidate that at most about ``wanted`` (R,) rows exceed, by bisection.

    ``shape`` is (m, p, R), for m candidates and p searches at once; ``above`` brings numbers of candidates
    (p, R), which are returned at the end, to counts of rows (p, R), which replacing a row moves by
    ``l2_sensitivity``.
    """
    m, *searches = shape
    low, high = np.zeros(searches, dtype=int), np.full(searches, m - 1)
    for _ in range(counts_needed(m)):
        middle = (low + high) // 2
        released = transcript.gaussian(
            above(middle), l2_sensitivity=l2_sensitivity, noise_multiplier=noise_multiplier, label=label
        )
        too_many = released > wanted
        low = np.where(too_many, np.minimum(middle + 1, high), low)
        high = np.where(too_many, high, middle)
    return high
