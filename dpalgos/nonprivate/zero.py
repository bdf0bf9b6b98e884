"""The vector of zeros, which reads no data: the floor that a useful estimate must beat."""

import numpy as np

from dpalgos.catalog import register
from dpalgos.params import Params
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray


@register(
    title="Zero vector",
    order=0,
    task="any",
    relation=None,
    reference="the trivial estimate",
    summary="The vector of zeros: the floor that a useful estimate must beat.",
)
def zero(sample: Sample, params: Params, transcript: Transcript) -> FloatArray:
    """Return zeros of shape (d, R)."""
    return np.zeros((sample.n_features, sample.n_replicates))
