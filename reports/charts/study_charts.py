"""The figures of a study of errors: errors at the headline's setting, and the certified ε."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from reports import palette
from reports.analysis.ranking import first_lines, population_error, rank
from reports.analysis.series import Series, Setting, View
from reports.charts.line_chart import HALO, Frame, Line, Reference, line_chart
from reports.charts.picture import Picture, picture
from reports.charts.vega_lite import Chart, field, marks, value
from reports.words.headline import condition
from reports.words.tables import flagged_sizes
from reports.writing import num, render_sentence, setting, span

_MOST_LETTERS = 74  # of a name on a chart of certified ε, 460 pixels wide
_REACH = 25.0  # how far below the best private error the axis goes


@dataclass(frozen=True)
class Pictures:
    """The figures of a study; None or empty where the table holds nothing to draw."""

    main: Picture | None = None
    card: Picture | None = None
    certified: Picture | None = None
    more: tuple[Picture, ...] = ()

    def files(self) -> tuple[Picture, ...]:
        return tuple(each for each in (self.main, self.card, self.certified, *self.more) if each is not None)


def draw_study(view: View) -> Pictures:
    where, x = view.headline, view.headline_size
    if where is None or x is None:
        return Pictures()
    series, source = first_lines(view, where, x), view.page.dataset.source_of(where.panel)
    alt_text = _alt(view, where, view.series(where), x)
    main = _figure(view, series, 660, 420)
    card = _figure(view, series, 300, 230)
    return Pictures(
        picture(main, "main", alt_text, source),
        picture(card, "card", alt_text, source, png=False),
        certified_picture(view),
    )


def has_one_size(view: View) -> bool:
    """Return whether the headline's panel has one size and several ε, which are then the axis."""
    where = view.headline
    epsilons = {each.epsilon for each in view.settings if where and each.panel == where.panel}
    return len({p.x for s in view.series(where) for p in s.points}) == 1 and len(epsilons) > 1


def along_epsilon(view: View, where: Setting, series: Sequence[Series], x: float) -> list[Series]:
    """Return series of a setting whose points lie along ε, at one size."""
    found = []
    for one in series:
        points = [
            replace(point, x=each.epsilon)
            for each in sorted(view.settings)
            if (each.delta_rule, each.panel) == (where.delta_rule, where.panel)
            for other in view.series(each)
            if other.rank == one.rank and (point := other.at(x)) is not None
        ]
        found.append(replace(one, points=tuple(points)))
    return found


def _figure(view: View, series: Sequence[Series], width: int, height: int) -> Chart:
    page, title = view.page, view.page.axis.label
    if view.headline is not None and has_one_size(view):
        series, title = along_epsilon(view, view.headline, series, view.headline_size or 0.0), "ε"
    sizes = sorted({p.x for s in series for p in s.points})
    low, high = error_limits(series)
    flagged = [] if has_one_size(view) else flagged_sizes(tuple(series))
    frame = Frame(
        x_title=title,
        y_title=f"{page.metric_label} (lower is better)" if width > 400 else "",
        x=(sizes[0] / 1.06, sizes[-1] * 1.06),
        y=(low, high),
        x_ticks=sizes,
        width=width,
        height=height,
        names_on_top=width < 400,
        marks={
            "flagged": [{"x": flagged[0] / 1.05, "x2": flagged[-1] * 1.05}] if flagged else [],
            "failed": list(_failed(series, high)),
        },
    )
    return line_chart([series_line(s, sizes, brief=width < 400) for s in series], frame)


def series_line(series: Series, sizes: Sequence[float], *, brief: bool = False) -> Line:
    """Return a series as a line; the zero vector's crosses the whole chart."""
    points = [p for p in series.points if p.answered]
    if series.role == "zero" and points:
        return Line(series.brief, [(sizes[0], points[-1].mean), (sizes[-1], points[-1].mean)], series.look)
    banded = not brief and max((p.n_ok for p in points), default=0) > 1
    band = [(p.q10, p.q90) for p in points] if banded else ()
    return Line(series.brief, [(p.x, p.mean) for p in points], series.look, band)


def _failed(series: Sequence[Series], high: float) -> list[dict[str, object]]:
    """Return crosses: on top where no repetition answered, on the line where some did not."""
    return [
        {"x": p.x, "y": min(p.mean, high) if p.answered else high, "c": s.look.color}
        for s in series
        for p in s.points
        if p.n_failed or not p.answered
    ]


def limit_references(view: View) -> list[Reference]:
    """Return the limits of the data on the headline's panel, and the error of rows of a large population."""
    sizes = sorted({p.x for s in view.series(view.headline) for p in s.points})
    found = []
    for finding in view.page.findings:
        if finding.value > 0 and sizes:
            label = f"{finding.label}: {num(finding.value)} (not private)"
            ends = [(sizes[0], finding.value), (sizes[-1], finding.value)]
            found.append(Reference(label, ends, palette.LIMIT_DASH))
    chance = [(m, population_error(view, m)) for m in sizes] if view.page.axis.column == "n" else []
    known = [(m, error.mean) for m, error in chance if error is not None]
    return [*found, Reference("without privacy, large population", known, (2, 2))] if known else found


def error_limits(series: Sequence[Series]) -> tuple[float, float]:
    """Return the range of the error axis.

    It is that of the private estimators and the zero vector. What lies far below the best private error, or
    12 times above the zero vector, is left outside, and the figure marks it with an arrow and the number.
    """
    points = [(s, p) for s in series for p in s.points if p.answered and p.mean > 0]
    private = [p.mean for s, p in points if s.role == "private"]
    others = [p.mean for s, p in points if s.role != "private"]
    zero = [p.mean for s, p in points if s.role == "zero"]
    inside = private or others
    if not inside:
        return (0.1, 1.0)
    floor = min(inside) / _REACH
    low = max(min([*private, *others]), floor)
    high = max([*private, *others])
    if zero:
        high = min(high, 12 * max(zero))
    return (low / 1.25, max([high, *others, min(inside) * 1.5]) * 1.25)


def _alt(view: View, where: Setting, series: tuple[Series, ...], x: float) -> str:
    """State the figure's finding for readers who can't see it."""
    return render_sentence(
        "figure_of_errors",
        condition=condition(view, where),
        page=view.page,
        panel=where.panel,
        x=x,
        ranking=rank(series, x),
    )


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


def certified_range(series: Series) -> tuple[float, float] | None:
    """Return the smallest and the largest certified ε over sizes; None where nothing is certified."""
    values = [p.certified for p in series.points if math.isfinite(p.certified)]
    return (min(values), max(values)) if values else None


def certified_picture(view: View) -> Picture | None:
    """Draw the certified and the audited ε of each private series at the headline's setting."""
    where = view.headline
    shown = [s for s in view.series(where) if s.role == "private" and certified_range(s)] if where else []
    if where is None or not shown:
        return None
    rows, cut = [], {}
    for series in shown:
        low, high = certified_range(series) or (math.nan, math.nan)
        audited = max((p.audited for p in series.points if p.audited > 0), default=None)
        proves = f"ε = {span([low, high])}"
        if audited:
            proves += f", audited ≥ {span([audited])}"
        elif any(p.audited == 0 for p in series.points):
            proves += ", audit saw nothing"
        name = series.brief
        if len(name) > _MOST_LETTERS:
            name = f"{name[: _MOST_LETTERS - 1]}…"
            cut[escape(name, quote=False)] = escape(series.brief)
        least = where.epsilon / 1000  # ε = 0 lies left of every log axis
        look = series.look
        ends = {"low": max(low, least), "high": max(high, least), "audited": audited}
        rows.append(
            {
                **ends,
                "key": series.brief,
                "text": [name, proves],
                "c": look.color,
                "ink": look.ink,
                "fill": look.fill,
            }
        )
    proved = "; ".join(f"{s.label} {span(certified_range(s) or ())}" for s in shown)
    description = f"Certified ε where {setting(where.epsilon)} was asked: {proved}."
    chart = _certified_chart(rows, where.epsilon)
    drawn = picture(chart, "certified", description, view.page.dataset.source_of(where.panel))
    svg = drawn.svg.decode()
    for name, whole in cut.items():  # a name that was cut stands in full where the pointer rests on it
        svg = svg.replace(f">{name}<", f"><title>{whole}</title>{name}<")
    return replace(drawn, svg=svg.encode())


def _certified_chart(rows: list[dict[str, Any]], asked: float) -> Chart:
    axis = {"title": "certified ε, log scale", "tickCount": 4, "format": "~g"}
    x = field("low:Q", scale={"type": "log", "padding": 24}, axis=axis)
    y, ink = field("key:N", sort=None, axis=None), field("ink:N", scale=None)
    color, fill = field("c:N", scale=None), field("fill:N", scale=None)
    line, at = [{"asked": asked, "text": f"asked: {setting(asked)}"}], {"x": field("asked:Q")}
    words = {**at, "y": value(0), "text": field("text:N")}
    told: Chart = {"x": value(2), "y": y, "text": field("text:N")}
    left: dict[str, Any] = {"align": "left", "dy": -31}
    layers = [
        marks(line, "rule", at, strokeDash=[4, 2], color=palette.INK),
        marks(line, "text", words, dy=-8, baseline="bottom"),
        marks(
            rows, "rule", {"x": x, "x2": field("high"), "y": y, "color": color}, strokeWidth=4, opacity=0.5
        ),
        *(
            marks(
                rows,
                "point",
                {"x": field(f"{end}:Q"), "y": y, "stroke": color, "fill": fill},
                size=60,
                opacity=1,
            )
            for end in ("low", "high")
        ),
        marks(
            rows,
            "point",
            {"x": field("audited:Q"), "y": y, "color": ink},
            shape="triangle-right",
            filled=True,
            size=80,
            opacity=1,
        ),
        marks(rows, "text", told, **left, **HALO),
        marks(rows, "text", {**told, "color": ink}, **left),
    ]
    return {"layer": layers, "width": 460, "height": {"step": 56}}
