"""Reference answers of statsmodels and numpy on the same rows, with sandwich standard errors."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from itertools import pairwise
from typing import Any

import joblib
import numpy as np
import pandas as pd
import patsy
import statsmodels.api as sm
from statsmodels.duration.survfunc import SurvfuncRight

ENDLESS = 30.0  # standard error of a coefficient without a maximum, in standard deviations of its column
FAMILIES = {
    "gaussian": sm.families.Gaussian(),
    "logistic": sm.families.Binomial(),
    "poisson": sm.families.Poisson(),
    "cloglog": sm.families.Binomial(sm.families.links.CLogLog()),
}


@dataclass
class Fit:
    """Coefficients by name; NaN where the rows do not determine one."""

    names: list[str]
    beta: np.ndarray
    cov: np.ndarray  # sandwich by person
    info: Any
    family: Any

    @property
    def se(self) -> np.ndarray:
        return np.sqrt(np.maximum(np.diag(self.cov), 0))

    def of(self, names: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return some coefficients, and their standard errors."""
        chosen = [self.names.index(name) for name in names]
        return self.beta[chosen], self.se[chosen]

    def fitted(self, frame: pd.DataFrame, beta: pd.Series) -> np.ndarray:
        """Return the linear predictors of rows by other coefficients."""
        return np.asarray(patsy.dmatrix(self.info, frame)) @ beta[self.names].to_numpy()

    def along(self, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return combinations of the coefficients, and their standard errors."""
        lost = (R[:, np.isnan(self.beta)] != 0).any(axis=1)
        variance = np.einsum("ij,jk,ik->i", R, self.cov, R)
        return np.where(lost, np.nan, R @ np.nan_to_num(self.beta)), np.sqrt(np.maximum(variance, 0))

    def at(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Return linear predictors at rows, and their standard errors."""
        return self.along(np.asarray(patsy.dmatrix(self.info, frame)))


def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: keep results by the content of the arguments, for repeated releases of the same rows."""
    results: dict[str, Any] = {}

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        key = joblib.hash((args, keywords))
        if key not in results:
            results[key] = function(*args, **keywords)
        return results[key]

    return call


@remembered
def glm(
    kind: str,
    right: str,
    y: Any,
    f: pd.DataFrame,
    weights: Any = None,
    offset: Any = None,
    groups: Any = None,
) -> Fit:
    """Fit a generalized linear model; separated or aliased coefficients are NaN."""
    found = patsy.dmatrix(right, f, NA_action="raise")
    X, info, family = np.asarray(found), found.design_info, FAMILIES[kind]
    y, w = np.asarray(y, float), np.ones(len(X)) if weights is None else np.asarray(weights, float)
    y = y + 1e-12 * np.arange(len(y)) if np.ptp(y) == 0 else y  # statsmodels has no deviance of a constant
    back = np.eye(X.shape[1])  # columns in units of their standard deviation
    scale = np.where(X[:, 1:].std(axis=0) > 0, X[:, 1:].std(axis=0), 1)
    back[1:, 1:], back[0, 1:] = np.diag(1 / scale), -X[:, 1:].mean(axis=0) / scale
    _, s, vt = np.linalg.svd(np.sqrt(w)[:, None] * (X @ back), full_matrices=False)
    identified, null = vt[s >= 1e-9 * s[0]].T, vt[s < 1e-9 * s[0]]
    M = X @ back @ identified
    groups = np.arange(len(X)) if groups is None else np.unique(groups, return_inverse=True)[1]
    by_group = {"cov_type": "cluster", "cov_kwds": {"groups": groups, "use_correction": False}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = sm.GLM(y, M, family=family, var_weights=w, offset=offset).fit(maxiter=100, **by_group)
    to, bread = back @ identified, fitted.normalized_cov_params
    beta, cov = to @ np.asarray(fitted.params), to @ fitted.cov_params() @ to.T
    lost = (np.abs(null @ back.T) > 1e-7).any(axis=0) if len(null) else np.zeros(len(beta), bool)
    if kind != "gaussian":
        centered, own = (np.diag(each @ bread @ each.T) for each in (identified, to))
        variance = np.minimum(centered, own * np.append(1, scale) ** 2)  # the intercept's at either origin
        lost |= (not fitted.converged) | (variance > ENDLESS**2)
    return Fit(info.column_names, np.where(lost, np.nan, beta), cov, info, family)


def robust(U: np.ndarray, y: np.ndarray, clip: float, w: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Return the coefficients at which the mean of scores of white units, clipped to a norm, is zero.

    The score of a unit, a row or a person, is the weighted sum of those of its rows.
    """
    theta = np.linalg.lstsq(U, y, rcond=None)[0]
    for _ in range(200):
        scores = pd.DataFrame(U * (w * (y - U @ theta))[:, None]).groupby(unit).sum()
        v = w * np.minimum(1, clip / np.maximum(np.linalg.norm(scores, axis=1), 1e-300))[unit]
        step = np.linalg.pinv((U * v[:, None]).T @ U) @ (U.T @ (v * (y - U @ theta)))
        theta = theta + step * min(1.0, 1 / max(float(np.linalg.norm(step)), 1e-12))
    return np.asarray(theta)


def person_periods(f: pd.DataFrame, cuts: list[float]) -> pd.DataFrame:
    """Split rows of (start, t, e) at cut points, each row by itself, with its exposure and period."""
    parts = []
    for low, high in pairwise(cuts):
        first = (f.t == low) & (low == cuts[0])  # events at the first cut point count
        inside = f[((f.t > low) | first) & (f.start < high)]
        exposure = np.minimum(inside.t, high) - np.maximum(inside.start, low)
        event = ((inside.e == 1) & (inside.t <= high)).astype(int)
        parts.append(inside.assign(exposure=exposure, d=event, period=low))
    return pd.concat(parts, ignore_index=True).query("exposure > 0 or d == 1")


@remembered
def piecewise(right: str, f: pd.DataFrame, cuts: list[float], *, grouped: bool) -> Fit:
    """Fit proportional hazards: constant within periods, or of times in whole periods (cloglog)."""
    rows = person_periods(f, cuts)
    rows = rows[rows.groupby("period").d.transform("sum") > 0]  # others determine nothing
    right = f"{right} + C(period, levels={[float(k) for k in sorted(rows.period.unique())]})"
    if grouped:
        return glm("cloglog", right, rows.d, rows, groups=rows.person)
    return glm("poisson", right, rows.d, rows, None, np.log(np.maximum(rows.exposure, 1e-6)), rows.person)


@remembered
def cox(right: str, f: pd.DataFrame, last: float) -> Fit:
    """Fit Cox regression with entry times (Breslow's ties), censored at the last cut point."""
    f = f[f.start - 1e-9 < np.minimum(f.t, last)]
    X = patsy.dmatrix(right, f)
    Z, names = np.asarray(X)[:, 1:], X.design_info.column_names[1:]
    used, unit = Z.std(axis=0) > 0, Z.std(axis=0)[Z.std(axis=0) > 0]
    # No time is negative for statsmodels.
    stop, event, entry = 1 + np.minimum(f.t, last), f.e * (f.t <= last), 1 + f.start - 1e-9
    model = sm.PHReg(stop, (Z - Z.mean(axis=0))[:, used] / unit, event, entry=entry, ties="breslow").fit()
    beta, cov = np.full(len(names), np.nan), np.full((len(names), len(names)), np.nan)
    is_endless = np.sqrt(np.diag(model.cov_params())) > ENDLESS
    beta[used] = np.where(is_endless, np.nan, model.params / unit)
    cov[np.ix_(used, used)] = model.cov_params() / np.outer(unit, unit)
    return Fit(names, beta, cov, X.design_info, None)


@remembered
def kaplan_meier(t: Any, e: Any, at: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return survival at times, with Greenwood's standard errors."""
    km = SurvfuncRight(t, e)
    k = np.searchsorted(km.surv_times, at, side="right")
    return np.append(1.0, km.surv_prob)[k], np.append(0.0, km.surv_prob_se)[k]
