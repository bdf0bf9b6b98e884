"""The hard-thresholded sample mean, what private sparse means are compared with.

m = P_s( (1/n) Σ_i x_i ),   P_s keeps the s entries of largest magnitude
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.catalog import register
from dpalgos.models.shrinkage import hard_threshold
from dpalgos.params import Params, count
from dpalgos.release.checks import check_how_many
from dpalgos.release.transcript import Transcript
from dpalgos.rows.clipping import truncate
from dpalgos.rows.moments import clipped_means
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class SparseSampleMeanParams(Params):
    """Keywords of :func:`sparse_sample_mean`."""

    sparsity: int = count("s, number of entries that are kept")


@register(
    title="Thresholded sample mean",
    order=8,
    task="mean",
    relation=None,
    reference="hard thresholding",
    summary="The entries of the mean that are largest in magnitude, without privacy.",
    example={"sparsity": 2},
)
def sparse_sample_mean(sample: Sample, params: SparseSampleMeanParams, transcript: Transcript) -> FloatArray:
    """Return the thresholded mean of each replicate's rows, (d, R)."""
    sparsity = check_how_many("sparsity", params.sparsity, sample.n_features)
    return hard_threshold(clipped_means(sample, truncate, np.inf), sparsity)
