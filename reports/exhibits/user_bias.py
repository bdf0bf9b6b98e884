"""The bias of estimators over heterogeneous users, separated from their noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.series import View
from reports.table import PageTable, Section
from reports.writing import num, render_sentence, with_form


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, Any]) -> tuple[Section, ...]:
    """Return each private estimator's bias and mean error at the headline's setting."""
    where, rows = view.headline, []
    table = view.table
    for name, form, bias in content["rows"]:
        cells = table[
            (table["estimator"] == name)
            & (table["panel"] == view.page.headline["panel"])
            & (table["form"] == form)
            & (table["calibration"] == "tight")
            & (table["n"] == view.page.headline["n"])
            & (table["epsilon"] == (where.epsilon if where else None))
        ]
        error = num(float(cells["mean"].iloc[0])) if len(cells) and cells["n_ok"].iloc[0] else "refused"
        rows.append((with_form(view.page.estimator(name).title, form), num(bias), error))
    if not rows or where is None:
        return ()
    text = render_sentence("user_bias", epsilon=where.epsilon)
    heading = "Bias apart from noise"
    return (Section(heading, text, table=PageTable(("Estimator", "bias", "mean error"), rows, heading)),)
