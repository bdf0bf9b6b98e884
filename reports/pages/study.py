"""A study's report: table and page in, files out. Nothing is written here."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd
from markupsafe import Markup

from reports.analysis.cost_in_rows import enough_epsilon, rows_for_the_same
from reports.analysis.results import summarize
from reports.analysis.series import View
from reports.charts import svg
from reports.charts.picture import Picture, banner
from reports.layouts import layout_of
from reports.numbers import count, duration, setting
from reports.page import BudgetPart, EstimatorInfo, StudyPage
from reports.pages.text import html_environment, manifest_rows, markdown_environment, stylesheet, unbroken
from reports.plots import Pictures
from reports.words.noise_notes import noise_comparisons
from reports.words.tables import (
    ErrorTable,
    certified_rows,
    error_table,
    failures,
    setting_title,
    summary_csv,
    table_csv,
)

MOST_CELLS = 8000  # in the tables of a page, which are then some two megabytes of HTML
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def render_study(results: pd.DataFrame, page: StudyPage) -> dict[str, bytes]:
    """Render a study's report.

    Parameters
    ----------
    results : DataFrame
        A valid results table (`validate_results`), possibly without rows.
    page : StudyPage
        Everything else.

    Returns
    -------
    dict of str to bytes
        `report.html`, `report.md`, `summary.csv`, `figures/*.svg`, `figures/*.png`, by relative path. The
        same input gives the same bytes.
    """
    summary = summarize(results)
    view = View.build(summary, page)
    filling = layout_of(page).fill(view, summary)
    context = _context(results, view, filling.pictures) | filling.context
    context["headline"] = layout_of(page).headline(summary, page)
    files = filling.pictures.files()
    files["summary.csv"] = summary_csv(summary).encode("utf-8")
    files["report.html"] = _render_html(f"{page.layout}.html.jinja", context)
    files["report.md"] = (
        markdown_environment().get_template(f"{page.layout}.md.jinja").render(context).encode("utf-8")
    )
    return files


def _context(results: pd.DataFrame, view: View, pictures: Pictures) -> dict[str, Any]:
    page = view.page
    tables = _tables(view)
    head = view.headline
    return {
        "page": page,
        "data": page.dataset,
        "banner": banner(page.dataset.data_source) or page.warning,
        "pictures": pictures,
        "tables": tables,
        "tables_left_out": len(view.settings) - len(tables),
        "csv_link": csv_link(table_csv(view, head)) if head else "",
        "enough": enough_epsilon(view),
        "rows_for_the_same": rows_for_the_same(view),
        "setting_title": setting_title(view, head) if head else "",
        "certified": certified_rows(view, head.delta_rule, head.panel) if head else (),
        "epsilons": [setting(e) for e in view.epsilons],
        "failures": failures(results, view),
        "n_answers": count(len(results[results["metric"] == page.metric]), "repetition"),
        "guarantees": guarantees(page),
        "budgets": tuple(_budget(page, part) for part in page.budgets if len(part.parts) > 1),
        "whole": tuple(_budget(page, part) for part in page.budgets if len(part.parts) == 1),
        "panels_and_forms": tuple(page.panels_and_forms.items()),
        "manifest": manifest_rows(page.manifest),
        "run": _run_line(view),
        "elapsed": duration(page.seconds),
        "started": when(page.manifest.get("started", "")),
        "finished": when(page.manifest.get("finished", "")),
        "earlier": [(sha256, when(finished)) for sha256, finished in page.dataset.earlier],
        "estimators": tuple(sorted(page.estimators, key=lambda e: (e.order, e.name))),
        "comparisons": noise_comparisons(view.series(head), view.headline_size)
        if head and view.headline_size
        else (),
        "headline_size": setting(view.headline_size) if view.headline_size else "",
        "table_groups": table_groups(tables[1:]),
        "mixed_promises": len({info.privacy_model for info in page.estimators} - {"none", ""}) > 1,
        "has_printed": bool((view.private["calibration"] == "paper").any()),
    }


def _tables(view: View) -> list[ErrorTable]:
    """Return the tables of as many settings as a reader can load and print; the headline's first."""
    tables: list[ErrorTable] = []
    n_cells = 0
    for where in view.settings:
        table = error_table(view, where)
        n_cells += len(table.rows) * len(table.columns)
        if tables and n_cells > MOST_CELLS:
            break
        tables.append(table)
    return tables


def table_groups(tables: Sequence[ErrorTable]) -> tuple[tuple[str, tuple[ErrorTable, ...]], ...]:
    """Group tables that differ only in ε."""
    grouped: dict[str, list[ErrorTable]] = {}
    for table in tables:
        grouped.setdefault(table.group, []).append(table)
    return tuple((title, tuple(group)) for title, group in grouped.items())


def _render_html(template: str, context: dict[str, Any]) -> bytes:
    def figure(picture: Picture, prefix: str) -> Markup:
        return Markup(svg.inline(picture.svg, prefix))

    text = html_environment().get_template(template).render(context, css=stylesheet(), figure=figure)
    return unbroken(text).encode("utf-8")


def csv_link(text: str) -> str:
    """Return a CSV as a data: address."""
    return "data:text/csv;charset=utf-8;base64," + base64.b64encode(text.encode("utf-8")).decode("ascii")


@dataclass(frozen=True)
class PrivacyPromise:
    """Estimators that make the same promise: whom it protects, and against which change."""

    estimators: tuple[str, ...]
    model: str
    unit: str
    neighbors: str


_MODELS = {
    "central": "central: a trusted curator sees the data and releases the noisy answer",
    "local": "local: every person adds noise before anyone sees their data",
    "user": "user-level, central: a trusted curator, and all rows of a person count as one",
}


def guarantees(page: StudyPage) -> tuple[PrivacyPromise, ...]:
    """Group the private estimators by the promise they make."""
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for info in sorted(page.estimators, key=lambda e: (e.order, e.name)):
        if info.privacy_model not in {"none", ""}:
            grouped.setdefault((info.privacy_model, info.unit, info.neighbors), []).append(info.label)
    data = page.dataset
    whose = f" ({data.privacy_unit})" if data.data_source != "simulated" and data.privacy_unit else ""
    return tuple(
        PrivacyPromise(tuple(names), _MODELS.get(model, model), unit + whose, neighbors)
        for (model, unit, neighbors), names in grouped.items()
    )


@dataclass(frozen=True)
class BudgetBar:
    """A stacked bar: the estimator, its form, and (label, share, opacity) parts that sum to one."""

    info: EstimatorInfo
    form: str
    parts: tuple[tuple[str, float, float], ...]

    @property
    def name(self) -> str:
        """Name of the estimator and the form."""
        return f"{self.info.label} ({self.form})" if self.form else self.info.label


def _budget(page: StudyPage, part: BudgetPart) -> BudgetBar:
    total = sum(share for _, share in part.parts) or 1.0
    steps = max(1, len(part.parts) - 1)
    parts = tuple(
        (label, share / total, round(1 - 0.72 * i / steps, 3)) for i, (label, share) in enumerate(part.parts)
    )
    return BudgetBar(page.estimator(part.estimator), part.form, parts)


def _run_line(view: View) -> str:
    low, high = view.repetitions
    times = f"{low} to {high} repetitions" if low != high else count(low, "repetition")
    manifest = view.page.manifest
    profile = f"Profile {manifest['profile']}, " if manifest.get("profile") else ""
    text = f"{profile}{times} per cell"
    finished = when(manifest.get("finished", ""))
    return f"{text}, finished {finished}" if finished else text


def when(stamp: str) -> str:
    """Write an ISO 8601 time as "12 March 2026, 14:05 UTC"; empty where unknown."""
    if not stamp:
        return ""
    time = datetime.fromisoformat(stamp)
    zone = f" {time.tzname()}" if time.tzinfo else ""
    return f"{time.day} {MONTHS[time.month - 1]} {time.year}, {time:%H:%M}{zone}"
