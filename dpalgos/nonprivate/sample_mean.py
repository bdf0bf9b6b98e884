"""The sample mean, the non-private answer that private means are compared with.

m = (1/n) Σ_i x_i
"""

from dpalgos.catalog import register
from dpalgos.mechanisms.transcript import Transcript
from dpalgos.params import Params
from dpalgos.sample import Sample
from dpalgos.typing import FloatArray


@register(
    name="sample_mean",
    title="Sample mean",
    order=7,
    task="mean",
    relation=None,
    reference="the non-private answer",
    summary="The mean without privacy.",
    parameters=Params,
)
def sample_mean(sample: Sample, params: Params, transcript: Transcript) -> FloatArray:
    """Return the mean of each replicate's rows, (d, R)."""
    return sample.means(sample.X)
