"""Adaptive sufficient-statistics perturbation (AdaSSP, Wang 2018).

    β̂ = (X'X + N + λI)⁻¹ (X'y + v),   λ as small as the released least eigenvalue allows

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``covariate_bound`` B_x and ``response_bound``
B_y, to which rows and responses are clipped here.

Each sensitivity is attained; its function (:mod:`dpalgos.steps.moments`) says by which rows.

Calibrations
    ``tight``: multiplier √3 z1(ε, δ) for each, which is exactly (ε, δ) in all; noise on svec(X'X).
    ``paper``: the printed noise √log(6/δ) / (ε/3), times B_x² or B_x B_y, made for adding or removing
    a row, on the upper triangle of X'X. Under replacing one row the three are one Gaussian release
    with μ² = 7 (ε/3)² / log(6/δ), which the certificate states.

An interval (:mod:`dpalgos.central.preconditioned.from_start`) takes half of μ², and is around whitened steps
from the answer.

Reference: Wang (2018), Revisiting differentially private linear regression, Algorithm 2.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.budget import SplitBudget
from dpalgos.catalog import Form, Neighbors, Published, Release, Witnesses, pair, register, witnessed
from dpalgos.central.preconditioned.from_start import START_RELEASES, interval_from, reserved
from dpalgos.central.preconditioned.interval import RegressionIntervalParams
from dpalgos.mechanisms.sensitivity import ball_mean, outer_product
from dpalgos.params import positive
from dpalgos.release.symmetric import from_upper_triangles, svec, unsvec
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.steps.moments import (
    eigenvalue_sensitivity,
    row_moments,
)
from dpalgos.typing import FloatArray

_MISS = 0.05  # probability with which λ may come out too small; affects accuracy only


@dataclass(frozen=True, kw_only=True)
class AdaSSPParams(RegressionIntervalParams):
    """Keywords of :func:`adassp`."""

    covariate_bound: float = positive("B_x: rows are clipped to this ℓ2 norm")
    response_bound: float = positive("B_y: responses are truncated to ±B_y")

    def budget(self, sample: Sample) -> SplitBudget:
        releases = ("least eigenvalue", "X'X", "X'y")
        return self.split_budget(dict.fromkeys(releases, 1 / 3), reserved(self, sample))


def witnesses(params: AdaSSPParams, d: int, published: Published) -> Witnesses:
    """Return, for each release, neighbors that differ by its sensitivity."""
    row, up = params.covariate_bound * np.eye(1, d), params.response_bound
    return [*gram_witnesses(params.covariate_bound, d), pair(row, row, up, -up)]


def gram_witnesses(row_bound: float, d: int) -> list[Neighbors]:
    """Return rows along all axes of which the last axis loses its only one, and orthogonal rows."""
    axes = row_bound * np.eye(d)
    other = axes.copy()
    other[-1] = axes[0]
    return [pair(axes, other), pair(axes[0], axes[-1])]


@register(
    title="AdaSSP",
    order=5,
    task="linear_regression",
    reference="Wang (2018), Algorithm 2",
    summary="Noisy second moments with a ridge that adapts to the released least eigenvalue.",
    example={"covariate_bound": 2.0, "response_bound": 3.0},
    releases=witnessed(
        witnesses,
        Release("least eigenvalue", "a third of the rest", "covariate_bound**2"),
        Release("X'X", "a third of the rest", "sqrt(2) * covariate_bound**2"),
        Release("X'y", "a third of the rest", "2 * covariate_bound * response_bound"),
        *START_RELEASES,
    ),
    forms={"interval": Form(keywords={"interval": 0.95})},
)
def adassp(sample: Sample, params: AdaSSPParams, transcript: Transcript) -> FloatArray:
    """Return the coefficients, (d, R)."""
    d, row, response = sample.n_features, params.covariate_bound, params.response_bound
    moments = row_moments(sample, row, response)
    if params.calibration == "tight":
        budget = params.budget(sample)
        z = z_gram = z_cross = budget.gaussian_multiplier("X'X")
        ridge_of = _ridge
    else:
        z = float(np.sqrt(np.log(6 / params.delta)) * 3 / params.epsilon)
        z_gram, z_cross, ridge_of = z / np.sqrt(2), z / 2, _printed_ridge
    gram, least = release_gram(moments[:, :d, :d], z, z_gram, row, params.calibration, transcript)
    cross = transcript.gaussian(
        moments[:, :d, d].T,
        l2_sensitivity=ball_mean(row * response, 1),
        noise_multiplier=z_cross,
        label="X'y",
    )
    ridge = ridge_of(least, d, z, params)
    system = gram + ridge[:, None, None] * np.eye(d)
    coef = np.linalg.solve(system, cross.T[:, :, None])[:, :, 0].T
    if params.interval is not None:
        transcript.interval = interval_from(transcript, params, budget, sample, coef)
    return coef


def release_gram(
    gram: FloatArray, z: float, z_gram: float, row_bound: float, calibration: str, transcript: Transcript
) -> tuple[FloatArray, FloatArray]:
    """Release X'X (R, d, d) and its least eigenvalue (R,), with noise multipliers ``z_gram`` and ``z``."""
    least = transcript.gaussian(
        np.linalg.eigvalsh(gram)[:, :1].T,
        l2_sensitivity=eigenvalue_sensitivity(row_bound),
        noise_multiplier=z,
        label="least eigenvalue",
    )[0]
    d, sensitivity = gram.shape[-1], outer_product(row_bound, 1)
    if calibration == "tight":
        vector = transcript.gaussian(
            svec(gram), l2_sensitivity=sensitivity, noise_multiplier=z_gram, label="X'X"
        )
        return unsvec(vector, d), least
    # As printed: independent noise of one size on the upper triangle, whose sensitivity is √2 B² too.
    first, second = np.triu_indices(d)
    triangle = transcript.gaussian(
        gram[:, first, second].T, l2_sensitivity=sensitivity, noise_multiplier=z_gram, label="X'X"
    )
    return from_upper_triangles(triangle.T, d), least


def _ridge(least: FloatArray, d: int, z: float, params: AdaSSPParams) -> FloatArray:
    tail = np.sqrt(2 * np.log(1 / _MISS))
    spectral_noise = z * float(outer_product(params.covariate_bound, 1)) * (np.sqrt(2 * d) + tail)
    lower = np.maximum(0, least - z * params.covariate_bound**2 * tail)
    return np.asarray(np.maximum(0, spectral_noise - lower))


def _printed_ridge(least: FloatArray, d: int, z: float, params: AdaSSPParams) -> FloatArray:
    unit = params.covariate_bound**2 / (params.epsilon / 3)
    log_term = np.log(6 / params.delta)
    lower = np.maximum(0, least - log_term * unit)
    return np.asarray(np.maximum(0, np.sqrt(d * log_term * np.log(2 * d**2 / _MISS)) * unit - lower))
