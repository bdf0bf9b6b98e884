"""Mean gradients of generalized linear models over rows that are clipped."""

from collections.abc import Callable

import numpy as np

from dpalgos.core.rows import Block, Rows
from dpalgos.models.families import Family
from dpalgos.rows.clipping import clip_rows_l2
from dpalgos.typing import FloatArray


def mean_gradient(rows: Rows, family: Family, row_bound: float) -> Callable[[FloatArray], FloatArray]:
    """Return β ↦ (1/n) Σ w_i r_i x_i, both (…, d), or (…, d, K) with K classes.

    Rows are clipped to the ℓ2 norm ``row_bound``. Residuals r are clipped to the family's public bound.
    Labels outside the family are refused.
    """
    prepared = rows.map(lambda block: (clip_rows_l2(block.X, row_bound), encoded(family, block.y)))
    has_classes = bool(family.classes)

    def at(coef: FloatArray) -> FloatArray:
        of_classes = np.swapaxes(coef, -1, -2) if has_classes else coef

        def part(block: Block) -> FloatArray:
            X, y = block.derived
            residuals = block_residuals(block, family, block.predictors(of_classes, X), y)
            return block.products(residuals, X)

        gradient = prepared.mean(part)
        return np.asarray(np.swapaxes(gradient, -1, -2) if has_classes else gradient)

    return at


def encoded(family: Family, y: FloatArray) -> FloatArray:
    """Return checked responses (n,) or (R, n) with rows first and replicates last."""
    flat = family.encode(y.ravel())
    if y.ndim == 1:
        return flat
    return np.asarray(np.moveaxis(flat[..., 0].reshape(*y.shape, *flat.shape[1:-1]), 0, -1))


def block_residuals(block: Block, family: Family, predictors: FloatArray, encoded: FloatArray) -> FloatArray:
    """Return residuals of predictors (…, n), or (…, K, n); families have rows first and replicates last."""
    if block.is_batch:
        return np.asarray(family.residual(predictors.T, encoded).T)
    return np.asarray(family.residual(predictors.T[..., None], encoded)[..., 0].T)
