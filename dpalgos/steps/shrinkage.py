"""Shrinkage of a released vector by its known noise level: free post-processing."""

from typing import Any

import numpy as np

from dpalgos.params import choice
from dpalgos.typing import FloatArray


def shrinkage_choice(default: str | None = None) -> Any:
    """Declare the keyword ``shrinkage``."""
    return choice(
        "'james_stein' (with the known noise level) or None", ("james_stein", None), default=default
    )


def james_stein(released: FloatArray, noise_variance: float | FloatArray) -> FloatArray:
    """Return the positive-part James–Stein estimate of released vectors.

    Parameters
    ----------
    released : (k, R) array
        Vectors with isotropic Gaussian noise.
    noise_variance : float or (R,) array
        The noise's variance per coordinate: public. A variance estimated from the data would be
        another release.

    Returns
    -------
    (k, R) array
        ``released * max(0, 1 − (k − 2) variance / ‖released‖²)``; unchanged for k ≤ 2.
    """
    squares = np.maximum((released**2).sum(axis=0), np.finfo(float).tiny)
    return np.asarray(released * np.maximum(0.0, 1 - max(len(released) - 2, 0) * noise_variance / squares))
