"""Regressions by formula on a data frame, such as ``ols`` and ``phreg``; survival curves, and Table 1."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpalgos.formula.fit import FormulaResult, logit, ols, poisson
    from dpalgos.formula.tables import survival, table_one
    from dpalgos.formula.time_to_event import SurvivalResult, phreg

__all__ = ["FormulaResult", "SurvivalResult", "logit", "ols", "phreg", "poisson", "survival", "table_one"]
_FILES = dict.fromkeys(("survival", "table_one"), "tables")
_FILES |= dict.fromkeys(("SurvivalResult", "phreg"), "time_to_event")


def __getattr__(name: str) -> Any:
    """Load the fits on first use: a reader of formulas needs none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"dpalgos.formula.{_FILES.get(name, 'fit')}"), name)
