"""Exhibits: what pages show in addition to results, a module each, with ``draw``; pages name theirs."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

import pandas as pd

from reports.exhibits.tables import declared_tables
from reports.page import StudyPage
from reports.ranking import PageHeadline
from reports.render import Section


def draw_exhibits(page: StudyPage, cells: pd.DataFrame, head: PageHeadline) -> tuple[Section, ...]:
    """Return the drawn exhibits of a page, in its order; ``draw`` may return none where nothing was run."""
    sections: list[Section] = []
    for name, content in page.exhibits.items():
        if find_spec(module := f"{__name__}.{name}"):  # others have rows for a declared table
            sections += importlib.import_module(module).draw(page, cells, head, content)
    return (*sections, *declared_tables(page, cells))
