"""Binary search for a threshold that about a target number of rows exceeds, by noisy counts.

A count of rows above a public threshold moves by 1 when a row is replaced. Each halving of m candidates is
one Gaussian release of a count: ⌈log₂ m⌉ of them for any data. The result errs by about the noise of one
count. The target should exceed that noise.
"""

import numpy as np

from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import count
from dpalgos.typing import FloatArray, IntArray, Number


def counts_needed(n_candidates: int) -> int:
    """Return how many counts a search releases."""
    return max(1, int(np.ceil(np.log2(n_candidates))))


def search(spend: Spend, label: str, n_rows_above: FloatArray, target: Number) -> IntArray:
    """Release for p searches the first of m candidates that at most about ``target`` rows exceed, (…, p).

    ``n_rows_above`` (…, p, m) has the number of rows above each of m ascending candidates.
    """
    n_searches, m = n_rows_above.shape[-2:]
    flat, shape = n_rows_above.reshape(-1, m), n_rows_above.shape[:-1]
    query = count.of(flat, n_searches)
    searches, low = np.arange(len(flat)), np.zeros(len(flat), dtype=int)
    high = low + (m - 1)
    for _ in range(counts_needed(m)):
        middle = (low + high) >> 1
        above = flat[searches, middle].reshape(shape)
        too_many = (spend(label, query._replace(value=above)).value > target).ravel()
        low = np.where(too_many, middle + 1, low)  # past a found one, whose middle stays the same
        high = np.where(too_many, high, middle)
    return np.asarray(high.reshape(shape))
