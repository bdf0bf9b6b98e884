"""Public questions without a formula: scikit-learn classes, and means with intervals."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

import dpalgos
import dpalgos.sklearn as classes
from dpalgos.errors import AccuracyWarning, InputError
from tests.oracle import references as ref
from tests.oracle.formulas import budget, people_of
from tests.oracle.laws import Pair, pairs
from tests.oracle.recipes import Table

REGRESSIONS = {
    "DPLinearRegression": ("gaussian", "y", {}),
    "DPLogisticRegression": ("logistic", "b", {"classes": [0, 1]}),
    "DPPoissonRegressor": ("poisson", "c", {}),
}
MEANS: dict[str, dict[str, Any]] = {  # in units in which the bounds are -1 and 1
    "box_mean": {"lower": -1.0, "upper": 1.0},
    "dp_mean": {"value_bound": 1.0},
    "karwa_vadhan_mean": {"mean_bound": 1.0, "std_bounds": (1e-4, 1.0)},
    "clipped_mean": {"mean_bound": 1.0, "std_bounds": (1e-4, 1.0)},
    "coinpress_mean": {"mean_bound": 1.0, "std_bound": 1.0},
}
NAMES = ["x", "y", "c"]


def regressions(r: Any, t: Table, epsilon: float, seed: int) -> Iterator[Pair]:
    f = t.frame.fillna(t.impute)
    options, w, groups = people_of(r, f)
    fits = {"user_ids": f.person.to_numpy()} if "user" in options else {}
    fits |= {"sample_weight": f.w.to_numpy()} if "weights" in options else {}
    most = {"max_weight": 1.0} if "weights" in options else {}
    bounds = {name: t.bounds[name] for name in ("x", "z")}
    for name, (family, y, own) in REGRESSIONS.items():
        if family == "gaussian":
            own = {"y_bounds": t.bounds["y"]}
            if r.y != "normal":
                continue  # these classes have the robust target alone
        model = getattr(classes, name)(**own, **most, bounds=bounds, interval=0.95, **budget(epsilon, seed))
        model.fit(f[["x", "z"]], f[y], **fits)
        fit = ref.glm(family, "x + z", f[y], f, w, None, groups)
        terms = ["x", "z", "Intercept"]
        low, high = np.asarray(model.interval_)
        limits = pd.DataFrame({"center": (low + high) / 2, "low": low, "high": high}, terms)
        yield from pairs(family, limits, *fit.of(terms))
        shrunk = np.append(np.ravel(model.coef_), model.intercept_)
        for term, got, *reference in zip(
            terms, np.where(np.isnan(low), np.nan, shrunk), *fit.of(terms), strict=True
        ):
            yield Pair(f"{family} {term}, shrunk", got, *reference, widths=False)


def means(r: Any, t: Table, epsilon: float, seed: int) -> Iterator[Pair]:
    f = t.frame.fillna(t.impute)
    low, high = np.array([t.bounds[name] for name in NAMES]).T
    center, scale = (low + high) / 2, (high - low) / 2
    X = (f[NAMES].to_numpy(float) - center) / scale
    people = {"user_ids": f.person.to_numpy()} if r.people != "rows" else {}
    own = f.groupby("person")[NAMES].mean() if people else f[NAMES]
    want, se = own.mean().to_numpy(), own.std(ddof=1).to_numpy() / np.sqrt(len(own))
    asked = {"interval": 0.95, "epsilon": epsilon, "delta": 1e-6}
    for name, keywords in MEANS.items():
        if people and not dpalgos.get_estimator(name).takes_people:
            continue
        try:
            rng = np.random.default_rng(seed)
            found = dpalgos.estimate(name, X, None, rng=rng, **asked, **keywords, **people)
        except InputError as error:
            warnings.warn(f"{name} refused: {error}", AccuracyWarning, stacklevel=1)
            continue
        got, halves = center + scale * found.estimate, scale * np.ptp(np.asarray(found.interval), axis=0) / 2
        for k, column in enumerate(NAMES):
            is_constant = se[k] <= 1e-9 * abs(want[k])
            std = 1e-3 * abs(want[k]) if is_constant else se[k]
            yield Pair(f"{name} {column}", got[k], want[k], std, halves[k], widths=not is_constant)
