"""The page of a study that measures attacks."""

from __future__ import annotations

import pandas as pd

from reports.analysis.series import View
from reports.attack_figures import draw_attacks
from reports.layouts import Filling
from reports.page import StudyPage
from reports.plots import certified_picture
from reports.words.attack_series import AttackView, attack_headline
from reports.words.attack_tables import attack_tables, sum_rows
from reports.words.headline import PageHeadline


def headline(summary: pd.DataFrame, page: StudyPage) -> PageHeadline:
    return attack_headline(AttackView.build(summary, page))


def fill(view: View, summary: pd.DataFrame) -> Filling:
    attacks = AttackView.build(summary, view.page)
    return Filling(
        draw_attacks(attacks, certified_picture(view)),
        {"attacks": attack_tables(attacks), "sums": sum_rows(attacks)},
    )
