"""How well scores separate members from non-members, AUC and true positive rates, and what privacy allows.

Scores are (n, R): n candidates of each of R independent data sets, standardized so that they can be pooled.
Candidates of one data set share its estimate, so that they are not independent; data sets are.

A test of one record against a fresh one is a test between neighboring data sets, so that its true positive
rate β at false positive rate α is bounded by the trade-off of the guarantee; the bound holds for the average
over members, over data sets and for any score that depends on public quantities and the release only.

    (ε, δ):          β ≤ min(e^ε α + δ,  1 − e^(−ε) (1 − δ − α))
    Gaussian (μ):    β ≤ Φ(Φ⁻¹(α) + μ)

The second holds for Gaussian releases that are calibrated exactly, μ = :func:`gaussian_mu` of (ε, δ).

References
----------
Clopper & Pearson (1934). DeLong, DeLong & Clarke-Pearson (1988); Obuchowski (1997) for
clusters. Kairouz, Oh & Viswanath (2015). Dong, Roth & Su (2022), Gaussian differential privacy.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from dpalgos.accounting.gaussian_dp import check_budget
from dpalgos.errors import InputError
from dpalgos.typing import FloatArray

# A false positive rate is resolved where so many non-members may lie above the threshold.
_FEWEST_ABOVE = 10


@dataclass(frozen=True)
class Interval:
    """An estimate with a confidence interval."""

    value: float
    low: float
    high: float


def auc_per_data_set(members: FloatArray, outsiders: FloatArray) -> FloatArray:
    """Return P(member's score > non-member's), ties counted half, within each data set, (R,)."""
    return np.array([np.mean(_share_below(outsiders[:, r], members[:, r])) for r in range(members.shape[1])])


def pooled_auc_parts(members: FloatArray, outsiders: FloatArray) -> FloatArray:
    """Return the contribution of each data set to the AUC of the pooled scores, (R,).

    V_r + W_r − AUC, with V_r the mean over the data set's members of the share of all non-members below
    them, and W_r the mean over its non-members of the share of all members above. The mean is the pooled
    AUC, and the standard error of that mean is DeLong's for clusters (Obuchowski). A part can exceed 1.
    """
    below = _share_below(outsiders.ravel(), members).mean(axis=0)
    above = 1 - _share_below(members.ravel(), outsiders).mean(axis=0)
    return np.asarray(below + above - below.mean())


def threshold(outsiders: FloatArray, false_positive_rate: float) -> float | None:
    """Return the lowest score that at most this share of all non-members exceeds.

    None where fewer than ten non-members may exceed it: then the rate is not resolved.
    """
    if not 0 < false_positive_rate < 1:
        raise InputError(f"false_positive_rate must be above 0 and below 1, got {false_positive_rate!r}")
    allowed = int(np.floor(false_positive_rate * outsiders.size + 1e-9))
    if allowed < _FEWEST_ABOVE:
        return None
    place = outsiders.size - allowed - 1
    return float(np.partition(outsiders.ravel(), place)[place])


def true_positive_rates(members: FloatArray, above: float) -> FloatArray:
    """Return the share of each data set's members whose score exceeds a threshold, (R,)."""
    return np.asarray((members > above).mean(axis=0))


def clopper_pearson(hits: float, n_trials: float, *, confidence: float = 0.95) -> Interval:
    """Return a share with its exact interval for independent trials."""
    if not 0 <= hits <= n_trials or n_trials < 1:
        raise InputError(f"hits must be between 0 and n_trials >= 1, got {hits!r} of {n_trials!r}")
    tail = (1 - confidence) / 2
    low = float(scipy.special.betaincinv(hits, n_trials - hits + 1, tail)) if hits > 0 else 0.0
    high = float(scipy.special.betaincinv(hits + 1, n_trials - hits, 1 - tail)) if hits < n_trials else 1.0
    return Interval(hits / n_trials, low, high)


def tpr_ceiling(false_positive_rate: object, epsilon: float, delta: float) -> FloatArray:
    """Return the largest true positive rate that (ε, δ)-DP allows."""
    check_budget(epsilon, delta)
    rate = _rates(false_positive_rate)
    steep, flat = np.exp(epsilon) * rate + delta, 1 - np.exp(-epsilon) * (1 - delta - rate)
    return np.asarray(np.minimum(np.minimum(steep, flat), 1.0))


def auc_ceiling(epsilon: float, delta: float) -> float:
    """Return the largest AUC that (ε, δ)-DP allows, 1 − (1 − δ)² / (1 + e^ε): the area under the ceiling."""
    check_budget(epsilon, delta)
    return float(1 - (1 - delta) ** 2 / (1 + np.exp(epsilon)))


def gaussian_tpr_ceiling(false_positive_rate: object, mu: float) -> FloatArray:
    """Return the largest true positive rate that μ-Gaussian DP allows."""
    return np.asarray(scipy.special.ndtr(scipy.special.ndtri(_rates(false_positive_rate)) + mu))


def gaussian_auc_ceiling(mu: float) -> float:
    """Return the largest AUC that μ-Gaussian DP allows: Φ(μ / √2)."""
    return float(scipy.special.ndtr(mu / np.sqrt(2)))


def predicted_auc(separation: float) -> float:
    """Return the AUC of two unit normals whose means differ by d': Φ(d' / √2)."""
    return float(scipy.special.ndtr(separation / np.sqrt(2)))


def _share_below(reference: FloatArray, values: FloatArray) -> FloatArray:
    """Return the share of a reference sample that lies below each value, ties counted half."""
    ordered = np.sort(reference)
    left, right = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
    return np.asarray((left + right) / (2 * len(ordered)))


def _rates(values: object) -> FloatArray:
    rates = np.asarray(values, dtype=float)
    if not ((rates >= 0) & (rates <= 1)).all():
        raise InputError("false_positive_rate must lie between 0 and 1; pass e.g. 0.01")
    return rates
