"""Truncation of rows, responses and iterates: what makes a sensitivity finite.

Clipping is a part of the guarantee, not an assumption on the data: estimators always apply it.
"""

import numpy as np

from dpalgos.rows.sample import Grouped
from dpalgos.typing import FloatArray


def clip_rows_l2(X: FloatArray, bound: float) -> FloatArray:
    """Scale the rows of X (n, d) whose ℓ2 norm exceeds ``bound`` down to it, in double precision."""
    norms = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=float))
    return np.asarray(np.multiply(X, (bound / np.maximum(norms, bound))[:, None], dtype=float))


def truncate(values: FloatArray, bound: float | FloatArray) -> FloatArray:
    """Clip every entry to [-bound, bound] (Π_R of paper A for scalars); bounds may be one per replicate."""
    return np.clip(values, -np.asarray(bound), bound)


def project_l2_ball(coef: FloatArray, radius: float) -> FloatArray:
    """Project the columns of ``coef`` (d, R) onto the ℓ2 ball (Π_C of paper A)."""
    norms = np.linalg.norm(coef, axis=0)
    return np.asarray(coef * (radius / np.maximum(norms, radius)))


def clip_factor(norms: FloatArray, level: float | FloatArray) -> FloatArray:
    """Return min(1, level / norm), the factor that clips a vector of that norm."""
    return np.asarray(level / np.maximum(norms, level))


def counts_above(norms: Grouped[FloatArray], level: FloatArray) -> FloatArray:
    """Return how many norms of each replicate's rows exceed its ``level`` (R,), (R,)."""
    counts = np.zeros_like(level)
    for group, found in norms:
        counts[group.replicates] += (found > level[group.replicates]).sum(axis=0)
    return counts
