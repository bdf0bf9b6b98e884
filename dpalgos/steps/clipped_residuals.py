"""Gradients of squared errors whose residuals are clipped row by row.

    g(β) = (1/n) Σ_i x_i clip(x_i'β − y_i, ±b_i)

Replacing one row moves it by at most 2 max ‖x_i‖ b_i / n, whatever β is: the same row with residuals clipped
at either end attains it.
"""

from collections.abc import Callable

import numpy as np

from dpalgos.rows.sample import Group, Sample
from dpalgos.steps.clipping import clip_rows_l2
from dpalgos.typing import FloatArray


def clipped_residual_gradient(
    sample: Sample, bound: float | Callable[[FloatArray], FloatArray], *, row_bound: float | None = None
) -> Callable[[FloatArray], FloatArray]:
    """Return β (d, R) ↦ g(β), (d, R).

    ``bound`` is b: a number, or a function that returns one for each of some rows (m, d). Rows are clipped to
    the ℓ2 norm ``row_bound`` if it is given.
    """

    def prepared(group: Group) -> tuple[FloatArray, float | FloatArray]:
        rows = group.X if row_bound is None else clip_rows_l2(group.X, row_bound)
        return rows, bound(rows)[:, None] if callable(bound) else bound

    groups = sample.grouped(prepared)

    def at(coef: FloatArray) -> FloatArray:
        gradient = np.zeros_like(coef)
        for group, (rows, most) in groups:
            residual = rows @ coef[:, group.replicates]
            residual -= group.y[:, None]
            np.clip(residual, -most, most, out=residual)
            residual *= group.weights
            gradient[:, group.replicates] += rows.T @ residual
        return np.asarray(gradient / sample.n_rows)

    return at
