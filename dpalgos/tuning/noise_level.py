"""Sparsity by the noise level, free: keep the released values that noise alone does not explain."""

import numpy as np

from dpalgos.typing import FloatArray


def prune(values: FloatArray, noise_std: float | FloatArray) -> FloatArray:
    """Set released values (k, R) to zero where noise of a known level explains them: post-processing.

    Values above noise_std · √(2 log(10 k)) in magnitude are kept.
    """
    return np.asarray(
        np.where(np.abs(values) > noise_std * np.sqrt(2 * np.log(10 * len(values))), values, 0.0)
    )
