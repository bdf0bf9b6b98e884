"""Regressions by formula on a data frame: ``ols``, ``logit`` and ``poisson``."""

from dpalgos.formula.fit import FormulaResult, logit, ols, poisson

__all__ = ["FormulaResult", "logit", "ols", "poisson"]
