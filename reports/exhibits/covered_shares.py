"""Coverage and width of intervals, and coverage of intervals that ignore the noise.

A cell covers too rarely where its coverage is below 94% by more than three standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.page import Section, StudyPage
from reports.ranking import PageHeadline
from reports.writing import render_sentence

_QUANTILE = 1.959964
_MOST_WITHOUT = 0.9  # of the coordinates without an interval: too few have one to judge by


def draw(
    page: StudyPage, cells: pd.DataFrame, head: PageHeadline, content: Mapping[str, Any]
) -> tuple[Section, ...]:
    """Return a sentence over all cells, and a table of all estimators; the page's chart has the cells."""
    every = _measured(cells, content).dropna(subset="epsilon")
    if every.empty:
        return ()
    private = every[every["coverage"].notna()]
    shares = {"covered": private["coverage"], "naive": private["naive"], "flagged": every["flagged"]}
    about = {name: _percent(values.mean()) for name, values in shares.items()}
    answer = render_sentence("coverage", n_cells=len(private), low=int(private["low"].sum()), **about)
    rows = [_summary(name, group) for name, group in every.groupby(["name", "estimator"], sort=False)]
    return (Section("coverage", {"answer": answer, "rows": rows}),)


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
    enough = cells[cells["flagged"] < _MOST_WITHOUT]
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
