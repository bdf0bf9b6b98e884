"""Exhibits: what reports show in addition to results; a module each, with ``draw(view, summary, content)``.

A page names its exhibits (`StudyPage.exhibits`); a new one is a file here.
"""

from __future__ import annotations

import importlib

import pandas as pd

from reports.series import View
from reports.table import Section


def draw_exhibits(view: View, summary: pd.DataFrame) -> tuple[Section, ...]:
    """Return the drawn exhibits of a page, in its order; ``draw`` may return none where nothing was run."""
    shown: list[Section] = []
    for name, content in view.page.exhibits.items():
        shown += importlib.import_module(f"{__name__}.{name}").draw(view, summary, content)
    return tuple(shown)
