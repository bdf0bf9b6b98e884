"""Shrinkage of a released vector by its known noise level: free post-processing."""

from collections.abc import Sequence

import numpy as np

from dpalgos.typing import FloatArray


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


def averaged_noise_variance(noise_stds: Sequence[FloatArray], weights: FloatArray, step: float) -> FloatArray:
    """Return the variance per coordinate that steps' noise leaves in an average of the last iterates, (R,).

    Parameters
    ----------
    noise_stds : sequence of (R,) arrays
        Of each step's gradient; the curvature is 1, so that a later step leaves 1 − ``step`` of it.
    weights : (k,) array
        Of the last k iterates, together 1.
    step : float
        Step size.
    """
    n_steps, n_averaged = len(noise_stds), len(weights)
    variance = np.zeros_like(noise_stds[0])
    for s, std in enumerate(noise_stds):
        influence = sum(
            weights[i] * (1 - step) ** (t - s)
            for i, t in enumerate(range(n_steps - n_averaged, n_steps))
            if t >= s
        )
        variance += (step * std * influence) ** 2
    return variance
