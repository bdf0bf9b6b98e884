"""A study's report: table and page in, files out. Nothing is written here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd

from data.results.summary import summarize, summary_csv
from data.results.table import LIMIT
from dpalgos.catalog import Estimator
from dpalgos.params import describe_keywords
from dpalgos.plugins import origin_of
from reports.cells import Row, cells_of, comma, errors_of, panels_of, repetitions
from reports.charts.drawing import Picture, banner
from reports.error_table import failures_of
from reports.exhibits import is_drawn
from reports.new_sample import page_cells
from reports.page import Section, StudyPage, seconds_of
from reports.pages import attack_page, error_page
from reports.ranking import PageHeadline, headline_of
from reports.render import SCRIPT, render_page
from reports.writing import num, render_sentence, setting

LAYOUTS = {
    "error_page": error_page.content,
    "attack_page": attack_page.content,
}
_RISE, _ERRORS = 1.1, 3  # a rise is by more than a tenth and three standard errors
_SAME = ["panel", "rank", "label", "delta_rule", "s", "steps"]


@dataclass(frozen=True)
class Report:
    """A report's files by relative path, and its title, sentence and errors: a part of the manifest."""

    files: Mapping[str, bytes]
    about: Mapping[str, Any]


def render_study(results: pd.DataFrame, page: StudyPage) -> Report:
    """Return a report from a valid results table, possibly without rows.

    Its files are `report.html`, `report.md`, `data-NAME.html` per dataset, `summary.csv`, and
    `figures/*.svg` and `*.png`. The same input gives the same bytes.
    """
    summary = summarize(results)
    measured = page_cells(summary, results, page)
    errors, head = errors_of(measured.cells, page), headline_of(measured.cells, page)
    layout = LAYOUTS[page.layout](page, measured, head, cells_of(summary, page))
    counts = repetitions(errors)
    trial = render_sentence("trial", repetitions=counts[1], shrunk=_shrunk(page, errors))
    of = {each.kind: each.context for each in page.sections}
    failures = failures_of(results, page)
    rises = rises_of(errors, page) if layout.errors else []
    trust = {
        "rises": rises,
        "notes": of.get("trust", {}).get("notes", ()),
        "risk": of.get("risk", {}).get("text", ""),
    }
    sections = [Section("trust", {**trust, **failures}), *layout.sections]
    panels = list(filter(None, panels_of(errors, page)))
    methods = [
        Section("measured", {"text": of.get("trust", {}).get("measured", "")}),
        *(
            each
            for each in page.sections
            if not is_drawn(each) and each.kind not in ("trust", "risk", "certified")
        ),
        Section("origin", {"panels": panels, "n_cells": errors["cell"].nunique()}),
        Section("failures", {"table": failures["table"]}),
        Section("again"),
    ]
    drawn = [fact for each in sections for fact in each.context.values() if isinstance(fact, Picture)]
    files: dict[str, bytes] = {}
    printed = [each.picture for each in layout.repeated if each.picture]
    for picture in (*layout.pictures.files(), *printed, *drawn):
        files[f"figures/{picture.name}.svg"] = picture.svg
        if picture.png is not None:
            files[f"figures/{picture.name}.png"] = picture.png
    content: dict[str, Any] = {
        "page": page,
        "head": head,
        "layout": layout,
        "repetitions": counts,
        "trial": trial,
        "audited": head is not None and any(row.audited == row.audited for row in head.rows),
        "guarantees": guarantees(page),
        "described": {each.name: _about(each) for each in in_order(page)},
        "seconds_of": seconds_of,
        "exposed": _exposed(page, head),
    }
    html, markdown = render_page(
        "pages/study.jinja",
        charts=layout.pictures.live,
        script=f"../{SCRIPT}",
        sections=sections,
        **content,
    )
    files |= {"report.html": html, "report.md": markdown, "summary.csv": summary_csv(summary).encode("utf-8")}
    warning = ". ".join(filter(None, [banner(page.data_source), page.warning, trial]))
    files["methods.html"] = render_page("pages/methods.jinja", sections=methods, banner=warning, **content)[0]
    for card in page.data_cards:
        warning = banner(card.read["data_source"]) or page.warning
        files[card.file] = render_page("pages/data_card.jinja", card=card, banner=warning)[0]
    panel = head.where.panel if head else ""
    about: dict[str, Any] = {
        "title": page.title,
        "headline": layout.sentence,
        "epsilon": head.where.epsilon if head else None,
        "panel": panel,
        "errors": layout.errors,
    }
    about |= {"factor": layout.factor, "trial": trial, "not_compared": layout.not_compared}
    return Report(files, about)


def _exposed(page: StudyPage, head: PageHeadline | None) -> float:
    """Return δ times the people, whose data the guarantee would allow to publish; NaN if unknown."""
    known = [(row.delta, page.people.get((row.panel, row.n), row.n)) for row in (head.at_x if head else ())]
    return max(
        (delta * people for delta, people in known if delta == delta and people is not None), default=math.nan
    )


def _shrunk(page: StudyPage, errors: pd.DataFrame) -> list[tuple[str, int, int]]:
    """Return the panels whose largest n is below that of the whole study, with both."""
    largest = {str(panel): int(n) for panel, n in errors.groupby("panel", sort=False)["n"].max().items()}
    full = {panel: page.full_sizes.get(panel, n) for panel, n in largest.items()}
    return [(panel, n, full[panel]) for panel, n in largest.items() if n < full[panel]]


def in_order(page: StudyPage) -> list[Estimator]:
    """Return the page's estimators in the order of the catalog."""
    return sorted(page.estimators, key=lambda entry: (entry.order, entry.name))


def _about(entry: Estimator) -> tuple[str, ...]:
    required = [item["name"] for item in describe_keywords(entry.parameters) if item["required"]]
    public = [name for name in required if name not in ("epsilon", "delta")]
    return (
        f"{entry.title} ({entry.name})",
        entry.summary,
        origin_of(entry.module) or entry.reference,
        ", ".join(filter(None, (*public, entry.public))) or "nothing",
    )


def guarantees(page: StudyPage) -> dict[tuple[str, str, str], list[str]]:
    """Group the private estimators by privacy model, unit of privacy and neighboring relation."""
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for entry in in_order(page):
        if entry.private:
            guarantee = entry.privacy_model, entry.unit_of_privacy, entry.neighboring_relation
            grouped.setdefault(guarantee, []).append(entry.title)
    return grouped


def rises_of(errors: pd.DataFrame, page: StudyPage) -> list[str]:
    """Return each rise of a private error from one ε to the next, or from one size to the next, in words.

    Repetitions at two ε count as independent, although they share their rows.
    """
    rows = errors[(errors["role"] == "private") & errors["answered"] & (errors["epsilon"] < LIMIT)]
    sentences = []
    symbols = {"epsilon": "ε", "n": page.axis.rows_symbol}
    for column, fixed in (("epsilon", "n"), ("n", "epsilon")):
        line = rows.groupby([*_SAME, fixed], dropna=False, sort=False).ngroup()
        ordered = rows.assign(line=line).sort_values(["line", column]).drop_duplicates(["line", column])
        before = ordered.groupby("line")[["mean", "error", column]].shift()
        margin = np.maximum(
            (_RISE - 1) * before["mean"], _ERRORS * np.hypot(ordered["error"], before["error"])
        )
        is_rise = ordered["mean"] - before["mean"] > margin
        pairs = zip(before[is_rise].itertuples(), ordered[is_rise].itertuples(), strict=True)
        for less, more in cast("Iterable[tuple[Row, Row]]", pairs):
            panel = f"panel “{more.panel}”" if more.panel else ""
            at = f"{symbols[fixed]} = {setting(getattr(more, fixed))}"
            step = " to ".join(setting(getattr(row, column)) for row in (less, more))
            change = f"{num(less.mean)} to {num(more.mean)} from {symbols[column]} = {step}"
            sentences.append(f"{comma(more.label, panel, at)}: {change}")
    return sentences
