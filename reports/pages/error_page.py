"""Parts of pages that only a study that measures errors has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from reports.cells import errors_of, rows_at, settings_of
from reports.charts.study import Pictures, draw_study
from reports.exhibits import draw_exhibits
from reports.page import StudyPage
from reports.ranking import (
    SHARES,
    Headline,
    best_by_size,
    dense_wins,
    enough_epsilon,
    fitted_slope,
    guide_at,
    guides_of,
    index_errors,
    new_sample_error,
    paper_noise,
    rows_for_the_same,
    slopes,
)
from reports.render import PageTable, Section
from reports.table import error_table, setting_title
from reports.writing import render_sentence, slope_text, times


@dataclass(frozen=True)
class Layout:
    """The parts of a page that its kind of study makes.

    These are the sentence on top, the number to quote with its caption, the figures, the chart's caption, the
    first sections, the errors that the index compares, and answers to the page's own question.
    """

    sentence: str
    sections: Sequence[Section]
    pictures: Pictures = field(default_factory=Pictures)
    number: tuple[str, str] | None = None
    caption: str = ""
    errors: Mapping[str, tuple[float, float]] | None = None
    answers: Sequence[str] = ()


def numbers_section(details: str, facts: Sequence[str]) -> Section:
    """Return the other key numbers, folded."""
    return Section("More numbers", details, bullets=list(filter(None, facts)), folded=True, id="numbers")


def headline_sentence(page: StudyPage, head: Headline) -> str:
    """Say what privacy costs in at most 30 words, without a norm, an estimator, or a symbol except ε."""
    return render_sentence("plain_headline", page=page, head=head, is_share=page.metric in SHARES)


def number_to_quote(page: StudyPage, head: Headline) -> tuple[str, str] | None:
    """Return the factor where the sentence has it, else the best private error, and its caption."""
    cost, is_share = head.cost, page.metric in SHARES
    best = cost.ranking.best
    if best is None:
        return None
    if cost.is_larger and not is_share:
        return times(cost.factor.value), render_sentence("quoted_factor", page=page, head=head)
    return render_sentence("mean", row=best), render_sentence("quoted_error", page=page, head=head)


def content(page: StudyPage, cells: pd.DataFrame, head: Headline | None) -> Layout:
    if head is None:
        nothing = render_sentence("no_headline")
        return Layout(nothing, [Section("Which estimator should I use?", nothing, id="which")])
    errors, where = errors_of(cells, page), head.where
    pictures, exhibits = draw_study(page, cells, head), draw_exhibits(page, cells, head)
    enough, rows = enough_epsilon(head, page, cells), rows_for_the_same(head, page)
    others = [
        Section(setting_title(page, each), table=error_table(page, rows_at(errors, each), each), folded=True)
        for each in settings_of(errors, page)[1:]
    ]
    which = Section(
        "Which estimator should I use?",
        render_sentence(
            "best_by_size", page=page, head=head, **best_by_size(head), dense=dense_wins(head, page)
        ),
        table=error_table(page, head.rows, where),
        links=[
            ("every cell: summary.csv", "summary.csv"),
            ("every repetition: results.parquet", "results.parquet"),
        ],
        parts=[*others, *exhibits, *_slope_table(page, head)],
        id="which",
    )
    more = [
        Section(
            "At which ε does privacy stop mattering?",
            render_sentence("enough_epsilon", page=page, head=head, **enough) if enough else "",
            id="enough",
        ),
        Section(
            "How many more rows make up for privacy?",
            render_sentence("rows_for_the_same", page=page, head=head, **rows) if rows else "",
            id="rows",
        ),
    ]
    caption = render_sentence("caption", page=page, head=head, left_out=pictures.left_out)
    return Layout(
        headline_sentence(page, head),
        [
            numbers_section(_details(page, head), _numbers(page, head)),
            which,
            *(each for each in more if each.text),
        ],
        pictures,
        number_to_quote(page, head),
        caption,
        index_errors(head, page),
        [section.answer for section in exhibits if section.answer],
    )


def _details(page: StudyPage, head: Headline) -> str:
    sample = new_sample_error(head.rows, head.x, page)
    return render_sentence("details", page=page, head=head, sample=sample)


def _numbers(page: StudyPage, head: Headline) -> list[str]:
    """Return what is known of the data, of the paper's noise, and of what theory and the data allow."""
    theory = [(guide.label, guide_at(guide, head.x)) for guide in guides_of(page, head.where)]
    return [
        render_sentence("about_data", page=page),
        render_sentence("noise", epsilon=head.where.epsilon, **paper_noise(head)),
        *(
            render_sentence("theory_line", page=page, head=head, label=label, value=value)
            for label, value in theory
            if math.isfinite(value)
        ),
        *(render_sentence("finding", finding=each) for each in page.findings),
    ]


def _slope_table(page: StudyPage, head: Headline) -> list[Section]:
    """Return how fast errors fall at the headline's setting; nothing where there are too few sizes."""
    rows = [
        (label, slope_text(fit), slope_text(part) if part else "") for label, fit, part in slopes(head, page)
    ]
    if not rows:
        return []
    fits = [
        (guide.label, fitted_slope([(x, y, 0.0) for x, y in zip(guide.n, guide.value, strict=True)]))
        for guide in guides_of(page, head.where)
    ]
    text = render_sentence("slopes", page=page, head=head, fits=[each for each in fits if each[1]])
    heading = "How fast does the error fall?"
    return [Section(heading, text, table=PageTable(("Estimator", "error", "privacy term"), rows, heading))]
