"""What a family of generalized linear models is: f(y | x) ∝ exp((y u − ψ(u)) / c), u = x'β.

Arrays have rows first and replicates last: predictors u are (n, R), or (n, K, R) with K classes, and
encoded responses (n, 1) or (n, K, 1). Coefficients are (d, R) or (d, K, R). Every function keeps the
precision of u, float32 or float64, and stays finite for finite u.

The residual of a row, ψ'(u) − y, is bounded by public constants: its gradient is residual times x, so that
its clip is a part of every guarantee and its bound a part of every sensitivity.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpalgos.errors import InputError
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class Family(ABC):
    """A family with its public constants.

    Attributes
    ----------
    name : str
        As in ``family=``; the name of its file.
    labels : str
        Which responses it allows, for people.
    needs_response_bound : bool
        Whether residuals are unbounded, so that a private estimator must clip them.
    needs_classes : bool
        Whether responses are classes, of which there are K.
    derivative_bound : float
        c1 = sup |ψ'|; infinite if there is none.
    curvature_bound : float
        c2 = sup of ψ'' (of its largest eigenvalue); infinite if there is none.
    """

    name: ClassVar[str]
    labels: ClassVar[str]
    needs_response_bound: ClassVar[bool] = False
    needs_classes: ClassVar[bool] = False
    derivative_bound: ClassVar[float]
    curvature_bound: ClassVar[float]

    @property
    def classes(self) -> tuple[int, ...]:
        """``(K,)`` for a family with K classes, else ``()``: the middle of every shape."""
        return ()

    @property
    def is_linear(self) -> bool:
        """Whether ψ'' is constant, as of Gaussian responses: it is bounded, and ψ' is not."""
        return bool(np.isfinite(self.curvature_bound) and not np.isfinite(self.derivative_bound))

    @property
    @abstractmethod
    def residual_bound(self) -> float:
        """Return the public bound on the size of a residual (ℓ2 over classes); infinite if not clipped."""

    def encode(self, y: FloatArray) -> FloatArray:
        """Check responses (n,) and return them as (n, 1), or (n, K, 1) indicators of classes.

        Raises
        ------
        InputError
            If a label is outside the family; the message says what is allowed and shows no value.
        """
        if not self.allows(y).all():
            raise InputError(
                f"y must hold {self.labels} for family={self.name!r}, got other values; "
                "recode the responses or choose another family"
            )
        return np.asarray(y)[:, None]

    @abstractmethod
    def allows(self, y: FloatArray) -> np.ndarray:
        """Return which of the responses (n,) are labels of the family."""

    @abstractmethod
    def log_partition(self, u: FloatArray) -> FloatArray:
        """Return ψ(u), (n, R)."""

    @abstractmethod
    def mean(self, u: FloatArray) -> FloatArray:
        """Return ψ'(u), the mean response (inverse link), in the shape of u."""

    @abstractmethod
    def second_derivative(self, u: FloatArray) -> FloatArray:
        """Return ψ''(u), (n, R), or (n, K, K, R)."""

    @abstractmethod
    def deviance(self, u: FloatArray, y: FloatArray) -> FloatArray:
        """Return twice the log-likelihood that each row falls short of its best, (n, R)."""

    def loss(self, u: FloatArray, y: FloatArray) -> FloatArray:
        """Return ψ(u) − y u, whose derivative is the residual without clip, (n, R)."""
        return np.asarray(self.log_partition(u) - y * u)

    def residual(self, u: FloatArray, y: FloatArray) -> FloatArray:
        """Return ψ'(u) − y, clipped to the public bound, in the shape of u."""
        residual = np.asarray(self.mean(u) - y)
        if np.isfinite(self.residual_bound):
            np.clip(residual, -self.residual_bound, self.residual_bound, out=residual)
        return residual

    def predictor_norm(self, coef: FloatArray, order: float) -> FloatArray:
        """Return the factor by which a bound on ‖x‖ bounds predictors, (R,).

        |x'β| ≤ ‖x‖ ‖β‖ with dual norms: ``order`` 2 where rows are bounded in ℓ2, 1 in ℓ∞. With classes it
        bounds the difference of any two classes' predictors.
        """
        return np.asarray(np.linalg.norm(coef, ord=order, axis=0))

    def largest_residual(self, predictor_bound: float | FloatArray) -> FloatArray:
        """Return the largest size of a residual where |u| is at most ``predictor_bound``, () or (R,)."""
        return np.full(np.shape(predictor_bound), self.residual_bound)

    def gradient_radius(self, predictor_bound: float | FloatArray) -> FloatArray:
        """Return half the ℓ2 diameter of a row's gradients over rows ‖x‖₂ ≤ 1, () or (R,).

        With rows clipped at c_x, the mean gradient moves by at most 2 c_x · radius / n when a row is
        replaced, radius taken at ``predictor_bound`` = c_x ‖β‖₂. A gradient has length at most the largest
        residual, which is what is returned here: attained where rows that are orthogonal to β, hence of
        predictor 0, have the largest residual. Other families give less.
        """
        return self.largest_residual(predictor_bound)

    def identified(self, coef: FloatArray) -> FloatArray:
        """Return equivalent coefficients in normal form: centered over classes, others unchanged."""
        return coef
