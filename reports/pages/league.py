"""The league's page: everybody's regressions and means on everybody's tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

import numpy as np
import pandas as pd

from reports.charts.lines import profile_picture
from reports.league import (
    LEAST_ERROR,
    MOST_ERROR,
    Comparison,
    Verdict,
    comparisons,
    errors_of,
    ratios_of,
    violated,
)
from reports.page import StudyPage
from reports.pages.error_page import Layout
from reports.palette import look
from reports.ranking import PageHeadline
from reports.render import PageTable, Section
from reports.results import Mean
from reports.writing import error_bar, num, render_sentence

FAMILIES = {
    "linear": "Linear regression", "logistic": "Logistic regression", "counts": "Counts",
    "means": "Means of columns",
}  # fmt: skip


def content(page: StudyPage, cells: pd.DataFrame, head: PageHeadline | None) -> Layout:
    """Return what only the page of the league's study shows."""
    sections = league_sections(cast("Mapping[str, Any]", page.layout_facts))
    return Layout(sections[0].answer, exhibits=sections, facts={"sections": sections})


def league_sections(league: Mapping[str, Any], *, whole: bool = True) -> list[Section]:
    """Return the sections of a page on a league's rows, audits, methods and tables.

    Where it is not ``complete``, sentences say that they are of some methods and tables. Unless the page is
    ``whole``, it has no pictures and no section for each table.
    """
    ratios = ratios_of(league)
    profiles = (_profile(league, ratios, family, whole=whole) for family in FAMILIES)
    return [
        _leaders(league, developed=False),
        Section("Rules", bullets=render_sentence("league_rules").split(" • "), folded=True, id="rules"),
        _leaders(league, developed=True),
        _audits(league),
        *(found for found in profiles if found is not None),
        *(_of_table(league, name) for name in sorted(league["tables"]) if whole),
        _methods(league),
    ]


def _leaders(results: Mapping[str, Any], *, developed: bool) -> Section:
    """Count wins and losses on tables that ours were developed on, or on the others; list the losses."""
    leaders = [
        each
        for each in comparisons(results)
        if bool(results["tables"][each.table]["developed"]) is developed and each.family in FAMILIES
    ]
    title = "Tables that our methods were developed on" if developed else "Tables that judge our methods"
    name = "developed" if developed else "untouched"
    groups = {
        "regressions": [each for each in leaders if each.family != "means"],
        "means": [each for each in leaders if each.family == "means"],
    }
    counted = [
        {
            "what": what,
            "n": len(part),
            **{verdict: sum(each.verdict == verdict for each in part) for verdict in get_args(Verdict)},
            **_worse_than_constant(results, part),
        }
        for what, part in groups.items()
        if part
    ]
    answer = render_sentence("league_answer", counted=counted[:1], complete=results["complete"])
    if not leaders:
        return Section(title, answer, id=name, answer=answer)
    text = " ".join(
        render_sentence("league_counts", each=each, complete=results["complete"]) for each in counted
    )
    losses = sorted(
        (each for each in leaders if each.verdict == "worse"), key=lambda e: (e.family, e.table, e.epsilon)
    )
    lines = [
        [e.table, e.family, e.rival, f"{e.epsilon:g}", _bar(e.own), _bar(e.other), _ratio(*e.ratio)]
        for e in losses
    ]
    columns = ("table", "family", "rival", "ε", "our error", "its error", "ours over its")
    table = PageTable(columns, lines, f"Losses: {title}", 3, stacked=True) if lines else None
    return Section(title, text, table=table, id=name, answer=answer)


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
    text = " ".join(render_sentence("league_violation", one=one) for one in violations)
    rows = [
        [
            one["method"],
            num(one["proved"]) if "proved" in one else "not known",
            num(one["replayed"]) if "replayed" in one else "not shown",
        ]
        for one in audits
    ]
    columns = ("method", "an attack: ε is at least", "a replay: ε is at most")
    title = "The ε that an audit finds, at ε = 1"
    return Section(
        title,
        text or "No attack and no replay contradicts a claim.",
        table=PageTable(columns, rows, title),
        id="audits",
    )


def _profile(results: Mapping[str, Any], ratios: pd.DataFrame, family: str, *, whole: bool) -> Section | None:
    """Return the performance profile of a family: how often a method is within a factor of the best."""
    if family not in ratios.index.get_level_values("family"):
        return None
    family_ratios = ratios.loc[family]
    family_ratios = family_ratios.loc[:, np.isfinite(family_ratios.to_numpy(dtype=float)).any(axis=0)]
    failed = violated(results)
    means = np.log(family_ratios.clip(upper=MOST_ERROR)).mean(axis=0)
    order = means.loc[sorted(means.index, key=lambda name: (name in failed, means[name]))]
    errors = errors_of(results).loc[family]
    constants = np.array([results["tables"][table]["constant"] for table, _ in errors.index])
    places = {name: place for place, name in enumerate(sorted(results["methods"]))}
    title = f"{FAMILIES[family]}: performance profile"
    lines = {
        name: (family_ratios[name].dropna().to_numpy(), look("private", places[str(name)]))
        for name in order.index
    }
    figure = None
    if lines and whole:
        figure = profile_picture(lines, MOST_ERROR, "error", f"league-{family}", title, "real")
    rows = []
    for name in order.index:
        known = family_ratios[name].dropna()
        within = [f"{(known <= tau).mean():.0%}" for tau in (1, 2, 10)]
        missed = f"{(~np.isfinite(known)).mean():.0%}"
        above = int((np.isfinite(errors[name]) & (errors[name] > constants)).sum())
        label = f"{name} (violates its claim)" if name in failed else name
        rows.append([label, num(math.exp(order[name])), *within, missed, f"{above}", f"{len(known)}"])
    columns = ["method", "ratio, geometric mean, 100 at most", "best", "within 2", "within 10", "no estimate"]
    columns += ["worse than the constant", "settings"]
    tables = family_ratios.index.get_level_values("table").nunique()
    sentence = render_sentence("league_profile", tables=tables, settings=len(family_ratios))
    return Section(title, sentence, figure, PageTable(columns, rows, title), id=f"profile-{family}")


def _of_table(results: Mapping[str, Any], name: str) -> Section:
    """Return a table's errors by method and ε, the smallest geometric mean first."""
    about = results["tables"][name]
    rows = pd.DataFrame([row for row in results["rows"] if row["table"] == name])
    rows = rows.reindex(columns=["method", "epsilon", "value", "standard_error", "error", "seconds"])
    epsilons = sorted(rows["epsilon"].unique())
    least = rows.groupby("epsilon")["value"].min().clip(lower=LEAST_ERROR)
    lines = []
    for method, of_method in rows.groupby("method"):
        at = of_method.set_index("epsilon")
        fits = at.to_dict("index")
        cells = [_cell(fits[each], least[each]) if each in fits else "" for each in epsilons]
        seconds, known = at["seconds"].median(), at["value"].clip(lower=LEAST_ERROR)
        spent = "" if math.isnan(seconds) else num(seconds)
        lines.append((np.log(known.fillna(MOST_ERROR)).mean(), [str(method), *cells, spent]))
    lines.sort(key=lambda line: line[0])
    columns = ["method", *(f"ε = {epsilon:g}" for epsilon in epsilons), "seconds"]
    kind = FAMILIES[about["family"]].lower()
    sentence = render_sentence("league_table", source=about["source"], n=about["n"], d=about["d"], kind=kind)
    return Section(name, sentence, table=PageTable(columns, [line for _, line in lines], name), folded=True)


def _cell(row: Mapping[Any, Any], least: float) -> str:
    if pd.isna(row["value"]):
        return str(row["error"])
    text = "≥ 100" if row["value"] >= MOST_ERROR else num(row["value"])
    return f"{text} ({_ratio(max(row['value'], LEAST_ERROR) / least)} ×)"


def _ratio(value: float, spread: float = math.nan) -> str:
    if not math.isfinite(value):
        return "no estimate"
    return num(value) + ("" if math.isnan(spread) else f" ± {error_bar(spread, value)}")


def _methods(results: Mapping[str, Any]) -> Section:
    rows = [
        [
            name,
            "ours" if about["ours"] else "theirs",
            ", ".join(_resolved(about)) or about["library"],
            about["file"],
        ]
        for name, about in sorted(results["methods"].items())
    ]
    columns, title = ("method", "whose", "installed", "file"), "Methods and their environments"
    return Section(title, table=PageTable(columns, rows, title, 4), folded=True, id="methods")


def _resolved(about: Mapping[str, Any]) -> list[str]:
    """Return the resolved versions of what a method requires."""
    packages = {_package(each) for each in about["library"].split(", ")}
    return [each for each in about.get("versions", []) if _package(each) in packages]


def _package(requirement: str) -> str:
    return requirement.split("==")[0].lower().replace("_", "-")
