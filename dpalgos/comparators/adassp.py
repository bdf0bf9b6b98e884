"""Adaptive sufficient-statistics perturbation (AdaSSP, Wang 2018).

    β̂ = (X'X + N + λI)⁻¹ (X'y + v),   λ as small as the released smallest eigenvalue allows

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``covariate_bound`` B_x and ``response_bound``
B_y, to which rows and responses are clipped here.

Calibrations
    ``tight``: multiplier √3 z1(ε, δ) for each release. Together they are exactly (ε, δ). Noise is on
    svec(X'X).
    ``paper``: the printed noise √log(6/δ) / (ε/3), times B_x² or B_x B_y, on the upper triangle of X'X. It is
    meant for adding or removing a row. Under replacing one row the three releases are one Gaussian release
    with μ² = 7 (ε/3)² / log(6/δ), which the certificate states.

Bounds: the reference takes them as given. Narrow ones bias the estimate, and wide ones add noise. In studies
with ``"by forecast"``, :func:`best_bounds` takes those with the smallest forecast error on synthetic tables
from public guesses. No row of the data is read.

Reference: Wang (2018), Revisiting differentially private linear regression, Algorithm 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dpalgos.accounting.calibration import gaussians
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.catalog import Release, register
from dpalgos.mechanisms.sensitivity import ball_mean, eigenvalue_sensitivity, outer_product
from dpalgos.params import PrivateParams, positive
from dpalgos.release.spend import Planned, Spend
from dpalgos.release.symmetric import from_upper_triangles
from dpalgos.release.transcript import Transcript
from dpalgos.rows.clipping import clip_rows_l2, truncate
from dpalgos.rows.moments import row_moments
from dpalgos.rows.sample import Sample
from dpalgos.tuning.descent import SyntheticTable
from dpalgos.typing import FloatArray

_ROW_SHARES, _RESPONSE_BOUNDS = (0.7, 1.0, 1.4, 2.0), (1.0, 1.5, 2.0, 3.0, 4.0)  # tried: B_x/√d, and B_y
_MISS = 0.05  # probability with which λ may come out too small; affects accuracy only


@dataclass(frozen=True, kw_only=True)
class AdaSSPParams(PrivateParams):
    """Keywords of :func:`adassp`."""

    covariate_bound: float = positive("B_x: rows are clipped to this ℓ2 norm")
    response_bound: float = positive("B_y: responses are truncated to ±B_y")

    by_forecast = ("covariate_bound", "response_bound")

    def forecast_settings(self, tables: Sequence[SyntheticTable], n_rows: int) -> dict[str, float]:
        covariate_bound, response_bound = best_bounds(self, tables, n_rows)
        return {"covariate_bound": covariate_bound, "response_bound": response_bound}


SMALLEST_EIGENVALUE = Release("least eigenvalue", eigenvalue_sensitivity)
GRAM = Release("X'X", outer_product)
CROSS_PRODUCTS = Release("X'y", ball_mean)
RELEASES = SMALLEST_EIGENVALUE, GRAM, CROSS_PRODUCTS


@register(
    title="AdaSSP",
    order=5,
    task="linear_regression",
    reference="Wang (2018), Algorithm 2",
    summary="Noisy second moments with a ridge that adapts to the released least eigenvalue.",
    example={"covariate_bound": 2.0, "response_bound": 3.0},
    no_interval="the estimate is biased by its ridge; use preconditioned_regression",
    releases=RELEASES,
)
def adassp(sample: Sample, params: AdaSSPParams, transcript: Transcript) -> FloatArray:
    """Return the coefficients, (d, R)."""
    d, row, response = sample.n_features, params.covariate_bound, params.response_bound
    moments = row_moments(sample, row, response)
    if params.calibration == "tight":
        plan = dict.fromkeys(RELEASES, Planned(1 / 3))
        spend, ridge_of = Spend.of_plan(transcript, params.epsilon, params.delta, plan), _ridge
    else:
        z = float(np.sqrt(np.log(6 / params.delta)) * 3 / params.epsilon)
        printed = {SMALLEST_EIGENVALUE.label: gaussians(z), GRAM.label: gaussians(z / np.sqrt(2))}
        printed |= {CROSS_PRODUCTS.label: gaussians(z / 2)}
        spend, ridge_of = Spend(transcript, printed), _printed_ridge
    gram, smallest = release_gram(spend, moments[:, :d, :d], row, params.calibration)
    cross, _ = spend(CROSS_PRODUCTS, ball_mean.of(moments[:, :d, d].T, row * response, 1))
    spend.check_complete()
    ridge = ridge_of(smallest, d, spend.multiplier(SMALLEST_EIGENVALUE), params)
    system = gram + ridge[:, None, None] * np.eye(d)
    return np.asarray(np.linalg.solve(system, cross.T[:, :, None])[:, :, 0].T)


def best_bounds(params: AdaSSPParams, tables: Sequence[SyntheticTable], n_rows: int) -> tuple[float, float]:
    """Return B_x and B_y with the smallest forecast error, a geometric mean over tables.

    Each release has Gaussian noise of multiplier z on sums over n clipped rows. With A = X'X + λI and
    b = A⁻¹ X'y, the noise adds A⁻¹ (v − N b) to the estimate.
    """
    d = tables[0].X.shape[1]
    candidates = [(share * d**0.5, bound) for share in _ROW_SHARES for bound in _RESPONSE_BOUNDS]
    z = np.sqrt(3) / gaussian_mu(params.epsilon, params.delta)
    ridge_of = _ridge
    if params.calibration == "paper":
        z, ridge_of = float(np.sqrt(np.log(6 / params.delta)) * 3 / params.epsilon), _printed_ridge
    errors = []
    for row, response in candidates:
        bounded, logs = replace(params, covariate_bound=row, response_bound=response), []
        for table in tables:
            gram, cross = (n_rows * each for each in _mean_products(table, row, response))
            ridge = float(ridge_of(np.linalg.eigvalsh(gram)[:1], d, z, bounded)[0])
            inverse = np.linalg.inv(gram + ridge * np.eye(d))
            coef, to_target = inverse @ cross, table.to_target @ inverse
            noise = z * row * np.hypot(response * float(ball_mean(1.0, 1)), row * np.linalg.norm(coef))
            bias = table.to_target @ coef - table.target
            logs.append(np.log(bias @ bias + noise**2 * (to_target**2).sum()))
        errors.append(np.mean(logs))
    return candidates[int(np.argmin(errors))]


@lru_cache(maxsize=128)
def _mean_products(table: SyntheticTable, row: float, response: float) -> tuple[FloatArray, FloatArray]:
    """Return X'X/n and X'y/n of clipped rows, which are the same at every budget."""
    X, y = clip_rows_l2(table.X, row), truncate(table.y, response)
    return X.T @ X / len(X), X.T @ y / len(X)


def release_gram(
    spend: Spend, gram: FloatArray, row_bound: float, calibration: str
) -> tuple[FloatArray, FloatArray]:
    """Release X'X (R, d, d) and its smallest eigenvalue (R,)."""
    smallest, _ = spend(
        SMALLEST_EIGENVALUE, eigenvalue_sensitivity.of(np.linalg.eigvalsh(gram)[:, 0], row_bound)
    )
    if calibration == "tight":
        return spend.symmetric(GRAM, outer_product.of(gram, row_bound, 1)).value, smallest
    # As printed: independent noise of one size on the upper triangle, whose sensitivity is √2 B² too.
    first, second = np.triu_indices(gram.shape[-1])
    triangle, _ = spend(GRAM, outer_product.of(gram[:, first, second].T, row_bound, 1))
    return from_upper_triangles(triangle.T, gram.shape[-1]), smallest


def _ridge(smallest: FloatArray, d: int, z: float, params: AdaSSPParams) -> FloatArray:
    tail = np.sqrt(2 * np.log(1 / _MISS))
    spectral_noise = z * float(outer_product(params.covariate_bound, 1)) * (np.sqrt(2 * d) + tail)
    lower = np.maximum(0, smallest - z * params.covariate_bound**2 * tail)
    return np.asarray(np.maximum(0, spectral_noise - lower))


def _printed_ridge(smallest: FloatArray, d: int, z: float, params: AdaSSPParams) -> FloatArray:
    unit = params.covariate_bound**2 / (params.epsilon / 3)
    log_term = np.log(6 / params.delta)
    lower = np.maximum(0, smallest - log_term * unit)
    return np.asarray(np.maximum(0, np.sqrt(d * log_term * np.log(2 * d**2 / _MISS)) * unit - lower))
