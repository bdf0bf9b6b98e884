"""Lines, names, menus and looks of charts."""

import csv
import io
import itertools
import re
from dataclasses import replace

import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st

from reports import palette
from reports.charts.drawing import specification
from reports.charts.lines import Axes, Line, guide, line_chart, names_in_legend
from reports.charts.study import StudyChart, certified_picture, draw_study
from reports.cost import first_lines
from reports.results import summarize
from reports.series import View

LOOK = palette.look("private", 3)
ENDS = st.dictionaries(
    st.sampled_from("abcdefgh"), st.tuples(st.sampled_from([1.0, 2.0]), st.floats(1e-3, 1e3)), min_size=1
)


def texts(svg):
    return re.findall(r">([^<>]+)</text>", svg)


@given(ENDS)
def test_names_at_the_ends_of_lines_are_those_that_do_not_collide(ends):
    in_legend = set(names_in_legend(ends, Axes("x", "y", y_log=False)))
    beside = sorted(y for name, (_, y) in ends.items() if name not in in_legend)
    heights = [y for _, y in ends.values()]
    pixel = 360 / ((max(heights) - min(heights)) or 1)
    assert all((b - a) * pixel >= 15 * 0.999 for a, b in itertools.pairwise(beside))
    assert all(ends[name][0] == max(x for x, _ in ends.values()) for name in ends if name not in in_legend)


def test_every_name_of_a_picture_is_shown_once_at_its_end_or_in_the_legend():
    lines = [Line(f"line {k}", [(1.0, y), (10.0, y)], LOOK) for k, y in enumerate((1.0, 1.01, 5.0))]
    svg = vl_convert.vegalite_to_svg(
        specification(line_chart([*lines, guide("limit", [(1.0, 2.0)])], Axes("", "")))
    )
    assert sorted(t for t in texts(svg) if "li" in t) == ["limit", "line 0", "line 1", "line 2"]


def test_a_phone_has_all_names_in_the_legend():
    ends = {"a": (1.0, 1.0), "b": (1.0, 100.0)}
    assert names_in_legend(ends, Axes("", "", width=340)) == ["a", "b"]


def test_a_card_names_every_line_that_it_draws(results, page):
    summary = summarize(results)
    view = View.build(summary, page)
    shown = first_lines(view, view.headline, view.headline_size)
    assert any(series.calibration == "paper" for series in shown)
    card = draw_study(view, summary).card.svg.decode()
    assert {series.brief for series in shown} <= set(texts(card))


def test_the_chart_of_certified_epsilon_has_whole_names(results, page):
    estimators = tuple(
        replace(each, title=f"{each.title}, tried out on the rows") for each in page.estimators
    )
    view = View.build(summarize(results), replace(page, estimators=estimators))
    names = {series.brief for series in view.series(view.headline) if series.role == "private"}
    assert max(map(len, names)) > 60
    assert names <= set(re.findall(r">([^<>]+)</", certified_picture(view).svg.decode()))


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


@pytest.mark.parametrize("empty", [{"at_panel": "none"}, {"at_epsilon": 7.0, "axis": "n"}, {"shown": []}])
def test_a_combination_without_data_is_said_to_have_none(results, page, empty):
    summary = summarize(results)
    chart = StudyChart.build(View.build(summary, page), summary).with_menus(["AdaSSP, tight"])

    def drawn(values):
        params = [{**each, "value": values.get(each["name"], each.get("value"))} for each in chart["params"]]
        params = [{key: value for key, value in each.items() if value is not None} for each in params]
        return vl_convert.vegalite_to_svg(specification({**chart, "params": params, "width": 660}))

    words = "no data for this combination"
    assert words not in drawn({})
    if "shown" in empty:
        chart["layer"][2]["params"][0]["value"] = [{"line": "no such line"}]
    assert words in drawn(empty)


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


def test_looks_are_stable_and_distinct():
    looks = {palette.look("private", order, form) for order in range(14) for form in range(2)}
    assert len({(look.color, look.shape) for look in looks}) == 28
    assert palette.look("private", 3) == LOOK
    assert palette.look("private", 3, calibration="paper").fill == palette.PAPER
    assert palette.look("nonprivate", 3).color == palette.NON_PRIVATE
    assert len(set(palette.LIGHT.values())) == len(palette.LIGHT)
    assert set(palette.LIGHT) == set(palette.DARK)


@pytest.mark.parametrize("log", [True, False])
def test_values_are_drawn_at_their_logarithm_or_as_they_are(log):
    lines = [Line("a", [(1.0, 0.01), (10.0, 1.0)], LOOK), Line("b", [(1.0, 0.1), (10.0, 0.1)], LOOK)]
    svg = vl_convert.vegalite_to_svg(specification(line_chart(lines, Axes("", "", y_log=log))))
    ticks = {text for text in texts(svg) if re.fullmatch(r"[\d.]+", text)}
    assert ("0.02" in ticks) is log
