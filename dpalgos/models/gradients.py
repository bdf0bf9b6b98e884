"""Mean gradients of generalized linear models over rows that are clipped."""

from collections.abc import Callable

import numpy as np

from dpalgos.core.rows import Block, Query, Rows
from dpalgos.models.families import Family
from dpalgos.rows.products import clip_rows_l2
from dpalgos.typing import FloatArray


def mean_gradient(rows: Rows, family: Family, row_bound: float) -> Callable[[FloatArray], FloatArray]:
    """Return β ↦ (1/n) Σ w_i r_i x_i, both (…, d), or (…, d, K) with K classes.

    Rows are clipped to the ℓ2 norm ``row_bound``. Residuals r are clipped to the family's public bound.
    Labels outside the family are refused.
    """
    prepared = rows.map(clipped_and_encoded(family, row_bound))
    has_classes = bool(family.classes)

    def at(coef: FloatArray) -> FloatArray:
        of_classes = np.swapaxes(coef, -1, -2) if has_classes else coef

        def part(block: Block) -> FloatArray:
            X, _ = block.derived
            return block.products(by_family(block, family.residual, block.predictors(of_classes, X)), X)

        gradient = prepared.mean(part)
        return np.asarray(np.swapaxes(gradient, -1, -2) if has_classes else gradient)

    return at


def clipped_and_encoded(family: Family, row_bound: float | None) -> Query:
    """Return block ↦ its rows, clipped to an ℓ2 norm if one is given, and its checked responses."""

    def prepared(block: Block) -> tuple[FloatArray, FloatArray]:
        rows = block.X if row_bound is None else clip_rows_l2(block.X, row_bound)
        return rows, encoded(family, block.y)

    return prepared


def encoded(family: Family, y: FloatArray) -> FloatArray:
    """Return checked responses (n,) or (R, n) with rows first and replicates last."""
    flat = family.encode(y.ravel())
    if y.ndim == 1:
        return flat
    return np.asarray(np.moveaxis(flat[..., 0].reshape(*y.shape, *flat.shape[1:-1]), 0, -1))


def by_family(
    block: Block, function: Callable[[FloatArray, FloatArray], FloatArray], predictors: FloatArray
) -> FloatArray:
    """Return a family's function of predictors (…, n), or (…, K, n), and of the block's encoded responses.

    Families have rows first and replicates last.
    """
    _, y = block.derived
    if block.is_batch:
        return np.asarray(function(predictors.T, y).T)
    return np.asarray(function(predictors.T[..., None], y)[..., 0].T)
