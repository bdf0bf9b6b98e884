"""The least noise that the accountant proves, for pipelines that no formula inverts.

Where every release is Gaussian, :func:`dpalgos.accounting.gaussian.noise_multiplier` is exact. A mixture
of Gaussian releases and selections is planned by zero-concentrated DP
(:func:`dpalgos.accounting.budget.concentrated_rho`); then all its noise is scaled by one factor until the
planned events prove just what was asked.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import brentq

from dpalgos.accounting.composition import certified_epsilon, renyi_epsilon
from dpalgos.accounting.events import Event

_CLOSE = 0.998  # a certificate within this factor of what was asked is not worth a search
_LARGE = 8.0  # ε above which privacy-loss distributions take seconds and gain nothing that matters


def least_noise_factor(
    planned: Callable[[float], Sequence[Event]], epsilon: float, delta: float, *, most: float = 1.0
) -> float:
    """Return the least factor on the noise of a plan at which its events prove (ε, δ).

    Parameters
    ----------
    planned : callable
        Factor → the events of a run whose noise is multiplied by it; they depend on public parameters only.
    epsilon, delta : float
        What is asked.
    most : float
        A factor at which the plan is known to hold, e.g. 1 for a plan by zero-concentrated DP.

    Returns
    -------
    float
        Proves at most ε, and at least .998 ε unless no smaller factor is proved to do.
    """

    prove = certified_epsilon if epsilon <= _LARGE else renyi_epsilon

    def excess(log_factor: float) -> float:
        certified = prove(planned(float(np.exp(log_factor))), delta)
        return float(np.log(max(certified, 1e-300) / epsilon))

    high = float(np.log(most))
    while excess(high) > 0:  # rounding in a plan that holds exactly
        high += 1e-6
    if excess(high) >= np.log(_CLOSE):
        return float(np.exp(high))
    low = high - 0.05
    while excess(low) < 0:
        low, high = 2 * low - high, low
    root = float(brentq(excess, low, high, xtol=2e-4, rtol=1e-6))
    while excess(root) > 0:
        root += 2e-4
    return float(np.exp(root))
