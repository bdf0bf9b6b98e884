"""The hard-thresholded sample mean, what private sparse means are compared with.

m = P_s( (1/n) Σ_i x_i ),   P_s keeps the s entries of largest magnitude
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.catalog import register
from dpalgos.core.estimator import PublicEstimator
from dpalgos.core.rows import Rows, clipped_mean
from dpalgos.core.spend import Spend
from dpalgos.models.newton_steps import hard_threshold
from dpalgos.params import check_how_many, count
from dpalgos.rows.products import truncate
from dpalgos.typing import FloatArray


@register(
    name="sparse_sample_mean",
    title="Thresholded sample mean",
    order=8,
    task="mean",
    relation=None,
    reference="hard thresholding",
    summary="The entries of the mean that are largest in magnitude, without privacy.",
    example={"sparsity": 2},
)
@dataclass(frozen=True, kw_only=True)
class SparseSampleMean(PublicEstimator):
    """The thresholded mean."""

    sparsity: int = count("s, number of entries that are kept")

    batch = True

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        sparsity = check_how_many("sparsity", self.sparsity, rows.d)
        means = clipped_mean(rows, truncate, np.inf)
        return rows.by_replicate(hard_threshold(rows.by_column(means), sparsity))
