"""The least noise of selections in batches and of the Gaussian fits after them, at one (ε, δ)."""

from functools import lru_cache
from itertools import chain

import numpy as np

from dpalgos.accounting.budget import concentrated_rho
from dpalgos.accounting.calibration import least_noise_factor
from dpalgos.accounting.events import Event, GaussianEvent
from dpalgos.mechanisms.batched_top_k import batch_events, batch_multipliers, batch_sizes


@lru_cache(maxsize=4096)
def screening_multipliers(
    epsilon: float,
    delta: float,
    screened: tuple[int, ...],
    fits: tuple[tuple[float, ...], ...],
    selection_share: float,
) -> tuple[tuple[tuple[float, ...], ...], tuple[tuple[float, ...], ...]]:
    """Return the least multipliers of all batches, and of the fits, that are together (ε, δ)-DP.

    Parameters
    ----------
    epsilon, delta : float
    screened : tuple of int
        How many coordinates each screening selects.
    fits : tuple of tuples
        Shares of the fits' ρ, for each screening those of its releases; together 1.
    selection_share : float
        Of ρ, for all selections.
    """
    rho = concentrated_rho(epsilon, delta)
    sizes = [batch_sizes(k) for k in screened]
    shares = [selection_share * rho * k / sum(screened) for k in screened]
    selections = [batch_multipliers(share, batches) for share, batches in zip(shares, sizes, strict=True)]
    steps = [[1 / np.sqrt(2 * (1 - selection_share) * rho * share) for share in fit] for fit in fits]

    def planned(factor: float) -> list[Event]:
        events: list[Event] = []
        for batches, selection in zip(sizes, selections, strict=True):
            events += batch_events(batches, [factor * multiplier for multiplier in selection])
        for step in chain.from_iterable(steps):
            events.append(GaussianEvent(label="", noise_multiplier=factor * float(step), l2_sensitivity=1.0))
        return events

    factor = least_noise_factor(planned, epsilon, delta)
    scaled = tuple(tuple(factor * multiplier for multiplier in selection) for selection in selections)
    return scaled, tuple(tuple(factor * float(step) for step in fit) for fit in steps)
