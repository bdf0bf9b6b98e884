"""The league's page: everybody's regressions and means on everybody's tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast, get_args

import numpy as np
import pandas as pd

from reports.charts.lines import profile_picture
from reports.charts.study import Pictures
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
    """Return what only the page of the league's study shows: its first profile is the page's chart."""
    league = cast("Mapping[str, Any]", page.layout_facts)
    sections = league_sections(league)
    main = next((each.picture for each in sections if each.picture), None)
    sections = [replace(each, picture=None) if each.picture is main else each for each in sections]
    number = None
    if counted := _counts(league, _comparisons(league, developed=False)):
        number = (
            f"{counted[0]['better']} of {counted[0]['n']}",
            render_sentence("league_quoted", each=counted[0]),
        )
    caption = render_sentence("league_caption", name=main.alt) if main else ""
    facts = {"sections": sections}
    return Layout(sections[0].answer, Pictures(main), number, caption, exhibits=sections, facts=facts)


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
    return [
        {
            "what": what,
            "n": len(part),
            **{verdict: sum(each.verdict == verdict for each in part) for verdict in get_args(Verdict)},
            **_worse_than_constant(results, part),
        }
        for what, part in parts.items()
        if part
    ]


def _leaders(results: Mapping[str, Any], *, developed: bool) -> Section:
    """Count wins and losses on tables that ours were developed on, or on the others; list the losses."""
    leaders, complete = _comparisons(results, developed=developed), results["complete"]
    title = "Tables that our methods were developed on" if developed else "Tables that judge our methods"
    name, counted = "developed" if developed else "untouched", _counts(results, leaders)
    answer = render_sentence("league_answer", counted=counted[:1], complete=complete)
    text = " ".join(render_sentence("league_counts", each=each, complete=complete) for each in counted)
    lines = [
        [e.table, e.family, e.rival, f"{e.epsilon:g}", _bar(e.own), _bar(e.other), _ratio(*e.ratio)]
        for e in leaders
        if e.verdict == "worse"
    ]
    columns = ("table", "family", "rival", "ε", "our error", "its error", "ours over its")
    table = PageTable(columns, lines, f"Losses: {title}", 3, stacked=True) if lines else None
    return Section(title, text or answer, table=table, id=name, answer=answer)


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
    keys = (("proved", "not known"), ("replayed", "not shown"))
    rows = [[one["method"], *(num(one[key]) if key in one else word for key, word in keys)] for one in audits]
    title = "The ε that an audit finds, at ε = 1"
    table = PageTable(("method", "an attack: ε is at least", "a replay: ε is at most"), rows, title)
    return Section(title, text or "No attack and no replay contradicts a claim.", table=table, id="audits")


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
    title, figure = f"{FAMILIES[family]}: performance profile", None
    if names and whole:
        places = {name: place for place, name in enumerate(sorted(results["methods"]))}
        lines = {name: (known[name].dropna().to_numpy(), look("private", places[name])) for name in names}
        figure = profile_picture(lines, MOST_ERROR, "error", f"league-{family}", title, "real")
    tests = [*(known <= tau for tau in (1, 2, 10)), known == np.inf]
    rows = []
    for name in names:
        label, n = f"{name} (violates its claim)" if name in failed else name, known[name].count()
        shares = [f"{each[name].sum() / n:.0%}" for each in tests]
        rows.append([label, num(math.exp(means[name])), *shares, f"{above[name].sum()}", f"{n}"])
    columns = ["method", "ratio, geometric mean, 100 at most", "best", "within 2", "within 10", "no estimate"]
    table = PageTable([*columns, "worse than the constant", "settings"], rows, title)
    tables = known.index.get_level_values("table").nunique()
    sentence = render_sentence("league_profile", tables=tables, settings=len(known))
    return Section(title, sentence, figure, table, id=f"profile-{family}")


def _of_table(results: Mapping[str, Any], name: str) -> Section:
    """Return a table's errors by method and ε, the smallest geometric mean first."""
    about = results["tables"][name]
    rows = pd.DataFrame([row for row in results["rows"] if row["table"] == name])
    rows = rows.reindex(columns=["method", "epsilon", "value", "error", "seconds"])
    least = rows.groupby("epsilon")["value"].transform("min").clip(lower=LEAST_ERROR)
    rows["cell"] = [_cell(*each) for each in zip(rows["value"], rows["error"], least, strict=True)]
    wide = rows.pivot(index="method", columns="epsilon", values="cell").fillna("")
    wide.columns = [f"ε = {epsilon:g}" for epsilon in wide.columns]
    known = np.log(rows["value"].clip(lower=LEAST_ERROR).fillna(MOST_ERROR)).groupby(rows["method"]).mean()
    seconds = rows.groupby("method")["seconds"].median()
    wide["seconds"] = ["" if math.isnan(each) else num(each) for each in seconds]
    lines = wide.loc[known.sort_values(kind="stable").index].reset_index()
    kind = FAMILIES[about["family"]].lower()
    sentence = render_sentence("league_table", source=about["source"], n=about["n"], d=about["d"], kind=kind)
    return Section(name, sentence, table=PageTable([*lines], lines.to_numpy().tolist(), name), folded=True)


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
    columns, title = ("method", "whose", "installed", "file"), "Methods and their environments"
    return Section(title, table=PageTable(columns, rows, title, 4), folded=True, id="methods")


def _package(requirement: str) -> str:
    return requirement.split("==")[0].lower().replace("_", "-")
