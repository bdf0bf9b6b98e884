"""Lower bounds on ε from counts of an event, and the smallest fault that they detect.

If a mechanism is (ε, δ)-DP, the probabilities p on D and q on D' of any event satisfy p ≤ e^ε q + δ.
Confidence intervals on p and q prove, with that confidence,

    ε ≥ log((p_low − δ) / q_high).

The intervals are those of Clopper & Pearson, exact for any p, q and number of trials. Each gets half of the
error probability.

References
----------
Clopper & Pearson (1934). Jagielski, Ullman & Oprea (2020), Auditing differentially private machine learning.
"""

from functools import lru_cache

import numpy as np
import scipy

from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.errors import InputError
from dpalgos.typing import FloatArray

CONFIDENCE = 0.999
_LARGEST_FAULT = 1e3


def epsilon_lower_bound(
    hits: float | FloatArray,
    false_hits: float | FloatArray,
    n_trials: float,
    delta: float,
    confidence: float = CONFIDENCE,
) -> FloatArray:
    """Return the ε at δ that the counts of one event prove with some confidence, or 0 if they prove nothing.

    The event occurs ``hits`` times in ``n_trials`` trials on D, and ``false_hits`` times on D'. It must have
    been fixed before these trials.
    """
    tail = (1 - confidence) / 2
    low, high = lower_limit(hits, n_trials, tail), upper_limit(false_hits, n_trials, tail)
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(0.0, np.log(np.maximum(low - delta, 0.0)) - np.log(high)))


def mu_lower_bound(hits: float | FloatArray, false_hits: float | FloatArray, n_trials: float) -> FloatArray:
    """Return the μ of Gaussian DP that the counts of one event prove; see :func:`epsilon_lower_bound`."""
    tail = (1 - CONFIDENCE) / 2
    low, high = lower_limit(hits, n_trials, tail), upper_limit(false_hits, n_trials, tail)
    return np.asarray(np.maximum(0.0, scipy.special.ndtri(low) - scipy.special.ndtri(high)))


def lower_limit(hits: float | FloatArray, n_trials: float, tail: float) -> FloatArray:
    """Return the lower confidence limit of a proportion, which is above it with probability ``tail``."""
    k = np.asarray(hits, dtype=float)
    return np.where(k > 0, scipy.special.betaincinv(np.maximum(k, 1e-9), n_trials - k + 1, tail), 0.0)


def upper_limit(hits: float | FloatArray, n_trials: float, tail: float) -> FloatArray:
    """Return the upper confidence limit of a proportion, which is below it with probability ``tail``."""
    k = np.asarray(hits, dtype=float)
    misses = np.maximum(n_trials - k, 1e-9)
    return np.where(k < n_trials, scipy.special.betaincinv(k + 1, misses, 1 - tail), 1.0)


def gaussian_audit(mu: float, n_trials: int, delta: float, *, power: float = 0.95) -> float:
    """Return the lower bound that an audit of a μ-Gaussian mechanism reaches with probability ``power``.

    The best threshold on the likelihood ratio is assumed to be known. Each count is taken at the quantile
    that it misses with probability (1 − power)/2.
    """
    log_false = np.linspace(np.log(min(2.0 / n_trials, 0.4)), np.log(0.5), 600)
    thresholds = -scipy.special.ndtri(np.exp(log_false))
    miss = (1 - power) / 2
    hits = scipy.stats.binom.ppf(miss, n_trials, np.exp(scipy.special.log_ndtr(mu - thresholds)))
    false_hits = scipy.stats.binom.isf(miss, n_trials, np.exp(log_false))
    return float(np.max(epsilon_lower_bound(hits, false_hits, n_trials, delta)))


@lru_cache(typed=True)
def detectable_fault(n_trials: int, epsilon: float, delta: float) -> float:
    """Return the smallest factor of missing noise that is detectable; infinite above 1000.

    A Gaussian release claims exactly (ε, δ), its neighbors attain the sensitivity, and its noise is divided
    by this factor. Then ``n_trials`` trials on each of two neighbors give a lower bound above ε with
    probability 0.95. Smaller faults need a proof or an analytic test, not an audit.
    """
    if isinstance(n_trials, bool) or n_trials < 1:
        raise InputError(f"n_trials must be a whole number of at least 1, got {n_trials!r}; pass e.g. 100000")
    mu = gaussian_mu(epsilon, delta)

    def excess(log_factor: float) -> float:
        return gaussian_audit(float(np.exp(log_factor)) * mu, n_trials, delta) - epsilon

    highest = float(np.log(_LARGEST_FAULT))
    if excess(highest) < 0:
        return float("inf")
    return float(np.exp(scipy.optimize.brentq(excess, 0.0, highest, xtol=1e-6)))
