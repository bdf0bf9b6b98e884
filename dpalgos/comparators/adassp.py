"""Adaptive sufficient-statistics perturbation (AdaSSP, Wang 2018).

    β̂ = (X'X + N + λI)⁻¹ (X'y + v),   λ as small as the released smallest eigenvalue allows

Guarantee: (ε, δ) under replacing one row (x, y). Public: ``covariate_bound`` B_x and ``response_bound``
B_y, to which rows and responses are clipped here.

    release                       sensitivity (ℓ2)   share of μ²   noise of the paper's calibration
    smallest eigenvalue of X'X    B_x²               1/3           B_x² √log(6/δ) / (ε/3)
    X'X                           √2 B_x²            1/3           B_x² √log(6/δ) / (ε/3)
    X'y                           2 B_x B_y          1/3           B_x B_y √log(6/δ) / (ε/3)

Calibrations
    ``tight``: multiplier √3 z1(ε, δ) for each release. Together they are exactly (ε, δ). Noise is on
    svec(X'X).
    ``paper``: the paper's calibration, with noise on the upper triangle of X'X. It is meant for adding or
    removing a row. Under replacing one row the three releases are one Gaussian release with
    μ² = 7 (ε/3)² / log(6/δ), which the certificate states.

Bounds: the reference takes them as given. Narrow ones bias the estimate, and wide ones add noise. In studies
with ``"by forecast"``, :func:`best_bounds` takes those with the smallest forecast error on synthetic tables
from public guesses. They widen with nε: from a third of √d to 8√d. No row of the data is read.

Reference: Wang (2018), Revisiting differentially private linear regression, Algorithm 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dpalgos.accounting.events import Gaussian
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.catalog import register
from dpalgos.comparators.gram import (
    GRAM,
    SMALLEST_EIGENVALUE,
    eigenvalue_sensitivity,
    release_gram,
    solve_ridge,
)
from dpalgos.core.estimator import PrivateEstimator
from dpalgos.core.plans import Plan, Share, gaussian_plan
from dpalgos.core.rows import Rows, clipped_moments
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Lemmas, ball_sum, outer_product_sum
from dpalgos.params import positive
from dpalgos.rows.products import clip_rows_l2, truncate
from dpalgos.tuning.descent import SyntheticTable
from dpalgos.typing import FloatArray

CROSS_PRODUCTS = "X'y"
_ROW_SHARES = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)  # B_x/√d that a forecast tries
_RESPONSE_BOUNDS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)  # B_y
_WIDE, _ROWS_FOR_WIDE = 2.0, 100  # B_x/√d above it, and n/(z d) it needs: else it shrinks to zero
_MISS = 0.05  # probability with which λ may come out too small; affects accuracy only


@register(
    name="adassp",
    title="AdaSSP",
    order=5,
    task="linear_regression",
    reference="Wang (2018), Algorithm 2",
    summary="Noisy second moments with a ridge that adapts to the released smallest eigenvalue.",
    example={"covariate_bound": 2.0, "response_bound": 3.0},
    no_interval="the estimate is biased by its ridge; use preconditioned_regression",
)
@dataclass(frozen=True, kw_only=True)
class AdaSSP(PrivateEstimator):
    """Ridge regression on noisy second moments."""

    covariate_bound: float = positive("B_x: rows are clipped to this ℓ2 norm")
    response_bound: float = positive("B_y: responses are truncated to ±B_y")

    batch = True
    by_forecast = ("covariate_bound", "response_bound")
    lemmas: ClassVar[Lemmas] = {
        SMALLEST_EIGENVALUE: eigenvalue_sensitivity,
        GRAM: outer_product_sum,
        CROSS_PRODUCTS: ball_sum,
    }

    def plan(self, n: float, d: int) -> Plan:
        if self.calibration == "paper":
            z = self.printed_multiplier
            return {
                SMALLEST_EIGENVALUE: Gaussian(z),
                GRAM: Gaussian(z / np.sqrt(2)),
                CROSS_PRODUCTS: Gaussian(z / 2),
            }
        return gaussian_plan(self.epsilon, self.delta, dict.fromkeys(self.lemmas, Share(1 / 3)))

    def fit(self, rows: Rows, spend: Spend) -> FloatArray:
        d, row, response = rows.d, self.covariate_bound, self.response_bound
        moments = clipped_moments(rows, row, response)
        gram, smallest = release_gram(spend, moments[..., :d, :d], row, self.calibration)
        cross = spend(CROSS_PRODUCTS, ball_sum.of(moments[..., :d, d], row * response)).value
        ridge = self.ridge(smallest, d, spend.multiplier(SMALLEST_EIGENVALUE))
        return solve_ridge(gram, ridge, cross)

    @property
    def printed_multiplier(self) -> float:
        return float(np.sqrt(np.log(6 / self.delta)) * 3 / self.epsilon)

    def ridge(self, smallest: FloatArray, d: int, z: float) -> FloatArray:
        """Return λ (…,) from the released smallest eigenvalue and the multiplier z of its noise.

        It is a bound on the spectral norm of the noise in X'X, less a lower bound on the smallest eigenvalue.
        """
        if self.calibration == "paper":
            scale, log_term = self.covariate_bound**2 / (self.epsilon / 3), np.log(6 / self.delta)
            noise = np.sqrt(d * log_term * np.log(2 * d**2 / _MISS)) * scale
            lower = smallest - log_term * scale
        else:
            tail = np.sqrt(2 * np.log(1 / _MISS))
            noise = z * float(outer_product_sum(self.covariate_bound)) * (np.sqrt(2 * d) + tail)
            lower = smallest - z * self.covariate_bound**2 * tail
        return np.asarray(np.maximum(0, noise - np.maximum(0, lower)))

    def forecast_settings(self, tables: Sequence[SyntheticTable], n_rows: int) -> dict[str, float]:
        covariate_bound, response_bound = best_bounds(self, tables, n_rows)
        return {"covariate_bound": covariate_bound, "response_bound": response_bound}


def best_bounds(estimator: AdaSSP, tables: Sequence[SyntheticTable], n_rows: int) -> tuple[float, float]:
    """Return B_x and B_y with the smallest forecast error, a geometric mean over tables.

    Each release has Gaussian noise of multiplier z on sums over n clipped rows. With A = X'X + λI and
    b = A⁻¹ X'y, the noise adds A⁻¹ (v − N b) to the estimate.
    """
    d = tables[0].X.shape[1]
    candidates = np.array([(share * d**0.5, bound) for share in _ROW_SHARES for bound in _RESPONSE_BOUNDS])
    rows, responses = candidates.T
    z = np.sqrt(3) / gaussian_mu(estimator.epsilon, estimator.delta)
    if estimator.calibration == "paper":
        z = estimator.printed_multiplier
    logs = []
    for table in tables:
        gram, cross, smallest = (n_rows * each for each in _mean_products(table))
        ridge = [
            float(replace(estimator, covariate_bound=row, response_bound=response).ridge(least, d, z))
            for row, response, least in zip(rows, responses, smallest, strict=True)
        ]
        inverse = np.linalg.inv(gram + np.array(ridge)[:, None, None] * np.eye(d))
        coef, to_target = np.einsum("cij,cj->ci", inverse, cross), table.to_target @ inverse
        per_entry = np.hypot(responses * float(ball_sum(1.0)), rows * np.linalg.norm(coef, axis=1))
        bias = coef @ table.to_target.T - table.target
        logs.append(
            np.log((bias**2).sum(axis=1) + (z * rows * per_entry) ** 2 * (to_target**2).sum(axis=(1, 2)))
        )
    error = np.mean(logs, axis=0)
    if n_rows < _ROWS_FOR_WIDE * z * d:
        error[rows > _WIDE * d**0.5] = np.inf
    row, response = candidates[int(np.argmin(error))]
    return float(row), float(response)


@lru_cache(maxsize=16)
def _mean_products(table: SyntheticTable) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return X'X/n, X'y/n and the smallest eigenvalue of rows clipped to each pair of bounds."""
    d = table.X.shape[1]
    rows = [clip_rows_l2(table.X, share * d**0.5) for share in _ROW_SHARES]
    responses = np.stack([truncate(table.y, bound) for bound in _RESPONSE_BOUNDS], axis=1)
    gram = np.repeat([X.T @ X / len(X) for X in rows], len(_RESPONSE_BOUNDS), axis=0)
    cross = np.concatenate([(X.T @ responses / len(X)).T for X in rows])
    return gram, cross, np.linalg.eigvalsh(gram)[:, 0]
