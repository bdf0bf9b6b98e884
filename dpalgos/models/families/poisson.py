"""Poisson regression: counts with mean e^u; ψ(u) = e^u.

The residual is unbounded on both sides. If a guarantee is needed, it is clipped to ± ``response_bound``.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from dpalgos.models.families import Unbounded
from dpalgos.typing import FloatArray

# The cutoff of linear predictors, by bytes: e^138 is about 10⁶⁰, the largest value that validation admits, so
# that squares and products of means, responses and rows are finite. In single precision squares of means are.
_LARGEST = {4: 44.0, 8: 138.0}


@dataclass(frozen=True, kw_only=True)
class Poisson(Unbounded):
    """Counts; linear predictors are cut off before the exponential."""

    name: ClassVar[str] = "poisson"
    labels: ClassVar[str] = "whole numbers of at least 0"
    curvature_bound: ClassVar[float] = float("inf")
    has_counts: ClassVar[bool] = True

    def allows(self, y: FloatArray) -> np.ndarray:
        return np.asarray((y >= 0) & (y == np.floor(y)))

    def log_partition(self, u: FloatArray) -> FloatArray:
        return self.mean(u)

    def mean(self, u: FloatArray) -> FloatArray:
        return np.asarray(np.exp(np.minimum(u, u.dtype.type(_LARGEST[u.dtype.itemsize]))))

    def second_derivative(self, u: FloatArray) -> FloatArray:
        return self.mean(u)

    def deviance(self, u: FloatArray, y: FloatArray) -> FloatArray:
        """2 (y log(y / e^u) − y + e^u)."""
        return np.asarray(2 * (scipy.special.xlogy(y, y) - y + self.loss(u, y)))


@dataclass(frozen=True, kw_only=True)
class SingleEvents(Poisson):
    """Events of persons, of whom each has at most one in all rows: a residual is at most 1.

    A response is 0 without an event, else 1 plus the last part of the exposure in which the event happened.
    """

    labels: ClassVar[str] = "0, or 1 plus a part from 0 to 1"
    response_bound: float | None = 1.0

    def allows(self, y: FloatArray) -> np.ndarray:
        return np.asarray((y == 0) | ((y >= 1) & (y <= 2)))

    def widest_residual(self, mean: FloatArray) -> FloatArray:
        return np.ones_like(mean)


FAMILY = Poisson
