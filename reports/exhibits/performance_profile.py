"""Performance profiles over many tables and ε: how often an estimator is within a factor of the best.

Reference: Dolan & Moré 2002, Benchmarking optimization software with performance profiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from reports.charts.lines import profile_picture
from reports.page import ZERO, Section, StudyPage
from reports.ranking import PageHeadline
from reports.writing import render_sentence

_SETTING = ["panel", "n", "epsilon"]
_LARGEST = 30.0
_NEGLIGIBLE = 1e-3  # of the zero vector's excess risk; errors below it count as that


def draw(
    page: StudyPage, cells: pd.DataFrame, head: PageHeadline, content: Mapping[str, str]
) -> tuple[Section, ...]:
    """Return a profile for each metric that ``content`` names, with its words."""
    errors = {words: cells[cells["metric"] == metric] for metric, words in content.items()}
    return tuple(_section(page, rows, words) for words, rows in errors.items() if len(rows))


def _section(page: StudyPage, cells: pd.DataFrame, words: str) -> Section:
    ratios = _ratios(cells)
    averages = np.exp(np.log(ratios).mean()).sort_values()
    tight = cells[cells["calibration"] == "tight"]
    looks = dict(zip(tight["name"], tight["look"], strict=True))
    lines = {name: (ratios[name].to_numpy(), looks[name]) for name in averages.index}
    listed = [(label, mean) for label, mean in zip(lines, averages, strict=True) if math.isfinite(mean)]
    wins = (ratios == 1).sum()
    best = list(lines)[list(averages.index).index(wins.idxmax())]
    facts = {"measure": words, "n_settings": len(ratios), "best": best, "wins": int(wins.max())}
    text = render_sentence("profile", **facts, averages=listed)
    name = f"performance-profile-{words.replace(' ', '-')}"
    picture = profile_picture(lines, _LARGEST, words, name, text, page.data_source)
    return Section("profile", {"measure": words, "text": text, "picture": picture})


def _ratios(cells: pd.DataFrame) -> pd.DataFrame:
    """Return a row per setting and a column per private estimator and form: its error over the smallest."""
    private = cells[cells["calibration"] == "tight"]
    errors = private.pivot_table(index=_SETTING, columns="name", values="mean")
    zero = cells[cells["estimator"] == ZERO].groupby(["panel", "n"])["mean"].first()
    least = [_NEGLIGIBLE * zero.get(setting[:2], 0.0) for setting in errors.index]
    errors = errors.clip(lower=pd.Series(least, index=errors.index), axis=0).dropna(how="all")
    return errors.div(errors.min(axis=1), axis=0).fillna(np.inf)
