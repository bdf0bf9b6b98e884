"""Iterative hard thresholding for linear regression: :mod:`dpalgos.nonprivate.iht_glm` of Gaussian responses.

    β ← P_s( β + η (1/n) X'(y − Xβ) ),   from β = 0;  P_s keeps the s entries of largest magnitude

Reference: Blumensath & Davies (2010), Normalized iterative hard thresholding.
"""

from dpalgos.catalog import register
from dpalgos.models.families import get_family
from dpalgos.nonprivate.iht_glm import HardThresholdingParams, hard_thresholding
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray


@register(
    title="Iterative hard thresholding",
    order=9,
    task="linear_regression",
    relation=None,
    reference="Blumensath & Davies (2010), the non-private answer to sparse problems",
    summary="Gradient steps that keep the largest coefficients only, without privacy.",
    example={"sparsity": 2},
)
def iht_linear_regression(
    sample: Sample, params: HardThresholdingParams, transcript: Transcript
) -> FloatArray:
    """Return the sparse coefficients, (d, R)."""
    return hard_thresholding(sample, params, get_family("gaussian"))
