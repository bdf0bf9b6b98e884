"""Coverage and width of intervals, and coverage of intervals that ignore the noise.

A cell covers too rarely where its coverage is below 94% by more than three standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports import palette
from reports.charts.drawing import Chart, draw_chart, field, marks
from reports.page import StudyPage
from reports.ranking import PageHeadline
from reports.render import PageTable, Section
from reports.writing import render_sentence

_LEVEL, _QUANTILE = 0.95, 1.959964
_FEW = 0.9  # of the coordinates without an interval: too few have one to judge by
_SHARES = ("without the noise", "no interval")
_OF_ESTIMATOR = (
    *("Estimator", "Name", "cells", "covered", "minimum", "too rarely in"),
    *(*_SHARES, "width over the oracle's, median"),
)


def draw(
    page: StudyPage, cells: pd.DataFrame, head: PageHeadline, content: Mapping[str, Any]
) -> tuple[Section, ...]:
    """Return a picture at the headline's size and ε, and a table of all estimators."""
    cells = _measured(cells, content)
    if cells.empty:
        return ()
    n, epsilon = content["n"], head.where.epsilon
    selected = cells[(cells["n"] == n) & (cells["epsilon"].isna() | (cells["epsilon"] == epsilon))]
    every = cells[cells["epsilon"].notna()]
    private = every[every["coverage"].notna()]
    answer = render_sentence(
        "coverage",
        n_cells=len(private),
        covered=_percent(private["coverage"].mean()),
        low=int(private["low"].sum()),
        naive=_percent(private["naive"].mean()),
        flagged=_percent(every["flagged"].mean()),
    )
    note = render_sentence("coverage_setting", n=n, epsilon=epsilon)
    alt = f"Coverage of 95% intervals. {note}"
    figure = draw_chart(_figure(selected), "interval-coverage", alt, page.data_source)
    by_estimator = [_summary(name, group) for name, group in every.groupby(["name", "estimator"], sort=False)]
    return (
        Section("Do the intervals cover?", f"{answer} {note}", figure, answer=answer),
        Section(
            "Coverage of every estimator",
            render_sentence("coverage_of_estimators"),
            table=PageTable(_OF_ESTIMATOR, by_estimator, "Coverage of every estimator", 2),
        ),
    )


def _measured(cells: pd.DataFrame, content: Mapping[str, Any]) -> pd.DataFrame:
    """Return one row per cell that measures coverage, with a column for each metric."""
    names = {content[key]: key for key in ("coverage", "flagged", "pivot", "naive")}
    measured = cells[cells["metric"].isin(names)].replace({"metric": names})
    wide = measured.pivot(index="cell", columns="metric", values="mean").reindex(columns=[*names.values()])
    wide["bar"] = 2 * measured[measured["metric"] == "coverage"].set_index("cell")["se"]
    wide["ratio"] = 1 / (_QUANTILE * wide["pivot"] ** 0.5)
    wide["low"] = wide["coverage"] < 0.94 - 1.5 * wide["bar"].fillna(math.inf)
    whole = (
        measured.drop(columns="low").drop_duplicates("cell").join(wide, on="cell").dropna(subset="flagged")
    )
    return whole.sort_values(["panel", "rank", "epsilon", "n"], kind="stable")


def _percent(value: float) -> str:
    return "none" if math.isnan(value) else f"{100 * value:.1f}%"


def _summary(name: Any, cells: pd.DataFrame) -> tuple[str, ...]:
    """Return an estimator's line: all its cells, and the extremes of those with enough intervals."""
    enough = cells[cells["flagged"] < _FEW]
    ratio = float(enough.loc[enough["coverage"].notna(), "ratio"].median())
    return (
        *map(str, name),
        f"{len(cells)}",
        _percent(cells["coverage"].mean()),
        _percent(enough["coverage"].min()),
        f"{int(cells['low'].sum())}",
        _percent(cells.loc[cells["coverage"].notna(), "naive"].mean()),
        _percent(cells["flagged"].mean()),
        "none" if math.isnan(ratio) else f"{ratio:.2f}",
    )


def _figure(cells: pd.DataFrame) -> Chart:
    """Draw one line per panel and estimator, coverage across."""
    limits = {
        "low": cells["coverage"] - cells["bar"].fillna(0),
        "high": cells["coverage"] + cells["bar"].fillna(0),
    }
    names = {"name": cells["panel"] + ": " + cells["name"], "c": [look.color for look in cells["look"]]}
    table = cells[["naive", "coverage"]].assign(**names, **limits).astype(object)
    rows = table.where(table.notna(), None).to_dict("records")
    across = field(
        "coverage:Q",
        scale={"domain": (0, 1), "clamp": True},
        axis={
            "title": "share of coordinates covered",
            "values": [0, 0.25, 0.5, 0.75, _LEVEL],
            "grid": True,
            "format": "%",
        },
    )
    labels = {"title": None, "labelLimit": 420, "labelColor": palette.INK}
    y = {"y": field("name:N", sort=None, axis=labels)}
    at = {**y, "color": field("c:N", scale=None)}
    none: dict[str, Any] = {"text": "no coordinate has an interval", "color": palette.MUTED, "fontSize": 10}
    layers = [
        marks([{"level": _LEVEL}], "rule", {"x": field("level:Q")}, color=palette.AXIS),
        marks(rows, "rule", {"x": field("low:Q"), "x2": field("high"), **at}, strokeWidth=1.5),
        marks(rows, "point", {"x": field("naive:Q"), **at}, size=40, opacity=1),
        marks(rows, "point", {"x": across, **at}, size=40, opacity=1, filled=True),
        marks(rows, "text", {"x": {"value": 190}, **y}, only="!isValid(datum.coverage)", **none),
    ]
    return {"layer": layers, "width": 380, "height": {"step": 19}}
