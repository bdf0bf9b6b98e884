"""Exhibits of a genotype comparison: one release along the genome, and the true hits found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.analysis.series import Series, Setting, View
from reports.charts import palette
from reports.charts.axes import bare_axes
from reports.charts.line_chart import series_color, series_text_color
from reports.charts.picture import ReportSection, drawing, new_figure, picture
from reports.numbers import count, num, setting

RECALL = "support_recall"
_FONT = 11.5
_MOST_PANELS = 5  # beside the truth
_WIDTH, _LEFT, _RIGHT, _TALL, _GAP, _BOTTOM = 960.0, 46.0, 12.0, 104.0, 34.0, 44.0


@dataclass(frozen=True)
class Genome:
    """A comparison of genotypes, SNP by SNP.

    Attributes
    ----------
    chromosomes, positions : sequence of str, of int
        Where each SNP lies.
    truth : sequence of float
        The differences among everybody.
    s : int
        How many of the largest are asked for.
    estimates : mapping of str to sequence of float
        Cell → its answer in the first repetition.
    """

    chromosomes: Sequence[str]
    positions: Sequence[int]
    truth: Sequence[float]
    s: int
    estimates: Mapping[str, Sequence[float]]


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, Any]) -> tuple[ReportSection, ...]:
    """Return a map of one release and a table of recalls."""
    genome, where = Genome(**content), view.headline
    if where is None:
        return ()
    shown = (_map(view, genome, where), _recalls(view, summary, genome, where))
    return tuple(item for item in shown if item is not None)


def _map(view: View, genome: Genome, where: Setting) -> ReportSection | None:
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
    text = (
        f"The first repetition at {view.page.x_symbol} = {setting(x)}: the size of the difference at each of "
        f"{len(truth):,} SNPs, in order of their places on the chromosomes. Rings are at the {genome.s} SNPs "
        f"that differ most among everybody; so many of them are among the {genome.s} largest entries of an "
        f"answer: {'; '.join(facts)}."
    )
    figure = _map_figure(genome, truth, panels)
    shown = picture(figure, "genome", f"Differences along the genome. {text}", view.page.dataset.data_source)
    return ReportSection("Where on the genome", text, shown)


@drawing()
def _map_figure(genome: Genome, truth: np.ndarray, panels: list[tuple[Series, np.ndarray]]) -> Figure:
    rows = [("Everybody, without privacy", truth, palette.INK, palette.INK)]
    rows += [(s.brief, answer, series_color(s), series_text_color(s)) for s, answer in panels]
    height = _BOTTOM + len(rows) * (_TALL + _GAP)
    order = np.lexsort((genome.positions, [_rank(name) for name in genome.chromosomes]))
    names = [genome.chromosomes[j] for j in order]
    wanted = np.isin(order, _largest(truth, genome.s))
    fig = new_figure(_WIDTH, height)
    for i, (title, answer, color, shade) in enumerate(rows):
        low = height - (i + 1) * (_TALL + _GAP) + 6
        ax = fig.add_axes((_LEFT / _WIDTH, low / height, 1 - (_LEFT + _RIGHT) / _WIDTH, _TALL / height))
        _panel(ax, answer[order], wanted, names, color)
        ax.tick_params(axis="x", labelbottom=i == len(rows) - 1)
        ax.set_title(title, fontsize=_FONT, color=shade, loc="left", pad=4)
    fig.text(0.5, 6 / height, "chromosome", ha="center", va="bottom", fontsize=_FONT, color=palette.INK)
    return fig


def _panel(ax: Axes, answer: np.ndarray, wanted: np.ndarray, names: list[str], color: str) -> None:
    bare_axes(ax)
    places = np.arange(len(answer))
    ax.set_xlim(-1, len(answer))
    ax.set_ylim(0, 1.12 * max(float(answer.max()), 1e-9))
    ticks, labels, start = [], [], 0
    for i, (name, group) in enumerate(groupby(names)):
        size = len(list(group))
        if i % 2:
            ax.axvspan(start - 0.5, start + size - 0.5, color=palette.GRID, alpha=0.5, linewidth=0)
        if size > len(names) / 40:
            ticks.append(start + size / 2)
            labels.append(name)
        start += size
    ax.set_xticks(ticks, labels)
    ax.locator_params(axis="y", nbins=3)
    some = answer > 0
    area = 5 if some.mean() > 0.2 else 16
    ax.scatter(places[some], answer[some], s=area, color=color, alpha=0.75, linewidths=0, zorder=3)
    rings = ax.scatter(places[wanted], answer[wanted], s=34, facecolors="none", linewidths=1.1, zorder=4)
    rings.set_edgecolor(palette.WARN)
    rings.set_clip_on(False)


def _recalls(view: View, summary: pd.DataFrame, genome: Genome, where: Setting) -> ReportSection | None:
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
    symbol = view.page.x_symbol
    text = (
        f"Share of the {count(genome.s, 'SNP')} that differ most among everybody found among as many largest "
        f"entries of an answer, means over repetitions. Counted at {symbol} = {setting(sizes[-1])}, of the "
        f"{genome.s} are found: {'; '.join(last)}; by choosing at random, "
        f"{num(genome.s**2 / len(genome.truth))}."
    )
    columns = ("", *(f"{symbol} = {setting(x)}" for x in sizes))
    return ReportSection("Are the largest differences found?", text, None, columns, tuple(rows), 1)


def _largest(magnitudes: np.ndarray, s: int) -> list[int]:
    """Return the places of the s largest above zero; of equals, the first."""
    order = np.argsort(-np.asarray(magnitudes), kind="stable")[:s]
    return [int(j) for j in order if magnitudes[j] > 0]


def _rank(chromosome: str) -> float:
    return float(chromosome) if chromosome.isdigit() else np.inf
