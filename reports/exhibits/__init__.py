"""Exhibits: sections that are drawn from results, a module each, with ``draw``."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

import pandas as pd

from reports.page import Section, StudyPage
from reports.ranking import PageHeadline


def is_drawn(section: Section) -> bool:
    return find_spec(f"{__name__}.{section.kind}") is not None


def draw_exhibits(page: StudyPage, cells: pd.DataFrame, head: PageHeadline) -> list[Section]:
    """Return the drawn exhibits of a page, in its order; ``draw`` may return none where nothing was run."""
    sections: list[Section] = []
    for each in filter(is_drawn, page.sections):
        draw = importlib.import_module(f"{__name__}.{each.kind}").draw
        sections += filter(None, draw(page, cells, head, each.context))
    return sections
