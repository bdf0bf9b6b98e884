"""The page of several runs of a study: their lines in one chart, and what differs beyond error bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from reports.analysis.ranking import rank
from reports.analysis.results import compare_results, summarize
from reports.analysis.series import View
from reports.charts.line_chart import Frame, line_picture
from reports.charts.study_charts import error_limits, series_line
from reports.page import StudyPage
from reports.pages.text import render_html
from reports.palette import HUES
from reports.words.headline import condition
from reports.writing import num, when


@dataclass(frozen=True)
class ComparedRun:
    """A run: what it is called here, its page and its results table."""

    name: str
    page: StudyPage
    results: pd.DataFrame


def render_comparison(runs: Sequence[ComparedRun]) -> bytes:
    """Return the page of at least two runs of one study; all are compared with the first."""
    first = runs[0]
    rows: list[tuple[str, ...]] = []
    for other in runs[1:]:
        found = compare_results(first.results, other.results)
        rows += [
            (
                other.name,
                row["cell"],
                row["metric"],
                num(row["first"]) if row["first"] is not None else "none",
                num(row["second"]) if row["second"] is not None else "none",
                "; ".join(row["reasons"]),
            )
            for row in found["different"]
        ]
    about = [
        (
            run.name,
            when(run.page.manifest.get("finished", "")),
            str(run.page.manifest.get("commit", ""))[:12],
            f"{run.page.manifest.get('profile', '')}, {run.page.manifest.get('replicates', '')}",
            str(run.page.manifest.get("seed", "")),
        )
        for run in runs
    ]
    return render_html(
        "compare.html.jinja",
        f"{first.page.title}: {len(runs)} runs",
        f"{len(runs)} runs of {first.page.name}, compared",
        study=first.page.title,
        about=about,
        rows=rows,
        first_run=first.name,
        warning=next((run.page.warning for run in runs if run.page.warning), ""),
        chart=_overlay(runs),
    )


def _overlay(runs: Sequence[ComparedRun]) -> Any:
    """Draw the best private line of the first run and the same line of all others, a color for each run."""
    views = [View.build(summarize(run.results), run.page) for run in runs]
    where, x = views[0].headline, views[0].headline_size
    best = rank(views[0].series(where), x).best if where is not None and x is not None else None
    if where is None or best is None:
        return None
    found = []
    for i, (run, view) in enumerate(zip(runs, views, strict=True)):
        for one in view.series(where):
            same = one.info.name == best[0].info.name
            if same and (one.form, one.calibration) == (best[0].form, best[0].calibration):
                found.append((i, run.name, one))
    drawn = [each for _, _, each in found]
    sizes = sorted({p.x for one in drawn for p in one.points})
    lines = []
    for i, name, one in found:
        line = series_line(one, sizes)
        color = HUES[i % len(HUES)]
        look = replace(line.look, color=color, ink=color, fill=color)
        lines.append(replace(line, label=name, look=look))
    page = views[0].page
    frame = Frame(
        x_title=page.axis.label,
        y_title=f"{page.metric_label} (lower is better)",
        x=(sizes[0] / 1.06, sizes[-1] * 1.06),
        y=error_limits(drawn),
        x_ticks=sizes,
    )
    text = f"{best[0].full} in {len(lines)} runs, {condition(views[0], where)}."
    return line_picture(lines, frame, "runs", text, "")
