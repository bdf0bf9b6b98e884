"""Upper bounds that privacy puts on an attack's true positive rate and AUC.

A test of one record against a fresh one is a test between neighboring data sets, so that its true positive
rate β at false positive rate α is bounded by the trade-off of the guarantee; the bound holds for the average
over members, over data sets and for any score that depends on public quantities and the release only.

    (ε, δ):          β ≤ min(e^ε α + δ,  1 − e^(−ε) (1 − δ − α))
    Gaussian (μ):    β ≤ Φ(Φ⁻¹(α) + μ)

The second holds for Gaussian releases that are calibrated exactly, μ = :func:`gaussian_mu` of (ε, δ).

References
----------
Kairouz, Oh & Viswanath (2015); Dong, Roth & Su (2022), Gaussian differential privacy.
"""

import numpy as np
from scipy.special import ndtr, ndtri

from dpalgos.accounting.gaussian_dp import check_budget
from dpalgos.errors import InputError
from dpalgos.typing import FloatArray


def tpr_ceiling(false_positive_rate: object, epsilon: float, delta: float) -> FloatArray:
    """Return the largest true positive rate that (ε, δ)-DP allows."""
    check_budget(epsilon, delta)
    rate = _rates(false_positive_rate)
    steep, flat = np.exp(epsilon) * rate + delta, 1 - np.exp(-epsilon) * (1 - delta - rate)
    return np.asarray(np.minimum(np.minimum(steep, flat), 1.0))


def auc_ceiling(epsilon: float, delta: float) -> float:
    """Return the largest AUC that (ε, δ)-DP allows: 1 − (1 − δ)² / (1 + e^ε).

    The region above :func:`tpr_ceiling` is two triangles of base 1 − δ and height (1 − δ) / (1 + e^ε).
    """
    check_budget(epsilon, delta)
    return float(1 - (1 - delta) ** 2 / (1 + np.exp(epsilon)))


def gaussian_tpr_ceiling(false_positive_rate: object, mu: float) -> FloatArray:
    """Return the largest true positive rate that μ-Gaussian DP allows."""
    return np.asarray(ndtr(ndtri(_rates(false_positive_rate)) + mu))


def gaussian_auc_ceiling(mu: float) -> float:
    """Return the largest AUC that μ-Gaussian DP allows: Φ(μ / √2)."""
    return float(ndtr(mu / np.sqrt(2)))


def predicted_auc(separation: float) -> float:
    """Return the AUC of two unit normals whose means differ by d': Φ(d' / √2)."""
    return float(ndtr(separation / np.sqrt(2)))


def _rates(values: object) -> FloatArray:
    rates = np.asarray(values, dtype=float)
    if not ((rates >= 0) & (rates <= 1)).all():
        raise InputError("false_positive_rate must lie between 0 and 1; pass e.g. 0.01")
    return rates
