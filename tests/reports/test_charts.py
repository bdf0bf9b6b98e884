"""Labels, ticks, ranges and looks of line charts."""

import itertools
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports import palette
from reports.analysis.ranking import first_lines
from reports.analysis.results import summarize
from reports.analysis.series import View
from reports.charts.line_chart import (
    LINE_HEIGHT,
    Frame,
    Line,
    Reference,
    drawn,
    line_chart,
    spread,
    ticks_that_fit,
)
from reports.charts.study_charts import draw_study, error_limits

PLACES = st.lists(st.floats(-50, 450), min_size=1, max_size=12)
LOOK = palette.look("private", 3)


@given(PLACES)
def test_labels_never_overlap_and_stay_inside(wanted):
    places = sorted(spread(wanted, LINE_HEIGHT, 400))
    assert all(high - low >= LINE_HEIGHT - 1e-9 for low, high in itertools.pairwise(places))
    assert places[0] >= -1e-9
    assert places[-1] <= 400 + 1e-9


def test_labels_that_fit_stay_where_they_are_and_too_many_are_pushed_together():
    assert spread([20, 300, 100], 15, 400) == pytest.approx([20, 300, 100])
    assert spread([], 15, 400) == []
    places = spread([200] * 10, 15, 90)
    assert (min(places) >= 0, max(places) <= 90) == (True, True)


def frame(**changes):
    return Frame("m", "error", (100.0, 10000.0), (0.1, 10.0), **changes)


def test_ticks_are_kept_where_their_numbers_fit():
    many = [100.0 * 1.1**k for k in range(49)]
    assert ticks_that_fit(frame(x_ticks=(100.0, 1000.0, 10000.0))) == [100, 1000, 10000]
    kept = ticks_that_fit(frame(x_ticks=many))
    assert 3 < len(kept) < len(many)
    assert kept[-1] == many[-1]


def test_values_beyond_the_axis_are_marked_with_their_number_and_references_there_have_no_name():
    beyond = Line("one", [(100.0, 1.0), (1000.0, 0.001), (10000.0, 50.0)], LOOK)
    references = [Reference("seen", [(100.0, 1.0), (1000.0, 1.0)]), Reference("not", [(100.0, 99.0)])]
    data = drawn([beyond], frame(), references)
    assert [(edge["y"], edge["text"]) for edge in data["edges"]] == [(0.1, "0.0010"), (10.0, "50.0")]
    assert [edge["align"] for edge in data["edges"]] == ["left", "center"]  # next to an arrow that lines meet
    assert [bool(point["shape"]) for point in data["points"]] == [True, False, False]
    assert [label["text"] for label in data["labels"]] == ["one", "seen"]


def test_no_dot_at_the_edge_of_a_plot_is_cut():
    chart = line_chart([Line("one", [(100.0, 1.0), (10000.0, 1.0)], LOOK)], frame())
    dots = [each["mark"] for each in chart["layer"][0]["layer"] if each["mark"]["type"] == "point"]
    assert dots
    assert not any(mark.get("clip") for mark in dots)


def test_a_card_names_every_line_that_it_draws(results, page):
    view = View.build(summarize(results), page)
    shown = first_lines(view, view.headline, view.headline_size)
    assert any(series.calibration == "paper" for series in shown)
    card = draw_study(view).card.svg.decode()
    assert all(f"{series.look.symbol} {series.brief[:40]}" in card for series in shown)


def test_the_chart_of_certified_epsilon_has_whole_names(results, page):
    estimators = tuple(
        replace(each, title=f"{each.title}, tried out on the rows") for each in page.estimators
    )
    view = View.build(summarize(results), replace(page, estimators=estimators))
    names = {series.brief for series in view.series(view.headline) if series.role == "private"}
    assert max(map(len, names)) > 60
    assert names <= set(re.findall(r">([^<>]+)</", draw_study(view).certified.svg.decode()))


def test_limits_do_not_squash(results, page):
    view = View.build(summarize(results), page)
    series = view.series(view.headline)
    low, high = error_limits(series)
    private = [p.mean for s in series if s.role == "private" for p in s.points if p.answered]
    non_private = [p.mean for s in series if s.role == "nonprivate" for p in s.points]
    assert min(non_private) < low < min(private)
    assert high > max(private)
    assert error_limits([]) == (0.1, 1.0)


def test_looks_are_stable_and_distinct():
    looks = {palette.look("private", order, form) for order in range(14) for form in range(2)}
    assert len({(look.color, look.shape) for look in looks}) == 28
    assert palette.look("private", 3) == LOOK
    assert palette.look("private", 3, calibration="paper").fill == palette.PAPER
    assert palette.look("nonprivate", 3).color == palette.NON_PRIVATE
    assert len(set(palette.LIGHT.values())) == len(palette.LIGHT)
    assert set(palette.LIGHT) == set(palette.DARK)
