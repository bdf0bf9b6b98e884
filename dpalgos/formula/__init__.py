"""Regressions by formula on a data frame: ``ols``, ``logit``, ``poisson`` and ``phreg``; survival curves."""

from dpalgos.formula.fit import FormulaResult, logit, ols, poisson
from dpalgos.formula.survival import SurvivalResult, phreg, survival

__all__ = ["FormulaResult", "SurvivalResult", "logit", "ols", "phreg", "poisson", "survival"]
