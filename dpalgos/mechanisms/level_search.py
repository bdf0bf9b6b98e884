"""A private binary search for the level above which a wanted number of rows lie, by noisy counts.

A count of rows moves by 1 when a row is replaced; each halving of the candidates is one Gaussian release. A
search among m candidates takes ⌈log₂ m⌉ counts, whatever the data. The answer errs by about the noise of one
count, so that the wanted number should exceed it.
"""

from collections.abc import Callable

import numpy as np

from dpalgos.release.transcript import Transcript
from dpalgos.typing import FloatArray

AT_THE_LAST_LEVEL = "the search ended at the largest level"


def count_sensitivity() -> float:
    """Return 1: replacing a row raises a count of rows by one, lowers it by one or leaves it."""
    return 1.0


def counts_needed(n_candidates: int) -> int:
    """Return how many counts a search releases."""
    return max(1, int(np.ceil(np.log2(n_candidates))))


def search_level(
    transcript: Transcript,
    candidates: FloatArray,
    wanted: FloatArray,
    counts_above: Callable[[FloatArray], FloatArray],
    *,
    noise_multiplier: float,
    label: str,
) -> FloatArray:
    """Release the lowest candidate that at most about ``wanted`` rows exceed, (R,).

    A diagnostic says whether that is the last candidate: then the rows are larger than those tried.

    Parameters
    ----------
    transcript : Transcript
        Where the counts are released and recorded.
    candidates : (m,) or (m, R) array
        Rising public levels, the same for all replicates or each its own; the last one if all are exceeded.
    wanted : (R,) array
        Public.
    counts_above : callable
        Levels (R,) → how many rows of each replicate lie above its own, (R,).
    noise_multiplier : float
        Of every count.
    label : str
        Names the counts in the record.
    """
    replicate = np.arange(transcript.n_replicates)
    levels = np.broadcast_to(candidates.reshape(len(candidates), -1), (len(candidates), len(replicate)))
    low = np.zeros(len(replicate), dtype=int)
    high = np.full(len(replicate), len(candidates) - 1)
    for _ in range(counts_needed(len(candidates))):
        middle = (low + high) // 2
        released = transcript.gaussian(
            counts_above(levels[middle, replicate])[None, :],
            l2_sensitivity=count_sensitivity(),
            noise_multiplier=noise_multiplier,
            label=label,
        )[0]
        too_many = released > wanted
        low = np.where(too_many, np.minimum(middle + 1, high), low)
        high = np.where(too_many, high, middle)
    transcript.note(f"{label}: {AT_THE_LAST_LEVEL}", high == len(candidates) - 1)
    return np.asarray(levels[high, replicate])
