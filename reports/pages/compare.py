"""The page of several runs of a study: their lines in one chart, and what differs beyond error bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from reports.charts.drawing import Picture
from reports.charts.lines import Axes, Line, line_picture
from reports.headline import condition
from reports.page import StudyPage
from reports.palette import HUES
from reports.ranking import rank
from reports.render import PageTable, Section, render_page
from reports.results import compare_results, summarize
from reports.series import View
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
    differ = "numbers differ" if len(rows) > 1 else "number differs"
    said = f"{len(rows)} {differ}" if rows else "No number differs"
    chart = _overlay(runs)
    names = ("Run", "finished", "commit", "profile, repetitions", "seed")
    sections = [Section("", chart.alt, chart)] if chart else []
    sections.append(Section("Runs", table=PageTable(names, about, "Runs", 5, stacked=True)))
    if rows:
        columns = ("Run", "cell", "metric", first.name, "this run", "why")
        sections.append(
            Section("What differs", table=PageTable(columns, rows, "Differences", 3, stacked=True))
        )
    return render_page(
        f"{first.page.title}: {len(runs)} runs",
        f"{len(runs)} runs of {first.page.name}, compared",
        sections,
        banner=next((run.page.warning for run in runs if run.page.warning), ""),
        sentence=f"{said} from those of {first.name} by more than three standard errors.",
    )[0]


def _overlay(runs: Sequence[ComparedRun]) -> Picture | None:
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
    lines = []
    for i, name, one in found:
        points = [point for point in one.points if point.answered]
        color, ends = HUES[i % len(HUES)], [(point.x, point.mean) for point in points]
        look = replace(one.look, color=color, ink=color, fill=color)
        lines.append(Line(name, ends, look, [(point.q10, point.q90) for point in points]))
    page, sizes = views[0].page, sorted({x for line in lines for x, _ in line.points})
    axes = Axes(page.axis.label, f"{page.metric_label} (lower is better)", sizes)
    text = f"{best[0].label} in {len(lines)} runs, {condition(views[0], where)}."
    return line_picture(lines, axes, "runs", text, "")
