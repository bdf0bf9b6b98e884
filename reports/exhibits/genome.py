"""Exhibits of a genotype comparison: one release along the genome, and the true hits found."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from reports import palette
from reports.analysis.series import Series, Setting, View
from reports.charts.picture import Drawing, ReportSection, picture
from reports.writing import num, render_sentence, setting

RECALL = "support_recall"
_MOST_PANELS = 5  # in addition to the truth
_MOST_POINTS = 600  # of an answer that are drawn: its largest entries


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, Any]) -> tuple[ReportSection, ...]:
    """Return a map of one release and a table of recalls.

    ``content`` has the ``chromosomes`` and ``positions`` of the SNPs; ``truth``, the differences among
    everybody; ``s``, how many of the largest are wanted; and ``estimates``: cell → its first answer.
    """
    genome, where = SimpleNamespace(**content), view.headline
    if where is None:
        return ()
    shown = (_map(view, genome, where), _recalls(view, summary, genome, where))
    return tuple(item for item in shown if item is not None)


def _map(view: View, genome: SimpleNamespace, where: Setting) -> ReportSection | None:
    x = view.headline_size
    found: list[tuple[Series, float, np.ndarray]] = []
    for series in view.series(where):
        point = None if x is None else series.at(x)
        if point is not None and series.role != "zero" and point.cell in genome.estimates:
            found.append((series, point.mean, np.abs(genome.estimates[point.cell])))
    if not found or x is None:
        return None
    without = [one for one in found if one[0].role == "nonprivate"]
    private = sorted((one for one in found if one[0].role != "nonprivate"), key=lambda one: one[1])
    panels = [(series, answer) for series, _, answer in [*without, *private][:_MOST_PANELS]]
    truth = np.abs(genome.truth)
    wanted = set(_largest(truth, genome.s))
    facts = [f"{series.label} {len(wanted & set(_largest(answer, genome.s)))}" for series, answer in panels]
    n_snps = len(truth)
    text = render_sentence(
        "genome_map", symbol=view.page.axis.symbol, x=x, n_snps=n_snps, s=genome.s, facts=facts
    )
    figure = _map_figure(genome, truth, panels)
    shown = picture(figure, "genome", f"Differences along the genome. {text}", view.page.dataset.data_source)
    return ReportSection("Where on the genome", text, shown)


def _map_figure(
    genome: SimpleNamespace, truth: np.ndarray, panels: list[tuple[Series, np.ndarray]]
) -> Drawing:
    rows = [("Everybody, without privacy", truth, palette.INK, palette.INK)]
    rows += [(s.brief, answer, s.look.color, s.look.ink) for s, answer in panels]
    order = np.lexsort((genome.positions, [_rank(name) for name in genome.chromosomes]))
    wanted = np.isin(order, _largest(truth, genome.s))
    names, start = [genome.chromosomes[j] for j in order], 0
    bands: list[dict[str, Any]] = []
    for i, (name, group) in enumerate(groupby(names)):
        size = len(list(group))
        text = name if size > len(names) / 40 else ""
        bands.append({"from": start, "to": start + size, "text": text, "odd": i % 2})
        start += size
    places = alt.Scale(domain=(0, len(names)), nice=False)
    x = alt.X("i:Q", scale=places, axis=None)
    ground = alt.Chart(alt.InlineData(values=tuple(bands)))
    shade = ground.transform_filter("datum.odd").mark_rect(color=palette.GRID, opacity=0.5)
    middle = ground.transform_calculate(i="(datum.from + datum.to) / 2")
    label = middle.mark_text(dy=12, fontSize=10, color=palette.MUTED)
    named = label.encode(x=x, y=alt.value(104), text="text:N")
    strips = []
    for title, answer, color, ink in rows:
        largest = np.array(_largest(answer[order], _MOST_POINTS), dtype=int)  # none of a zero answer
        shown = np.union1d(largest, np.flatnonzero(wanted))
        points = [
            {"i": int(i), "y": float(f"{answer[order][i]:.4g}"), "wanted": bool(wanted[i])} for i in shown
        ]
        y = alt.Y("y:Q", axis=alt.Axis(title=None, tickCount=3))
        dots = alt.Chart(alt.InlineData(values=tuple(points)))
        strips.append(
            alt.layer(
                shade.encode(x=alt.X("from:Q", scale=places, axis=None), x2="to:Q"),
                dots.mark_circle(size=9, color=color, opacity=0.75).encode(x=x, y=y),
                dots.transform_filter("datum.wanted")
                .mark_point(size=42, color=palette.WARN, opacity=1, strokeWidth=1.1)
                .encode(x=x, y=y),
                *([named] if title == rows[-1][0] else []),
            ).properties(
                width=840,
                height=104,
                title=alt.TitleParams(title, color=ink, fontWeight="normal", fontSize=12),
            )
        )
    return alt.vconcat(*strips, spacing=8)


def _recalls(
    view: View, summary: pd.DataFrame, genome: SimpleNamespace, where: Setting
) -> ReportSection | None:
    recalls = summary[summary["metric"] == RECALL].set_index("cell")["mean"]
    series = [one for one in view.series(where) if one.role != "zero"]
    sizes = sorted({p.x for one in series for p in one.points})
    rows, last = [], []
    for one in series:
        cells = {p.x: p.cell for p in one.points}
        means = [float(recalls.get(cells.get(x, ""), np.nan)) for x in sizes]
        if not np.isfinite(means).any():
            continue
        rows.append((one.label, *(f"{100 * mean:.0f} %" if np.isfinite(mean) else "" for mean in means)))
        if np.isfinite(means[-1]):
            last.append(f"{one.label} {num(genome.s * means[-1])}")
    if not rows:
        return None
    symbol = view.page.axis.symbol
    n_snps = len(genome.truth)
    text = render_sentence("genome_recalls", symbol=symbol, x=sizes[-1], n_snps=n_snps, s=genome.s, last=last)
    columns = ("", *(f"{symbol} = {setting(x)}" for x in sizes))
    return ReportSection("Are the largest differences found?", text, None, columns, tuple(rows), 1)


def _largest(magnitudes: np.ndarray, s: int) -> list[int]:
    """Return the places of the s largest above zero; of equals, the first."""
    order = np.argsort(-np.asarray(magnitudes), kind="stable")[:s]
    return [int(j) for j in order if magnitudes[j] > 0]


def _rank(chromosome: str) -> float:
    return float(chromosome) if chromosome.isdigit() else np.inf
