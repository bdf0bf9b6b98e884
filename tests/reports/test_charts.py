"""Lines, names, menus and looks of charts."""

import re

import vl_convert

from reports.charts.drawing import specification
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
