"""The k largest in batches of ever less noise.

The largest coordinates are found under any noise: it is the last ones, near the others, that need the budget.
Batches are selections by one Gumbel vector each (`dpalgos.mechanisms.top_k`) among what is left; each
coordinate of the last of eight batches gets 32 times the ρ of one in the first. These numbers were found on
simulated sparse regressions; only accuracy depends on them.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dpalgos.accounting.budget import Budget
from dpalgos.accounting.calibration import least_noise
from dpalgos.mechanisms.top_k import gumbel_top_k
from dpalgos.release.transcript import Transcript
from dpalgos.typing import FloatArray, IntArray

_BATCHES = 8
_GROWTH = 32.0


def batch_sizes(k: int) -> tuple[int, ...]:
    """Return how many coordinates each batch selects, k in all."""
    return tuple(len(batch) for batch in np.array_split(np.arange(k), min(k, _BATCHES)))


def batch_shares(k: int) -> tuple[float, ...]:
    """Return the share of a selection's ρ that each batch gets, so that late coordinates get more each."""
    sizes = np.array(batch_sizes(k))
    spent = sizes * _GROWTH ** (np.arange(len(sizes)) / max(len(sizes) - 1, 1))
    return tuple(float(one) for one in spent / spent.sum())


@lru_cache(maxsize=4096)
def screening_multipliers(
    epsilon: float,
    delta: float,
    screened: tuple[int, ...],
    fits: tuple[tuple[float, ...], ...],
    selection_share: float,
) -> tuple[tuple[tuple[float, ...], ...], tuple[tuple[float, ...], ...]]:
    """Return the least multipliers of all batches, and of the fits, that are together (ε, δ)-DP.

    ``screened`` says how many coordinates each screening selects, ``fits`` for each screening the shares of
    its releases in the fits' ρ; all selections have ``selection_share`` of ρ.
    """
    batches = {
        (i, j): (size, selection_share * k / sum(screened) * part)
        for i, k in enumerate(screened)
        for j, (size, part) in enumerate(zip(batch_sizes(k), batch_shares(k), strict=True))
    }
    shares = {f"batch {i} {j}": share for (i, j), (_, share) in batches.items()}
    for i, fit in enumerate(fits):
        shares |= {f"fit {i} {t}": (1 - selection_share) * share for t, share in enumerate(fit)}
    noise = least_noise(
        Budget(epsilon=epsilon, delta=delta, shares=shares, gaussian=False),
        selections={f"batch {i} {j}": size for (i, j), (size, _) in batches.items()},
        gaussians={f"fit {i} {t}": 1 for i, fit in enumerate(fits) for t in range(len(fit))},
    )
    selections = tuple(
        tuple(2 / noise[f"batch {i} {j}"] for j in range(len(batch_sizes(k)))) for i, k in enumerate(screened)
    )
    return selections, tuple(
        tuple(noise[f"fit {i} {t}"] for t in range(len(fit))) for i, fit in enumerate(fits)
    )


def batched_top_k(
    transcript: Transcript,
    scores: FloatArray,
    support: IntArray,
    *,
    sensitivity: float | FloatArray,
    sizes: Sequence[int],
    noise_multipliers: Sequence[float],
    label: str,
) -> IntArray:
    """Release which scores (d, R) outside a public support are largest in magnitude, batch after batch.

    Returns the support (s, R), then the new coordinates, (s + k, R). ``sensitivity`` is how far a neighbor
    moves any one score; what a batch publishes are places among the coordinates that are left, ascending.
    """
    for k, noise_multiplier in zip(sizes, noise_multipliers, strict=True):
        left = np.ones(scores.shape, dtype=bool)
        np.put_along_axis(left, support, False, axis=0)
        candidates = np.nonzero(left.T)[1].reshape(scores.shape[1], -1).T
        chosen = gumbel_top_k(
            transcript,
            np.take_along_axis(scores, candidates, axis=0),
            sensitivity=sensitivity,
            noise_multiplier=noise_multiplier,
            k=k,
            label=label,
            by_magnitude=True,
        )
        support = np.concatenate([support, np.take_along_axis(candidates, chosen, axis=0)])
    return support
