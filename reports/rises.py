"""Errors that rise with ε or with the number of rows, which a page names."""

from __future__ import annotations

import math
from itertools import pairwise

import pandas as pd

from data.results.table import LIMIT
from reports.cells import Row, comma
from reports.page import StudyPage
from reports.writing import num, setting

_RISE, _ERRORS = 1.1, 3  # a rise is by more than a tenth and three standard errors
_SAME = ["panel", "rank", "label", "delta_rule", "s", "steps"]


def rises_of(errors: pd.DataFrame, page: StudyPage) -> list[str]:
    """Return each rise of a private error from one ε to the next, or from one size to the next, in words.

    Repetitions at two ε count as independent, although they share their rows.
    """
    rows = errors[(errors["role"] == "private") & errors["answered"] & (errors["epsilon"] < LIMIT)]
    found = []
    symbols = {"epsilon": "ε", "n": page.axis.rows_symbol}
    for column, fixed in (("epsilon", "n"), ("n", "epsilon")):
        for _, line in rows.groupby([*_SAME, fixed], dropna=False, sort=False):
            ordered: list[Row] = list(line.sort_values(column).drop_duplicates(column).itertuples())
            for less, more in pairwise(ordered):
                margin = _ERRORS * math.hypot(less.error, more.error)
                if more.mean > _RISE * less.mean and more.mean - less.mean > margin:
                    panel = f"panel “{less.panel}”" if less.panel else ""
                    at = f"{symbols[fixed]} = {setting(getattr(less, fixed))}"
                    step = " to ".join(setting(getattr(row, column)) for row in (less, more))
                    change = f"{num(less.mean)} to {num(more.mean)} from {symbols[column]} = {step}"
                    found.append(f"{comma(less.label, panel, at)}: {change}")
    return found
