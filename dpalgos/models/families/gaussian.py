"""Gaussian responses: ψ(u) = u²/2, mean u, constant variance.

The residual is unbounded, hence clipped to ± ``response_bound`` where a guarantee is needed: a response
may be anything, and only by that much does it count. Or the response is truncated
(:class:`TruncatedGaussian`), and then a bound on predictors bounds the residual.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpalgos.models.families import Family
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class Gaussian(Family):
    """Linear regression as a generalized linear model."""

    name: ClassVar[str] = "gaussian"
    labels: ClassVar[str] = "finite numbers"
    needs_response_bound: ClassVar[bool] = True
    derivative_bound: ClassVar[float] = float("inf")
    curvature_bound: ClassVar[float] = 1.0
    is_linear: ClassVar[bool] = True

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


@dataclass(frozen=True, kw_only=True)
class TruncatedGaussian(Gaussian):
    """Gaussian responses that are truncated to ± ``level``, and whose residuals are not clipped.

    ``largest`` is the bound on responses that noise is for. Both are () or (R,), and differ only where
    nothing is truncated, which no guarantee covers.
    """

    level: float | FloatArray
    largest: float | FloatArray

    def largest_residual(self, predictor_bound: float | FloatArray) -> FloatArray:
        """Return a + R, at a response of −R and a predictor of a."""
        return np.asarray(predictor_bound + self.largest)

    def gradient_radius(self, predictor_bound: float | FloatArray) -> FloatArray:
        """Return max over t of (a t + R) √(1 − t²), at a = ``predictor_bound``.

        Proof. Gradients g = (x'β − y) x lie in the plane of β and an orthogonal direction without loss.
        ‖g − g'‖ is largest for mirror images x, x' = (t, ±√(1 − t²)) with y = y' = −R, as the extreme
        gradients point along +β, hence not at each other: twice the above. The best t is
        (−R + √(R² + 8a²)) / (4a). In one dimension the value is an upper bound.
        """
        a, largest = np.asarray(predictor_bound, dtype=float), self.largest
        # The best t without its cancellation for small a.
        t = 2 * a / (largest + np.sqrt(np.square(largest) + 8 * np.square(a)))
        return np.asarray((a * t + largest) * np.sqrt(1 - t**2))


FAMILY = Gaussian
