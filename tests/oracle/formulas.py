"""Regressions and the baseline table by formula: each door yields pairs of an estimate and its reference."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import patsy

from dpalgos import formula as private
from dpalgos.central.group_sums import N_CELLS
from tests.oracle import references as ref
from tests.oracle.laws import EPSILON, Pair, pairs
from tests.oracle.recipes import RIGHT, Table

FAMILY = {"ols": ("gaussian", "y"), "logit": ("logistic", "b"), "poisson": ("poisson", "c")}
FEWEST = 20  # persons of a group, or events of a period, whose classical standard error means something


def budget(epsilon: float, seed: int) -> dict[str, Any]:
    return {"epsilon": epsilon, "delta": 1e-6, "random_state": seed}


def by_term(result: Any) -> pd.DataFrame:
    """Return estimates and limits of a result, by term."""
    return result.table().set_index("term")[["estimate", "ci_low", "ci_high"]]


def people_of(r: Any, f: pd.DataFrame) -> tuple[dict[str, Any], np.ndarray, Any]:
    """Return keywords of persons and weights, and the weights and groups of the reference."""
    options, w, groups = {}, np.ones(len(f)), None
    if r.weights != "none":
        options, w = {"weights": "w", "max_weight": 1.0}, f.w.to_numpy()
    if r.people != "rows":
        options, groups = options | {"user": "person"}, f.person
        w = w / f.groupby("person").person.transform("size").to_numpy()
    return options, w, groups


def named(t: Table, f: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the rows of the reference: missing cells replaced by the declared constants."""
    f = (t.frame if f is None else f).fillna(t.impute)
    return f.assign(g=pd.Categorical(f.g, t.levels["g"]))


def regression(kind: str, r: Any, t: Table, epsilon: float, seed: int) -> Iterator[Pair]:
    family, y = FAMILY[kind]
    options, w, groups = people_of(r, t.frame)
    # The guide: with noise, robust coefficients if errors depend on covariates, as those of a curve do.
    is_curve = (kind, r.effect, epsilon) == ("poisson", "curved", EPSILON)
    is_robust = kind == "ols" and r.target == "robust"
    if is_curve or (kind == "ols" and not is_robust):
        options["interval_target"] = "least squares"
    has_offset = kind == "poisson" and r.offset != "none"
    right, offset = (
        (f"{t.right} + offset(log(days))", np.log(t.frame.days)) if has_offset else (t.right, None)
    )
    declared = t.of("x", "z", "g", *([y] if y != "b" else []), *(["days"] * has_offset))
    result = getattr(private, kind)(f"{y} ~ {right}", t.frame, **declared, **options, **budget(epsilon, seed))
    f, table = named(t), by_term(result)
    fit = ref.glm(family, RIGHT, f[y], f, w, offset, groups)
    is_exact = kind == "ols" and r.y in ("exact", "constant")
    widths = {"narrowest": 0.0} if is_exact else {}  # without errors, the classical width is 0
    if is_exact:  # noise is relative to the range of the response, in units of the columns
        std = np.asarray(patsy.dmatrix(fit.info, f)).std(axis=0)
        unit = 2 / r.n * np.abs(f.y).max() / np.where(std > 0, std, 1)
        fit = replace(fit, cov=fit.cov + np.diag(unit**2))
    terms = fit.names
    if is_robust:
        fit = replace(fit, beta=_robust(result, f, fit, w, groups))
        terms = terms[1:]  # the docs: the intercept may miss if errors are skewed
    yield from pairs("coef", table.loc[terms], *fit.of(terms), **widths)
    R = np.array([[float(name == each) for name in fit.names] for each in ("x", "z")])
    one = result.t_test("x - z = 0")
    yield from pairs(
        "t_test x - z", [[*one.estimate, *np.ravel(one.interval)]], *fit.along(R[:1] - R[1:]), **widths
    )
    if not is_exact and not np.isnan(fit.beta).any():
        got = float(np.sqrt(result.wald_test("x = 0, z = 0").statistic))
        want = float(np.sqrt((R @ fit.beta) @ np.linalg.solve(R @ fit.cov @ R.T, R @ fit.beta)))
        got = min(want, 6 * got) if got < want else got  # wider intervals are no error
        yield Pair("wald x, z", got, want, 1 + 0.6 * want, widths=False)  # standard errors may differ by 15%
    if is_robust:
        return
    inside = f[np.logical_and.reduce([f[name].between(*t.bounds[name]) for name in ("x", "z")])]
    where = inside.iloc[:: max(1, len(inside) // 5)].head(5)  # rows outside are clipped
    log_days = np.log(t.frame.days[where.index].to_numpy()) if has_offset else 0.0
    eta, sd = fit.at(where)
    predicted = fit.family.link(result.predict(t.frame.loc[where.index], interval=0.95))
    wanted = fit.family.link(
        fit.family.link.inverse(eta + log_days)
    )  # a share is never nearer to 0 than 1e-16
    yield from pairs("predict", predicted, wanted, sd, **widths)
    if not has_offset:
        middle = {name: float(np.mean(t.bounds[name])) for name in ("x", "z")} | t.units.get("center", {})
        at = named(t, pd.DataFrame({"g": t.levels["g"], **middle}))
        means = fit.family.link(result.marginal_means("g").loc[t.levels["g"]])
        yield from pairs("marginal mean", means, *fit.at(at), **widths)
    nested = ref.glm(family, "x", f[y], f, w, offset, groups)
    yield from pairs("submodel", by_term(result.submodel(["x"])).loc[nested.names], *nested.of(nested.names))
    if kind == "ols" and r.y != "constant" and not np.isnan(fit.beta).any():
        # The docs: of values clipped to their bounds, by the released coefficients.
        clipped = f.assign(**{name: f[name].clip(*t.bounds[name]) for name in ("x", "z", "y")})
        mean = fit.fitted(clipped, table.estimate)
        total, rest = (clipped.y - np.average(clipped.y, weights=w)) ** 2, (clipped.y - mean) ** 2
        want = 1 - np.average(rest, weights=w) / np.average(total, weights=w)
        influence = w * (rest - (1 - want) * total) / np.sum(w * total)
        se = np.sqrt((influence.groupby(f.index if groups is None else groups).sum() ** 2).sum())
        found = [result.goodness().get(f"r_squared{each}", np.nan) for each in ("", "_low", "_high")]
        yield from pairs("R²", [found], [want], [se + 1e-6], widths=False)


def _robust(result: Any, f: pd.DataFrame, fit: ref.Fit, w: np.ndarray, groups: Any) -> np.ndarray:
    """Return the coefficients of the documented target: scores clipped at the released threshold."""
    design, released = result.design, result.model.released
    if np.isnan(fit.beta).any():
        return fit.beta
    center, scale = result.response_units
    X = design.terms_of(f[["x", "z", "g"]].astype({"g": object}))[0] @ design.back
    unit = np.arange(len(f)) if groups is None else np.unique(groups, return_inverse=True)[1]
    y = (f.y.to_numpy(float) - center) / scale
    beta = released.outer @ ref.robust(X @ released.outer, y, released.clip, w, unit)
    return np.asarray(scale * design.back @ beta + design.shift(center))


def baseline(r: Any, t: Table, epsilon: float, seed: int) -> Iterator[Pair]:
    people = {"user": "person"} if r.people != "rows" else {}
    declared = t.of("x", "c", "g", "stage", without=("center", "scale"))
    table = private.table_one(
        "g ~ x + c + stage", t.frame, **declared, **people, **budget(epsilon, seed), interval=0.95
    ).frame()
    f = t.frame.assign(g=named(t).g, u=1.0)
    if people:
        f["u"] = 1 / f.groupby("person").person.transform("size")
    counted = partial(Pair, se=1.0, widths=False)
    for group in t.levels["g"]:
        own, one = f[f.g == group], table[table.group == group].set_index(["variable", "level", "statistic"])
        yield counted(f"n {group}", one.estimate["n", "", "size"], own.u.sum())
        yield counted(f"ill {group}", one.n["stage", "ill", "share"], own.u[own.stage == "ill"].sum())
        for name in ("x", "c") if own.u.sum() >= FEWEST else ():
            known = own[own[name].notna()]
            if len(known) < len(own):
                yield counted(f"missing {group}", one.n[name, "", "missing"], own.u.sum() - known.u.sum())
            limits = one.loc[name, ""][["estimate", "ci_low", "ci_high"]]
            yield from _numbers(f"{name} {group}", limits, known, name, t)


def _numbers(what: str, one: pd.DataFrame, known: pd.DataFrame, name: str, t: Table) -> Iterator[Pair]:
    v, w = known[name].to_numpy(float), known.u.to_numpy()
    mean, n, is_rows = float(np.average(v, weights=w)), float(w.sum()), bool((w == 1).all())
    second, fourth = (float(np.average((v - mean) ** power, weights=w)) for power in (2, 4))
    cell, sd = float(np.ptp(t.bounds[name])) / (N_CELLS - 1), float(np.sqrt(second))  # of limits.md
    of_mean = {"cell": cell / 2 / np.sqrt(n), "widths": is_rows and second > 0}
    yield from pairs(f"mean {what}", one.loc[["mean"]], [mean], [sd / np.sqrt(n)], **of_mean)
    se = float(np.sqrt(max(fourth - second**2, 0) / n)) / max(2 * sd, 1e-12)
    of_sd = {"cell": cell / 2, "widths": False}
    yield from pairs(f"SD {what}", one.loc[["standard deviation"]], [sd], [se], **of_sd)
    (median,) = pairs(f"median {what}", one.loc[["median"]], [float(np.median(v))], [0.0], widths=False)
    if is_rows and np.isfinite(median.half):  # its limits are the edges of cells
        low, high = one.loc["median", ["ci_low", "ci_high"]]
        yield replace(median, got=(low + high) / 2, half=median.half + 1e-9, cell=median.half + 1e-9)
