"""Logistic regression: y is 0 or 1 with mean sigmoid(u); ψ(u) = log(1 + e^u)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from dpalgos.models.families import Family
from dpalgos.typing import FloatArray

_HALVINGS = 60
_LARGEST = 1e300  # so that an infinite bound stands for the limit


@dataclass(frozen=True, kw_only=True)
class Logistic(Family):
    """Binary responses; residuals lie in (−1, 1) by themselves."""

    name: ClassVar[str] = "logistic"
    labels: ClassVar[str] = "0 or 1"
    derivative_bound: ClassVar[float] = 1.0
    curvature_bound: ClassVar[float] = 0.25
    has_events: ClassVar[bool] = True

    @property
    def residual_bound(self) -> float:
        return 1.0

    def allows(self, y: FloatArray) -> np.ndarray:
        return np.asarray((y == 0) | (y == 1))

    def log_partition(self, u: FloatArray) -> FloatArray:
        return np.asarray(np.logaddexp(np.zeros((), dtype=u.dtype), u))

    def mean(self, u: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # 1 / ∞ is the limit
            return np.asarray(1 / (1 + np.exp(-u)))  # in half of the time of scipy's

    def second_derivative(self, u: FloatArray) -> FloatArray:
        smaller = np.exp(-np.abs(u))  # of the two odds
        return np.asarray(smaller / (1 + smaller) ** 2)

    def deviance(self, u: FloatArray, y: FloatArray) -> FloatArray:
        return 2 * self.loss(u, y)

    def residual(self, u: FloatArray, y: FloatArray) -> FloatArray:
        """sigmoid(u) − y with y clipped to [0, 1]: a label −1 would double the sensitivity, 0.5 would not."""
        return np.asarray(self.mean(u) - np.clip(y, 0, 1))

    def widest_residual(self, mean: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(mean, 1 - mean))

    def largest_residual(self, predictor_bound: float | FloatArray) -> FloatArray:
        """sigmoid(a), by y = 0 at u = a or y = 1 at u = −a."""
        return np.asarray(scipy.special.expit(predictor_bound))

    def gradient_radius(self, predictor_bound: float | FloatArray) -> FloatArray:
        """max over t in [0, 1] of sigmoid(b t) √(1 − t²); exact for d ≥ 2.

        Changing the sign of both x and u shows that a row's gradients are {s sigmoid(b x₁) x : ‖x‖ ≤ 1,
        0 ≤ s ≤ 1}, the first axis along β: longest along +β, so that two of them cannot be both longest and
        opposite. The widest pair are mirror images, x = (t, ±√(1 − t²)) with y = 0, as tests confirm over
        all pairs. In t the logarithm is concave, hence one root of b (1 − sigmoid(b t)) (1 − t²) = t.
        """
        b = np.minimum(np.asarray(predictor_bound, dtype=float), _LARGEST)
        low, high = np.zeros_like(b), np.ones_like(b)
        for _ in range(_HALVINGS):
            t = (low + high) / 2
            rising = b * scipy.special.expit(-b * t) * (1 - t**2) > t
            low, high = np.where(rising, t, low), np.where(rising, high, t)
        # Monotone in each factor, hence not below the maximum.
        return np.asarray(scipy.special.expit(b * high) * np.sqrt(1 - low**2))


FAMILY = Logistic
