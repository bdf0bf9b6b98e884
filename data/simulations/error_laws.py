"""Noise of mean 0 and variance 1: Gaussian, heavy-tailed or skewed."""

import numpy as np

from data.errors import DataError
from data.simulations import FloatArray


def centered_noise(rng: np.random.Generator, kind: str, shape: int | tuple[int, ...]) -> FloatArray:
    """Draw noise: ``"gaussian"``, ``"student"`` (5 degrees of freedom), or ``"exponential"`` less its mean.

    Raises
    ------
    DataError
        If there is no such noise.
    """
    if kind == "gaussian":
        return np.asarray(rng.standard_normal(shape))
    if kind == "exponential":
        return np.asarray(rng.standard_exponential(shape) - 1)
    if kind == "student":
        return np.asarray(rng.standard_t(5, shape) * np.sqrt(3 / 5))
    raise DataError(f"noise must be one of gaussian, student, exponential, got {kind!r}")
