"""Lines, names, menus and looks of charts."""

import csv
import io
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


def test_menus_offer_what_varies_and_begin_at_the_headline(results, page):
    summary = summarize(results)
    chart = StudyChart.build(View.build(summary, page), summary)
    live = chart.with_menus(["AdaSSP, tight"])
    params = {each["name"]: each for each in live["params"]}
    offered = {name: each["bind"]["options"] for name, each in params.items() if "bind" in each}
    assert offered["at_epsilon"] == [0.2, 0.5, 1.0, 2.0]
    assert offered["axis"] == ["n", "epsilon"]
    assert set(offered) == {"at_panel", "at_epsilon", "at_delta_rule", "at_n", "axis", "lines"}
    begun = {name: params[name]["value"] for name in ("at_panel", "at_epsilon", "at_n", "axis")}
    assert begun == {"at_panel": "public", "at_epsilon": 0.5, "at_n": 20_000, "axis": "n"}
    rows = list(csv.DictReader(io.StringIO(live["data"]["values"])))
    cells = [row for row in rows if row["n_ok"]]
    assert len(cells) == results["cell"].nunique()
    assert "the more frequent label: 0.051 (not private)" in {row["line"] for row in rows}
