"""The private classes for many columns, of which few matter."""

from dataclasses import dataclass

from dpalgos.sklearn.means import DPMean
from dpalgos.sklearn.regressions import DPLinearRegression


@dataclass(kw_only=True, eq=False, repr=False)
class DPSparseLinearRegression(DPLinearRegression):
    """Private linear regression with few non-zero coefficients among many columns.

    `help(dpalgos.sklearn)` lists the parameters that all classes share.

    Parameters
    ----------
    sparsity : int
        The number of non-zero coefficients, including the intercept if one is fitted.
    covariate_bound : float
        Entries of X, in public units, are clipped to plus or minus this bound.
    response_bound : float
        Responses, in public units, are clipped to plus or minus this bound.
    fit_intercept : bool, default False

    Attributes
    ----------
    coef_ : (d,) array
    intercept_ : float
    """

    _estimator = "screened_sparse_regression"

    sparsity: int
    covariate_bound: float
    response_bound: float
    fit_intercept: bool = False


@dataclass(kw_only=True, eq=False, repr=False)
class DPSparseMean(DPMean):
    """The private mean of many columns, of which few have a mean far from zero.

    `help(dpalgos.sklearn)` lists the parameters that all classes share.

    Parameters
    ----------
    value_bound : float
        Entries of X, in public units, are clipped to plus or minus this bound.
    sparsity : int
        The number of non-zero entries of the mean, in public units.

    Attributes
    ----------
    mean_ : (d,) array
    """

    _estimator = "dp_sparse_mean"

    sparsity: int
