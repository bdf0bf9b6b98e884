"""Interactive sparse linear regression under local privacy, isotropic rows (paper C, Algorithm 2).

The iteration, its guarantee and its proof are in :mod:`dpalgos.local.gradient_rounds`: T disjoint groups,
one ε-DP gradient per person, hard thresholding and projection on the server. What is specific here:
covariates are about uncorrelated with equal variances, the start is zero and the coefficients have norm at
most 1.

Defaults
    ``tight``: T = 2, k' = k, η = 1/high, ϱ = 1. The 8k of the proof costs √8 in noise, and every round √T;
        with such rows the first step arrives.
    ``paper``: T = 5 for the printed O(log n), k' = 8k, η = 1/high, ϱ = 1.

Reference: Paper C (ICLR 2024), Algorithm 2, Theorems 6 and 7.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dpalgos.accounting.events import Relation
from dpalgos.catalog import Neighbors, register
from dpalgos.local.gradient_rounds import (
    FORMS,
    GradientParams,
    GradientRounds,
    gradient_rounds,
    gradient_witnesses,
)
from dpalgos.local.rounds import run_rounds
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class LDPIHTParams(GradientParams):
    """Keywords of :func:`ldp_iht`."""


def algorithm(params: LDPIHTParams, n_features: int, n_people: int) -> GradientRounds:
    """Return the computations of devices and server."""
    printed = params.calibration == "paper"
    return gradient_rounds(
        params,
        n_features,
        n_people,
        n_rounds=5 if printed else 2,
        working_sparsity=(8 if printed else 1) * params.sparsity,
        step_size=1 / params.eigenvalue_bounds[1],
        coef_bound=1.0,
    )


def witnesses(params: LDPIHTParams, d: int, published: Sequence[FloatArray]) -> dict[str, Neighbors]:
    """Return, for each round, opposite people of the largest gradient."""
    return gradient_witnesses(algorithm, params, d, published)


@register(
    title="Local hard thresholding",
    order=72,
    task="linear_regression",
    relation=Relation.LOCAL,
    reference="paper C (ICLR 2024), Algorithm 2",
    summary="Each group sends noisy gradients at what the groups before it have found; isotropic rows.",
    no_interval="a support that was selected is not the one that a new sample would select",
    example={
        "covariate_bound": 1.0,
        "response_bound": 3.0,
        "covariance_eigenvalue_bounds": (0.3, 0.5),
        "sparsity": 2,
        "coef_bound": 1.5,
    },
    witnesses=witnesses,
    public="n, and which group a person is in",
    forms=FORMS,
)
def ldp_iht(sample: Sample, params: LDPIHTParams, transcript: Transcript) -> FloatArray:
    """Return the last iterate, (d, R)."""
    return run_rounds(sample, transcript, lambda n: algorithm(params, sample.n_features, n), params.delta)
