"""Gradients of squared errors whose residuals are clipped row by row.

    g(β) = (1/n) Σ_i x_i clip(x_i'β − y_i, ±b_i)

Replacing one row moves it by at most 2 max ‖x_i‖ b_i / n, whatever β is: the same row with residuals clipped
at either end attains it.
"""

from collections.abc import Callable

import numpy as np

from dpalgos.sample import Sample
from dpalgos.typing import FloatArray


def clipped_residual_gradient(
    sample: Sample, X: FloatArray, bound: float | FloatArray
) -> Callable[[FloatArray], FloatArray]:
    """Return β (d, R) ↦ g(β), (d, R).

    Parameters
    ----------
    sample : Sample
        Whose responses, and which rows each replicate uses.
    X : (n, d) array
        The rows to multiply with: the sample's own, or those made shorter.
    bound : float or (n,) array
        b, one for all rows or one for each.
    """
    bounds = np.broadcast_to(np.asarray(bound, dtype=float), len(X))[:, None]
    groups = [(group, X[group.rows], bounds[group.rows]) for group in sample.groups()]

    def at(coef: FloatArray) -> FloatArray:
        gradient = np.empty_like(coef)
        for group, rows, most in groups:
            residual = rows @ coef[:, group.replicates]
            residual -= group.y[:, None]
            np.clip(residual, -most, most, out=residual)
            residual *= group.weights
            gradient[:, group.replicates] = rows.T @ residual
        return np.asarray(gradient / sample.n_rows)

    return at
