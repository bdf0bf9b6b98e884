"""The vector of zeros: the floor that a useful estimate must beat.

    β̂ = 0

It reads no data, so it is private at any ε; it is listed as non-private because there is nothing
to account for.
"""

import numpy as np

from dpalgos.catalog import register
from dpalgos.params import Params
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray


@register(
    name="zero",
    title="Zero vector",
    order=0,
    task="any",
    relation=None,
    reference="the trivial estimate",
    summary="The vector of zeros: the floor that a useful estimate must beat.",
    parameters=Params,
)
def zero(sample: Sample, params: Params, transcript: Transcript) -> FloatArray:
    """Return zeros of shape (d, R)."""
    return np.zeros((sample.n_features, sample.n_replicates))
