"""The league's page: everybody's regressions and means on everybody's tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

import numpy as np
import pandas as pd

from reports.charts.lines import Axes, Line, line_picture, profile_steps
from reports.charts.study import Pictures
from reports.headline import PageHeadline, data_sentence
from reports.league import (
    LEAST_ERROR,
    MOST_ERROR,
    Comparison,
    Summary,
    Verdict,
    comparisons,
    errors_of,
    ratios_of,
    violated,
)
from reports.pages.error_page import LayoutContent
from reports.palette import look
from reports.series import View
from reports.table import PageTable, Section
from reports.writing import error_bar, num

FAMILIES = {
    "linear": "Linear regression", "logistic": "Logistic regression", "counts": "Counts",
    "means": "Means of columns",
}  # fmt: skip
RULES = (
    "Tables that judge our methods were never tuned on; but every published run looked at them, and the "
    "history lists these runs: they are no fresh test set.",
    "Every method gets the same rows, with the same public bounds and units, declared before the values "
    "were looked at, but for tables of a mirror; the file of tables states where they are from. Rows are "
    "moved into the bounds.",
    "A method is called as its documentation calls it, with default settings, in an environment of its "
    "own; it may use the bounds, the units, ε and δ = 1/n². Neighbors differ in one row, replaced.",
    "The error of a regression is the share of what it can explain that the coefficients miss: 0 for the "
    "answer without privacy, 1 for the constant alone. The error of means is their root mean squared "
    "distance from the means of the rows, in standard deviations of the columns; the constant is the "
    "declared centers. An error is at most 100; one below .001 counts as that.",
    "A fit is repeated as often as the profile says. The other method of a comparison is the one with the "
    "least error in one half of the repetitions; the other half is compared, so that being the best of "
    "many by luck is no advantage. Clear means by more than two standard errors of the difference "
    "(Welch’s test). What violates its claim is no rival.",
    "A method that fails, refuses, takes more than its time for the fits of a setting, or 4 GB, has that "
    "as its result: its ratio is infinite. Synthetic rows are followed by the ordinary regression. What "
    "did not run is blank, and counts for and against nobody: ratios are over the settings that a method "
    "came to; their number is shown.",
    "At ε = 1 the attacks of dpcost audit --callable run on every library that is fast enough, on tables "
    "of ten rows with a covariate from 0 to 1; those of dpcost audit run on estimators of this project. A "
    "claim is called violated only if a second attack with other seeds says so, too. Where a method shows "
    "its noise, an accountant replays it.",
)


def content(view: View, summary: pd.DataFrame) -> LayoutContent:
    """Return what only the page of the league's study shows."""
    league, page = cast("Mapping[str, Any]", view.page.layout_facts), view.page
    sections = league_sections(league)
    return LayoutContent(PageHeadline(sections[0].answer, data_sentence(page)), Pictures(), "", sections)


def league_sections(league: Mapping[str, Any], *, whole: bool = True) -> list[Section]:
    """Return the sections of a page on a league's rows, audits, methods and tables.

    Where it is not ``complete``, sentences say that they are of some methods and tables. Unless the page is
    ``whole``, it has no pictures and no section for each table.
    """
    ratios = ratios_of(league)
    profiles = (_profile(league, ratios, family, whole=whole) for family in FAMILIES)
    return [
        _leaders(league, developed=False),
        Section("Rules", bullets=RULES, folded=True, id="rules"),
        _leaders(league, developed=True),
        _audits(league),
        *(found for found in profiles if found is not None),
        *(_of_table(league, name) for name in sorted(league["tables"]) if whole),
        _methods(league),
    ]


def _leaders(results: Mapping[str, Any], *, developed: bool) -> Section:
    """Count wins and losses on tables that ours were developed on, or on the others; list the losses."""
    found = [
        each
        for each in comparisons(results)
        if bool(results["tables"][each.table]["developed"]) is developed and each.family in FAMILIES
    ]
    title = "Tables that our methods were developed on" if developed else "Tables that judge our methods"
    name = "developed" if developed else "untouched"
    if not found:
        return Section(title, "Nothing was compared.", id=name, answer="Nothing was compared.")
    regressions = [each for each in found if each.family != "means"]
    means = [each for each in found if each.family == "means"]
    among = "" if results["complete"] else "Among the methods and tables of this run: "
    where = "they were developed on" if developed else "they were not developed on, but earlier runs saw"
    sentences, answers = list[str](), list[str]()
    for what, part in (("regressions", regressions), ("means", means)):
        if part:
            counts = {verdict: sum(e.verdict == verdict for e in part) for verdict in get_args(Verdict)}
            answers.append(
                f"{among}{'our' if among else 'Our'} {what} are clearly better than the best other in "
                f"{counts['better']} of {len(part)} settings, clearly worse in {counts['worse']}."
            )
            sentences += [
                f"{among}{'our' if among else 'Our'} {what} are clearly better than the best other in "
                f"{counts['better']} of {len(part)} settings on tables that {where}, clearly worse in "
                f"{counts['worse']}; {counts['undecided']} are undecided.",
                _worse_than_constant(results, part),
            ]
    losses = sorted(
        (each for each in found if each.verdict == "worse"), key=lambda e: (e.family, e.table, e.epsilon)
    )
    lines = [
        [e.table, e.family, f"{e.epsilon:g}", e.rival, _bar(e.own), _bar(e.other), _ratio(*e.ratio)]
        for e in losses
    ]
    columns = ("table", "family", "ε", "the other", "our error", "its error", "ours over its")
    table = PageTable(columns, lines, f"Losses: {title}", 2, stacked=True) if lines else None
    return Section(title, sentences, table=table, id=name, answer=answers[0])


def _worse_than_constant(results: Mapping[str, Any], found: Sequence[Comparison]) -> str:
    """Say in how many settings our answer has more error than the constant, or the declared centers."""
    answered = [(each.own[0], results["tables"][each.table]["constant"]) for each in found if each.own]
    above = [own / max(constant, LEAST_ERROR) for own, constant in answered if own > constant]
    text = f"In {len(above)} of {len(answered)} settings our answer is worse than the constant"
    return f"{text}, at worst {num(max(above))} times." if above else f"{text}."


def _bar(summary: Summary | None) -> str:
    """Write a mean error and its standard error."""
    if summary is None:
        return "no answer"
    value, spread, _ = summary
    text = "≥ 100" if value >= MOST_ERROR else num(value)
    return text if spread is None else f"{text} ± {error_bar(spread, value)}"


def _audits(results: Mapping[str, Any]) -> Section:
    """List what attacks and replays prove; a violated claim comes first, with the command that shows it."""
    found = sorted(results["audits"], key=lambda one: -one.get("proved", -1))
    sentences = [
        f"{one['method']} violates its claim: ε is at least {num(one['proved'])}, as "
        "`dpcost rerun league --task audit` shows."
        for one in found
        if one.get("violated")
    ] + [
        f"What {one['method']} shows of its noise proves {num(one['replayed'])} alone, more than its claim."
        for one in found
        if one.get("violated_replay")
    ] or ["Neither an attack nor a replay contradicts a claim."]
    rows = [
        [
            one["method"],
            num(one["proved"]) if "proved" in one else "not known",
            num(one["replayed"]) if "replayed" in one else "not shown",
        ]
        for one in found
    ]
    columns = ("method", "an attack: ε is at least", "a replay: ε is at most")
    title = "The ε that an audit finds, at ε = 1"
    return Section(title, sentences, table=PageTable(columns, rows, title), id="audits")


def _profile(results: Mapping[str, Any], ratios: pd.DataFrame, family: str, *, whole: bool) -> Section | None:
    """Return the performance profile of a family: how often a method is within a factor of the best."""
    if family not in ratios.index.get_level_values("family"):
        return None
    own = ratios.loc[family]
    own = own.loc[:, np.isfinite(own.to_numpy(dtype=float)).any(axis=0)]
    failed = violated(results)
    means = np.log(own.clip(upper=MOST_ERROR)).mean(axis=0)
    order = means.loc[sorted(means.index, key=lambda name: (name in failed, means[name]))]
    errors = errors_of(results).loc[family]
    constants = np.array([results["tables"][table]["constant"] for table, _ in errors.index])
    places = {name: place for place, name in enumerate(sorted(results["methods"]))}
    lines = []
    for name in order.index:
        steps = profile_steps(own[name].dropna().to_numpy(), MOST_ERROR)
        lines.append(Line(name, steps, look("private", places[name])))
    axes = Axes(
        "τ: error over the best’s", "share of settings within τ", [1.0, 2.0, 5.0, 10.0, 30.0, MOST_ERROR],
        y_log=False, steps=True,
    )  # fmt: skip
    title = f"{FAMILIES[family]}: performance profile"
    figure = line_picture(lines, axes, f"league-{family}", title, "real") if lines and whole else None
    rows = []
    for name in order.index:
        known = own[name].dropna()
        within = [f"{(known <= tau).mean():.0%}" for tau in (1, 2, 10)]
        missed = f"{(~np.isfinite(known)).mean():.0%}"
        above = int((np.isfinite(errors[name]) & (errors[name] > constants)).sum())
        shown = f"{name} (violates its claim)" if name in failed else name
        rows.append([shown, num(math.exp(order[name])), *within, missed, f"{above}", f"{len(known)}"])
    columns = ["method", "ratio, geometric mean, 100 at most", "best", "within 2", "within 10", "no answer"]
    columns += ["worse than the constant", "settings"]
    sentence = (
        f"{own.index.get_level_values('table').nunique()} tables, {len(own)} settings. A method is compared "
        "in those that it came to: a rank from few, small tables is no verdict on the others."
    )
    return Section(title, sentence, figure, PageTable(columns, rows, title), id=f"profile-{family}")


def _of_table(results: Mapping[str, Any], name: str) -> Section:
    """Return a table's errors by method and ε, the least geometric mean first."""
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
    sentence = f"{about['source']}: {about['n']:,} rows, {about['d']} covariates, {kind}."
    return Section(name, sentence, table=PageTable(columns, [line for _, line in lines], name), folded=True)


def _cell(row: Mapping[Any, Any], least: float) -> str:
    if pd.isna(row["value"]):
        return str(row["error"])
    text = "≥ 100" if row["value"] >= MOST_ERROR else num(row["value"])
    return f"{text} ({_ratio(max(row['value'], LEAST_ERROR) / least)})"


def _ratio(value: float, spread: float = math.nan) -> str:
    if not math.isfinite(value):
        return "no answer"
    return f"{num(value)} ×" + ("" if math.isnan(spread) else f" ± {error_bar(spread, value)}")


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
    asked = {_package(each) for each in about["library"].split(", ")}
    return [each for each in about.get("versions", []) if _package(each) in asked]


def _package(requirement: str) -> str:
    return requirement.split("==")[0].lower().replace("_", "-")
