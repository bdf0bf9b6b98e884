"""Simulated data of the papers' experiments: one function per model, found by its name."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from data.errors import DataError

FloatArray = npt.NDArray[np.floating[Any]]

MODELS = {
    "gaussian_mean": "data.simulations.means",
    "uniform_glm": "data.simulations.glms",
    "uniform_regression": "data.simulations.regressions",
}


@dataclass(frozen=True, eq=False)
class Simulated:
    """One draw of a simulated data set.

    Attributes
    ----------
    X : (n, d) array
    y : (n,) array or None
    truth : (d,) array
        The parameter that estimates are compared with.
    """

    X: FloatArray
    y: FloatArray | None
    truth: FloatArray


def simulator(model: str) -> Callable[..., Simulated]:
    """Return the function ``(rng, n, d, **settings) -> Simulated`` of a model.

    Raises
    ------
    DataError
        If there is no such model.
    """
    if model not in MODELS:
        raise DataError(f"model must be one of {', '.join(sorted(MODELS))}, got {model!r}")
    found: Any = getattr(importlib.import_module(MODELS[model]), model)
    return found  # type: ignore[no-any-return]
