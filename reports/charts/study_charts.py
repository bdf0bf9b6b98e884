"""Every figure of a study of errors: which ones, and with which words."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from reports.analysis.ranking import rank
from reports.analysis.series import Series, Setting, View
from reports.charts.axes import NARROW, PANEL, WIDE
from reports.charts.certified import certified_range, draw_certified
from reports.charts.line_chart import PANEL_REACH, LineFigure, Reference, draw, error_limits
from reports.charts.picture import Picture, picture
from reports.numbers import num, rule_text, setting, span, words
from reports.page import Finding
from reports.words.headline import condition, guides_of
from reports.words.tables import flagged_sizes

MOST_PANELS = 48  # of a kind on one page


@dataclass(frozen=True)
class PanelGroup:
    """Small multiples along one quantity: a heading, a computed sentence, and the pictures."""

    heading: str
    sentence: str
    panels: tuple[Picture, ...]


@dataclass(frozen=True)
class Pictures:
    """All figures of a study; None or empty where the table holds nothing to draw."""

    main: Picture | None = None
    narrow: Picture | None = None
    card: Picture | None = None
    certified: Picture | None = None
    groups: tuple[PanelGroup, ...] = ()

    def files(self) -> tuple[Picture, ...]:
        """Return the pictures that are files of the report."""
        panels = (panel for group in self.groups for panel in group.panels)
        return tuple(each for each in (self.main, self.card, self.certified, *panels) if each is not None)


def draw_study(view: View) -> Pictures:
    """Draw every figure of a study of errors."""
    where = view.headline
    if where is None:
        return Pictures()
    series, source = view.series(where), view.page.dataset.source_of(where.panel)
    findings = [f for f in view.page.findings if f.drawn and math.isfinite(f.value) and f.value > 0]
    spec = _figure(view, series, error_limits([series], [f.value for f in findings]))
    sizes, guides = spec.sizes, [g for g in guides_of(view.page, where.panel) if len(g.n) > 1]
    references = [Reference(guide.label, tuple(guide.n), tuple(guide.value)) for guide in guides]
    if sizes:
        ends = (sizes[0] / 1.12, sizes[-1] * 1.12)
        references += [Reference(_limit_label(f), ends, (f.value, f.value), dash=True) for f in findings]
    spec = _figure(view, series, spec.limits, tuple(references))
    card = _figure(view, series, error_limits([series], reach=PANEL_REACH))
    x = view.headline_size
    alt = "" if x is None else _alt(view, where, series, x)
    return Pictures(
        picture(draw(spec, WIDE), "main", alt, source),
        picture(draw(spec, NARROW), "main-narrow", alt, source, png=False),
        picture(draw(card, PANEL), "card", alt, source, png=False),
        certified_picture(view),
        _groups(view, where),
    )


def _figure(
    view: View,
    series: tuple[Series, ...],
    limits: tuple[float, float],
    references: tuple[Reference, ...] = (),
    title: str = "",
) -> LineFigure:
    page, sizes = view.page, tuple(sorted({p.x for s in series for p in s.points}))
    flagged = flagged_sizes(series)
    labels = (page.axis_label, page.metric_label)
    return LineFigure(series, references, limits, sizes, flagged, *labels, title, page.rows_symbol)


def _limit_label(finding: Finding) -> str:
    text = f"{finding.label}: {num(finding.value)}"
    return f"{text} (not private)" if finding.research_only else text


def _alt(view: View, where: Setting, series: tuple[Series, ...], x: float) -> str:
    """State the figure's finding for readers who can't see it."""
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
    """Draw small multiples along ε, δ and the panels, on one range of errors."""
    page, word = view.page, view.page.panel_word
    symbol = page.rows_symbol
    by_panel = []
    for panel in view.panels:
        where = view.nearest(panel) or head
        other = "" if where.epsilon == head.epsilon else f", ε = {setting(where.epsilon)}"
        by_panel.append((f"{word} “{panel}”{other}" if panel else f"no {word}{other}", where))
    wanted = {
        "How the error changes with ε": [
            (f"ε = {setting(e)}", Setting(e, head.delta_rule, head.panel)) for e in view.epsilons
        ],
        "How it changes with δ": [
            (f"δ = {rule_text(r, symbol)}", Setting(head.epsilon, r, head.panel)) for r in view.rules
        ],
        "How it changes with the preparation of the data"
        if word == "preparation"
        else "The panels": by_panel,
    }
    ran = {heading: [i for i in items if i[1] in view.settings] for heading, items in wanted.items()}
    kept = {heading: items[:MOST_PANELS] for heading, items in ran.items() if len(items) > 1}
    settings = list(dict.fromkeys(where for items in kept.values() for _, where in items))
    limits = error_limits([view.series(where) for where in settings], reach=PANEL_REACH)
    drawn = {where: _panel(view, where, limits) for where in settings}
    groups = []
    for heading, items in kept.items():
        n = len(ran[heading])
        left_out = f" Of {n} panels {MOST_PANELS} are shown." if n > MOST_PANELS else ""
        groups.append(PanelGroup(heading, _trend(view, items) + left_out, tuple(drawn[w] for _, w in items)))
    return tuple(groups)


def _panel(view: View, where: Setting, limits: tuple[float, float]) -> Picture:
    series = view.series(where)
    title = condition(view, where)
    title += f", {where.panel}" if len(view.panels) > 1 and where.panel else ""
    name = slug(f"panel-eps{where.epsilon:g}-delta-{where.delta_rule.replace('^', '')}-{where.panel}")
    alt = _alt(view, where, series, view.size_at(where) or 1.0)
    figure = draw(_figure(view, series, limits, title=title), PANEL)
    return picture(figure, name, alt, view.page.dataset.source_of(where.panel))


def _trend(view: View, items: list[tuple[str, Setting]]) -> str:
    """Say the smallest private error of each panel, and where the zero vector beats every answer."""
    symbol, found, useless = view.page.x_symbol, [], []
    for caption, where in items:
        x = view.size_at(where)
        ranking = None if x is None else rank(view.series(where), x)
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
    several = len({x for _, _, x in found}) > 1
    parts = [
        f"{num(best[1].mean)} at {caption}{f', {symbol} = {setting(x)}' if several else ''} ({best[0].name})"
        for best, caption, x in found
    ]
    common = "" if several else f" at {symbol} = {setting(found[0][2])}"
    return " ".join([f"Smallest mean private error{common}: {'; '.join(parts)}.", *useless])


def slug(text: str) -> str:
    """Return a text as part of a file name."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


def certified_picture(view: View) -> Picture | None:
    """Draw the certified ε at the headline's setting."""
    where = view.headline
    rows = [s for s in view.series(where) if s.role == "private" and certified_range(s)] if where else []
    if where is None or not rows:
        return None
    proved = "; ".join(f"{s.label} {span(certified_range(s) or ())}" for s in rows)
    alt = f"Certified ε where {setting(where.epsilon)} was asked: {proved}."
    source = view.page.dataset.source_of(where.panel)
    return picture(draw_certified(rows, where.epsilon), "certified", alt, source)
