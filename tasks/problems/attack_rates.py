"""Success rates of tracing attacks, and the limits that privacy sets.

Scores of members and non-members are (n, R): n candidates of each of R independent datasets, standardized for
pooling. Candidates of one dataset share its estimate and are not independent. Datasets are independent. A
test of one record against a fresh one is a test between neighboring datasets. Therefore the trade-off
function of the guarantee bounds its true positive rate β at false positive rate α. The bound holds on average
over members and over datasets, for any score that depends on public quantities and the release only.

    (ε, δ):          β ≤ min(e^ε α + δ,  1 − e^(−ε) (1 − δ − α))
    Gaussian (μ):    β ≤ Φ(Φ⁻¹(α) + μ)

The second bound holds for Gaussian releases that are calibrated exactly, with μ = :func:`gaussian_mu` of (ε,
δ).

References
----------
Clopper & Pearson (1934). DeLong, DeLong & Clarke-Pearson (1988); Obuchowski (1997) for clusters. Kairouz, Oh
& Viswanath (2015). Dong, Roth & Su (2022), Gaussian differential privacy.
"""

from typing import NamedTuple

import numpy as np
import scipy

from dpalgos.accounting.gaussian_dp import check_budget
from dpalgos.audit.rates import lower_limit, upper_limit
from dpalgos.errors import InputError
from dpalgos.typing import FloatArray

# A false positive rate is resolved if this number of non-members may exceed the threshold.
_FEWEST_ABOVE = 10


class RateInterval(NamedTuple):
    """An estimate with a confidence interval."""

    value: float
    low: float
    high: float


def clopper_pearson(hits: float, n_trials: float, *, confidence: float = 0.95) -> RateInterval:
    """Return a proportion with its exact confidence interval for independent trials."""
    if not 0 <= hits <= n_trials or n_trials < 1:
        raise InputError(f"hits must be between 0 and n_trials >= 1, got {hits!r} of {n_trials!r}")
    tail = (1 - confidence) / 2
    low, high = lower_limit(hits, n_trials, tail), upper_limit(hits, n_trials, tail)
    return RateInterval(hits / n_trials, float(low), float(high))


def auc_per_data_set(members: FloatArray, outsiders: FloatArray) -> FloatArray:
    """Return P(member's score > non-member's) within each dataset, (R,); ties count half."""
    return np.array([np.mean(_share_below(outsiders[:, r], members[:, r])) for r in range(members.shape[1])])


def pooled_auc_parts(members: FloatArray, outsiders: FloatArray) -> FloatArray:
    """Return the contribution of each dataset to the AUC of the pooled scores, (R,).

    The contribution is V_r + W_r − AUC. V_r is the mean over the dataset's members of the share of all
    non-members below them. W_r is the mean over its non-members of the share of all members above. The mean
    contribution is the pooled AUC. The standard error of that mean is DeLong's for clusters (Obuchowski). A
    contribution can exceed 1.
    """
    below = _share_below(outsiders.ravel(), members).mean(axis=0)
    above = 1 - _share_below(members.ravel(), outsiders).mean(axis=0)
    return np.asarray(below + above - below.mean())


def _share_below(reference: FloatArray, values: FloatArray) -> FloatArray:
    """Return the share of a reference sample below each value; ties count half."""
    ordered = np.sort(reference)
    left, right = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
    return np.asarray((left + right) / (2 * len(ordered)))


def threshold(outsiders: FloatArray, false_positive_rate: float) -> float | None:
    """Return the smallest score that at most this share of all non-members exceeds.

    The result is None if fewer than ten non-members may exceed it: the rate is not resolved then.
    """
    if not 0 < false_positive_rate < 1:
        raise InputError(f"false_positive_rate must be above 0 and below 1, got {false_positive_rate!r}")
    allowed = int(np.floor(false_positive_rate * outsiders.size + 1e-9))
    if allowed < _FEWEST_ABOVE:
        return None
    rank = outsiders.size - allowed - 1
    return float(np.partition(outsiders.ravel(), rank)[rank])


def true_positive_rates(members: FloatArray, above: float) -> FloatArray:
    """Return the share of each dataset's members whose score exceeds a threshold, (R,)."""
    return np.asarray((members > above).mean(axis=0))


def tpr_ceiling(false_positive_rate: object, epsilon: float, delta: float) -> FloatArray:
    """Return the maximum true positive rate under (ε, δ)-DP."""
    check_budget(epsilon, delta)
    rate = _rates(false_positive_rate)
    steep, flat = np.exp(epsilon) * rate + delta, 1 - np.exp(-epsilon) * (1 - delta - rate)
    return np.asarray(np.minimum(np.minimum(steep, flat), 1.0))


def auc_ceiling(epsilon: float, delta: float) -> float:
    """Return the maximum AUC under (ε, δ)-DP: 1 − (1 − δ)² / (1 + e^ε), the area under the ceiling."""
    check_budget(epsilon, delta)
    return float(1 - (1 - delta) ** 2 / (1 + np.exp(epsilon)))


def gaussian_tpr_ceiling(false_positive_rate: object, mu: float) -> FloatArray:
    """Return the maximum true positive rate under μ-Gaussian DP."""
    return np.asarray(scipy.special.ndtr(scipy.special.ndtri(_rates(false_positive_rate)) + mu))


def gaussian_auc(mu: float) -> float:
    """Return the maximum AUC under μ-Gaussian DP: Φ(μ / √2), that of unit normals with means μ apart."""
    return float(scipy.special.ndtr(mu / np.sqrt(2)))


def _rates(values: object) -> FloatArray:
    rates = np.asarray(values, dtype=float)
    if not ((rates >= 0) & (rates <= 1)).all():
        raise InputError("false_positive_rate must lie between 0 and 1; pass e.g. 0.01")
    return rates
