"""How a study's page is laid out: a module per layout; its templates have its name."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import pandas as pd

from reports.analysis.series import View
from reports.page import StudyPage
from reports.plots import Pictures
from reports.words.headline import PageHeadline


@dataclass(frozen=True)
class Filling:
    """The figures of a page, and the values that only its templates need."""

    pictures: Pictures
    context: dict[str, Any] = field(default_factory=dict)


class Layout(Protocol):
    """Protocol of the modules of this package."""

    def headline(self, summary: pd.DataFrame, page: StudyPage) -> PageHeadline:
        """Compute the top of the page."""

    def fill(self, view: View, summary: pd.DataFrame) -> Filling:
        """Draw the figures and compute the other values of the page."""


def layout_of(page: StudyPage) -> Layout:
    """Return the layout that a page names."""
    return cast(Layout, importlib.import_module(f"{__name__}.{page.layout}"))
