"""The private mean (paper A, Algorithm 3.1).

    m̂ = (1/n) Σ_i Π_R(x_i) + N(0, sd² I_d),   Π_R clips every entry to [−R, R]

Guarantee: (ε, δ) under replacing one row; n is public. Public: ``value_bound`` R.

Sensitivity: Δ = 2R√d / n in ℓ2, attained by the rows R·1 and −R·1.

Calibrations
    ``tight``: sd = Δ z1(ε, δ), exact.
    ``paper``: sd = Δ √log(1/δ) / ε as printed, half the variance of the classical Gaussian mechanism.
    It proves more than ε for small δ (.5198 at ε = .5, δ = 1e-5) and less for large δ; the certificate
    says which.

``shrinkage="james_stein"`` multiplies the released mean by max(0, 1 − (d − 2) sd² / ‖m̂‖²), from the
release and the public noise level alone.

References
----------
Cai, Wang & Zhang, The Cost of Privacy, Algorithm 3.1 (its output line prints X_R for the mean).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.gaussian import noise_multiplier
from dpalgos.catalog import Neighbors, register
from dpalgos.mechanisms.clipping import truncate
from dpalgos.mechanisms.shrinkage import james_stein
from dpalgos.mechanisms.transcript import Transcript
from dpalgos.params import PrivateParams, choice, positive
from dpalgos.sample import Sample
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class DPMeanParams(PrivateParams):
    """Keywords of :func:`dp_mean`."""

    value_bound: float = positive("R: every entry is truncated to ±R")
    shrinkage: str | None = choice(
        "'james_stein' (with the known noise level) or None", ("james_stein", None), default=None
    )


def mean_sensitivity(value_bound: float, d: int, n_rows: float | FloatArray) -> FloatArray:
    """Return the ℓ2 sensitivity 2R√d/n of the mean of entries in [−R, R]: the rows R·1 and −R·1."""
    return np.asarray(2 * value_bound * np.sqrt(d) / n_rows)


def witnesses(params: DPMeanParams, d: int, published: Sequence[FloatArray]) -> dict[str, Neighbors]:
    """Return the neighbours R·1 and −R·1."""
    row, response = np.full((1, d), params.value_bound), np.zeros(1)
    return {"mean": (row, response, -row, response)}


@register(
    name="dp_mean",
    title="Private mean",
    order=6,
    task="mean",
    reference="Cai, Wang & Zhang, The Cost of Privacy, Algorithm 3.1",
    summary="The mean of truncated entries with Gaussian noise.",
    parameters=DPMeanParams,
    example={"value_bound": 1.0},
    witnesses=witnesses,
)
def dp_mean(sample: Sample, params: DPMeanParams, transcript: Transcript) -> FloatArray:
    """Return the mean, (d, R)."""
    sensitivity = mean_sensitivity(params.value_bound, sample.n_features, sample.n_rows)
    if params.calibration == "tight":
        multiplier = noise_multiplier(params.epsilon, params.delta)
    else:
        multiplier = float(np.sqrt(np.log(1 / params.delta)) / params.epsilon)
    released = transcript.gaussian(
        sample.means(truncate(sample.X, params.value_bound)),
        l2_sensitivity=sensitivity,
        noise_multiplier=multiplier,
        label="mean",
    )
    if params.shrinkage == "james_stein":
        released = james_stein(released, (multiplier * sensitivity) ** 2)
    return released
