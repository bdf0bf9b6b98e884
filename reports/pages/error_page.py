"""Parts of pages that only a study that measures errors has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from data.results.summary import fitted_slope
from reports.cells import errors_of, rows_at, settings_of
from reports.charts.study import Pictures, draw_study
from reports.error_table import error_table, setting_title
from reports.exhibits import draw_exhibits
from reports.fairness import limited_lines, noisy_lines
from reports.page import Section, StudyPage
from reports.printed_figures import Repeated, repeat_figures
from reports.ranking import (
    SHARES,
    PageHeadline,
    best_by_size,
    enough_epsilon,
    guide_at,
    guides_of,
    index_errors,
    rows_for_the_same,
    slopes,
)
from reports.writing import render_sentence, times


@dataclass(frozen=True)
class Layout:
    """The parts of a page that its kind of study makes.

    ``number`` is the one to quote, with its caption. ``caption`` is the chart's. ``answers`` reply to the
    page's own question. The index compares ``errors``, of which it needs those of privacy and of zero.
    ``repeated`` are the figures that papers print.
    """

    sentence: str
    pictures: Pictures = field(default_factory=Pictures)
    number: tuple[str, str] | None = None
    caption: str = ""
    sections: Sequence[Section] = ()
    answers: Sequence[str] = ()
    errors: Mapping[str, tuple[float, float]] | None = None
    not_compared: str = "it does not measure errors"  # why the index has no errors
    repeated: Sequence[Repeated] = ()


_NO_PRIVATE = "it has no private error above 0"


def _why_not(compared: Mapping[str, tuple[float, float]], has_errors: bool) -> str:
    """Return why the index leaves the study out, if it does."""
    if not has_errors:
        return "it has one repetition, and no standard error"
    return _NO_PRIVATE if "private" not in compared else "it has no zero baseline above 0"


def headline_sentence(page: StudyPage, head: PageHeadline) -> str:
    """Say what privacy costs at one setting, in at most 30 words and the setting's name in brackets."""
    return render_sentence("plain_headline", page=page, head=head, is_share=page.metric in SHARES)


def number_to_quote(page: StudyPage, head: PageHeadline) -> tuple[str, str] | None:
    """Return the factor or else the smallest private error; none if no private estimate is useful."""
    cost = head.cost
    if cost.ranking.best is None or not cost.is_useful:
        return None
    if math.isfinite(cost.factor.value) and page.metric not in SHARES:
        return times(cost.factor.value), render_sentence("quoted_factor", page=page, head=head)
    best = render_sentence("mean", row=cost.ranking.best)
    return best, render_sentence("quoted_error", page=page, head=head)


def content(page: StudyPage, cells: pd.DataFrame, head: PageHeadline | None) -> Layout:
    if head is None:
        return Layout(render_sentence("no_headline"), not_compared=_NO_PRIVATE)
    errors, guides = errors_of(cells, page), guides_of(page, head.where)
    theory = [(each.label, guide_at(each, head.x)) for each in guides]
    points = [(each.label, zip(each.n, each.value, [0.0] * len(each.n), strict=False)) for each in guides]
    pictures, exhibits = draw_study(page, cells, head), draw_exhibits(page, cells, head)
    tables = [
        (setting_title(page, each), error_table(page, rows_at(errors, each), each))
        for each in settings_of(errors, page)
    ]
    limited = limited_lines(cells, page, head.where)
    best = head.cost.ranking.best
    has_errors = best is None or math.isfinite(best.se)  # one repetition has no standard error
    compared = index_errors(head, page) if has_errors else {}
    rates = [(label, fit) for label, each in points if (fit := fitted_slope(list(each)))]
    fits, enough, same = slopes(head, page), enough_epsilon(head, page, cells), rows_for_the_same(head, page)
    sections = [
        Section("numbers", {"theory": [(label, value) for label, value in theory if math.isfinite(value)]}),
        Section(
            "errors",
            {"best": best_by_size(head), "tables": tables, "limited": limited, "noisy": noisy_lines(head)},
        ),
        *exhibits,
        *([Section("slopes", {"fits": fits, "rates": rates})] if fits else []),
        *([Section("enough", enough)] if enough else []),
        *([Section("same_rows", same)] if same else []),
    ]
    return Layout(
        headline_sentence(page, head) if has_errors else render_sentence("one_repetition"),
        pictures,
        number_to_quote(page, head) if has_errors else None,
        render_sentence("caption", page=page, head=head, left_out=pictures.left_out),
        sections,
        [each.context["answer"] for each in exhibits if "answer" in each.context],
        compared if {"private", "zero"} <= set(compared) else None,
        _why_not(compared, has_errors),
        repeat_figures(page, cells),
    )
