"""Performance profiles over many tables and ε: how often an estimator is within a factor of the best.

In every setting (a table, its rows, ε) an estimator's error is divided by that of the best private one. Its
profile is the share of settings in which this ratio is at most τ, against τ. An excess risk below a
thousandth of the zero vector's counts as that.

Reference: Dolan & Moré 2002, Benchmarking optimization software with performance profiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from reports.charts.lines import profile_picture
from reports.page import ZERO
from reports.palette import look
from reports.render import Section
from reports.series import View
from reports.writing import render_sentence, with_form

_SETTING = ["panel", "n", "epsilon"]
_LARGEST = 30.0
_NEGLIGIBLE = 1e-3


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, str]) -> tuple[Section, ...]:
    """Return a profile for each metric that ``content`` names, with its words."""
    found = {words: summary[summary["metric"] == metric] for metric, words in content.items()}
    return tuple(_section(view, rows, words) for words, rows in found.items() if len(rows))


def _section(view: View, summary: pd.DataFrame, words: str) -> Section:
    ratios, lines = _ratios(view, summary), {}
    averages = np.exp(np.log(ratios).mean()).sort_values()
    for name, form in averages.index:
        info = view.page.estimator(name)
        forms = sorted(other for owner, other in averages.index if owner == name)
        shade = look("private", info.order, forms.index(form))
        lines[with_form(info.title, form)] = (ratios[name, form].to_numpy(), shade)
    listed = [(label, mean) for label, mean in zip(lines, averages, strict=True) if math.isfinite(mean)]
    wins = (ratios == 1).sum()
    best = list(lines)[list(averages.index).index(wins.idxmax())]
    found = {"measure": words, "n_settings": len(ratios), "best": best, "wins": int(wins.max())}
    text = render_sentence("profile", **found, averages=listed)
    name = f"performance-profile-{words.replace(' ', '-')}"
    shown = profile_picture(lines, _LARGEST, words, name, text, view.page.data_source)
    return Section(f"Performance profile: {words}", text, shown)


def _ratios(view: View, summary: pd.DataFrame) -> pd.DataFrame:
    """Return a row per setting and a column per private estimator and form: its error over the smallest."""
    private = summary[summary["calibration"] == "tight"]
    errors = private.pivot_table(index=_SETTING, columns=["estimator", "form"], values="mean")
    zero = summary[summary["estimator"] == ZERO].groupby(["panel", "n"])["mean"].first()
    least = [_NEGLIGIBLE * zero.get(setting[:2], 0.0) for setting in errors.index]
    errors = errors.clip(lower=pd.Series(least, index=errors.index), axis=0).dropna(how="all")
    return errors.div(errors.min(axis=1), axis=0).fillna(np.inf)
