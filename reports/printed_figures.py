"""Figures that papers print, drawn from our run: their panel, δ, axes, norm and methods.

Axes are linear, as in the papers. Paper B prints the logarithm of an error, which is a metric of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import pandas as pd

from data.results.table import LIMIT, FigureLine, PrintedFigure
from reports import palette
from reports.cells import place
from reports.charts.drawing import Picture, draw_chart
from reports.charts.lines import Axes, Line, line_chart
from reports.charts.study import metric_words
from reports.page import StudyPage
from reports.palette import Look
from reports.render import PageTable, TableCell
from reports.writing import error_bar, num, render_sentence, rule_text, setting

_WIDE, _NARROW = 490, 330  # pixels of one or two pictures in a row, and of three


@dataclass(frozen=True)
class Repeated:
    """A printed figure as our run has it: a picture or a table, at a panel and a δ."""

    figure: PrintedFigure
    panel: str
    delta_rule: str
    picture: Picture | None = None
    table: PageTable | None = None


def repeat_figures(page: StudyPage, cells: pd.DataFrame) -> list[Repeated]:
    """Return the printed figures of a page that its results can show, in its order."""
    drawn = [figure for figure in page.figures if figure.lines]
    width = _NARROW if len(drawn) > 2 else _WIDE
    return [each for figure in drawn if (each := _repeat(figure, page, cells, width)) is not None]


def _repeat(figure: PrintedFigure, page: StudyPage, cells: pd.DataFrame, width: int) -> Repeated | None:
    ran = set(cells["panel"])
    panel = figure.panel if figure.panel in ran else figure.instead
    of_panel = cells[cells["panel"].isin([panel, *(line.panel for line in figure.lines if line.panel)])]
    rules = of_panel["delta_rule"][of_panel["delta_rule"] != ""]
    if rules.empty:
        return None
    rule = figure.delta if figure.delta in set(rules) else str(rules.iloc[0])
    if figure.columns:
        return Repeated(figure, panel, figure.delta, table=_table(figure, page, of_panel))
    lines = list(_lines(figure, page, cells, panel, rule))
    if not lines:
        return None
    metric = figure.metric or page.metric
    axes = Axes(
        page.axis.label,
        metric_words(metric, page)[0],
        x_log=False,
        y_log=False,
        width=width,
        height=240,
    )
    ends = [(line.label, *line.points[-1]) for line in lines]
    alt = render_sentence("printed_figure", page=page, figure=figure, ends=ends, panel=panel)
    picture = draw_chart(line_chart(lines, axes), figure.file, alt, page.source_of(panel))
    return Repeated(figure, panel, rule, picture)


def _lines(
    figure: PrintedFigure, page: StudyPage, cells: pd.DataFrame, panel: str, rule: str
) -> Iterator[Line]:
    """Yield the lines of a figure that have points; several of one estimator get shades of its color."""
    places = {line.estimator: count() for line in figure.lines}
    for line in figure.lines:
        number = next(places[line.estimator])
        rows = _rows_of(line, figure, page, cells, panel, rule)
        low, high = figure.x_range or (-math.inf, math.inf)
        rows = rows[rows["x"].between(low, high) & rows["answered"]].sort_values("x")
        if rows.empty:
            continue
        first = rows.iloc[0]
        several = sum(line.estimator == other.estimator for other in figure.lines) > 1
        order = page.estimator(line.estimator).order
        look: Look = (
            palette.look(first["role"], order, number, line.calibration) if several else first["look"]
        )
        points = list(zip(rows["x"].tolist(), rows["mean"].tolist(), strict=True))
        band = [] if first["role"] == "zero" else list(zip(rows["low"], rows["high"], strict=True))
        yield Line(line.label or str(first["name"]), points, look, band)


def _rows_of(
    line: FigureLine, figure: PrintedFigure, page: StudyPage, cells: pd.DataFrame, panel: str, rule: str
) -> pd.DataFrame:
    """Return the cells of a line at their place ``x`` on the horizontal axis."""
    metric = figure.metric or page.metric
    rows = _of_line(line, cells[cells["panel"] == (line.panel or panel)])
    if line.calibration != "none":
        epsilon = line.epsilon or figure.epsilon
        at_rule = (rows["delta_rule"] == rule) | (epsilon == LIMIT)  # such cells have one rule for δ
        rows = rows[(rows["epsilon"] == epsilon) & at_rule]
    return place(rows[rows["metric"] == metric], page)


def _table(figure: PrintedFigure, page: StudyPage, cells: pd.DataFrame) -> PageTable:
    """Return the paper's table with our numbers next to its own, a row for each δ and ε."""
    cells = cells[cells["metric"] == (figure.metric or page.metric)]
    names = [f"{figure.columns} = {setting(value)}" for value in figure.values]
    rows: list[list[str | TableCell]] = []
    for rule, epsilon, *entries in figure.printed:
        private = math.isfinite(float(epsilon))
        here = cells[(cells["epsilon"] == epsilon) & (cells["delta_rule"] == rule)] if private else cells
        lines = [line for line in figure.lines if private == (line.calibration != "none")]
        of_lines = [_of_line(line, here) for line in lines]
        ours = [_number(each[each[figure.columns] == value]) for each in of_lines for value in figure.values]
        label = [rule_text(str(rule), page.axis.rows_symbol), setting(float(epsilon))]
        rows.append([*label, *map(str, entries), *ours])
    heads = [f"{name}, {whose}" for whose in ("paper", "ours") for name in names]
    return PageTable(("δ", "ε", *heads), rows, "", 2)


def _of_line(line: FigureLine, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells of a line's estimator, form and calibration."""
    chosen = pd.Series(True, index=cells.index)
    for name in ("estimator", "form", "calibration"):
        chosen &= cells[name] == getattr(line, name)
    return cells[chosen]


def _number(rows: pd.DataFrame) -> TableCell:
    if rows.empty or not rows["answered"].iloc[0]:
        return TableCell("not run", kind="missing")
    row = rows.iloc[0]
    note = f"± {error_bar(row['error'], row['mean'])}" if row["error"] > 0 else ""
    return TableCell(num(row["mean"]), note)
