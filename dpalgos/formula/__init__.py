"""Regressions by formula on a data frame: ``ols``, ``logit``, ``poisson`` and ``phreg``; survival curves."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpalgos.formula.fit import FormulaResult, logit, ols, poisson
    from dpalgos.formula.time_to_event import SurvivalResult, phreg, survival

__all__ = ["FormulaResult", "SurvivalResult", "logit", "ols", "phreg", "poisson", "survival"]


def __getattr__(name: str) -> Any:
    """Load the fits on first use: a reader of formulas needs none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    file = "time_to_event" if name in ("SurvivalResult", "phreg", "survival") else "fit"
    return getattr(import_module(f"dpalgos.formula.{file}"), name)
