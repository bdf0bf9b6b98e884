"""What the page of an analyst's own table adds: coefficients, error against ε, what is missing and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.analysis.cost_in_rows import enough_epsilon, rows_for_the_same
from reports.analysis.series import Series, Setting, View
from reports.charts import palette
from reports.charts.chart import line_color, text_color
from reports.charts.figures import bare_axes
from reports.charts.picture import Shown, warned_picture
from reports.charts.svg import drawing, new_figure
from reports.numbers import num, setting, words

_FONT = 11.5


def draw(view: View, summary: pd.DataFrame, content: Mapping[str, Any]) -> tuple[Shown, ...]:
    """Return the coefficients, the chart of errors against ε, and what is left out of the page."""
    shown = (_coefficients(view, content), _against_epsilon(view), _missing(view, content))
    return tuple(item for item in shown if item is not None)


def _coefficients(view: View, content: Mapping[str, Any]) -> Shown | None:
    if not content["rows"]:
        return None
    name = view.page.estimator(content["estimator"]).title
    rows, surviving = [], []
    for column, coef, low, high, exact in content["rows"]:
        sure = low is not None and high is not None and (low > 0 or high < 0)
        if sure and (coef > 0) == (exact > 0):
            surviving.append(column)
        ends = "none" if low is None or high is None else f"{num(low)} to {num(high)}"
        sign = "survives" if sure and (coef > 0) == (exact > 0) else "wrong" if sure else "not known"
        rows.append((column, num(coef), ends, num(exact), sign))
    text = (
        f"NOT FOR PUBLICATION: the exact answer stands next to the private one. {name} on all "
        f"{content['n']:,} {view.page.population[1]} at ε = {setting(content['epsilon'])}, one draw with "
        "95 % intervals, each number per standard deviation of its column. The sign of "
        + (words(surviving) if surviving else "no coefficient")
        + f" survives{'' if len(surviving) != 1 else ','} with its interval on one side of zero."
    )
    columns = ("", "private", "95 % interval", "without privacy", "sign")
    return Shown("The answer, with and without privacy", text, None, columns, tuple(rows), 1)


def _against_epsilon(view: View) -> Shown | None:
    """Mean errors at the headline's size against ε, the headline's ε marked."""
    head, x = view.headline, view.headline_size
    if head is None or x is None or len(view.epsilons) < 2:
        return None
    curves: dict[str, tuple[Series, list[tuple[float, float]]]] = {}
    for epsilon in sorted(view.epsilons):
        for series in view.series(Setting(epsilon, head.delta_rule, head.panel)):
            point = series.at(x)
            if point is not None and point.answered:
                curves.setdefault(series.brief, (series, []))[1].append((epsilon, point.mean))
    if not curves:
        return None
    best = (
        min((mean, name) for name, (s, points) in curves.items() if s.role == "private" for e, mean in points)
        if any(s.role == "private" for s, _ in curves.values())
        else None
    )
    text = f"Mean errors at {view.page.x_symbol} = {setting(x)}; the line marks ε = {setting(head.epsilon)}."
    if best:
        text += f" The smallest private one is {num(best[0])} ({best[1]})."
    width, height = 860.0, 380.0
    with drawing():
        fig = new_figure(width, height)
        ax = fig.add_axes((0.08, 0.14, 0.52, 0.74))
        bare_axes(ax)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.axvline(head.epsilon, color=palette.ZERO_LINE, linewidth=1.2, linestyle=(0, (1, 2)))
        ax.set_xticks(sorted(view.epsilons), [setting(e) for e in sorted(view.epsilons)])
        ax.minorticks_off()
        ax.tick_params(colors=palette.AXIS, labelcolor=palette.MUTED, labelsize=_FONT * 0.92, length=0, pad=5)
        for place, (name, (series, points)) in enumerate(sorted(curves.items())):
            ax.plot(*zip(*points, strict=True), color=line_color(series), linewidth=1.9, marker="o", zorder=3)
            y = 0.97 - 0.075 * place
            ax.text(
                *(1.04, y, name),
                color=text_color(series),
                fontsize=_FONT,
                va="center",
                transform=ax.transAxes,
            )
        ax.set_xlabel("ε", fontsize=_FONT, color=palette.INK)
        ax.set_title("mean error", fontsize=_FONT, color=palette.INK, loc="left", pad=12)
    picture = warned_picture(view.page.dataset.data_source, "error-against-epsilon", text, fig)
    return Shown("Error against ε", text, picture)


def _missing(view: View, content: Mapping[str, Any]) -> Shown | None:
    """Say which parts of the page are missing, and why."""
    reasons = []
    if content["left_out"]:
        reasons.append(
            f"errors leave out {words(content['left_out'])}: constant in these rows, or so rare that the "
            "likelihood has no maximum"
        )
    if not content["rows"]:
        reasons.append(f"no coefficients are shown: {content['missing']}")
    if not enough_epsilon(view):
        reasons.append(
            "from which ε on privacy stops mattering, and how many more rows would make up for it, is not "
            "known: no answer without privacy at these sizes says what chance alone costs"
        )
    elif not rows_for_the_same(view):
        reasons.append(
            "how many more rows would make up for privacy is not said: privacy adds hardly anything, or no "
            "private estimate beats answering zero"
        )
    if not reasons:
        return None
    text = "; ".join(reasons)
    return Shown("What is missing here, and why", f"{text[0].upper()}{text[1:]}.")
