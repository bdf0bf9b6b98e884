"""How often each private estimator is at least as good as the best printed private method, table by table."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from reports.series import View
from reports.table import PageTable, Section
from reports.writing import render_sentence, setting, with_form


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, str]) -> tuple[Section, ...]:
    """Return a section for each ε: a line per estimator, with its ratio on every table."""
    found = summary[(summary["metric"] == content["metric"]) & (summary["calibration"] == "tight")]
    if found.empty:
        return (Section("Against printed results", render_sentence("no_printed_errors")),)
    titles = [
        with_form(view.page.estimator(name).title, form)
        for name, form in zip(found["estimator"], found["form"], strict=True)
    ]
    named = found.assign(title=titles)
    return tuple(_section(float(str(epsilon)), rows) for epsilon, rows in named.groupby("epsilon"))


def _section(epsilon: float, rows: pd.DataFrame) -> Section:
    ratios = rows.pivot_table(index="title", columns="panel", values="mean")
    wins, there = (ratios <= 1).sum(axis=1), ratios.notna().sum(axis=1)
    averages = np.exp(np.log(ratios).mean(axis=1))
    order = averages.sort_values().index
    best = order[0]
    text = render_sentence(
        "printed_errors",
        best=best,
        wins=int(wins[best]),
        n_tables=int(there[best]),
        epsilon=epsilon,
        average=float(averages[best]),
    )
    heading = f"Against printed results, ε = {setting(epsilon)}"
    columns = ("Estimator", "at most 1 on", "geometric mean", *map(str, ratios.columns))
    shown = ratios.map(lambda ratio: "none" if np.isnan(ratio) else f"{ratio:.2f}")
    lines = [
        (str(title), f"{wins[title]} of {there[title]}", f"{averages[title]:.2f}", *shown.loc[title])
        for title in order
    ]
    return Section(heading, text, table=PageTable(columns, lines, heading))
