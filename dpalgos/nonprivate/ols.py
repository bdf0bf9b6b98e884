"""Ordinary least squares, without privacy.

    β̂ = argmin_β ‖y − Xβ‖₂

No intercept is added. Rank-deficient problems get the minimum-norm solution. Replicates are solved from their
Gram matrices, which are one matrix product. A singular value decomposition solves single runs, and replicates
too ill-conditioned for ten correct digits.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np

from dpalgos.catalog import register
from dpalgos.core.rows import Block, Rows
from dpalgos.core.spend import Spend
from dpalgos.nonprivate.robust_intervals import (
    RobustIntervalEstimator,
    least_squares_half_widths,
    robust_interval,
)
from dpalgos.typing import FloatArray

_LARGEST_CONDITION = 1e5


@register(
    name="ols",
    title="Ordinary least squares",
    order=1,
    task="linear_regression",
    relation=None,
    reference="least squares",
    summary="Least squares without privacy.",
)
@dataclass(frozen=True, kw_only=True)
class OLS(RobustIntervalEstimator):
    """Least squares."""

    batch = True

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        rows.sample.check_response()
        if self.interval is not None:
            spend.keep_interval(robust_interval(rows.sample, least_squares_half_widths(self.interval)))
        return rows.by_replicate(least_squares(rows))


def least_squares(rows: Rows) -> FloatArray:
    """Return the coefficients of each replicate, (d, R)."""
    d, sample = rows.d, rows.sample
    if sample.row_mask is None:
        return _of_all_rows(rows)[:, None]

    def part(block: Block) -> FloatArray:
        return block.moments(np.column_stack([block.X, block.y]))

    moments = np.moveaxis(rows.by_column(rows.computed(("moments",), lambda: rows.sum(part))), -1, 0)
    gram, cross = moments[:, :d, :d], moments[:, :d, d]
    scale = np.sqrt(np.einsum("rjj->rj", gram))
    scale[scale == 0] = 1.0
    scaled = gram / (scale[:, :, None] * scale[:, None, :])
    eigenvalues = np.linalg.eigvalsh(scaled)
    sound = eigenvalues[:, 0] * _LARGEST_CONDITION > eigenvalues[:, -1]
    coef = np.empty((d, sample.n_replicates))
    solved = np.linalg.solve(scaled[sound], (cross / scale)[sound][:, :, None])[:, :, 0]
    coef[:, sound] = (solved / scale[sound]).T
    for replicate in np.flatnonzero(~sound):
        used = sample.row_mask[:, replicate]
        coef[:, replicate] = np.linalg.lstsq(sample.X[used], sample.response()[used], rcond=None)[0]
    return coef


def _of_all_rows(rows: Rows) -> FloatArray:
    """Return the coefficients of all rows, (d,); of streamed ones by their triangular factor.

    [X, y] and the factor R of its QR decomposition have the same products of columns.
    """
    if not rows.sample.rows.streamed:
        X, y = rows.sample.X, rows.sample.response()
    else:
        factor = reduce(_with_rows, rows.partials(_factor))
        X, y = factor[:, :-1], factor[:, -1]
    return np.asarray(np.linalg.lstsq(X, y, rcond=None)[0])


def _factor(part: Rows) -> FloatArray:
    blocks = (np.column_stack([block.X, block.y]) for block in part.each())
    nothing: FloatArray = np.empty((0, part.d + 1))
    return reduce(_with_rows, blocks, nothing)


def _with_rows(factor: FloatArray, rows: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.qr(np.concatenate([factor, rows]), mode="r"))
