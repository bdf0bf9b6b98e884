"""What only the page of a study that measures attacks shows."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from reports.analysis.attacks import CHANCE, AttackView
from reports.analysis.series import View
from reports.charts.attack_charts import draw_attacks
from reports.charts.explorer import explorer_data
from reports.charts.study_charts import certified_picture
from reports.page import Guide
from reports.pages.error_page import LayoutContent, headline_facts
from reports.words.attacks import attack_headline, attack_tables, sum_table
from reports.words.tables import PlainTable


def content(view: View, summary: pd.DataFrame) -> LayoutContent:
    attacks = AttackView.build(summary, view.page)
    headline = attack_headline(attacks)
    ceilings = attacks.facts.ceilings
    coin = [Guide("a coin", ceilings[0].n, (CHANCE,) * len(ceilings[0].n))] if ceilings else []
    explored = replace(view.page, guides=(*ceilings, *coin), findings=(), x_column="epsilon")
    return LayoutContent(
        headline,
        draw_attacks(attacks, certified_picture(view)),
        explorer_data(summary, replace(view, page=explored)),
        {
            "contents": (("cost", "Who can be found?"), ("which", "Every attack")),
            "facts": headline_facts(headline, view.page, headline.choice),
            "attacks": attack_tables(attacks),
            "sums": sum_table(attacks),
            "comparisons": PlainTable(),
        },
    )
