"""Parts of pages that only a study that measures errors has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from reports.charts.study import Pictures, draw_study
from reports.exhibits import draw_exhibits
from reports.headline import PageHeadline, build_headline, guides_of
from reports.ranking import (
    HALF,
    enough_epsilon,
    fitted_slope,
    new_sample_error,
    privacy_part,
    rows_for_the_same,
)
from reports.render import PageTable, Section
from reports.series import Series, Setting, View
from reports.table import error_table, setting_title
from reports.writing import error_bar, render_sentence, slope_text


@dataclass(frozen=True)
class LayoutContent:
    """The parts of a page that a layout makes: headline, figures, the chart's caption, first sections."""

    headline: PageHeadline
    pictures: Pictures
    caption: str
    sections: Sequence[Section]
    answers: Sequence[str] = ()


def numbers_section(headline: PageHeadline, *more: str) -> Section:
    """Return the other key numbers, folded."""
    facts = (headline.verdict, headline.data, headline.noise, *headline.limits, *more)
    bullets = [fact for fact in facts if fact]
    return Section("More numbers", headline.details, bullets=bullets, folded=True, id="numbers")


def content(view: View, summary: pd.DataFrame) -> LayoutContent:
    headline, pictures, head = build_headline(view), draw_study(view, summary), view.headline
    exhibits = draw_exhibits(view, summary) if head else ()
    shown = (*exhibits, *slope_table(view)) if head else ()
    enough, rows = enough_sentence(view), rows_sentence(view)
    more = [
        Section("At which ε does privacy stop mattering?", enough, id="enough"),
        Section("How many more rows make up for privacy?", rows, id="rows"),
    ]
    others = [
        Section(setting_title(view, each), table=error_table(view, each), folded=True)
        for each in view.settings
        if each != head
    ]
    told = [headline.choice if head else render_sentence("no_headline")]
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
    caption = ""
    if head is not None and view.headline_size is not None:
        as_new = new_sample_error(view, head, view.headline_size) is not None
        title, left_out = setting_title(view, head), pictures.left_out
        caption = render_sentence("caption", title=title, left_out=left_out, of_new_sample=as_new)
    sections = [numbers_section(headline), which, *(each for each in more if each.text)]
    answers = [section.answer for section in exhibits if section.answer]
    return LayoutContent(headline, pictures, caption, sections, answers)


def enough_sentence(view: View) -> str:
    found = enough_epsilon(view)
    if not found:
        return ""
    sample = found["sample"]
    return render_sentence("enough_epsilon", **found, sample_error=error_bar(sample.error, sample.value))


def rows_sentence(view: View) -> str:
    found = rows_for_the_same(view)
    return render_sentence("rows_for_the_same", **found) if found else ""


def slope_table(view: View) -> tuple[Section, ...]:
    """Return how fast errors fall at the headline's setting; nothing where there are too few sizes."""
    where, page = view.headline, view.page
    if where is None or page.axis.column != "n":
        return ()
    rows, every = [], view.series(where)
    for series in every:
        largest = (
            HALF * page.population[0] if series.role == "nonprivate" and page.population[0] else math.inf
        )
        points = [p for p in series.points if p.answered and p.x <= largest]
        measured = fitted_slope([(p.x, p.mean, p.se) for p in points])
        if series.role != "zero" and measured is not None:
            rows.append((series.label, slope_text(measured), _privacy_slope(view, where, series)))
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


def _privacy_slope(view: View, where: Setting, series: Series) -> str:
    """Write the slope of what privacy adds; empty for answers without it."""
    if series.role != "private":
        return ""
    parts = [(p.x, privacy_part(view, where, p)) for p in series.points if p.answered]
    fit = fitted_slope([(x, part.value, part.error) for x, part in parts])
    return "" if fit is None else slope_text(fit)
