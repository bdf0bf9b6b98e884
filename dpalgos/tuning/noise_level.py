"""Sparsity by the noise level, free: keep the released values that noise alone does not explain."""

import numpy as np

from dpalgos.typing import FloatArray


def prune(values: FloatArray, noise_std: float | FloatArray) -> FloatArray:
    """Set to zero what noise of a known level alone explains: free post-processing.

    Parameters
    ----------
    values : (k, R) array
        Released values.
    noise_std : float or (R,) array
        Standard deviation of their noise; public.

    Returns
    -------
    (k, R) array
        Values above noise_std · √(2 log(10 k)) in magnitude, zeros for the others.
    """
    return np.asarray(
        np.where(np.abs(values) > noise_std * np.sqrt(2 * np.log(10 * len(values))), values, 0.0)
    )
