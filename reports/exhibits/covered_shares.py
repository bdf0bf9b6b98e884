"""Coverage and width of intervals, and coverage of intervals that ignore the noise.

A cell covers too rarely where its coverage is below 94 % by more than three standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from reports.analysis.series import View
from reports.charts import palette
from reports.charts.axes import bare_axes, set_ticks
from reports.charts.picture import ReportSection, drawing, new_figure, picture
from reports.numbers import setting

_LEVEL, _QUANTILE = 0.95, 1.959964
_FEW = 0.9  # of the coordinates without an interval: too few have one to judge by
_CELL = ["estimator", "panel", "form", "calibration", "epsilon", "n"]
_ROW, _TOP, _WIDTH, _FONT = 19.0, 60.0, 760.0, 11.0
_SHARES = ("without the noise, %", "no interval, %")
_OF_CELL = ("", "", "ε", "n", "covered, %", *_SHARES, "width over the oracle's")
_OF_ESTIMATOR = (
    *("", "", "cells", "covered, %", "least, %", "too rarely in"),
    *(*_SHARES, "width over the oracle's, median"),
)


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, Any]) -> tuple[ReportSection, ...]:
    """Return a picture at the headline's size and ε, a table of all estimators, and one of all cells."""
    cells = _cells(view, summary, content)
    if cells.empty:
        return ()
    where, n = view.headline, content["n"]
    epsilon = where.epsilon if where else math.nan
    shown = cells[(cells["n"] == n) & (cells["epsilon"].isna() | (cells["epsilon"] == epsilon))]
    every = cells[cells["epsilon"].notna()]
    private = every[every["coverage"].notna()]
    low = int(private["low"].sum())
    answer = (
        f"In {len(private)} private cells with any interval at 95 %, they cover "
        f"{_percent(float(private['coverage'].mean()))} % on average; in {low} of them less than 94 % "
        f"by more than three standard errors. Intervals without the noise, by the book, cover "
        f"{_percent(float(private['naive'].mean()))} %. A coordinate whose error cannot be known has none: "
        f"{_percent(float(every['flagged'].mean()))} % over all private cells."
    )
    note = (
        f"At n = {n:,} and ε = {setting(epsilon)}; bars are two standard errors; hollow: without the noise."
    )
    alt = f"Coverage of 95 % intervals. {note}"
    figure = picture(_figure(shown), "interval-coverage", alt, view.page.dataset.data_source)
    return (
        ReportSection("Do the intervals cover?", f"{answer} {note}", figure, answer=answer),
        ReportSection(
            "Coverage of every estimator",
            "Over all panels, sizes and ε. The least coverage and the width are of cells in which more than "
            "a tenth of the coordinates have an interval; coverage without the noise is of those with any.",
            columns=_OF_ESTIMATOR,
            rows=tuple(
                _summary(name, group) for name, group in every.groupby(["title", "estimator"], sort=False)
            ),
            n_labels=2,
        ),
        ReportSection(
            "Coverage and width of every cell",
            "The oracle knows the standard deviation of the error: its half width is 1.96 times that.",
            columns=_OF_CELL,
            rows=tuple(_row(cell) for cell in _records(cells)),
            n_labels=2,
        ),
    )


def _cells(view: View, summary: pd.DataFrame, content: Mapping[str, Any]) -> pd.DataFrame:
    """Return one row per cell that measures coverage, with a column for each metric."""
    names = {content[key]: key for key in ("coverage", "flagged", "pivot", "naive")}
    found = summary[summary["metric"].isin(names)]
    if found.empty:
        return found
    wide = found.assign(metric=found["metric"].map(names)).pivot_table(
        index=_CELL, columns="metric", values=["mean", "se"], dropna=False, sort=False
    )
    both = wide.columns.to_flat_index()
    wide.columns = pd.Index([pair[1] + ("_se" if pair[0] == "se" else "") for pair in both])
    cells = wide.reset_index().dropna(subset=["flagged"])
    for name in names.values():
        cells[name] = cells.get(name, math.nan)
    order = {info.name: info.order for info in view.page.estimators}
    cells["order"] = cells["estimator"].map(order)
    cells["title"] = [
        f"{view.page.estimator(name).title} {form}".strip()
        for name, form in zip(cells["estimator"], cells["form"], strict=True)
    ]
    cells["ratio"] = 1 / (_QUANTILE * cells["pivot"] ** 0.5)
    cells["low"] = cells["coverage"] < 0.94 - 3 * cells["coverage_se"].fillna(math.inf)
    return cells.sort_values(["panel", "order", "epsilon", "n"], kind="stable")


def _records(cells: pd.DataFrame) -> list[Any]:
    return list(cells.itertuples())


def _percent(value: float, se: float = math.nan) -> str:
    if math.isnan(value):
        return "none"
    return f"{100 * value:.1f}" + (f" ± {100 * se:.1f}" if math.isfinite(se) else "")


def _summary(name: Any, cells: pd.DataFrame) -> tuple[str, ...]:
    """Return an estimator's line: all its cells, and the extremes of those with enough intervals."""
    known = cells[cells["coverage"].notna()]
    enough = known[known["flagged"] < _FEW]
    ratio = float(enough["ratio"].median())
    return (
        *map(str, name),
        f"{len(cells)}",
        _percent(float(known["coverage"].mean())),
        _percent(float(enough["coverage"].min())),
        f"{int(known['low'].sum())}",
        _percent(float(known["naive"].mean())),
        _percent(float(cells["flagged"].mean())),
        "none" if math.isnan(ratio) else f"{ratio:.2f}",
    )


def _row(cell: Any) -> tuple[str, ...]:
    epsilon = "none" if math.isnan(cell.epsilon) else setting(cell.epsilon)
    ratio = "none" if math.isnan(cell.ratio) else f"{cell.ratio:.2f}"
    covered = _percent(cell.coverage, cell.coverage_se)
    return (
        cell.panel,
        cell.title,
        epsilon,
        f"{cell.n:,}",
        covered,
        _percent(cell.naive),
        _percent(cell.flagged),
        ratio,
    )


@drawing()
def _figure(cells: pd.DataFrame) -> Figure:
    """Draw one line per panel and estimator, coverage across."""
    height = _TOP + _ROW * len(cells) + 40
    fig = new_figure(_WIDTH, height)
    ax = fig.add_axes((0.5, 40 / height, 0.46, 1 - 70 / height))
    ax.set(xlim=(0, 1.03), ylim=(-0.7, len(cells) - 0.3))
    bare_axes(ax)
    set_ticks(ax, "x", [0.0, 0.25, 0.5, 0.75, 0.95])
    labels = [f"{cell.panel}: {cell.title}" for cell in reversed(_records(cells))]
    ax.set_yticks(range(len(cells)), labels, color=palette.INK)
    ax.axvline(_LEVEL, color=palette.AXIS, linewidth=1)
    for place, cell in enumerate(reversed(_records(cells))):
        color = palette.SERIES[palette.slot(int(cell.order))]
        ax.plot([cell.naive], [place], "o", markerfacecolor="none", color=color)
        if math.isnan(cell.coverage):
            text = "no coordinate has an interval"
            ax.text(0.55, place, text, fontsize=_FONT * 0.9, color=palette.MUTED, va="center")
        else:
            bar = 2 * cell.coverage_se if math.isfinite(cell.coverage_se) else 0.0
            ax.errorbar([cell.coverage], [place], xerr=[bar], color=color, fmt="o")
    ax.set_xlabel("share of coordinates covered", fontsize=_FONT, color=palette.INK)
    return fig
