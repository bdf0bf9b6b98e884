"""Gaussian responses: ψ(u) = u²/2, mean u, constant variance.

The residual is unbounded, hence clipped to ± ``response_bound`` where a guarantee is needed: a response
may be anything, and only by that much does it count.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpalgos.models.families.base import Family
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class Gaussian(Family):
    """Linear regression as a generalized linear model."""

    name: ClassVar[str] = "gaussian"
    labels: ClassVar[str] = "finite numbers"
    needs_response_bound: ClassVar[bool] = True
    derivative_bound: ClassVar[float] = float("inf")
    curvature_bound: ClassVar[float] = 1.0

    response_bound: float | None = None

    @property
    def residual_bound(self) -> float:
        return float("inf") if self.response_bound is None else self.response_bound

    def allows(self, y: FloatArray) -> np.ndarray:
        return np.isfinite(y)

    def log_partition(self, u: FloatArray) -> FloatArray:
        return np.asarray(np.square(u) / 2)

    def mean(self, u: FloatArray) -> FloatArray:
        return np.asarray(u)

    def second_derivative(self, u: FloatArray) -> FloatArray:
        return np.ones_like(u)

    def loss(self, u: FloatArray, y: FloatArray) -> FloatArray:
        """u²/2 − y u, and Huber's linear continuation where the residual is clipped."""
        if self.response_bound is None:
            return super().loss(u, y)
        # (r² − y²)/2 within the bound; beyond it R|r| − R²/2 − y²/2.
        residual = u - y
        inside = np.clip(residual, -self.response_bound, self.response_bound)
        return np.asarray(inside * (residual - inside / 2) - np.square(y) / 2)

    def deviance(self, u: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(np.square(y - u))


FAMILY = Gaussian
