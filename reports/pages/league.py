"""The league's page: everybody's regressions on everybody's tables, as ratios to the best answer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from reports.charts.line_chart import Frame, Line, line_chart
from reports.charts.picture import Picture, picture
from reports.pages.index import Card
from reports.pages.text import render_html, render_markdown
from reports.palette import look
from reports.writing import num

TITLE = "The league of private regressions"
NAME = "league"
QUESTION = "Whose private regression comes closest to the one without privacy, on public tables?"
FAMILIES = {"linear": "Linear regression", "logistic": "Logistic regression", "counts": "Counts"}
RULES = (
    "Every method gets the same rows, with the same public bounds and units, declared before the values"
    " were looked at, but for tables of a mirror; the file of tables states where they are from. Rows are "
    "moved into the bounds.",
    "A method is called as its documentation calls it, with default settings, in an environment of its "
    "own; it may use the bounds, the units, ε and δ = 1/n². Neighbors differ in one row, replaced.",
    "The error is the share of what a regression can explain that the coefficients miss: 0 for the "
    "answer without privacy, 1 for the constant alone, at most 100. It is the mean of some repetitions;"
    " ratios are to the least error at the same table and ε, an error below .001 counting as that.",
    "A fit that fails, is refused, takes over ten minutes or 4 GB has that as its result: its ratio is "
    "infinite. Synthetic rows are followed by the ordinary regression.",
    "Time is shared by a rule that was set before the run. Each method is fitted once to the smallest "
    "table; the quickest by that begins, and each has an equal part of the time that is left, so that "
    "what quick ones leave goes to slow ones. It takes the tables from small to large, the families in "
    "turns, at ε = 1 first, with three repetitions, or fewer where one takes a fiftieth of its time. "
    "What it does not come to is blank and counts for and against nobody: ratios are over the settings "
    "that a method came to; their number is shown.",
    "At ε = 1 the attacks of dpcost audit --callable run on every method that is fast enough, on tables"
    " of ten rows with a covariate from 0 to 1. A claim is called violated only if a second attack with"
    " other seeds says so, too. Where a method shows its noise, or its library proves an ε, an "
    "accountant replays it.",
)
_LARGEST, _LEAST = 100.0, 1e-3


@dataclass(frozen=True)
class Section:
    """A part of the page: a heading, sentences, a picture or none, and a table."""

    id: str
    title: str
    sentences: Sequence[str]
    figure: Picture | None
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_labels: int = 1


def render_league(
    results: Mapping[str, Any], *, command: str, finished: str, version: str
) -> dict[str, bytes]:
    """Return the page, the results and the card of the index, by file name."""
    ratios = ratios_of(results)
    sections = [_leaders(results, ratios), _audits(results, command)]
    sections += [found for family in FAMILIES if (found := _profile(results, ratios, family)) is not None]
    sections += [_of_table(results, name) for name in sorted(results["tables"])]
    sections.append(_methods(results))
    headline = sections[0].sentences[0]
    context: dict[str, Any] = {
        "page_title": TITLE,
        "question": QUESTION,
        "headline": headline,
        "rules": RULES,
        "sections": sections,
        "run": f"{version}, {finished[:10]}, {'; '.join(results['machines'])}",
        "command": command,
    }
    card = Card(
        name=NAME, title=TITLE, headline=headline, data_source="real data", when=finished, seconds=None,
        figure_svg="", href=f"{NAME}/report.html", profile="",
    )  # fmt: skip
    manifest = {
        "study": {"name": NAME},
        "command": command,
        "finished": finished,
        "dpcost": version,
        "data": [],
    }
    figures = {
        f"figures/{drawn.name}.{ending}": content
        for drawn in (part.figure for part in sections)
        if drawn is not None
        for ending, content in (("svg", drawn.svg), ("png", drawn.png or b""))
    }
    return {
        **figures,
        "report.html": render_html("league.jinja", TITLE, headline, **context),
        "report.md": render_markdown("league.jinja", **context),
        "results.json": json.dumps(results, indent=1, ensure_ascii=False).encode(),
        "card.json": card.to_json().encode(),
        "manifest.json": json.dumps(manifest, indent=1, ensure_ascii=False).encode(),
    }


def ratios_of(results: Mapping[str, Any]) -> pd.DataFrame:
    """Return a row per family, table and ε and a column per method: its error over the least.

    Infinite where a method failed, NaN where it was not tried.
    """
    rows = pd.DataFrame(results["rows"]).reindex(columns=["family", "table", "epsilon", "method", "value"])
    if rows.empty:
        names = ["family", "table", "epsilon"]
        return pd.DataFrame(
            columns=list(results["methods"]), index=pd.MultiIndex.from_tuples([], names=names)
        )
    errors = rows.fillna({"value": np.inf}).pivot(
        index=["family", "table", "epsilon"], columns="method", values="value"
    )
    errors = errors.clip(lower=_LEAST)
    least = errors.min(axis=1).where(lambda each: np.isfinite(each), 1.0)
    return errors.div(least, axis=0)


def _leaders(results: Mapping[str, Any], ratios: pd.DataFrame) -> Section:
    """Say first where somebody else is better, then how often ours are the best."""
    if ratios.empty:
        return Section("better", "Where somebody else is better", ["Nothing was compared."], None, [], [])
    ours = [name for name in ratios if results["methods"][name]["ours"]]
    others = [name for name in ratios if name not in ours]
    own, other = ratios[ours].min(axis=1), ratios[others].min(axis=1)
    answered = ratios[np.isfinite(ratios.min(axis=1))]
    lost = answered[(other < own).loc[answered.index]]
    lines = []
    for place, row in lost.iterrows():
        family, table, epsilon = place
        best = row.drop(ours).idxmin()
        ahead = row.drop(others).min() / row[best]
        lines.append([table, family, f"{epsilon:g}", str(best), _ratio(ahead)])
    lines.sort(key=lambda line: (line[1], line[0], float(line[2])))
    total = len(answered)
    sentence = (
        f"Somebody else’s method is better than ours in {len(lost)} of {total} settings (a table and an ε)."
        if total
        else "Nothing was measured."
    )
    more = f"Ours are the best in the other {total - len(lost)}." if lines else ""
    columns = ["table", "family", "ε", "the best", "our error over its"] if lines else []
    return Section("better", "Where somebody else is better", [sentence, more], None, columns, lines, 2)


def _audits(results: Mapping[str, Any], command: str) -> Section:
    """List what attacks and replays prove; a violated claim comes first, with the command that shows it."""
    found = sorted(results["audits"], key=lambda one: -one.get("proved", -1))
    sentences = [
        f"{one['method']} violates its claim: ε is at least {num(one['proved'])} ({one['pair']}), as this "
        f"shows: `{command.split(' --')[0]} --method '{one['method']}' --table none --seed {one['seed']}`"
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
            f"{one['trials']} trials" if "trials" in one else one.get("error", ""),
        ]
        for one in found
    ]
    return Section(
        "audits",
        "The ε that an audit finds, at ε = 1",
        sentences,
        None,
        ["method", "an attack: ε is at least", "a replay: ε is at most", "how"],
        rows,
    )


def _profile(results: Mapping[str, Any], ratios: pd.DataFrame, family: str) -> Section | None:
    """Return the performance profile of a family: how often a method is within a factor of the best."""
    if family not in ratios.index.get_level_values("family"):
        return None
    own = ratios.loc[family]
    own = own.loc[:, np.isfinite(own.to_numpy(dtype=float)).any(axis=0)]
    order = np.log(own.clip(upper=_LARGEST)).mean(axis=0).sort_values()
    places = {name: place for place, name in enumerate(sorted(results["methods"]))}
    lines = []
    for name in order.index:
        found = np.sort(own[name].dropna().to_numpy())
        x, y = np.r_[1.0, found], np.arange(len(found) + 1) / len(found)
        inside = x <= _LARGEST
        points = [*zip(x[inside], y[inside], strict=True), (_LARGEST, y[inside].max())]
        lines.append(Line(name, [(float(a), float(b)) for a, b in points], look("private", places[name])))
    frame = Frame(
        x_title="τ: error over the best’s", y_title="share of settings within τ", x=(1.0, _LARGEST),
        y=(0.0, 1.02), x_ticks=[1.0, 2.0, 5.0, 10.0, 30.0, _LARGEST], y_log=False, width=560, height=360,
        steps=True,
    )  # fmt: skip
    title = f"{FAMILIES[family]}: performance profile"
    drawn = picture(line_chart(lines, frame), f"league-{family}", title, "real") if lines else None
    rows = []
    for name in order.index:
        known = own[name].dropna()
        within = [f"{(known <= tau).mean():.0%}" for tau in (1, 2, 10)]
        missed = f"{(~np.isfinite(known)).mean():.0%}"
        rows.append([name, num(math.exp(order[name])), *within, missed, f"{len(known)}"])
    columns = ["method", "ratio, geometric mean, 100 at most", "best", "within 2", "within 10", "no answer"]
    columns.append("settings")
    sentence = (
        f"{own.index.get_level_values('table').nunique()} tables, {len(own)} settings. A method is compared "
        "in those that it came to: a rank from few, small tables is no verdict on the others."
    )
    return Section(f"profile-{family}", title, [sentence], drawn, columns, rows)


def _of_table(results: Mapping[str, Any], name: str) -> Section:
    """Return a table's errors by method and ε, the least geometric mean first."""
    about = results["tables"][name]
    rows = pd.DataFrame([row for row in results["rows"] if row["table"] == name])
    rows = rows.reindex(columns=["method", "epsilon", "value", "standard_error", "error", "seconds"])
    epsilons = sorted(rows["epsilon"].unique())
    least = rows.groupby("epsilon")["value"].min().clip(lower=_LEAST)
    lines = []
    for method, of_method in rows.groupby("method"):
        at = of_method.set_index("epsilon")
        cells = [
            _cell(at.loc[epsilon], least[epsilon]) if epsilon in at.index else "" for epsilon in epsilons
        ]
        seconds, known = at["seconds"].median(), at["value"].clip(lower=_LEAST)
        spent = "" if math.isnan(seconds) else num(seconds)
        lines.append((np.log(known.fillna(_LARGEST)).mean(), [str(method), *cells, spent]))
    lines.sort(key=lambda line: line[0])
    columns = ["method", *(f"ε = {epsilon:g}" for epsilon in epsilons), "seconds"]
    kind = FAMILIES[about["family"]].lower()
    sentence = f"{about['source']}: {about['n']:,} rows, {about['d']} covariates, {kind}."
    return Section(f"table-{name}", name, [sentence], None, columns, [line for _, line in lines])


def _cell(row: pd.Series, least: float) -> str:
    if pd.isna(row["value"]):
        return str(row["error"])
    return f"{num(row['value'])} ({_ratio(max(row['value'], _LEAST) / least)})"


def _ratio(value: float) -> str:
    return f"{num(value)} ×" if math.isfinite(value) else "no answer"


def _methods(results: Mapping[str, Any]) -> Section:
    rows = [
        [
            name,
            "ours" if about["ours"] else "",
            ", ".join(_resolved(about)) or about["library"],
            f"flows/league/methods/{about['file']}",
        ]
        for name, about in sorted(results["methods"].items())
    ]
    more = "results.json lists all that each environment holds."
    columns = ["method", "", "installed", "file"]
    return Section("methods", "Methods and their environments", [more], None, columns, rows, 4)


def _resolved(about: Mapping[str, Any]) -> list[str]:
    """Return the resolved versions of what a method requires."""
    asked = {_package(each) for each in about["library"].split(", ")}
    return [each for each in about.get("versions", []) if _package(each) in asked]


def _package(requirement: str) -> str:
    return requirement.split("==")[0].lower().replace("_", "-")
