"""Gaussian responses: ψ(u) = u²/2, mean u, constant variance.

The residual is unbounded. It is clipped to ± ``response_bound`` where a guarantee is needed: a response may
be anything, and only by that much does it count. Or the response is truncated
(:class:`TruncatedGaussian`), and then a bound on predictors bounds the residual.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpalgos.models.families import Unbounded
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class Gaussian(Unbounded):
    """Linear regression as a generalized linear model."""

    name: ClassVar[str] = "gaussian"
    labels: ClassVar[str] = "finite numbers"
    curvature_bound: ClassVar[float] = 1.0
    is_linear: ClassVar[bool] = True

    def allows(self, y: FloatArray) -> np.ndarray:
        return np.isfinite(y)

    def log_partition(self, u: FloatArray) -> FloatArray:
        return np.asarray(np.square(u) / 2)

    def mean(self, u: FloatArray) -> FloatArray:
        return np.asarray(u)

    def second_derivative(self, u: FloatArray) -> FloatArray:
        return np.ones_like(u)

    def loss(self, u: FloatArray, y: FloatArray) -> FloatArray:
        """u²/2 − y u, and Huber's linear continuation where the residual is clipped; 0 at u = 0.

        With H' = clip, and with a and b the clipped residuals at u and at 0,
        H(u − y) − H(−y) = a u + (a − b)(−y − (a + b)/2). No square of a response is formed: next to that of
        a large response the rest of the risk would be lost, and a minimum that is not found would show it.
        """
        if self.response_bound is None:
            return super().loss(u, y)
        bound = self.response_bound
        residual, start = np.clip(u - y, -bound, bound), np.clip(-y, -bound, bound)
        return np.asarray(residual * u + (residual - start) * (-y - (residual + start) / 2))

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
        gradients point along +β, so not at each other: twice the above. The best t is
        (−R + √(R² + 8a²)) / (4a). In one dimension the value is an upper bound.
        """
        a, largest = np.asarray(predictor_bound, dtype=float), self.largest
        # The best t without its cancellation for small a.
        t = 2 * a / (largest + np.sqrt(np.square(largest) + 8 * np.square(a)))
        return np.asarray((a * t + largest) * np.sqrt(1 - t**2))


FAMILY = Gaussian
