"""Public questions of formulas: a door yields pairs of an answer and the reference's."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.duration.survfunc import survdiff

from dpalgos import formula as private
from dpalgos.errors import AccuracyWarning, InputError
from tests.oracle import references as ref
from tests.oracle.recipes import Table, table_of

RIGHT = "x + z + g"
FAMILY = {"ols": ("gaussian", "y"), "logit": ("logistic", "b"), "poisson": ("poisson", "c")}
Z = 1.959963985


@dataclass
class Pair:
    """An answer and its reference; ``se`` is the classical standard error, ``half`` the stated half-width.

    ``tolerance`` counts standard errors. ``widths``: the stated width is compared with the classical one.
    """

    name: str
    got: float
    want: float
    se: float
    half: float = np.inf
    tolerance: float = 0.25
    widths: bool = True


@dataclass
class Outcome:
    """What a door answers: pairs, or a refusal; and cautions."""

    pairs: list[Pair] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)
    refused: str = ""


Door = Callable[[Any, Table, float, int], Iterator[Pair]]


def asked(door: Door, recipe: Any, epsilon: float = 1e6, seed: int = 0) -> Outcome:
    """Ask a door's questions; refusals and cautions are part of the outcome."""
    outcome = Outcome()
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            outcome.pairs = list(door(recipe, table_of(recipe), epsilon, seed))
        except InputError as error:
            outcome.refused = str(error)
    outcome.cautions = [str(w.message) for w in caught if issubclass(w.category, AccuracyWarning)]
    return outcome


def budget(epsilon: float, seed: int) -> dict[str, Any]:
    return {"epsilon": epsilon, "delta": 1e-6, "random_state": seed}


def half(row: Any, low: str = "ci_low", high: str = "ci_high") -> float:
    return float(row[high] - row[low]) / 2


def many(name: str, table: pd.DataFrame, want: Iterable[float], se: Iterable[float]) -> Iterator[Pair]:
    """Yield a pair for each row of a table of an answer and its limits."""
    values = zip(table.to_numpy(), want, se, strict=True)
    yield from (
        Pair(f"{name} {k}", row[0], w, s, (row[2] - row[1]) / 2) for k, (row, w, s) in enumerate(values)
    )


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
    is_robust = kind == "ols" and r.target == "robust"
    if kind == "ols" and not is_robust:
        options["interval_target"] = "least squares"
    has_offset = kind == "poisson" and r.offset != "none"
    right, offset = (f"{RIGHT} + offset(log(days))", np.log(t.frame.days)) if has_offset else (RIGHT, None)
    declared = t.of("x", "z", "g", *([y] if y != "b" else []), *(["days"] * has_offset))
    result = getattr(private, kind)(f"{y} ~ {right}", t.frame, **declared, **options, **budget(epsilon, seed))
    f = named(t)
    fit = ref.glm(family, RIGHT, f[y], f, w, offset, groups)
    index = {name: k for k, name in enumerate(fit.names)}
    table, loose = result.table().set_index("term"), 0.25
    if r.y in ("exact", "constant") and kind == "ols":  # noise is relative to the response's range
        fit.cov = fit.cov + np.eye(len(fit.cov)) * (1e-4 * np.abs(f.y).max()) ** 2
    if is_robust and r.y != "normal" and f"{r.people} {r.weights}" != "rows none":
        return  # the scores of people are clipped as a whole
    if is_robust:
        fit.beta, loose = _robust(result, f, fit, w), 0.35
        index.pop("Intercept")  # the docs: it may miss if errors are skewed
    for name, k in index.items():
        yield Pair(f"coef {name}", table.estimate[name], fit.beta[k], fit.se[k], half(table.loc[name]), loose)
    R = np.zeros((2, len(fit.names)))
    R[0, index["x"]], R[1, index["z"]] = 1, 1
    want, se = fit.along(R[:1] - R[1:])
    one = result.t_test("x - z = 0")
    yield from many("t_test x - z", pd.DataFrame([[*one.estimate, *np.ravel(one.interval)]]), want, se)
    if not np.isnan(fit.beta).any():
        got = float(np.sqrt(result.wald_test("x = 0, z = 0").statistic))
        both = R @ fit.cov @ R.T
        want = float(np.sqrt((R @ fit.beta) @ np.linalg.solve(both, R @ fit.beta)))
        got = min(want, 4 * got) if got < want else got  # wider intervals are no error
        yield Pair("wald x, z", got, want, 1.0, np.inf, 1 + 0.15 * want, widths=False)
    if is_robust:
        return
    inside = f[np.logical_and.reduce([f[name].between(*t.bounds[name]) for name in ("x", "z")])]
    where = inside.iloc[:: max(1, len(inside) // 5)].head(5)  # rows outside are clipped
    days = t.frame.days[where.index].to_numpy() if has_offset else 1.0
    (mean, sd), answer = fit.mean(where), result.predict(t.frame.loc[where.index], interval=0.95)
    yield from many("predict", answer, mean * days, sd * days)
    if not has_offset:
        centers = t.units.get("center", {})
        middle = {name: centers.get(name, float(np.mean(t.bounds[name]))) for name in ("x", "z")}
        at = named(t, pd.DataFrame({"g": t.levels["g"], **middle}))
        yield from many("marginal mean", result.marginal_means("g"), *fit.mean(at))
    nested = ref.glm(family, "x", f[y], f, w, offset, groups)
    table = result.submodel(["x"]).table().set_index("term")
    for k, name in enumerate(nested.names):
        row, se = table.loc[name], nested.se[k]
        # The metric of clipped rows; of events and counts, a bound on the bias is a part of half-widths.
        tolerance = 0.6 if kind == "ols" else max(0.6, half(row) / (2 * max(se, 1e-12)))
        yield Pair(f"submodel {name}", row.estimate, nested.beta[k], se, half(row), tolerance, kind == "ols")
    if kind == "ols" and r.y != "constant" and not np.isnan(fit.beta).any():
        found, mean = result.goodness(), fit.mean(f)[0]
        total = np.average((f.y - np.average(f.y, weights=w)) ** 2, weights=w)
        want = 1 - np.average((f.y - mean) ** 2, weights=w) / total
        limits = [found.get(f"r_squared_{each}", np.nan) for each in ("low", "high")]
        se = 2 * (1 - want) / np.sqrt(len(f)) + 1e-6
        yield Pair("R²", found.get("r_squared", np.nan), want, se, np.ptp(limits) / 2, widths=False)


def _robust(result: Any, f: pd.DataFrame, fit: ref.Fit, w: np.ndarray) -> np.ndarray:
    """Return the coefficients of the documented target: scores clipped at the released threshold."""
    design, released, (center, scale) = result.design, result.model.released, result.response_units
    if np.isnan(fit.beta).any():
        return fit.beta
    X = design.terms_of(f[["x", "z", "g"]].astype({"g": object}))[0] @ design.back
    beta = ref.robust(X, (f.y.to_numpy() - center) / scale, released.outer, released.clip, w)
    return np.asarray(scale * design.back @ beta + design.shift(center))


def followed(r: Any, t: Table) -> pd.DataFrame:
    """Return rows of (start, t, e), with several of a person where the recipe says so."""
    f, rng = t.frame.assign(person=np.arange(len(t.frame))), np.random.default_rng([r.seed, 5])
    if r.entry not in ("split", "changing", "recurrent", "gaps"):
        return f
    cut = f.start + (f.t - f.start) * rng.uniform(0.05, 0.95, len(f))
    first, second = f.assign(t=cut, e=0), f.assign(start=cut)
    if r.entry == "changing":  # a treatment that starts during follow-up
        cut = f.start + rng.exponential(1.0, len(f))
        first = f.assign(t=np.minimum(cut, f.t), e=f.e * (f.t <= cut), z=0.0)
        second = f.assign(start=cut, z=1.0)[cut < f.t]
    if r.entry == "recurrent":
        first = first.assign(e=(rng.random(len(f)) < 0.3).astype(int))
    if r.entry == "gaps":
        second = second.assign(start=cut + 0.5 * (f.t - cut))
    return pd.concat([first, second]).sort_values(["person", "start"]).reset_index(drop=True)


def hazards(r: Any, t: Table, epsilon: float, seed: int) -> Iterator[Pair]:
    f, is_whole = followed(r, t), r.times == "whole"
    left = "Surv(t, e)" if r.entry == "none" else "Surv(start, t, e)"
    declared = t.of("x", "z", "g")
    if r.entry == "changing":
        declared["bounds"]["z"] = (0.0, 1.0)
    options = {"user": "person"} if r.entry != "none" else {}
    options |= {"events": "all"} if r.entry == "recurrent" else {}
    options |= {"resolution": 1.0} if is_whole else {}
    result = private.phreg(
        f"{left} ~ {RIGHT}", f, periods=t.periods, **declared, **options, **budget(epsilon, seed)
    )
    table, rows = result.table().set_index("term"), named(t, f)
    fit = ref.piecewise(RIGHT, rows, t.periods, grouped=is_whole)
    exact = ref.cox(RIGHT, rows, t.periods[-1])
    for k, name in enumerate(fit.names):
        if "period" in name or name == "Intercept":
            continue
        row = table.loc[name]
        tolerance = 0.8  # scores of high leverage weigh less
        yield Pair(f"log HR {name}", row.estimate, fit.beta[k], fit.se[k], half(row), tolerance)
        if np.isfinite(fit.beta[k]) and r.times not in ("whole", "tied"):
            cox = exact[0][name], exact[1][name]
            yield Pair(f"Cox log HR {name}", row.estimate, *cox, half(row), 1.0, widths=False)
    for k, row in enumerate(result.baseline().itertuples()):
        kept = k == 0 or any(f"[T.{t.periods[k]}]" in name for name in fit.names)
        if is_whole or not kept or np.isnan(fit.beta[0]) or r.times == "all late":
            continue
        R = [[float(name == "Intercept" or f"[T.{t.periods[k]}]" in name) for name in fit.names]]
        limits = np.log([[row.hazard, row.ci_low, row.ci_high]])
        (pair,) = many(f"log baseline {k}", pd.DataFrame(limits), *fit.along(np.array(R)))
        pair.tolerance = 0.8
        yield pair


def curves(r: Any, t: Table, epsilon: float, seed: int) -> Iterator[Pair]:
    whole = {"resolution": 1.0} if r.times == "whole" else {}
    declared = t.of("g", without=("bounds",))
    ask = {"periods": t.periods, "interval": 0.95, **declared, **whole, **budget(epsilon, seed)}
    found = private.survival("Surv(t, e) ~ g", t.frame, **ask)
    f, table, last = named(t), found.curves(), t.periods[-1]
    middle = f.assign(t=f.t - 0.5 * f.e) if whole else f  # an event of a whole year is in its middle
    for group in t.levels["g"]:
        one, own, raw = table[table.group == group], middle[middle.g == group], f.t[f.g == group]
        if not len(own):
            continue
        S, se = ref.kaplan_meier(own.t, own.e, t.periods)
        for k, (_, row) in list(enumerate(one.iterrows()))[1:]:
            at = f"{row.time:g} {group}"
            std, widths = max(se[k], 1 / len(own)), 0.05 < S[k] < 0.95
            yield Pair(f"survival {at}", row.survival, S[k], std, half(row), 0.6, widths)
            yield Pair(
                f"at risk {at}", row.at_risk, (raw >= row.time - 1e-9).sum(), 1.0, tolerance=0.5, widths=False
            )
        if (until := found.shown_until) > 0:
            means = found.restricted_means(until).set_index("group").loc[group]
            mean, std = ref.restricted_mean(own.t, own.e, until)
            std = max(std, until / len(own))
            yield Pair(f"restricted mean {group}", means["mean"], mean, std, half(means), 0.4, widths=False)
    if found.shown_until < last:
        return
    cut = middle.assign(e=middle.e * (middle.t <= last), t=np.minimum(middle.t, last))
    want = float(np.sqrt(survdiff(cut.t, cut.e, np.asarray(cut.g, dtype=str))[0]))
    got = float(np.sqrt(found.logrank().statistic))
    yield Pair("logrank", got, want, 1.0, tolerance=0.5 + 0.1 * want, widths=False)
    ratios, exact = found.hazard_ratios().set_index("group"), ref.cox("g", cut, last)
    for group in t.levels["g"][1:]:
        log, name = (
            np.log(ratios.loc[group, ["hazard_ratio", "ci_low", "ci_high"]].astype(float)),
            f"g[T.{group}]",
        )
        yield Pair(f"log HR {group}", log.iloc[0], exact[0][name], exact[1][name], half(log), 0.5)


def baseline(r: Any, t: Table, epsilon: float, seed: int) -> Iterator[Pair]:
    people = {"user": "person"} if r.people != "rows" else {}
    declared = t.of("x", "c", "g", "stage", without=("center", "scale"))
    table = private.table_one(
        "g ~ x + c + stage", t.frame, **declared, **people, **budget(epsilon, seed), interval=0.95
    ).frame()
    f = t.frame.assign(g=named(t).g, u=1.0)
    if people:
        f["u"] = 1 / f.groupby("person").person.transform("size")
    counted = partial(Pair, se=1.0, tolerance=0.5, widths=False)
    for group in t.levels["g"]:
        own, one = f[f.g == group], table[table.group == group].set_index(["variable", "level", "statistic"])
        yield counted(f"n {group}", one.estimate["n", "", "size"], own.u.sum())
        yield counted(f"ill {group}", one.n["stage", "ill", "share"], own.u[own.stage == "ill"].sum())
        for name in ("x", "c") if own.u.sum() >= 20 else ():
            known = own[own[name].notna()]
            if len(known) < len(own):
                yield counted(f"missing {group}", one.n[name, "", "missing"], own.u.sum() - known.u.sum())
            yield from _numbers(f"{name} {group}", one.loc[name, ""], known, name, is_rows=not people)


def _numbers(
    what: str, one: pd.DataFrame, known: pd.DataFrame, name: str, *, is_rows: bool
) -> Iterator[Pair]:
    v, w = known[name].to_numpy(float), known.u.to_numpy()
    mean, n = float(np.average(v, weights=w)), float(w.sum())
    second, fourth = (float(np.average((v - mean) ** power, weights=w)) for power in (2, 4))
    sd = float(np.sqrt(second)) or 1e-3 * abs(mean)  # of constants, cells have a width
    row = one.loc["mean"]
    widths = is_rows and second > 0
    yield Pair(f"mean {what}", row.estimate, mean, sd / np.sqrt(n), half(row), 0.5, widths)
    row, se = one.loc["standard deviation"], float(np.sqrt(max(fourth - second**2, 0) / n)) / (2 * sd)
    tolerance = max(0.5, half(row) / (2 * max(se, 1e-12)))  # its limits allow for a cell
    yield Pair(f"SD {what}", row.estimate, sd, se, half(row), tolerance, widths=False)
    row, se = one.loc["median"], sd / np.sqrt(n)
    if is_rows and np.isfinite(half(row)):  # its limits are the edges of cells
        wide, middle = half(row) + 1e-9, (row.ci_low + row.ci_high) / 2
        yield Pair(f"median {what}", middle, float(np.median(v)), se, wide, wide / se, widths=False)


DOORS: dict[str, tuple[Door, tuple[str, ...]]] = {
    "ols": (
        partial(regression, "ols"),
        ("x", "g", "y", "bounds", "units", "missing", "people", "weights", "order", "target", "effect"),
    ),
    "logit": (
        partial(regression, "logit"),
        ("x", "g", "events", "bounds", "units", "missing", "people", "weights", "order", "effect"),
    ),
    "poisson": (
        partial(regression, "poisson"),
        ("x", "g", "counts", "bounds", "missing", "people", "weights", "offset", "effect"),
    ),
    "phreg": (hazards, ("x", "g", "times", "entry", "bounds", "missing", "order", "effect")),
    "survival": (curves, ("g", "times", "missing", "order")),
    "table_one": (baseline, ("x", "g", "counts", "events", "bounds", "missing", "people", "order")),
}
