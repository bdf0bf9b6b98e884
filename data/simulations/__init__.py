"""Simulated data of the papers' experiments: one function per model, found by its name."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from data.data_errors import DataError

FloatArray = npt.NDArray[np.floating[Any]]

MODELS = {
    "bounded_mean": "data.simulations.priors",
    "gaussian_mean": "data.simulations.means",
    "prior_logistic": "data.simulations.priors",
    "prior_mean": "data.simulations.priors",
    "prior_regression": "data.simulations.priors",
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
    noise_std : float
        Standard deviation of every entry about its mean, or of the responses about theirs; the bound of
        entries that are ± a bound.
    information : (d,) or (d, d) array or None
        Covariance of (y − E[y|x]) x, or its diagonal if it is diagonal; None for means.
    """

    X: FloatArray
    y: FloatArray | None
    truth: FloatArray
    noise_std: float = 1.0
    information: FloatArray | None = None


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
