"""Labels, ticks, ranges and looks of line charts."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports import palette
from reports.analysis.results import summarize
from reports.analysis.series import View
from reports.charts.line_chart import LINE_HEIGHT, Frame, Line, Reference, drawn, spread, ticks_that_fit
from reports.charts.study_charts import error_limits

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
    assert [label["text"] for label in data["labels"]] == ["one", "seen"]


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
