"""Regressions by formula on a data frame: ``ols``, ``logit`` and ``poisson``."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpalgos.formula.fit import FormulaResult, logit, ols, poisson

__all__ = ["FormulaResult", "logit", "ols", "poisson"]


def __getattr__(name: str) -> Any:
    """Load the fits on first use: a reader of formulas needs none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dpalgos.formula import fit

    return getattr(fit, name)
