"""The sample mean, without privacy.

m = (1/n) Σ_i x_i
"""

import numpy as np

from dpalgos.catalog import register
from dpalgos.nonprivate.robust_intervals import RobustIntervalParams, mean_half_widths, robust_interval
from dpalgos.release.transcript import Transcript
from dpalgos.rows.clipping import truncate
from dpalgos.rows.moments import clipped_means
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray


@register(
    title="Sample mean",
    order=7,
    task="mean",
    relation=None,
    reference="the mean",
    summary="The mean without privacy.",
)
def sample_mean(sample: Sample, params: RobustIntervalParams, transcript: Transcript) -> FloatArray:
    """Return the mean of each replicate's rows, (d, R)."""
    if params.interval is not None:
        transcript.interval = robust_interval(sample, mean_half_widths(params.interval))
    return clipped_means(sample, truncate, np.inf).copy()
