"""Performance profiles over many tables and ε: how often an estimator is within a factor of the best.

In every setting (a table, its rows, ε) an estimator's error is divided by that of the best private one. Its
profile is the share of settings in which this ratio is at most τ, against τ (Dolan & Moré 2002, Benchmarking
optimization software with performance profiles): at τ = 1 how often it is the best, further right how bad it
can be. An excess risk below a thousandth of the zero vector's counts as that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from reports.charts.drawing import Picture
from reports.charts.lines import Axes, Line, line_picture, profile_steps
from reports.page import ZERO
from reports.palette import look
from reports.series import View
from reports.table import Section
from reports.writing import render_sentence, with_form

_SETTING = ["panel", "n", "epsilon"]
_LARGEST = 30.0
_NEGLIGIBLE = 1e-3


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, str]) -> tuple[Section, ...]:
    """Return a profile for each metric that ``content`` names, with its words."""
    found = {words: summary[summary["metric"] == metric] for metric, words in content.items()}
    return tuple(_section(view, rows, words) for words, rows in found.items() if len(rows))


def _section(view: View, summary: pd.DataFrame, words: str) -> Section:
    ratios = _ratios(view, summary)
    averages = np.exp(np.log(ratios).mean()).sort_values()
    listed = ", ".join(f"{line} {mean:.2f}" for line, mean in averages.items() if math.isfinite(mean))
    best = (ratios.min(axis=1).to_numpy()[:, None] == ratios.to_numpy()).mean(axis=0)
    leader, wins = ratios.columns[int(best.argmax())], round(best.max() * len(ratios))
    text = render_sentence(
        "profile", measure=words, n_settings=len(ratios), best=leader, wins=wins, averages=listed
    )
    shown = _figure(view, ratios[list(averages.index)], words, text)
    return Section(f"Performance profile: {words}", text, shown)


def _ratios(view: View, summary: pd.DataFrame) -> pd.DataFrame:
    """Return a row per setting and a column per private estimator: its mean error over the least one."""
    private = summary[summary["calibration"] == "tight"]
    titles = [
        with_form(view.page.estimator(name).title, form)
        for name, form in zip(private["estimator"], private["form"], strict=True)
    ]
    errors = private.assign(title=titles).pivot_table(index=_SETTING, columns="title", values="mean")
    zero = summary[summary["estimator"] == ZERO].groupby(["panel", "n"])["mean"].first()
    least = [_NEGLIGIBLE * zero.get(setting[:2], 0.0) for setting in errors.index]
    errors = errors.clip(lower=pd.Series(least, index=errors.index), axis=0).dropna(how="all")
    return errors.div(errors.min(axis=1), axis=0).fillna(np.inf)


def _figure(view: View, ratios: pd.DataFrame, words: str, text: str) -> Picture:
    orders = {info.title: info.order for info in view.page.estimators}
    lines = []
    for title in ratios.columns:
        owner = title if title in orders else title.partition(" (")[0]
        forms = sorted(each for each in ratios.columns if each.partition(" (")[0] == owner or each == owner)
        steps = profile_steps(ratios[title].to_numpy(), _LARGEST)
        lines.append(Line(title, steps, look("private", orders[owner], forms.index(title))))
    ticks = [1.0, 2.0, 3.0, 5.0, 10.0, 20.0, _LARGEST]
    axes = Axes(f"τ: {words} over the best's", "share of settings within τ", ticks, y_log=False, steps=True)
    name = f"performance-profile-{words.replace(' ', '-')}"
    return line_picture(lines, axes, name, text, view.page.data_source)
