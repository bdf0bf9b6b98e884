"""Lines, names, menus and looks of charts."""

import re

import vl_convert

from reports import palette
from reports.charts.drawing import specification
from reports.charts.lines import Axes, Line, line_chart
from reports.charts.study import StudyChart
from reports.cost import first_lines
from reports.results import summarize
from reports.series import View


def texts(svg):
    return re.findall(r">([^<>]+)</text>", svg)


def test_the_chart_with_menus_draws_at_first_what_the_picture_shows(results, page):
    summary = summarize(results)
    view = View.build(summary, page)
    lines = [series.brief for series in first_lines(view, view.headline, view.headline_size)]
    chart = StudyChart.build(view, summary)
    live = {**chart.with_menus(lines), "width": 660}
    drawn = [vl_convert.vegalite_to_svg(specification(each)) for each in (live, chart.of_lines(lines))]
    assert len({svg.count('class="mark-symbol') for svg in drawn}) <= 2
    points = [
        len(re.findall(r'aria-roledescription="point"|<path[^>]*transform="translate', svg)) for svg in drawn
    ]
    own = sum(len(view.series(view.headline)[0].points) for _ in range(len(lines) - 1))
    assert min(points) >= own
    assert set(lines) <= set(texts(drawn[0]))


def test_every_line_is_named_at_its_end_or_in_the_legend():
    look = palette.look("private", 0)
    lines = [Line(name, [(1.0, 1.0), (2.0, end)], look) for name, end in (("a", 0.1), ("b", 0.105))]
    for y_log in (True, False):
        svg = vl_convert.vegalite_to_svg(specification(line_chart(lines, Axes("", "", [1, 2], y_log=y_log))))
        assert sorted(text for text in texts(svg) if text in "ab") == ["a", "b"]
