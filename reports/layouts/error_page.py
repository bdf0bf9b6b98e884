"""The page of a study that measures errors."""

from __future__ import annotations

import pandas as pd

from reports.analysis.series import View
from reports.layouts import Filling
from reports.page import StudyPage
from reports.plots import draw_all
from reports.words.headline import PageHeadline, build_headline


def headline(summary: pd.DataFrame, page: StudyPage) -> PageHeadline:
    return build_headline(View.build(summary, page))


def fill(view: View, summary: pd.DataFrame) -> Filling:
    return Filling(draw_all(view, summary))
