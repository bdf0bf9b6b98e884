"""Errors that rise with ε or with the number of rows, which a page names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import numpy as np
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
    sentences = []
    symbols = {"epsilon": "ε", "n": page.axis.rows_symbol}
    for column, fixed in (("epsilon", "n"), ("n", "epsilon")):
        line = rows.groupby([*_SAME, fixed], dropna=False, sort=False).ngroup()
        ordered = rows.assign(line=line).sort_values(["line", column]).drop_duplicates(["line", column])
        before = ordered.groupby("line")[["mean", "error", column]].shift()
        margin = np.maximum(
            (_RISE - 1) * before["mean"], _ERRORS * np.hypot(ordered["error"], before["error"])
        )
        is_rise = ordered["mean"] - before["mean"] > margin
        pairs = zip(before[is_rise].itertuples(), ordered[is_rise].itertuples(), strict=True)
        for less, more in cast("Iterable[tuple[Row, Row]]", pairs):
            panel = f"panel “{more.panel}”" if more.panel else ""
            at = f"{symbols[fixed]} = {setting(getattr(more, fixed))}"
            step = " to ".join(setting(getattr(row, column)) for row in (less, more))
            change = f"{num(less.mean)} to {num(more.mean)} from {symbols[column]} = {step}"
            sentences.append(f"{comma(more.label, panel, at)}: {change}")
    return sentences
