"""The page of several runs of a study: their lines in one chart, and what differs beyond error bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from reports.cells import cells_of, errors_of, rows_at
from reports.charts.drawing import Picture
from reports.charts.lines import Axes, Line, line_picture
from reports.page import StudyPage
from reports.palette import HUES
from reports.ranking import headline_of
from reports.render import PageTable, Section, render_page
from reports.results import compare_results, summarize
from reports.writing import num, render_sentence, when


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
    found = [cells_of(summarize(run.results), run.page) for run in runs]
    page, head = runs[0].page, headline_of(found[0], runs[0].page)
    best = head and head.cost.ranking.best
    if head is None or best is None:
        return None
    lines = []
    for i, (run, cells) in enumerate(zip(runs, found, strict=True)):
        same = [row for row in rows_at(errors_of(cells, run.page), head.where) if row.label == best.label]
        points = [row for row in same if row.answered]
        look = replace(
            best.look, color=HUES[i % len(HUES)], ink=HUES[i % len(HUES)], fill=HUES[i % len(HUES)]
        )
        ends, band = [(row.x, row.mean) for row in points], [(row.low, row.high) for row in points]
        lines += [Line(run.name, ends, look, band)] if same else []
    sizes = sorted({x for line in lines for x, _ in line.points})
    axes = Axes(page.axis.label, f"{page.metric_label} (lower is better)", sizes)
    at = render_sentence("condition", page=page, where=head.where)
    return line_picture(lines, axes, "runs", f"{best.label} in {len(lines)} runs, {at}.", "")
