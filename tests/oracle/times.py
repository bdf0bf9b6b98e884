"""Times to an event by formula: hazard regressions and survival curves."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from statsmodels.duration.survfunc import survdiff

from dpalgos import formula as private
from tests.oracle import references as ref
from tests.oracle.formulas import FEWEST, budget, by_term, named
from tests.oracle.laws import Pair, pairs
from tests.oracle.recipes import RIGHT, Table


def followed(r: Any, t: Table) -> pd.DataFrame:
    """Return rows of (start, t, e), with several of a person where the recipe says so."""
    f, rng = t.frame.assign(person=np.arange(len(t.frame))), np.random.default_rng([r.seed, 5])
    if r.entry not in ("split", "changing", "recurrent", "gaps"):
        return f
    whole = np.ceil if r.times == "whole" else np.asarray
    uniform, exponential = rng.uniform(0.05, 0.95, len(f)), rng.exponential(1.0, len(f))
    length = exponential if r.entry == "changing" else (f.t - f.start) * uniform
    cut = np.minimum(whole(f.start + length), f.t)
    has_two = cut < f.t
    first, second = f.assign(t=cut, e=np.where(has_two, 0, f.e)), f.assign(start=cut)[has_two]
    if r.entry == "changing":  # a treatment that starts during follow-up
        first, second = first.assign(z=0.0), second.assign(z=1.0)
    if r.entry == "recurrent":
        first = first.assign(e=np.where(has_two, rng.random(len(f)) < 0.3, f.e).astype(int))
    if r.entry == "gaps":
        second = second.assign(start=second.t - whole(0.5 * (second.t - second.start)))
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
        f"{left} ~ {t.right}", f, periods=t.periods, **declared, **options, **budget(epsilon, seed)
    )
    rows = named(t, f)
    # After an event of a whole unit, a person leaves, or stays if all events count.
    by_period = ref.piecewise(RIGHT, rows, t.periods, grouped=is_whole and r.entry != "recurrent")
    fit = by_period if is_whole else ref.cox(RIGHT, rows, t.periods[-1])
    terms = [each for each in by_period.names if "period" not in each and each != "Intercept"]
    yield from pairs("log HR", by_term(result).loc[terms], *fit.of(terms))
    if is_whole or np.isnan(by_period.beta[0]):
        return
    known = np.flatnonzero(np.histogram(rows.t[rows.e == 1], t.periods)[0] >= FEWEST)
    columns = [["Intercept", f"[T.{t.periods[k]}]"] for k in known]
    R = np.array([[float(name.endswith(tuple(each))) for name in by_period.names] for each in columns])
    limits = np.log(result.baseline().iloc[known][["hazard", "ci_low", "ci_high"]])
    yield from pairs("log baseline", limits, *by_period.along(R.reshape(len(known), -1)))


def curves(r: Any, t: Table, epsilon: float, seed: int) -> Iterator[Pair]:
    whole = {"resolution": 1.0} if r.times == "whole" else {}
    declared = t.of("g", without=("bounds",))
    ask = {"periods": t.periods, "interval": 0.95, **declared, **whole, **budget(epsilon, seed)}
    found = private.survival("Surv(t, e) ~ g", t.frame, **ask)
    f, table, last = named(t), found.curves(), t.periods[-1]
    middle = f.assign(t=f.t - 0.5 * f.e) if whole else f  # an event of a whole year is in its middle
    copies = np.sqrt(2) if r.order == "duplicated" else 1.0  # a copy of a row is no news
    shown: dict[str, int] = {}
    for group in t.levels["g"]:
        one, own, raw = table[table.group == group], middle[middle.g == group], f.t[f.g == group]
        if not len(own):
            continue
        S, se = ref.kaplan_meier(own.t, own.e, t.periods)
        shown[group] = int(one.survival.notna().sum())
        later = one[["survival", "ci_low", "ci_high"]].reset_index(drop=True).iloc[1:]
        std = copies * np.maximum(se, 1 / len(own))
        for k, pair in enumerate(pairs(f"survival {group}", later, S[1:], std[1:]), 1):
            yield replace(pair, widths=copies == 1 and 0.05 < S[k] < 0.95)
        for k, row in enumerate(one.itertuples()):
            yield Pair(f"at risk {group} {k}", row.at_risk, (raw >= row.time - 1e-9).sum(), 1.0, widths=False)
        if (until := found.shown_until) > 0:
            means = (
                found.restricted_means(until).set_index("group").loc[[group], ["mean", "ci_low", "ci_high"]]
            )
            mean = until * ref.kaplan_meier(own.t, own.e, np.linspace(0, until, 4001))[0].mean()
            std = copies * max(np.minimum(own.t, until).std() / np.sqrt(len(own)), until / len(own))
            yield from pairs("restricted mean", means, [mean], [std], widths=False)
    if not {*shown.values()} <= {0, len(t.periods)}:  # a curve ends before the last cut point
        return
    middle, groups = middle[middle.g.map(shown).astype(int) > 0], [each for each in shown if shown[each]]
    cut = middle.assign(e=middle.e * (middle.t <= last), t=np.minimum(middle.t, last))
    want = float(np.sqrt(survdiff(cut.t, cut.e, cut.g.astype(str))[0]))
    got = float(np.sqrt(found.logrank().statistic))
    yield Pair("logrank", got, want, 1 + 0.1 * want, widths=False)
    fit = ref.piecewise("g", f, t.periods, grouped=True) if whole else ref.cox("g", cut, last)
    ratios = found.hazard_ratios().set_index("group")[["hazard_ratio", "ci_low", "ci_high"]]
    beta, se = fit.of(f"g[T.{group}]" for group in groups[1:])
    yield from pairs("log HR", np.log(ratios.loc[groups[1:]].astype(float)), beta, copies * se)
