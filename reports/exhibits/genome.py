"""Exhibits of a genotype comparison: one release along the genome, and the true hits found."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from reports import palette
from reports.cells import Row
from reports.charts.drawing import Chart, draw_chart, field, marks
from reports.page import Section, StudyPage
from reports.ranking import PageHeadline
from reports.writing import render_sentence

_MOST_PANELS = 5  # in addition to the truth


def draw(
    page: StudyPage, cells: pd.DataFrame, head: PageHeadline, content: Mapping[str, Any]
) -> tuple[Section, ...]:
    """Return a map of one release.

    ``content`` has ``chromosomes`` and ``positions`` of SNPs, and the true differences ``truth``. A cell has
    the first of its ``estimates``, and the ``s`` largest are wanted.
    """
    genome = SimpleNamespace(**content)
    rows = [row for row in head.at_x if row.role != "zero" and row.cell in genome.estimates]
    if not rows:
        return ()
    rows.sort(key=lambda row: (row.role != "nonprivate", row.mean if row.role != "nonprivate" else 0))
    panels = [(row, np.abs(genome.estimates[row.cell])) for row in rows[:_MOST_PANELS]]
    truth = np.abs(genome.truth)
    true_support = set(_largest(truth, genome.s))
    overlaps = [(row.label, len(true_support & set(_largest(answer, genome.s)))) for row, answer in panels]
    text = render_sentence(
        "genome_map", page=page, head=head, n_snps=len(truth), s=genome.s, overlaps=overlaps
    )
    figure = _map_figure(genome, truth, panels)
    picture = draw_chart(figure, "genome", f"Differences along the genome. {text}", page.data_source)
    return (Section("genome_map", {"text": text, "picture": picture}),)


def _map_figure(genome: SimpleNamespace, truth: np.ndarray, panels: list[tuple[Row, np.ndarray]]) -> Chart:
    rows = [("Everybody, without privacy", truth, palette.INK)]
    rows += [(row.line, answer, row.look.color) for row, answer in panels]
    ranks = [float(name) if name.isdigit() else np.inf for name in genome.chromosomes]
    order = np.lexsort((genome.positions, ranks))
    is_true = np.isin(order, _largest(truth, genome.s))
    names, start = [genome.chromosomes[j] for j in order], 0
    bands: list[dict[str, Any]] = []
    for i, (name, group) in enumerate(groupby(names)):
        size = len(list(group))
        text = name if size > len(names) / 40 else ""
        bands.append({"from": start, "to": start + size, "text": text, "odd": i % 2})
        start += size
    places = {"domain": (0, len(names)), "nice": False}
    begin, x = (field(f"{end}:Q", scale=places, axis=None) for end in ("from", "i"))
    y = field("y:Q", axis={"title": None, "tickCount": 3})
    shade = marks(
        bands, "rect", {"x": begin, "x2": field("to")}, only="datum.odd", color=palette.GRID, opacity=0.5
    )
    middles = [{**band, "i": (band["from"] + band["to"]) / 2} for band in bands]
    below = {"x": x, "y": {"value": 104}, "text": field("text:N")}
    labels = marks(middles, "text", below, dy=12, fontSize=10, color=palette.MUTED)
    ring: dict[str, Any] = {"size": 42, "color": palette.WARN, "opacity": 1, "strokeWidth": 1.1}
    strips = []
    for title, answer, color in rows:
        points = [
            {"i": i, "y": float(f"{value:.4g}"), "wanted": bool(true)}
            for i, (value, true) in enumerate(zip(answer[order], is_true, strict=True))
        ]
        layers = [
            shade,
            marks(points, "circle", {"x": x, "y": y}, size=9, color=color, opacity=0.75),
            marks(points, "point", {"x": x, "y": y}, only="datum.wanted", **ring),
            *([labels] if title == rows[-1][0] else []),
        ]
        head = {"text": title, "fontWeight": "normal", "fontSize": 12}
        strips.append({"layer": layers, "width": 840, "height": 104, "title": head})
    return {"vconcat": strips, "spacing": 8}


def _largest(magnitudes: np.ndarray, s: int) -> list[int]:
    """Return the places of the s largest above zero; of equals, the first."""
    order = np.argsort(-np.asarray(magnitudes), kind="stable")[:s]
    return [int(j) for j in order if magnitudes[j] > 0]
