"""Parts of pages that only a study that measures errors has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from data.results.table import LIMIT
from reports.cells import Setting, comma, errors_of, rows_at, settings_of, size_at
from reports.charts.study import Pictures, draw_panels, draw_study, metric_words
from reports.error_table import method_table
from reports.exhibits import draw_exhibits
from reports.new_sample import PageCells
from reports.page import Section, StudyPage
from reports.printed_figures import Repeated, repeat_figures
from reports.ranking import SHARES, PageHeadline, Parts, index_errors, parts_of
from reports.render import Bar, PageTable
from reports.writing import error_bar, num, render_sentence

_NO_PRIVATE = "it has no private error above 0"


@dataclass(frozen=True)
class Layout:
    """The parts of a page that its kind of study makes.

    ``sentence`` is the finding, ``subtitle`` says what was measured, ``bars`` are the steps of the error.
    ``caption`` is the chart's, ``notes`` are the first table's. The index compares ``errors``, of which it
    needs those of privacy and of zero. ``repeated`` are the figures that papers print.
    """

    sentence: str
    pictures: Pictures = field(default_factory=Pictures)
    subtitle: str = ""
    bars: Sequence[Bar] = ()
    caption: str = ""
    tables: Sequence[PageTable] = ()
    notes: Sequence[str] = ()
    sections: Sequence[Section] = ()
    errors: Mapping[str, tuple[float, float]] | None = None
    factor: tuple[float, float, float] | None = None  # of privacy's noise, with its limits
    not_compared: str = "it does not measure errors"  # why the index has no errors
    repeated: Sequence[Repeated] = ()


def _why_not(compared: Mapping[str, tuple[float, float]], has_errors: bool) -> str:
    """Return why the index leaves the study out, if it does."""
    if not has_errors:
        return "it has one repetition, and no standard error"
    return _NO_PRIVATE if "private" not in compared else "it has no zero baseline above 0"


def content(page: StudyPage, measured: PageCells, head: PageHeadline | None, raw: pd.DataFrame) -> Layout:
    """Return the parts of a page; ``raw`` are its cells with errors as they were measured."""
    if head is None:
        return Layout(render_sentence("no_headline"), not_compared=_NO_PRIVATE)
    cells = measured.cells
    errors, pictures = errors_of(cells, page), draw_study(page, cells, head)
    best, parts = head.ranking.best, parts_of(head, page, measured)
    has_errors = best is None or math.isfinite(best.se)  # one repetition has no standard error
    compared = index_errors(head, page) if has_errors else {}
    if parts:
        named = {"private": parts.private, "method": parts.method, "without": parts.sampling}
        steps = {name: (each.value, each.error) for name, each in named.items() if each is not None}
        compared = {name: each for name, each in compared.items() if name == "zero"} | steps
    is_share, left_out = page.metric in SHARES, pictures.left_out
    finding = render_sentence("finding", page=page, head=head, parts=parts, is_share=is_share)
    n = best.n_ok if best is not None else 0
    panels = draw_panels(
        page, errors, settings_of(errors, page), y_log=metric_words(page.metric, page)[1] == "log"
    )
    multiples = [Section("drawing", {"heading": "Every panel", "picture": panels})] if panels else []
    return Layout(
        finding if has_errors else render_sentence("one_repetition"),
        pictures,
        render_sentence("subtitle", page=page, head=head, parts=parts, repetitions=n),
        _bars(parts) if parts else (),
        render_sentence(
            "caption",
            page=page,
            head=head,
            parts=parts,
            left_out=left_out,
            of_new_sample=head.where.panel in measured.of_new_sample,
        ),
        _tables(page, errors, head),
        [render_sentence("table_note")],
        [*multiples, *draw_exhibits(page, raw[raw["epsilon"] != LIMIT], head)],
        compared if {"private", "zero"} <= set(compared) else None,
        (parts.factor.value, *parts.factor.limits) if parts and parts.factor.value > 0 else None,
        _why_not(compared, has_errors),
        repeat_figures(page, raw),
    )


def _bars(parts: Parts) -> list[Bar]:
    last = "with privacy" if parts.method else "with privacy: method and noise"
    names = {"sampling": "without privacy", "method": "method, hardly any noise", "privacy": last}
    bars = []
    for kind, after, added in parts.steps:
        note = f"± {error_bar(after.error, after.value)}" if after.error > 0 else ""
        note = comma(note, render_sentence("times_with_limits", parts=parts) if kind == "privacy" else "")
        bars.append(
            Bar(
                names[kind],
                [("before", min(after.value, after.value - added)), (kind, max(added, 0.0))],
                num(after.value),
                note,
            )
        )
    return bars


def _tables(page: StudyPage, errors: pd.DataFrame, head: PageHeadline) -> list[PageTable]:
    """Return a table for each panel and rule for δ, at the size nearest to the headline's: its own first."""
    nearest: dict[tuple[str, str], tuple[float, Setting]] = {}
    for where in settings_of(errors, page):
        near = abs(math.log(where.epsilon / head.where.epsilon))
        known = nearest.get((where.panel, where.delta_rule))
        if known is None or near < known[0]:
            nearest[where.panel, where.delta_rule] = near, where
    tables = []
    for _, where in nearest.values():
        x = size_at(rows_at(errors, where), page)
        if x is not None:
            tables.append(method_table(page, errors, where, x))
    return tables
