"""Simulated data of the papers' experiments and of stand-ins: one function per model, found by name."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from data.errors import DataError

FloatArray = npt.NDArray[np.floating[Any]]
Shape = Literal["gaussian", "student", "exponential"]


@dataclass(frozen=True, eq=False)
class Simulated:
    X: FloatArray  # (n, d)
    y: FloatArray | None  # (n,); None for means
    truth: FloatArray  # (d,): the true value
    noise_std: float = 1.0  # standard deviation of entries or responses; for signs, their bound
    information: FloatArray | None = None  # covariance of (y − E[y|x]) x, or its diagonal if it is diagonal


@cache
def models() -> dict[str, str]:
    """Return the module of each model: every module of this package lists its models in ``MODELS``."""
    modules = [
        importlib.import_module(f"{__name__}.{entry.name}") for entry in pkgutil.iter_modules(__path__)
    ]
    return {model: module.__name__ for module in modules for model in getattr(module, "MODELS", ())}


def simulator(model: str) -> Callable[..., Simulated]:
    """Return the function ``(rng, n, d, **settings) -> Simulated`` of a model."""
    if model not in models():
        raise DataError(f"model must be one of {', '.join(sorted(models()))}, got {model!r}")
    return getattr(importlib.import_module(models()[model]), model)  # type: ignore[no-any-return]


def centered_noise(rng: np.random.Generator, kind: str, shape: int | tuple[int, ...]) -> FloatArray:
    """Draw noise with mean 0 and variance 1; Student's t has 5 degrees of freedom."""
    if kind == "gaussian":
        return np.asarray(rng.standard_normal(shape))
    if kind == "exponential":
        return np.asarray(rng.standard_exponential(shape) - 1)
    if kind == "student":
        return np.asarray(rng.standard_t(5, shape) * np.sqrt(3 / 5))
    raise DataError(f"noise must be one of gaussian, student, exponential, got {kind!r}")


def uniform_rows(
    rng: np.random.Generator, n: int, d: int, reach: float = 1.0, *, single_precision: bool = False
) -> FloatArray:
    """Draw rows with entries uniform on ±``reach``; single precision halves the memory."""
    X = rng.random((n, d), dtype=np.float32 if single_precision else np.float64)
    X *= 2 * reach
    X -= reach
    return X


def half_width(design: str, d: int, support: int) -> float:
    """Return h for a design with entries uniform on ±h."""
    half_widths: dict[str, float] = {"literal": d**-0.5, "repaired": support**-0.5, "feasible": 1.0}
    if design not in half_widths:
        raise DataError(f"design must be one of {', '.join(half_widths)}, got {design!r}")
    return half_widths[design]
