"""Coverage of intervals, and of intervals that ignore the noise, over all cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from reports.page import Section, StudyPage
from reports.ranking import PageHeadline
from reports.writing import render_sentence

_TOO_LOW = 0.94  # a cell covers too rarely if its coverage is below by more than three standard errors


def draw(
    page: StudyPage, cells: pd.DataFrame, head: PageHeadline, content: Mapping[str, Any]
) -> tuple[Section, ...]:
    """Return a sentence; ``content`` names the metrics. The study's file declares the table of estimators."""
    measured = cells[cells["epsilon"].notna()].pivot(index="cell", columns="metric", values=["mean", "se"])
    if content["coverage"] not in measured["mean"] or measured["mean"][content["coverage"]].isna().all():
        return ()
    flagged, covered, naive = (measured["mean"][content[key]] for key in ("flagged", "coverage", "naive"))
    low = covered < _TOO_LOW - 3 * measured["se"][content["coverage"]].fillna(np.inf)
    shares = {"covered": covered, "naive": naive[covered.notna()], "flagged": flagged}
    about = {name: f"{100 * values.mean():.1f}%" for name, values in shares.items()}
    answer = render_sentence("coverage", n_cells=covered.count(), low=low.sum(), **about)
    return (Section("coverage", {"answer": answer}),)
