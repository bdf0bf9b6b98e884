"""Families of generalized linear models, found by name: adding one is adding one file.

    f(y | x) ∝ exp((y u − ψ(u)) / c),   u = x'β

A module ``dpalgos/models/families/NAME.py`` defines the family of that name as its ``FAMILY``.

>>> from dpalgos.models.families import get_family
>>> get_family("logistic").mean(np.zeros((1, 1)))
array([[0.5]])

Arrays have rows first and replicates last. Predictors u are (n, R), or (n, K, R) with K classes. Encoded
responses are (n, 1) or (n, K, 1). Coefficients are (d, R) or (d, K, R). Every function keeps the precision of
u, float32 or float64, and stays finite for finite u.

The residual of a row, ψ'(u) − y, is bounded by public constants. The gradient of a row is its residual times
x. Therefore clipping the residual is a part of every guarantee, and its bound is a part of every sensitivity.
"""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache, partial
from typing import ClassVar, Protocol

import numpy as np

from dpalgos.core.rows import Rows
from dpalgos.errors import InputError, shown, unknown_name
from dpalgos.rows.sample import Sample
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
        Whether residuals are unbounded. If so, a private estimator must clip them.
    needs_classes : bool
        Whether responses are classes, of which there are K.
    derivative_bound : float
        c1 = sup |ψ'|; infinite if there is none.
    curvature_bound : float
        c2 = sup of ψ'' (of its largest eigenvalue); infinite if there is none.
    is_linear : bool
        Whether ψ'' is constant, as of Gaussian responses.
    has_events : bool
        Whether responses are 0 or 1.
    has_counts : bool
        Whether responses are counts: ψ'' has no bound.
    """

    name: ClassVar[str]
    labels: ClassVar[str]
    needs_response_bound: ClassVar[bool] = False
    needs_classes: ClassVar[bool] = False
    derivative_bound: ClassVar[float]
    curvature_bound: ClassVar[float]
    is_linear: ClassVar[bool] = False
    has_events: ClassVar[bool] = False
    has_counts: ClassVar[bool] = False

    @property
    def classes(self) -> tuple[int, ...]:
        """``(K,)`` for a family with K classes, else ``()``: the middle of every shape."""
        return ()

    @property
    @abstractmethod
    def residual_bound(self) -> float:
        """Return the public bound on the size of a residual (ℓ2 over classes); infinite if not clipped."""

    @property
    def is_bounded(self) -> bool:
        """Whether residuals have a public bound."""
        return bool(np.isfinite(self.residual_bound))

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

    def check_bounds(self, name: str, lower: float, upper: float) -> None:
        """Refuse public bounds at which events or counts are clipped to what is none.

        A refusal of such responses would show that some lie outside the bounds.
        """
        ends = np.array([0.0, 1.0 if self.has_events else np.inf])
        if not self.allows(np.clip(ends, lower, upper)).all():
            raise InputError(
                f"bounds of the response {name!r} must be {self.labels} for family={self.name!r}, got "
                f"({lower:g}, {upper:g}); declare such bounds or choose another family"
            )

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

    def widest_residual(self, mean: FloatArray) -> FloatArray:
        """Return the largest size (n,) of a residual of any label, for means (n,) or (n, K)."""
        return np.full(len(mean), np.inf)

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
        replaced, with the radius at ``predictor_bound`` = c_x ‖β‖₂. A gradient has length at most the largest
        residual, which this method returns. The bound is attained if rows with predictor 0, orthogonal to β,
        have the largest residual. Other families return less.
        """
        return self.largest_residual(predictor_bound)

    def identified(self, coef: FloatArray) -> FloatArray:
        """Return equivalent coefficients in normal form: centered over classes, others unchanged."""
        return coef


@dataclass(frozen=True, kw_only=True)
class Unbounded(Family):
    """A family of unbounded residuals, clipped to ± ``response_bound`` where a guarantee is needed."""

    needs_response_bound: ClassVar[bool] = True
    derivative_bound: ClassVar[float] = float("inf")

    response_bound: float | None = None

    @property
    def residual_bound(self) -> float:
        return float("inf") if self.response_bound is None else self.response_bound


class HasFamily(Protocol):
    """Parameters of an estimator that name a family."""

    def family_object(self) -> Family: ...


def check_labels(sample: Sample, params: HasFamily) -> None:
    family = params.family_object()

    if not sample.rows.streamed:
        family.encode(sample.response())
        return
    sample.check_response()
    for _ in Rows.of_sample(sample).partials(partial(_check_labels, family)):
        pass


def _check_labels(family: Family, rows: Rows) -> None:
    for block in rows.each():
        family.encode(block.y)


@cache
def family_names() -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def family_class(name: object) -> type[Family]:
    if not isinstance(name, str) or name not in family_names():
        raise unknown_name("family", name, family_names())
    family: type[Family] = importlib.import_module(f"{__name__}.{name}").FAMILY
    return family


def get_family(
    name: str,
    *,
    response_bound: float | None = None,
    n_classes: int | None = None,
    private: bool = False,
) -> Family:
    """Return a family with its public constants, or refuse one that is missing or has no meaning for it.

    ``response_bound`` bounds the residual, for families that need it; None: not clipped, which a ``private``
    estimator cannot do. ``n_classes`` is public, never read from the labels.
    """
    family = family_class(name)
    constants = {
        "response_bound": (response_bound, family.needs_response_bound, private),
        "n_classes": (n_classes, family.needs_classes, True),
    }
    used = {}
    for keyword, (value, meaning, required) in constants.items():
        if value is not None and not meaning:
            raise InputError(
                f"{keyword} must be left out for family={name!r}, which has none, got {shown(value)}"
            )
        if value is None and meaning and required:
            raise InputError(f"{keyword} is needed by family={name!r}, got None; pass e.g. {keyword}=3")
        if meaning:
            used[keyword] = value
    return family(**used)
