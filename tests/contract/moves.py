"""How far the private values of neighbors lie apart, in units of their declared sensitivities."""

import numpy as np

from dpalgos.accounting import events as kinds
from dpalgos.accounting.other_events import Proved, RandomReport, SampledGaussian, Sketch

SUM = kinds.Gaussian | SampledGaussian


def releases(spend):
    return [(*release.events, release.value) for release in spend.releases]


def excess(event, value, other):
    """How far private values lie apart, by replicate, in units of the declared sensitivity."""
    if isinstance(event, Proved):
        return np.zeros(1)  # private as a whole, not by noise that covers a sensitivity; has tests of its own
    if isinstance(event, Sketch):
        inverse = np.linalg.inv(np.linalg.cholesky(value))
        moved = np.abs(np.linalg.eigvalsh(inverse @ other @ np.swapaxes(inverse, 1, 2)) - 1)
        assert ((moved > 1e-9).sum(axis=1) <= 2).all()
        assert (np.linalg.eigvalsh(value) >= event.ridge * event.sensitivity * (1 - 1e-9)).all()
        return moved.max(axis=1) * event.ridge
    if isinstance(event, RandomReport):  # any two vectors of its norm are as far apart as it allows
        vectors = np.stack([value, other]).reshape(2, -1, event.size, value.shape[-1])
        return np.linalg.norm(vectors, axis=2).max(axis=(0, 1)) / event.radius
    return np.linalg.norm(value - other, event.norm, axis=0) / event.sensitivity


def largest_moves(first, second):
    largest = {}
    for (event, value), (_, other) in zip(releases(first), releases(second), strict=True):
        moved = float(np.max(excess(event, value, other)))
        largest[event.label] = max(largest.get(event.label, 0.0), moved)
    return largest
