"""Adaptive sufficient-statistics perturbation (AdaSSP, Wang 2018).

    β̂ = (X'X + N + λI)⁻¹ (X'y + v),   λ as small as the released least eigenvalue allows

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``covariate_bound`` B_x and ``response_bound``
B_y, to which rows and responses are clipped here.

Three Gaussian releases, with their replace-one sensitivities (all attained):
    least eigenvalue of X'X   B_x²        (a row e_d against a row e_1, on the eigenvectors)
    X'X, Frobenius            √2 B_x²     (orthogonal rows of norm B_x)
    X'y                       2 B_x B_y   (the same x with responses ±B_y)

Calibrations
    ``tight``: multiplier √3 z1(ε, δ) for each, which is exactly (ε, δ) in all; noise on svec(X'X).
    ``paper``: the printed noise √log(6/δ) / (ε/3), times B_x² or B_x B_y, made for adding or removing
    a row, on the upper triangle of X'X. Under replacing one row the three are one Gaussian release
    with μ² = 7 (ε/3)² / log(6/δ), which the certificate states.

With an interval (:mod:`dpalgos.intervals.regression`: a step from β = 0) a share of μ² also pays for the
second moments of x (y − x'β̂), clipped to norm B_x B_y, and for how many rows, responses or such scores were
clipped. The ridge is left in the answer; a coefficient that it moves by more than a quarter of its standard
error is flagged.

References
----------
Wang (2018), Revisiting differentially private linear regression, Algorithm 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.budget import Budget
from dpalgos.catalog import Form, Neighbors, register
from dpalgos.intervals.clipped_scores import clipped_score_moments, score_witnesses
from dpalgos.intervals.half_widths import (
    IntervalParams,
    interval_shares,
    release_score_moments,
)
from dpalgos.intervals.regression import note_step_interval, resolved_floor, unresolved_coordinates
from dpalgos.params import positive
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.steps.row_moments import cross_sensitivity, eigenvalue_sensitivity, row_moments
from dpalgos.steps.symmetric import gram_sensitivity, svec, unsvec
from dpalgos.typing import FloatArray

_MISS = 0.05  # probability with which λ may come out too small; affects accuracy only


@dataclass(frozen=True, kw_only=True)
class AdaSSPParams(IntervalParams):
    """Keywords of :func:`adassp`."""

    covariate_bound: float = positive("B_x: rows are clipped to this ℓ2 norm")
    response_bound: float = positive("B_y: responses are truncated to ±B_y")


def witnesses(params: AdaSSPParams, d: int, published: Sequence[FloatArray]) -> dict[str, Neighbors]:
    """Return, for each release, neighbors that differ by its sensitivity."""
    row, response = params.covariate_bound, params.response_bound
    axes, zero = row * np.eye(d), np.zeros(d)
    same, other = axes.copy(), axes.copy()
    other[-1] = axes[0]  # the last axis loses its only row
    up, down = np.full(1, response), np.full(1, -response)
    return {
        "least eigenvalue": (same, zero, other, zero),
        "X'X": (axes[:1], zero[:1], axes[-1:], zero[:1]),
        "X'y": (axes[:1], up, axes[:1], down),
        **score_witnesses(row, d),
    }


@register(
    name="adassp",
    title="AdaSSP",
    order=5,
    task="linear_regression",
    reference="Wang (2018), Algorithm 2",
    summary="Noisy second moments with a ridge that adapts to the released least eigenvalue.",
    parameters=AdaSSPParams,
    example={"covariate_bound": 2.0, "response_bound": 3.0},
    witnesses=witnesses,
    forms={"interval": Form(keywords={"interval": 0.95})},
)
def adassp(sample: Sample, params: AdaSSPParams, transcript: Transcript) -> FloatArray:
    """Return the coefficients, (d, R)."""
    d, row, response = sample.n_features, params.covariate_bound, params.response_bound
    moments = row_moments(sample, row, response)
    gram, cross = moments[:, :d, :d], moments[:, :d, d].T
    if params.calibration == "tight":
        z = _budget(params).gaussian_multiplier("X'X")
        multipliers = {"eigenvalue": z, "gram": z, "cross": z}
    else:
        z = np.sqrt(np.log(6 / params.delta)) * 3 / params.epsilon
        multipliers = {"eigenvalue": z, "gram": z / np.sqrt(2), "cross": z / 2}

    least = transcript.gaussian(
        np.linalg.eigvalsh(gram)[:, :1].T,
        l2_sensitivity=eigenvalue_sensitivity(row),
        noise_multiplier=multipliers["eigenvalue"],
        label="least eigenvalue",
    )[0]
    released = release_gram(gram, multipliers["gram"], row, params.calibration, transcript)
    cross = transcript.gaussian(
        cross,
        l2_sensitivity=cross_sensitivity(row, response),
        noise_multiplier=multipliers["cross"],
        label="X'y",
    )
    ridge = _printed_ridge(least, d, params) if params.calibration == "paper" else _ridge(least, d, z, params)
    system = released + ridge[:, None, None] * np.eye(d)
    coef = np.linalg.solve(system, cross.T[:, :, None])[:, :, 0].T
    if params.interval is not None:
        _note_interval(sample, params, params.interval, released, ridge, coef, transcript)
    return coef


def _budget(params: AdaSSPParams) -> Budget:
    shares = dict.fromkeys(("least eigenvalue", "X'X", "X'y"), params.rest / 3)
    shares |= interval_shares(params.interval)
    return Budget(epsilon=params.epsilon, delta=params.delta, shares=shares)


def _note_interval(
    sample: Sample,
    params: AdaSSPParams,
    level: float,
    gram: FloatArray,
    ridge: FloatArray,
    coef: FloatArray,
    transcript: Transcript,
) -> None:
    """Release second moments of the scores at the answer and note half-widths; sums are divided by n."""
    row, response, n, d = params.covariate_bound, params.response_bound, sample.n_rows, sample.n_features
    budget = _budget(params)
    scores = release_score_moments(
        transcript,
        *clipped_score_moments(sample, coef, row, response),
        bound=np.full_like(n, row * response),
        n_rows=n,
        multiplier=budget.gaussian_multiplier,
    )
    z = budget.gaussian_multiplier("X'X")
    gram_std = transcript.noise_std(gram_sensitivity(row), z, d * (d + 1) // 2) / n
    eigenvalues, vectors = np.linalg.eigh(gram / n[:, None, None])
    raised = np.maximum(eigenvalues + (ridge / n)[:, None], resolved_floor(d, gram_std)[:, None])
    inverse = (vectors / raised[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    note_step_interval(
        transcript,
        level,
        inverse=inverse,
        lever=inverse,
        step=coef,
        gram_std=gram_std,
        score_std=transcript.noise_std(cross_sensitivity(row, response), z, d) / n,
        scores=scores,
        n_rows=n,
        # A ridge of a quarter of an eigenvalue hides how far it moves the answer along it.
        unresolved=unresolved_coordinates(eigenvalues - 4 * (ridge / n)[:, None], vectors, gram_std),
        bias=ridge / n * np.einsum("rjk,kr->jr", inverse, coef),
        row_bound=row,
    )


def release_gram(
    gram: FloatArray, z: float, row_bound: float, calibration: str, transcript: Transcript
) -> FloatArray:
    """Release X'X, (R, d, d), with noise multiplier z; as printed, as noisy off the diagonal as on it."""
    sensitivity, d = gram_sensitivity(row_bound), gram.shape[-1]
    if calibration == "tight":
        vector = transcript.gaussian(svec(gram), l2_sensitivity=sensitivity, noise_multiplier=z, label="X'X")
        return unsvec(vector, d)
    # As printed: independent noise of one size on the upper triangle, whose sensitivity is √2 B² too.
    first, second = np.triu_indices(d)
    triangle = transcript.gaussian(
        gram[:, first, second].T, l2_sensitivity=sensitivity, noise_multiplier=z, label="X'X"
    )
    released = np.empty_like(gram)
    released[:, first, second] = triangle.T
    released[:, second, first] = triangle.T
    return released


def _ridge(least: FloatArray, d: int, z: float, params: AdaSSPParams) -> FloatArray:
    tail = np.sqrt(2 * np.log(1 / _MISS))
    std = z * gram_sensitivity(params.covariate_bound)
    spectral_noise = std * (np.sqrt(2 * d) + tail)
    lower = np.maximum(0, least - z * params.covariate_bound**2 * tail)
    return np.asarray(np.maximum(0, spectral_noise - lower))


def _printed_ridge(least: FloatArray, d: int, params: AdaSSPParams) -> FloatArray:
    unit = params.covariate_bound**2 / (params.epsilon / 3)
    log_term = np.log(6 / params.delta)
    lower = np.maximum(0, least - log_term * unit)
    return np.asarray(np.maximum(0, np.sqrt(d * log_term * np.log(2 * d**2 / _MISS)) * unit - lower))
