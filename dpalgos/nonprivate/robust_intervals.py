"""Heteroscedasticity-robust intervals of non-private estimates, by statsmodels.

Least squares: HC3. Means: Student's t of every column. Other generalized linear models: the sandwich (HC0),
the only one that statsmodels has for them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpalgos.core.estimator import PublicEstimator
from dpalgos.interval import Interval
from dpalgos.params import interval_level
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

# (X (n, d), y (n,) or None) -> half-widths (d,)
HalfWidths = Callable[[FloatArray, FloatArray | None], FloatArray]


@dataclass(frozen=True, kw_only=True)
class RobustIntervalEstimator(PublicEstimator):
    """Keywords of non-private estimators that have intervals."""

    interval: float | None = interval_level()


def robust_interval(sample: Sample, half_widths: HalfWidths) -> Interval:
    """Return the interval of each replicate's estimate; NaN where half-widths are not defined."""
    X, y = sample.X, sample.y
    with np.errstate(all="ignore"):
        if sample.row_mask is None:
            each = [half_widths(X, y)] * sample.n_replicates
        else:
            each = [half_widths(X[rows], None if y is None else y[rows]) for rows in sample.row_mask.T]
    widths = np.stack(each, axis=1)
    return Interval(half_width=np.where(np.isfinite(widths), widths, np.nan))


def mean_half_widths(level: float) -> HalfWidths:
    """Return the half-widths of means by Student's t."""

    def of(X: FloatArray, y: FloatArray | None) -> FloatArray:
        from statsmodels.stats.weightstats import DescrStatsW

        if len(X) < 2:
            return np.full(X.shape[1], np.nan)
        lower, upper = DescrStatsW(X).tconfint_mean(alpha=1 - level)
        return np.asarray((upper - lower) / 2)

    return of


def least_squares_half_widths(level: float) -> HalfWidths:
    """Return the half-widths of least squares by HC3."""
    from statsmodels.regression.linear_model import OLS

    return _half_widths(lambda X, y: OLS(y, X).fit(cov_type="HC3"), level)


def glm_half_widths(
    level: float, family: str, offset_bounds: tuple[float, float] | None = None
) -> HalfWidths:
    """Return the half-widths of maximum likelihood by the sandwich; 0 of an offset, the first column."""
    from statsmodels.genmod import families
    from statsmodels.genmod.generalized_linear_model import GLM

    kinds = {"gaussian": families.Gaussian, "logistic": families.Binomial, "poisson": families.Poisson}
    if offset_bounds is None:
        return _half_widths(lambda X, y: GLM(y, X, family=kinds[family]()).fit(cov_type="HC0"), level)

    def of(X: FloatArray, y: FloatArray | None) -> FloatArray:
        offset = np.clip(X[:, 0], *offset_bounds)
        model = _half_widths(
            lambda X, y: GLM(y, X, family=kinds[family](), offset=offset).fit(cov_type="HC0"), level
        )
        return np.append(0.0, model(X[:, 1:], y))

    return of


def _half_widths(fitted: Callable[[FloatArray, FloatArray | None], Any], level: float) -> HalfWidths:
    """Return the half-widths of a model that statsmodels fits; NaN if columns are collinear."""

    def of(X: FloatArray, y: FloatArray | None) -> FloatArray:
        if np.linalg.matrix_rank(X) < X.shape[1]:
            return np.full(X.shape[1], np.nan)
        lower, upper = fitted(X, y).conf_int(alpha=1 - level).T
        return np.asarray((upper - lower) / 2)

    return of
