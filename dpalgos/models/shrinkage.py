"""Estimates that use the known size of the noise in released numbers: post-processing."""

from typing import Any

import numpy as np

from dpalgos.params import choice
from dpalgos.typing import FloatArray


def prune_noise(values: FloatArray, noise_std: float | FloatArray) -> FloatArray:
    """Set released values (k, R) to zero where noise explains them: up to noise_std √(2 log(10 k))."""
    return np.asarray(
        np.where(np.abs(values) > noise_std * np.sqrt(2 * np.log(10 * len(values))), values, 0.0)
    )


def shrinkage_choice() -> Any:
    """Declare the keyword ``shrinkage``."""
    what = "'james_stein' (with the known noise level) or None"
    return choice(what, ("james_stein", None), default=None)


def james_stein(released: FloatArray, noise_variance: float | FloatArray) -> FloatArray:
    """Return the positive-part James–Stein estimate of released vectors (k, R) with isotropic Gaussian noise.

    It is ``released * max(0, 1 − (k − 2) variance / ‖released‖²)``, unchanged for k ≤ 2. The variance per
    coordinate, a number or (R,), is public; one estimated from the data would be another release.
    """
    squares = np.maximum((released**2).sum(axis=0), np.finfo(float).tiny)
    return np.asarray(released * np.maximum(0.0, 1 - max(len(released) - 2, 0) * noise_variance / squares))
