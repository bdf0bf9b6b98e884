"""Messages from devices to the server: one report of fixed size per person, and robust means of them.

A device (:func:`device_reports`) sees one row and what is public. A server (:func:`mean_reports`) sees
reports and what is public. A device may send anything of the right form, so that the server shortens vectors
which are longer than an honest one is (but for one in 1e12): whatever one person sends, a part of the mean
of n reports moves by at most 2 L/n, L the randomizer's ``largest_norm``. That is as much as an honest person
could move it with half-space reports, whose length is L always.
"""

from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.composition import certified_epsilon
from dpalgos.errors import InputError
from dpalgos.local.randomizers import CapRandomizer, HalfSpaceRandomizer
from dpalgos.local.rounds import LocalAlgorithm, PublicState
from dpalgos.typing import FloatArray


@dataclass(frozen=True, eq=False)
class GroupMeans:
    """The means (p, 1) of each part of a group's reports, how many there were, and how many were too long."""

    parts: list[FloatArray]
    n_reports: int
    n_shortened: int


def report_size(algorithm: LocalAlgorithm, state: PublicState) -> int:
    """Return how many numbers a report of the next group has."""
    return sum(part.randomizer.size for part in algorithm.client(state))


def report_epsilon(algorithm: LocalAlgorithm, state: PublicState, delta: float) -> float:
    """Return the ε at δ that is certified for a person of the next group."""
    events = [part.randomizer.event(part.label) for part in algorithm.client(state)]
    return certified_epsilon(events, delta)


def device_reports(algorithm: LocalAlgorithm, state: PublicState, X: FloatArray, y: FloatArray) -> FloatArray:
    """Draw the reports of people (m, d) with responses (m,), (m, p), from the operating system's randomness.

    Rows and responses are clipped here. Randomizers that are for research only are refused.
    """
    pieces = []
    for part in algorithm.client(state):
        if not isinstance(part.randomizer, HalfSpaceRandomizer | CapRandomizer):
            raise InputError(
                "mechanism must be 'auto', 'l2' or 'privunit' where reports are sent, got 'gaussian', whose "
                "noise is for research only"
            )
        pieces.append(part.randomizer.exact(part.vectors(X, y)[:, :, 0]))
    return np.concatenate(pieces, axis=1)


def mean_reports(algorithm: LocalAlgorithm, state: PublicState, reports: FloatArray) -> GroupMeans:
    """Return the means of a group's reports (n, p), those too long shortened.

    Reports of another size, and numbers that are not finite, are refused.
    """
    expected = report_size(algorithm, state)
    if reports.ndim != 2 or len(reports) == 0 or reports.shape[1] != expected:
        raise InputError(f"reports must have {expected} numbers each, got an array of shape {reports.shape}")
    if not np.isfinite(reports).all():
        raise InputError("reports must hold finite numbers, got NaN or infinite ones; leave them out")
    parts, start, too_long = [], 0, np.zeros(len(reports), dtype=bool)
    for part in algorithm.client(state):
        vectors = reports[:, start : start + part.randomizer.size]
        start += part.randomizer.size
        # The largest entry first, lest squares of absurd numbers overflow.
        largest = np.maximum(np.abs(vectors).max(axis=1), np.finfo(float).tiny)
        norms = np.linalg.norm(vectors / largest[:, None], axis=1)
        factors = np.minimum(part.randomizer.largest_norm / largest / norms, 1.0)
        too_long |= factors < 1
        parts.append((factors @ vectors / len(vectors))[:, None])
    return GroupMeans(parts, len(reports), int(too_long.sum()))
