"""Multinomial logistic regression: classes 0 … K − 1 with probabilities softmax(u), u = B'x of length K.

Coefficients are (d, K), one column per class. Adding a vector to all columns does not change the model.
Returned coefficients sum to zero over classes. K is public, never read from the labels.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from dpalgos.errors import InputError, shown
from dpalgos.models.families import Family
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class Multinomial(Family):
    """Classes; the residual p − e_y has ℓ2 norm below √2."""

    name: ClassVar[str] = "multinomial"
    labels: ClassVar[str] = "classes 0, 1, … up to n_classes - 1"
    needs_classes: ClassVar[bool] = True
    derivative_bound: ClassVar[float] = 1.0
    curvature_bound: ClassVar[float] = 0.5

    n_classes: int

    def __post_init__(self) -> None:
        if self.n_classes < 2:
            raise InputError(f"n_classes must be a whole number of at least 2, got {shown(self.n_classes)}")

    @property
    def classes(self) -> tuple[int, ...]:
        return (self.n_classes,)

    @property
    def residual_bound(self) -> float:
        return float(np.sqrt(2))

    def allows(self, y: FloatArray) -> np.ndarray:
        return np.asarray((y >= 0) & (y < self.n_classes) & (y == np.floor(y)))

    def encode(self, y: FloatArray) -> FloatArray:
        """Check labels and return the indicators of their classes, (n, K, 1)."""
        label = super().encode(y)
        return np.asarray(label == np.arange(self.n_classes), dtype=label.dtype)[:, :, None]

    def log_partition(self, u: FloatArray) -> FloatArray:
        return np.asarray(scipy.special.logsumexp(u, axis=1))

    def mean(self, u: FloatArray) -> FloatArray:
        weights = np.exp(u - u.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def second_derivative(self, u: FloatArray) -> FloatArray:
        """diag(p) − p p', (n, K, K, R)."""
        p = self.mean(u)
        curvature = -p[:, :, None] * p[:, None]
        index = np.arange(self.n_classes)
        curvature[:, index, index] += p
        return np.asarray(curvature)

    def loss(self, u: FloatArray, y: FloatArray) -> FloatArray:
        """−log of the probability of the class, (n, R)."""
        return np.asarray(self.log_partition(u) - (y * u).sum(axis=1))

    def deviance(self, u: FloatArray, y: FloatArray) -> FloatArray:
        """−2 log of the probability of the class, (n, R)."""
        return 2 * self.loss(u, y)

    def residual(self, u: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(self.mean(u) - y)

    def widest_residual(self, mean: FloatArray) -> FloatArray:
        """√(1 − 2 p_k + ‖p‖²), of the class k of the smallest p_k."""
        return np.asarray(np.sqrt(1 - 2 * mean.min(axis=1) + (mean**2).sum(axis=1)))

    def predictor_norm(self, coef: FloatArray, order: float) -> FloatArray:
        """Return the largest norm of a difference of two classes' coefficients, (R,)."""
        norms = [
            np.linalg.norm(coef[:, k, None] - coef[:, :k], ord=order, axis=0).max(axis=0)
            for k in range(1, self.n_classes)
        ]
        return np.asarray(np.max(norms, axis=0))

    def largest_residual(self, predictor_bound: float | FloatArray) -> FloatArray:
        """Bound ‖p − e_y‖₂ where no two predictors differ by more than D = ``predictor_bound``.

        With q = p_y it is at most √((1 − q)² + (1 − q) max_k p_k), where 1 − q ≤ (K−1) / (K−1 + e^{−D}) and
        p_k ≤ 1 / (1 + (K−1) e^{−D}). Exact at D = 0, √(1 − 1/K), and in the limit, √2.
        """
        decay, others = np.exp(-np.asarray(predictor_bound, dtype=float)), self.n_classes - 1
        missing = others / (others + decay)
        return np.asarray(np.sqrt(missing * (missing + 1 / (1 + others * decay))))

    def identified(self, coef: FloatArray) -> FloatArray:
        return np.asarray(coef - coef.mean(axis=1, keepdims=True))


FAMILY = Multinomial
