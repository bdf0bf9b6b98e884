"""Every figure of a study: which ones, with which words, as SVG and PNG."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import pandas as pd

from reports.analysis.ranking import rank
from reports.analysis.series import Series, Setting, View
from reports.charts import chart, svg
from reports.charts.certified import CertifiedFigure, certified_range, draw_certified
from reports.charts.chart import PANEL_REACH, LineFigure, Reference, Size
from reports.charts.figures import draw
from reports.charts.limit_table import limit_table
from reports.charts.picture import Picture, Shown, banner
from reports.charts.slope_table import slope_table
from reports.exhibits import draw_exhibits
from reports.numbers import num, rule_text, setting, span, words
from reports.page import Finding
from reports.words.headline import condition, guides_of
from reports.words.tables import flagged_sizes

MOST_PANELS = 48  # of a kind on one page
_PANEL_HEADINGS = {"preparation": "How it changes with the preparation of the data"}


@dataclass(frozen=True)
class PanelGroup:
    """Small multiples along one quantity: a heading, a computed sentence, and (caption, picture) pairs."""

    heading: str
    sentence: str
    panels: tuple[tuple[str, Picture], ...]


@dataclass(frozen=True)
class Pictures:
    """All figures of a study; None or empty where the table holds nothing to draw."""

    main: Picture | None
    narrow: Picture | None
    card: Picture | None
    certified: Picture | None
    groups: tuple[PanelGroup, ...]
    shown: tuple[Shown, ...] = ()

    def files(self) -> dict[str, bytes]:
        """Return the files to write, by relative path."""
        out: dict[str, bytes] = {}
        pictures = [self.main, self.card, self.certified]
        pictures += [picture for group in self.groups for _, picture in group.panels]
        pictures += [shown.picture for shown in self.shown]
        for picture in pictures:
            if picture is not None:
                out[f"figures/{picture.name}.svg"] = picture.svg
                if picture.png is not None:
                    out[f"figures/{picture.name}.png"] = picture.png
        return out


def draw_all(view: View, summary: pd.DataFrame) -> Pictures:
    """Draw every figure of a study, from the summary of all its metrics."""
    where = view.headline
    if where is None:
        return Pictures(None, None, None, None, ())
    series = view.series(where)
    limits = chart.error_limits([series], [f.value for f in view.page.findings if f.drawn])
    spec = _spec(view, where, series, limits)
    alt = main_alt(view, where, series)
    main = _picture("main", alt, spec, chart.WIDE, png=True)
    narrow = _picture("main-narrow", alt, spec, chart.NARROW, png=False)
    groups = _groups(view, where)
    card_spec = LineFigure(
        series,
        (),
        chart.error_limits([series], reach=PANEL_REACH),
        spec.sizes,
        spec.flagged,
        spec.x_label,
        spec.y_label,
        banner=banner(view.page.dataset.source_of(where.panel), brief=True),
        rows_symbol=view.page.rows_symbol,
    )
    card = _picture("card", alt, card_spec, chart.CARD, png=False)
    shown = (*limit_table(view.page), *draw_exhibits(view, summary), *slope_table(view))
    return Pictures(main, narrow, card, _certified(view, where, series), groups, shown)


def _picture(name: str, alt: str, spec: LineFigure, size: Size, png: bool) -> Picture:
    fig = draw(spec, size)
    title = f"{spec.banner}. {alt}" if spec.banner else alt
    return Picture(name, title, svg.to_svg(fig, name, title), svg.to_png(fig) if png else None)


def _spec(
    view: View, where: Setting, series: tuple[Series, ...], limits: tuple[float, float], panel: bool = False
) -> LineFigure:
    page = view.page
    sizes = tuple(sorted({p.x for s in series for p in s.points}))
    references: list[Reference] = []
    if not panel and sizes:
        guides = [guide for guide in guides_of(page, where.panel) if len(guide.n) > 1]
        references = [Reference(guide.label, tuple(guide.n), tuple(guide.value)) for guide in guides]
        ends = (sizes[0] / 1.12, sizes[-1] * 1.12)
        references += [
            Reference(_limit_label(f), ends, (f.value, f.value), dash=True)
            for f in page.findings
            if f.drawn and math.isfinite(f.value) and f.value > 0
        ]
    return LineFigure(
        series=series,
        references=tuple(references),
        limits=limits,
        sizes=sizes,
        flagged=flagged_sizes(series),
        x_label=page.axis_label,
        y_label=page.metric_label,
        title=_panel_title(view, where) if panel else "",
        banner=banner(page.dataset.source_of(where.panel), brief=panel),
        rows_symbol=page.rows_symbol,
    )


def _limit_label(finding: Finding) -> str:
    text = f"{finding.label}: {num(finding.value)}"
    return f"{text} (not private)" if finding.research_only else text


def _panel_title(view: View, where: Setting) -> str:
    text = condition(view, where)
    return f"{text}, {where.panel}" if len(view.panels) > 1 and where.panel else text


def main_alt(view: View, where: Setting, series: tuple[Series, ...]) -> str:
    """State the figure's finding for readers who can't see it."""
    x = view.headline_size
    if x is None:
        return ""
    return _alt(view, where, series, x)


def _alt(view: View, where: Setting, series: tuple[Series, ...], x: float) -> str:
    ranking = rank(series, x)
    symbol = view.page.x_symbol
    text = f"Error against {symbol} on log–log axes, {condition(view, where)}"
    text += f", {view.page.panel_word} {where.panel}." if where.panel else "."
    facts = []
    if ranking.best is not None:
        facts.append(f"the best private estimate is {ranking.best[0].label} with {num(ranking.best[1].mean)}")
    if ranking.non_private is not None:
        facts.append(f"without privacy it is {num(ranking.non_private[1].mean)}")
    if math.isfinite(ranking.zero):
        facts.append(f"the zero vector has {num(ranking.zero)}")
    if facts:
        text += f" At {symbol} = {setting(x)} {words(facts)}."
    worse = ranking.worse_than_zero
    if ranking.private and math.isfinite(ranking.zero):
        text += f" {len(worse)} of {len(ranking.private)} private estimates are worse than the zero vector."
    return text


def _groups(view: View, head: Setting) -> tuple[PanelGroup, ...]:
    word = view.page.panel_word
    ran = set(view.settings)
    by_epsilon = [(f"ε = {setting(e)}", Setting(e, head.delta_rule, head.panel)) for e in view.epsilons]
    by_rule = [
        (f"δ = {rule_text(r, view.page.rows_symbol)}", Setting(head.epsilon, r, head.panel))
        for r in view.rules
    ]
    by_panel = []
    for panel in view.panels:
        where = view.nearest(panel) or head
        caption = f"{word} “{panel}”" if panel else f"no {word}"
        other = "" if where.epsilon == head.epsilon else f", ε = {setting(where.epsilon)}"
        by_panel.append((caption + other, where))
    wanted = {
        "How the error changes with ε": [item for item in by_epsilon if item[1] in ran],
        "How it changes with δ": [item for item in by_rule if item[1] in ran],
        _PANEL_HEADINGS.get(word, "The panels"): by_panel,
    }
    kept = {heading: items[:MOST_PANELS] for heading, items in wanted.items() if len(items) > 1}
    settings = list(dict.fromkeys(where for items in kept.values() for _, where in items))
    series = {where: view.series(where) for where in settings}
    limits = chart.error_limits(list(series.values()), reach=PANEL_REACH)
    drawn: dict[Setting, Picture] = {}
    for where in settings:
        x = view.size_at(where) or 1.0
        spec = _spec(view, where, series[where], limits, panel=True)
        name = _slug(f"panel-eps{where.epsilon:g}-delta-{where.delta_rule}-{where.panel}")
        drawn[where] = _picture(name, _alt(view, where, series[where], x), spec, chart.PANEL, png=True)
    return tuple(
        PanelGroup(
            heading,
            _trend(view, items, series) + _not_drawn(len(wanted[heading])),
            tuple((caption, drawn[w]) for caption, w in items),
        )
        for heading, items in kept.items()
    )


def _not_drawn(n_panels: int) -> str:
    return f" Of {n_panels} panels {MOST_PANELS} are shown." if n_panels > MOST_PANELS else ""


def _trend(view: View, items: list[tuple[str, Setting]], series: dict[Setting, tuple[Series, ...]]) -> str:
    symbol, found, useless = view.page.x_symbol, [], []
    for caption, where in items:
        x = view.size_at(where)
        ranking = None if x is None else rank(series[where], x)
        if ranking is None or ranking.best is None:
            continue
        found.append((ranking.best, caption, ranking.best[1].x))
        other = ranking.non_private
        if other is not None and other[1].mean > ranking.zero:
            useless.append(
                f"At {caption} the zero vector ({num(ranking.zero)}) beats even the answer without privacy "
                f"({other[0].name}, {num(other[1].mean)})."
            )
    if not found:
        return ""
    sizes = {x for _, _, x in found}
    own = f", {symbol} = {{}}" if len(sizes) > 1 else ""
    parts = [
        f"{num(best[1].mean)} at {caption}{own.format(setting(x))} ({best[0].name})"
        for best, caption, x in found
    ]
    common = f" at {symbol} = {setting(found[0][2])}" if len(sizes) == 1 else ""
    text = f"Smallest mean private error{common}: {'; '.join(parts)}."
    return " ".join([text, *useless])


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower().replace("^", "")).strip("-")


def certified_picture(view: View) -> Picture | None:
    """Draw the certified ε at the headline's setting."""
    return None if view.headline is None else _certified(view, view.headline, view.series(view.headline))


def _certified(view: View, where: Setting, series: tuple[Series, ...]) -> Picture | None:
    private = tuple(s for s in series if s.role == "private" and certified_range(s))
    if not private:
        return None
    fig = draw_certified(
        CertifiedFigure(private, where.epsilon, banner(view.page.dataset.source_of(where.panel), brief=True))
    )
    proved = "; ".join(f"{s.label} {span(certified_range(s) or ())}" for s in private)
    alt = f"Certified ε where {setting(where.epsilon)} was asked: {proved}."
    warning = banner(view.page.dataset.source_of(where.panel))
    alt = f"{warning}. {alt}" if warning else alt
    return Picture("certified", alt, svg.to_svg(fig, "certified", alt), svg.to_png(fig))
