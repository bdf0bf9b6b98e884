"""The league's page: everybody's regressions and means on everybody's tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from data.results.summary import Mean
from reports.charts.drawing import Picture, draw_chart
from reports.charts.lines import Axes, Line, line_chart
from reports.page import Section
from reports.palette import Look, look
from reports.render import render_page
from reports.writing import error_bar, num
from tests.bench.league.judging import (
    LEAST_ERROR,
    MOST_ERROR,
    Comparison,
    Verdict,
    comparisons,
    errors_of,
    measured_by,
    ratios_of,
    violated,
)

TITLE = "The league of private regressions and means"
QUESTION = "Whose private regressions and means come closest to those without privacy, on public tables?"
TEMPLATE = Path(__file__).with_suffix(".jinja")
FAMILIES = {
    "linear": "Linear regression",
    "logistic": "Logistic regression",
    "counts": "Counts",
    "means": "Means of columns",
}


def league_page(league: Mapping[str, Any], ran: str, *, whole: bool = True) -> tuple[bytes, bytes]:
    """Return the page as HTML and as Markdown; ``ran`` says which version measured it, and where."""
    about = {"title": TITLE, "answer": league_answer(league), "lead": [QUESTION, ran]}
    sections = league_sections(league, whole=whole)
    return render_page(TEMPLATE, sections=sections, families=FAMILIES, **about)


def league_answer(league: Mapping[str, Any]) -> str:
    """Say in how many settings our regressions are better and worse than the best rival."""
    counted = _counts(league, _comparisons(league, developed=False))
    said = [f"{each['said']}, clearly worse in {each['worse']}." for each in counted[:1]]
    return said[0] if said else "Nothing was compared."


def league_sections(league: Mapping[str, Any], *, whole: bool = True) -> list[Section]:
    """Return the sections of a page on a league's rows, audits, methods and tables.

    Where it is not ``complete``, sentences say that they are of some methods and tables. Unless the page is
    ``whole``, it has no pictures and no section for each table.
    """
    ratios = ratios_of(league)
    profiles = (_profile(league, ratios, family, whole=whole) for family in FAMILIES)
    return [
        _leaders(league, developed=False),
        Section("league_rules"),
        *(found for found in profiles if found is not None),
        _leaders(league, developed=True),
        _audits(league),
        *(_of_table(league, name) for name in sorted(league["tables"]) if whole),
        _methods(league),
    ]


def _comparisons(results: Mapping[str, Any], *, developed: bool) -> list[Comparison]:
    """Return the comparisons on tables that ours were developed on, or on the others."""
    tables = results["tables"]
    return [
        each
        for each in comparisons(results)
        if bool(tables[each.table]["developed"]) is developed and each.family in FAMILIES
    ]


def _counts(results: Mapping[str, Any], leaders: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Count verdicts for regressions and for means, where there are any."""
    parts = {
        "regressions": [each for each in leaders if each.family != "means"],
        "means": [each for each in leaders if each.family == "means"],
    }
    whose = "Our" if results["complete"] else "Among the methods and tables of this run, our"
    counted = []
    for what, part in parts.items():
        counts = {verdict: sum(each.verdict == verdict for each in part) for verdict in get_args(Verdict)}
        settings = f"{counts['better']} of {len(part)} settings"
        said = f"{whose} {what} are clearly better than the best rival in {settings}"
        if part:
            counted.append({"n": len(part), "said": said, **counts, **_worse_than_constant(results, part)})
    return counted


def _leaders(results: Mapping[str, Any], *, developed: bool) -> Section:
    """Count wins and losses on tables that ours were developed on, or on the others; list the losses."""
    leaders = _comparisons(results, developed=developed)
    losses = [
        [e.table, e.family, e.rival, f"{e.epsilon:g}", _bar(e.own), _bar(e.other), _ratio(*e.ratio)]
        for e in leaders
        if e.verdict == "worse"
    ]
    facts = {"counted": _counts(results, leaders), "losses": losses}
    return Section("league_counts", {"developed": developed, **facts})


def _worse_than_constant(results: Mapping[str, Any], found: Sequence[Comparison]) -> dict[str, Any]:
    """Return in how many settings our estimate has more error than the constant, or the declared centers."""
    estimates = [(each.own.value, results["tables"][each.table]["constant"]) for each in found if each.own]
    above = [own / max(constant, LEAST_ERROR) for own, constant in estimates if own > constant]
    return {"estimates": len(estimates), "above": len(above), "most": max(above, default=0.0)}


def _bar(mean: Mean | None) -> str:
    """Write a mean error and its standard error."""
    if mean is None:
        return "no estimate"
    text = "≥ 100" if mean.value >= MOST_ERROR else num(mean.value)
    return text if math.isnan(mean.error) else f"{text} ± {error_bar(mean.error, mean.value)}"


def _audits(results: Mapping[str, Any]) -> Section:
    """List what attacks and replays prove; a violated claim comes first, with the command that shows it."""
    audits = sorted(results["audits"], key=lambda one: -one.get("proved", -1))
    violations = [one for one in audits if one.get("violated") or one.get("violated_replay")]
    keys = (("proved", "not known"), ("replayed", "not shown"))
    rows = [[one["method"], *(num(one[key]) if key in one else word for key, word in keys)] for one in audits]
    return Section("league_audits", {"violations": violations, "rows": rows})


def _profile(results: Mapping[str, Any], ratios: pd.DataFrame, family: str, *, whole: bool) -> Section | None:
    """Return the performance profile of a family: how often a method is within a factor of the best."""
    if family not in ratios.index.get_level_values("family"):
        return None
    known = pd.DataFrame(ratios.xs(family), dtype=float)
    known = known.loc[:, np.isfinite(known.to_numpy()).any(axis=0)]
    failed, means = violated(results), np.log(known.clip(upper=MOST_ERROR)).mean()
    names = sorted(known.columns, key=lambda name: (name in failed, means[name]))
    errors = errors_of(results).loc[family]
    constants = [results["tables"][table]["constant"] for table, _ in errors.index]
    above = errors.where(np.isfinite(errors)).gt(constants, axis=0)
    figure = None
    if names and whole:
        places = {name: place for place, name in enumerate(sorted(results["methods"]))}
        lines = {name: (known[name].dropna().to_numpy(), look("private", places[name])) for name in names}
        title = f"{FAMILIES[family]}: performance profile"
        figure = profile_picture(lines, MOST_ERROR, f"league-{family}", title)
    tests = [*(known <= tau for tau in (1, 2, 10)), known == np.inf]
    rows = []
    for name in names:
        label, n = f"{name} (violates its claim)" if name in failed else name, known[name].count()
        shares = [f"{each[name].sum() / n:.0%}" for each in tests]
        rows.append([label, num(math.exp(means[name])), *shares, f"{above[name].sum()}", f"{n}"])
    tables = known.index.get_level_values("table").nunique()
    facts = {"family": family, "tables": tables, "settings": len(known), "picture": figure, "rows": rows}
    return Section("league_profile", facts)


def profile_picture(
    lines: Mapping[str, tuple[np.ndarray, Look]], largest: float, name: str, text: str
) -> Picture:
    """Draw performance profiles of ratios by name: the share of settings in which a ratio is at most τ."""
    ticks = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 100.0)
    axes = Axes("τ: error over the smallest", "share of settings within τ", ticks, y_log=False)
    lines_drawn = []
    for label, (ratios, shown) in lines.items():
        x, y = np.r_[1.0, np.sort(ratios)], np.arange(len(ratios) + 1) / len(ratios)
        inside = x <= largest
        x, y = np.r_[x[inside], largest], np.r_[y[inside], y[inside].max()]
        steps = zip(np.repeat(x, 2)[1:].tolist(), np.repeat(y, 2)[:-1].tolist(), strict=True)
        lines_drawn.append(Line(label, list(steps), replace(shown, shape="")))
    return draw_chart(line_chart(lines_drawn, axes), name, text, "real")


def _of_table(results: Mapping[str, Any], name: str) -> Section:
    """Return a table's errors by method and ε, the smallest geometric mean first."""
    rows = pd.DataFrame([row for row in results["rows"] if row["table"] == name])
    rows = rows.reindex(columns=["method", "epsilon", "value", "error", "seconds"])
    least = rows.groupby("epsilon")["value"].transform("min").clip(lower=LEAST_ERROR)
    rows["cell"] = [_cell(*each) for each in zip(rows["value"], rows["error"], least, strict=True)]
    wide = rows.pivot(index="method", columns="epsilon", values="cell").fillna("")
    epsilons = list(wide.columns)
    known = np.log(rows["value"].clip(lower=LEAST_ERROR).fillna(MOST_ERROR)).groupby(rows["method"]).mean()
    seconds = rows.groupby("method")["seconds"].median()
    wide["seconds"] = ["" if math.isnan(each) else num(each) for each in seconds]
    lines = wide.loc[known.sort_values(kind="stable").index].reset_index().to_numpy().tolist()
    facts = {"name": name, "about": results["tables"][name], "epsilons": epsilons, "rows": lines}
    return Section("league_table", facts)


def _cell(value: float, error: str, least: float) -> str:
    if pd.isna(value):
        return error
    text = "≥ 100" if value >= MOST_ERROR else num(value)
    return f"{text} ({_ratio(max(value, LEAST_ERROR) / least)} ×)"


def _ratio(value: float, spread: float = math.nan) -> str:
    if not math.isfinite(value):
        return "no estimate"
    return num(value) + ("" if math.isnan(spread) else f" ± {error_bar(spread, value)}")


def _methods(results: Mapping[str, Any]) -> Section:
    rows = []
    for name, about in sorted(results["methods"].items()):
        packages = {_package(each) for each in about["library"].split(", ")}
        versions = [each for each in about.get("versions", []) if _package(each) in packages]
        whose = "ours" if about["ours"] else "theirs"
        rows.append([name, whose, ", ".join(versions) or about["library"], about["file"]])
    measured_on = measured_by(results) if "machines" in results else ""
    return Section("league_methods", {"rows": rows, "measured_by": measured_on})


def _package(requirement: str) -> str:
    return requirement.split("==")[0].lower().replace("_", "-")
