"""The numbers of rows of a user from which on each rule of selection is the better one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from reports.series import View
from reports.table import PageTable, Section
from reports.writing import num, setting

_EXPONENTIAL = "exponential mechanism"
_FIXED = ["d", "epsilon"]


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, Any]) -> tuple[Section, ...]:
    """Return both rules' mean errors by m, and a sentence for each number of candidates and ε."""
    rows = summary[
        (summary["metric"] == content["metric"])
        & (summary["calibration"] == "tight")
        & summary["mean"].notna()
    ]
    rows = rows.assign(exponential=rows["form"] == _EXPONENTIAL)
    told, table = [], []
    for (k, epsilon), group in rows.groupby(_FIXED):
        both = group.pivot(index="n", columns="exponential", values=["mean", "se"]).dropna().sort_index()
        if both.empty:
            continue
        told.append(f"{int(k)} candidates, ε = {setting(epsilon)}: {_better_from(both)}.")
        table += [
            (
                str(int(k)),
                setting(epsilon),
                f"{m:,.0f}",
                *(f"{num(row['mean', e])} ± {num(row['se', e])}" for e in (False, True)),
            )
            for m, row in both.iterrows()
        ]
    if not told:
        return ()
    text = " ".join(told) + " The first rule's noise falls with 1/√m, the second's does not depend on m."
    columns = ("candidates", "ε", "rows of a user, m", "random stopping", _EXPONENTIAL)
    heading = "Which rule chooses better?"
    return (Section(heading, text, table=PageTable(columns, table, heading, 0)),)


def _better_from(both: pd.DataFrame) -> str:
    """Return at which m each rule loses less, by more than twice the standard error of the difference."""
    gap = both["mean"][True] - both["mean"][False]
    margin = 2 * np.hypot(both["se"][True], both["se"][False])
    stopping, other = gap.index[gap > margin], gap.index[gap < -margin]
    said = []
    if len(other):
        said.append(f"the exponential mechanism loses less up to m = {other.max():,.0f}")
    if len(stopping):
        said.append(f"random stopping loses less from m = {stopping.min():,.0f} on")
    if not said:
        return f"these repetitions tell the rules apart at no m up to {gap.index.max():,.0f}"
    return ", ".join(said)
