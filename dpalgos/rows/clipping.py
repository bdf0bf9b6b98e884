"""Clipping of rows, responses and coefficients.

Clipping is a part of the guarantee, not an assumption on the data: estimators always clip.
"""

import numpy as np

from dpalgos.typing import FloatArray


def row_lengths(X: FloatArray) -> FloatArray:
    """Return the ℓ2 norms of the rows of X (..., d), (...), in double precision and without arrays like X."""
    return np.asarray(np.sqrt(np.einsum("...j,...j->...", X, X, dtype=float)))


def clip_factor(norms: FloatArray, level: float | FloatArray) -> FloatArray:
    """Return min(1, level / norm), the factor that clips a vector of that norm."""
    return np.asarray(level / np.maximum(norms, level))


def clip_rows_l2(X: FloatArray, bound: float) -> FloatArray:
    """Scale the rows of X (…, d) whose ℓ2 norm exceeds ``bound`` down to it, in double precision."""
    return np.asarray(np.multiply(X, clip_factor(row_lengths(X), bound)[..., None], dtype=float))


def truncate(values: FloatArray, bound: float | FloatArray) -> FloatArray:
    """Clip every entry to [-bound, bound] (Π_R of paper A for scalars); bounds may be one per replicate.

    NaN counts as 0. Therefore no row makes a release NaN.
    """
    clipped = np.clip(values, -np.asarray(bound), bound)
    # A sum is much faster than a search for NaN.
    return np.nan_to_num(clipped, copy=False) if np.isnan(clipped.sum()) else clipped


def project_l2_ball(coef: FloatArray, radius: float) -> FloatArray:
    """Project the columns of ``coef`` (d, R) onto the ℓ2 ball (Π_C of paper A)."""
    norms = np.linalg.norm(coef, axis=0)
    return np.asarray(coef * (radius / np.maximum(norms, radius)))
