"""Interactive sparse linear regression under local privacy, correlated rows (paper C, Algorithm 4).

The iteration, its guarantee and its proof are those of :mod:`dpalgos.local.ldp_iht`: T disjoint groups,
one ε-DP gradient per person, hard thresholding and projection on the server. What is specific here:
eigenvalues of E xx' lie in ``covariance_eigenvalue_bounds`` = (low, high), κ = high/low, and steps are η =
2/(3 high).

    quantity             sensitivity         share                made in     forms
    gradient of round t  2 in the unit ball  a report per person  run_rounds  all

Defaults
    ``tight``: T = ⌈3κ⌉, at most 10, k' = k, ϱ = 2.
    ``paper``: T = ⌈5κ⌉, at most 50, for the printed O(κ log n), k' = 72 κ² k, at most d, ϱ = 2.

The printed theorem starts within √(1/κ)/2 of the truth, which nothing here provides; from zero the error of
the start is smaller by 1 − 2/(3κ) after every round.

Reference: Paper C (ICLR 2024), Algorithm 4 and Theorem 34.
"""

from math import ceil

from dpalgos.accounting.events import Relation
from dpalgos.catalog import Published, Witnesses, register
from dpalgos.local.ldp_iht import (
    FORMS,
    GradientRounds,
    LDPIHTParams,
    RoundDefaults,
    gradient_rounds,
    round_witnesses,
)
from dpalgos.local.rounds import run_rounds
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray


def algorithm(params: LDPIHTParams, n_features: int, n_people: int) -> GradientRounds:
    """Return the computations of devices and server."""
    low, high = params.eigenvalue_bounds
    condition, printed = high / low, params.calibration == "paper"
    kept = ceil(min(72 * condition**2, n_features)) if printed else 1
    defaults = RoundDefaults(
        n_rounds=min(50, ceil(5 * condition)) if printed else min(10, ceil(3 * condition)),
        working_sparsity=kept * params.sparsity,
        step_size=2 / (3 * high),
        coef_bound=2.0,
    )
    return gradient_rounds(params, n_features, n_people, defaults)


def witnesses(params: LDPIHTParams, d: int, published: Published) -> Witnesses:
    """Return, for each round, opposite people of the largest gradient."""
    return round_witnesses(algorithm, params, d, published)


@register(
    title="Local hard thresholding, any covariance",
    order=73,
    task="linear_regression",
    relation=Relation.LOCAL,
    reference="paper C (ICLR 2024), Algorithm 4",
    summary="Each group sends noisy gradients at what the groups before it have found; correlated rows.",
    no_interval="a support that was selected is not the one that a new sample would select",
    example={
        "covariate_bound": 1.0,
        "response_bound": 3.0,
        "covariance_eigenvalue_bounds": (0.3, 0.5),
        "sparsity": 2,
        "n_rounds": 3,
    },
    witnesses=witnesses,
    public="n, and which group a person is in",
    forms=FORMS,
)
def ldp_iht_general(sample: Sample, params: LDPIHTParams, transcript: Transcript) -> FloatArray:
    """Return the last iterate, (d, R)."""
    return run_rounds(sample, params, transcript, algorithm)
