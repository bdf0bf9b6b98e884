"""The sample mean, without privacy.

m = (1/n) Σ_i x_i
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.catalog import register
from dpalgos.core.rows import Rows, clipped_mean
from dpalgos.core.spend import Spend
from dpalgos.nonprivate.robust_intervals import RobustIntervalEstimator, mean_half_widths, robust_interval
from dpalgos.rows.products import truncate
from dpalgos.typing import FloatArray


@register(
    name="sample_mean",
    title="Sample mean",
    order=7,
    task="mean",
    relation=None,
    reference="the mean",
    summary="The mean without privacy.",
)
@dataclass(frozen=True, kw_only=True)
class SampleMean(RobustIntervalEstimator):
    """The mean."""

    batch = True

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        if self.interval is not None:
            spend.keep_interval(robust_interval(rows.sample, mean_half_widths(self.interval)))
        return clipped_mean(rows, truncate, np.inf).copy()
