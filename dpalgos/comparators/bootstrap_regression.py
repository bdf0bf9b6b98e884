"""Noisy second moments with intervals by the parametric bootstrap (Ferrando, Wang & Sheldon 2022).

    β̂ = (X'X + V)⁻¹ (X'y + w),   σ̂² = (y'y + v − 2 β̂'(X'y + w) + β̂'(X'X + V) β̂) / (n − d)
    β*_b = (Q̂ + V*/n)⁻¹ ( Q̂ β̂ + Z*/√n + w*/n ),   Q̂ = (X'X + V)/n,   Z* ~ N(0, σ̂² Q̂),   b = 1 … 500

The interval of a coefficient lies between quantiles of its β*. This is their hybrid bootstrap, which reuses
the released Q̂ instead of the rows. V* and w* are drawn like the noise, from a public seed: post-processing.

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``covariate_bound`` B_x and ``response_bound`` B_y,
to which rows and responses are clipped here.

Departures

- Noise is Gaussian and norms are bounded, instead of Laplace noise and bounds on entries.
- σ̂² follows from moments instead of another release at β̂.
- Eigenvalues of X'X + V are raised to at least 1; the paper raises them to 0.1.

The intervals assume errors of equal variance and ignore the bias of clipping. If the noise is small compared
with that bias, coverage falls. No coefficient is flagged. The estimator is here for comparison.

Reference: Ferrando, Wang & Sheldon (2022), Parametric bootstrap for differentially private confidence
intervals.
"""

from dataclasses import dataclass, replace

import numpy as np

from dpalgos.catalog import Form, Neighbors, Published, Release, pair, register, shares_of
from dpalgos.comparators.adassp import CROSS_PRODUCTS, GRAM
from dpalgos.interval import Interval
from dpalgos.intervals.half_widths import normal_quantile
from dpalgos.mechanisms.sensitivity import interval
from dpalgos.params import IntervalParams, positive
from dpalgos.release.spend import Spend
from dpalgos.release.symmetric import unsvec
from dpalgos.release.transcript import Transcript
from dpalgos.rows.moments import row_moments
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

_N_BOOTSTRAPS = 500
_PUBLIC_SEED = 20_220_301


@dataclass(frozen=True, kw_only=True)
class BootstrapRegressionParams(IntervalParams):
    """Keywords of :func:`bootstrap_regression`."""

    covariate_bound: float = positive("B_x: rows are clipped to this ℓ2 norm")
    response_bound: float = positive("B_y: responses are truncated to ±B_y")


def _largest_response(params: BootstrapRegressionParams, d: int, _: Published) -> Neighbors:
    row = params.covariate_bound * np.eye(1, d)
    return pair(row, row, params.response_bound, 0.0)


SQUARES = Release("y'y", 1 / 3, interval, witness=_largest_response)
RELEASES = replace(GRAM, share=1 / 3), replace(CROSS_PRODUCTS, share=1 / 3), SQUARES


@register(
    title="Noisy moments, bootstrapped",
    order=54,
    task="linear_regression",
    reference="Ferrando, Wang & Sheldon (2022), hybrid bootstrap of least squares",
    summary="Solves noisy normal equations; intervals by the parametric bootstrap.",
    calibrations=("tight",),
    example={"covariate_bound": 2.0, "response_bound": 3.0},
    releases=RELEASES,
    forms={"interval": Form(keywords={"interval": 0.95})},
)
def bootstrap_regression(
    sample: Sample, params: BootstrapRegressionParams, transcript: Transcript
) -> FloatArray:
    """Return the coefficients, (d, R)."""
    d, row, response, n = sample.n_features, params.covariate_bound, params.response_bound, sample.n_rows
    moments = row_moments(sample, row, response)
    spend = Spend.of_budget(transcript, params.split_budget(shares_of(RELEASES, params)))
    gram, gram_std = spend.symmetric(GRAM, moments[:, :d, :d], row, 1)
    cross, cross_std = spend(CROSS_PRODUCTS, moments[:, :d, d].T, row * response, 1)
    square, _ = spend(SQUARES, moments[:, d, d], response**2, 1)
    spend.check_complete()
    released = _raised(gram)
    coef = np.linalg.solve(released, cross.T[:, :, None])[:, :, 0].T
    if params.interval is not None:
        explained = np.einsum("jr,rjk,kr->r", coef, released, coef) - 2 * (coef * cross).sum(axis=0)
        variance = np.maximum(square + explained, 0.0) / np.maximum(n - d, 1)
        limits = [
            np.quantile(
                _bootstrapped(released[r], coef[:, r], variance[r], float(gram_std), float(cross_std)),
                [(1 - params.interval) / 2, (1 + params.interval) / 2],
                axis=0,
            )
            for r in range(sample.n_replicates)
        ]
        naive = np.einsum("rjj->jr", np.linalg.inv(released)) * variance
        lower, upper = np.stack(limits, axis=-1)
        transcript.interval = Interval(
            half_width=(upper - lower) / 2,
            center=(upper + lower) / 2,
            without_noise=normal_quantile(params.interval) * np.sqrt(naive),
        )
    return np.asarray(coef)


def _raised(gram: FloatArray) -> FloatArray:
    """Return matrices (R, d, d) with eigenvalues of at least 1, and 1e-12 of the largest: covariances."""
    eigenvalues, vectors = np.linalg.eigh(gram)
    least = np.maximum(1e-12 * eigenvalues[:, -1:], 1.0)
    return np.asarray((vectors * np.maximum(eigenvalues, least)[:, None, :]) @ np.swapaxes(vectors, 1, 2))


def _bootstrapped(
    gram: FloatArray, coef: FloatArray, variance: float, gram_std: float, cross_std: float
) -> FloatArray:
    rng, d = np.random.default_rng(_PUBLIC_SEED), len(coef)
    noise = gram_std * unsvec(rng.standard_normal((d * (d + 1) // 2, _N_BOOTSTRAPS)), d)
    eigenvalues, vectors = np.linalg.eigh(gram)  # rounding may leave some below zero
    root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    scores = np.sqrt(variance) * rng.standard_normal((_N_BOOTSTRAPS, d)) @ root.T
    scores += cross_std * rng.standard_normal((_N_BOOTSTRAPS, d))
    return np.asarray(np.linalg.solve(_raised(gram + noise), (gram @ coef + scores)[:, :, None])[:, :, 0])
