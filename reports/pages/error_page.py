"""What only the page of a study that measures errors shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from reports.charts.study import Pictures, draw_study
from reports.cost import enough_epsilon, fitted_slope, rows_for_the_same
from reports.exhibits import draw_exhibits
from reports.headline import PageHeadline, build_headline, guides_of
from reports.series import Series, View
from reports.table import PageTable, Section, error_table, setting_title
from reports.writing import render_sentence, slope_text


@dataclass(frozen=True)
class LayoutContent:
    """What a layout makes for a study's page: headline, figures, the chart's caption, first sections."""

    headline: PageHeadline
    pictures: Pictures
    caption: str
    sections: Sequence[Section]
    answers: Sequence[str] = ()


def numbers_section(headline: PageHeadline, *more: str) -> Section:
    """Return the other key numbers, folded."""
    facts = (headline.verdict, headline.data, headline.noise, *headline.limits, *more)
    bullets = [fact for fact in facts if fact]
    tiles = [(tile.caption, tile.value) for tile in headline.tiles]
    table = PageTable(("What", "Number"), tiles, "Key numbers") if tiles else None
    return Section("More numbers", headline.details, table=table, bullets=bullets, folded=True, id="numbers")


def content(view: View, summary: pd.DataFrame) -> LayoutContent:
    headline, pictures, head = build_headline(view), draw_study(view, summary), view.headline
    exhibits = draw_exhibits(view, summary) if head else ()
    shown = (*exhibits, *slope_table(view)) if head else ()
    more = [
        Section("At which ε does privacy stop mattering?", enough_epsilon(view), id="enough"),
        Section("How many more rows would buy the same?", rows_for_the_same(view), id="rows"),
    ]
    others = [
        Section(setting_title(view, each), table=error_table(view, each), folded=True)
        for each in view.settings
        if each != head
    ]
    told = [headline.choice, _KEY] if head else ["There is no table: no private estimator has run."]
    links = [
        ("every cell: summary.csv", "summary.csv"),
        ("every repetition: results.parquet", "results.parquet"),
    ]
    which = Section(
        "Which estimator should I use?",
        told,
        table=error_table(view, head) if head else None,
        links=links,
        parts=[*others, *shown],
        id="which",
    )
    caption = f"{setting_title(view, head)}. {_CAPTION}" if head else ""
    if pictures.left_out:
        caption += f" {pictures.left_out:,} cells are too many for this chart; summary.csv has them."
    sections = [numbers_section(headline), which, *(each for each in more if each.text)]
    answers = [section.answer for section in exhibits if section.answer]
    return LayoutContent(headline, pictures, caption, sections, answers)


_CAPTION = (
    "Lines are means over repetitions, bands hold 10 % to 90 % of them; dashed: the noise as printed in a "
    "paper. A cross marks failures. A click on a name in the legend shows or hides its line."
)
_KEY = (
    "Bold: the best private estimate of its column, and those within two standard errors of it, where they "
    "are clearly better than answering zero, among those that keep the strongest promise. Gray or in "
    "italics: worse than answering zero. Smaller is better. Where δ times the rows is at least 1 (marked), "
    "the guarantee would allow a mechanism that publishes a random record outright. Certified ε: what the "
    "noise really released proves, over all columns; of the estimators alone, where private rows decided how "
    "the data were prepared."
)


def slope_table(view: View) -> tuple[Section, ...]:
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
    columns = ("Estimator", "error", "privacy term")
    heading = "How fast does the error fall?"
    return (Section(heading, text, table=PageTable(columns, rows, heading)),)


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
