"""Poisson regression: counts with mean e^u; ψ(u) = e^u.

The residual is unbounded on both sides, hence clipped to ± ``response_bound`` where a guarantee is needed.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from dpalgos.models.families import Family
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class Poisson(Family):
    """Counts; means stop where their squares would overflow."""

    name: ClassVar[str] = "poisson"
    labels: ClassVar[str] = "whole numbers of at least 0"
    needs_response_bound: ClassVar[bool] = True
    derivative_bound: ClassVar[float] = float("inf")
    curvature_bound: ClassVar[float] = float("inf")
    few_rows: ClassVar[float] = 25.0
    step_ridge: ClassVar[float] = 1.5
    step_size: ClassVar[float] = 0.85
    start_above: ClassVar[float] = 0.3

    response_bound: float | None = None

    @property
    def residual_bound(self) -> float:
        return float("inf") if self.response_bound is None else self.response_bound

    def allows(self, y: FloatArray) -> np.ndarray:
        return np.asarray((y >= 0) & (y == np.floor(y)))

    def log_partition(self, u: FloatArray) -> FloatArray:
        return self.mean(u)

    def mean(self, u: FloatArray) -> FloatArray:
        largest = np.log(np.finfo(u.dtype).max) / 2
        return np.asarray(np.exp(np.minimum(u, u.dtype.type(largest))))

    def second_derivative(self, u: FloatArray) -> FloatArray:
        return self.mean(u)

    def deviance(self, u: FloatArray, y: FloatArray) -> FloatArray:
        """2 (y log(y / e^u) − y + e^u)."""
        return np.asarray(2 * (scipy.special.xlogy(y, y) - y + self.loss(u, y)))


FAMILY = Poisson
