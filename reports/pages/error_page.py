"""What only the page of a study that measures errors shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from reports.analysis.cost import rows_for_the_same
from reports.analysis.ranking import enough_epsilon, fitted_slope
from reports.analysis.series import Series, View
from reports.charts.explorer import explorer_data
from reports.charts.picture import ReportSection
from reports.charts.study_charts import Pictures, draw_study
from reports.exhibits import draw_exhibits
from reports.page import StudyPage
from reports.words.headline import PageHeadline, build_headline, guides_of
from reports.writing import render_sentence, slope_text


@dataclass(frozen=True)
class LayoutContent:
    """What a layout makes for a study's page: headline, figures, data of the explorer, template variables."""

    headline: PageHeadline
    pictures: Pictures
    explorer: dict[str, Any] | None
    context: dict[str, Any] = field(default_factory=dict)


def headline_facts(headline: PageHeadline, page: StudyPage, *more: str) -> list[str]:
    """Return the bullets below the main figure; where data are a stand-in a banner says so already."""
    data = "" if page.dataset.data_source == "stand-in" or page.warning else headline.data
    return [fact for fact in (headline.verdict, data, headline.noise, *headline.limits, *more) if fact]


def content(view: View, summary: pd.DataFrame) -> LayoutContent:
    headline, pictures = build_headline(view), draw_study(view)
    sections = (*draw_exhibits(view, summary), *slope_table(view)) if view.headline else ()
    more = [
        ("enough", "At which ε does privacy stop mattering?", enough_epsilon(view)),
        ("rows", "How many more rows would buy the same?", rows_for_the_same(view)),
    ]
    more = [each for each in more if each[2]]
    return LayoutContent(
        headline,
        pictures,
        explorer_data(summary, view),
        {
            "contents": (
                ("cost", "What does privacy cost here?"),
                *((each, question) for each, question, _ in more),
                ("which", "Which estimator?"),
            ),
            "facts": headline_facts(headline, view.page),
            "more_questions": more,
            "sections": sections,
        },
    )


def slope_table(view: View) -> tuple[ReportSection, ...]:
    """Return how fast errors fall at the headline's setting; nothing where there are too few sizes."""
    where, page = view.headline, view.page
    if where is None or page.axis.column != "n":
        return ()
    rows, every = [], view.series(where)
    for series in every:
        measured = fitted_slope([(p.x, p.mean, p.se) for p in series.points if p.answered])
        if series.role != "zero" and measured is not None:
            rows.append((series.label, slope_text(measured), _privacy_slope(series, every)))
    if not rows:
        return ()
    predicted = [
        f"{guide.label}: {fit[0]:.2f}".replace("-", "−")
        for guide in guides_of(page, where)
        if (fit := fitted_slope([(x, y, 0.0) for x, y in zip(guide.n, guide.value, strict=True)])) is not None
    ]
    text = render_sentence("slopes", symbol=page.axis.symbol, epsilon=where.epsilon, predicted=predicted)
    columns = ("", "error", "privacy term")
    return (ReportSection("How fast does the error fall?", text, None, columns, tuple(rows), 1),)


def _privacy_slope(series: Series, every: Sequence[Series]) -> str:
    """Write the slope of what privacy adds; empty for answers without it."""
    if series.role != "private":
        return ""
    points = []
    for p in series.points:
        others = [q for s in every if s.role == "nonprivate" and (q := s.at(p.x)) is not None and q.answered]
        best = min(others, key=lambda q: q.mean, default=None)
        if p.answered and best is not None and p.mean > best.mean:
            part = math.sqrt(p.mean**2 - best.mean**2)
            points.append((p.x, part, math.hypot(p.mean * p.se, best.mean * best.se) / part))
    fit = fitted_slope(points)
    return "" if fit is None else slope_text(fit)
