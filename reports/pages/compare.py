"""The page of several runs of a study: their lines in one chart, and what differs beyond error bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from reports.cells import cells_of, errors_of, rows_at
from reports.charts.drawing import Picture, draw_chart
from reports.charts.lines import Axes, Line, line_chart
from reports.page import StudyPage
from reports.palette import HUES
from reports.ranking import headline_of
from reports.render import render_page
from reports.results import compare_results, summarize
from reports.writing import render_sentence


@dataclass(frozen=True)
class ComparedRun:
    """A run: what it is called here, its page and its results table."""

    name: str
    page: StudyPage
    results: pd.DataFrame


def render_comparison(runs: Sequence[ComparedRun]) -> bytes:
    """Return the page of at least two runs of one study; all are compared with the first."""
    differences = [
        (other.name, row)
        for other in runs[1:]
        for row in compare_results(runs[0].results, other.results)["different"]
    ]
    return render_page("pages/comparison.jinja", runs=runs, differences=differences, picture=_overlay(runs))[
        0
    ]


def _overlay(runs: Sequence[ComparedRun]) -> Picture | None:
    """Draw the best private line of the first run and the same line of all others, a color for each run."""
    cells_of_runs = [cells_of(summarize(run.results), run.page) for run in runs]
    page, head = runs[0].page, headline_of(cells_of_runs[0], runs[0].page)
    if head is None or (best := head.cost.ranking.best) is None:
        return None
    lines = []
    for i, (run, cells) in enumerate(zip(runs, cells_of_runs, strict=True)):
        same = [row for row in rows_at(errors_of(cells, run.page), head.where) if row.label == best.label]
        points = [row for row in same if row.answered]
        color = HUES[i % len(HUES)]
        look = replace(best.look, color=color, fill=color)
        ends, band = [(row.x, row.mean) for row in points], [(row.low, row.high) for row in points]
        lines += [Line(run.name, ends, look, band)] if same else []
    sizes = sorted({x for line in lines for x, _ in line.points})
    axes = Axes(page.axis.label, f"{page.metric_label} (lower is better)", sizes)
    at = render_sentence("condition", page=page, where=head.where)
    text = f"{best.label} in {len(lines)} runs, {at}."
    return draw_chart(line_chart(lines, axes), "runs", text, "")
