"""Labels, ticks and ranges of line charts."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg

from reports.analysis.results import summarize
from reports.analysis.series import View
from reports.charts import palette
from reports.charts.axes import NARROW, PANEL, WIDE, log_ticks, spread
from reports.charts.line_chart import LineFigure, draw, error_limits, size_ticks
from reports.numbers import setting

PLACES = st.lists(st.floats(-0.5, 1.5), min_size=1, max_size=12)


@given(PLACES)
def test_labels_never_overlap_and_stay_inside(wanted):
    heights = [0.05 + 0.02 * (i % 3) for i in range(len(wanted))]
    ordered = sorted(zip(spread(wanted, heights, 0.0, 1.0), heights, strict=True))
    for (low, h_low), (high, h_high) in itertools.pairwise(ordered):
        assert high - low >= (h_low + h_high) / 2 - 1e-9
    assert ordered[0][0] - ordered[0][1] / 2 >= -1e-9
    assert ordered[-1][0] + ordered[-1][1] / 2 <= 1 + 1e-9


def test_labels_that_fit_stay_where_they_are():
    assert spread([0.2, 0.8, 0.5], [0.1] * 3, 0.0, 1.0) == pytest.approx([0.2, 0.8, 0.5])
    assert spread([], [], 0.0, 1.0) == []


def test_too_many_labels_are_shrunk_alike():
    places = spread([0.5] * 10, [0.2] * 10, 0.0, 1.0)
    assert min(places) >= 0
    assert max(places) <= 1


def test_sizes_are_labeled_where_their_numbers_fit():
    for size in (WIDE, PANEL):
        assert size_ticks((25.0, 50.0, 100.0), size) == [25, 50, 100]
        assert size_ticks((20000.0, 50000.0), size) == [20000, 50000]
    many = (5000.0, 10000.0, 20000.0, 40000.0, 60000.0, 80000.0, 100000.0)
    assert size_ticks(many, WIDE) == [5000, 10000, 20000, 50000, 100000]
    assert size_ticks(many, PANEL) == [10000, 30000, 100000]
    assert size_ticks((100.0,), WIDE) == [100]
    crowded = tuple(10 ** (2 + 4 * k / 14) for k in range(15))
    assert size_ticks(crowded, NARROW)[:2] == [100, 1000]


@pytest.mark.parametrize(
    ("low", "high"),
    [(0.1, 1.0), (0.3, 2.9), (0.011, 0.019), (0.31, 0.34), (9.0, 9.2), (1e-5, 1e3), (100, 250)],
)
@pytest.mark.parametrize("most", [3, 6, 9])
def test_at_least_three_labels_show_the_scale_of_a_logarithmic_axis(low, high, most):
    ticks = log_ticks(low, high, most)
    assert 3 <= len(ticks) == len({setting(tick) for tick in ticks})
    assert all(low <= tick <= high for tick in ticks)
    assert ticks == sorted(ticks)


def text_of(figure, start):
    (found,) = (each for each in figure.texts if each.get_text().startswith(start))
    return found, found.get_window_extent(FigureCanvasAgg(figure).get_renderer()).x1


@pytest.mark.parametrize(("size", "fits"), [(WIDE, True), (PANEL, False)])
def test_a_long_axis_name_stays_within_the_figure_and_says_the_direction_where_it_fits(size, fits):
    name = "ℓ2 distance to the answer of all rows, per standard deviation of a column"
    fig = draw(LineFigure((), (), (0.1, 1.0), (100.0, 1000.0), (), "m", name), size)
    text, right = text_of(fig, name)
    assert ("lower is better" in text.get_text()) == fits
    assert right <= fig.bbox.x1


def test_limits_do_not_squash(results, page):
    view = View.build(summarize(results), page)
    series = view.series(view.headline)
    low, high = error_limits([series])
    private = [p.mean for s in series if s.role == "private" for p in s.points if p.answered]
    non_private = [p.mean for s in series if s.role == "nonprivate" for p in s.points]
    assert min(non_private) < low < min(private)
    assert high > max(private)
    assert error_limits([]) == (0.1, 1.0)


def test_colors_are_stable_and_distinct():
    assert [palette.slot(i) for i in (0, 6, 7)] == [0, 6, 0]
    assert palette.marker(0, 0) != palette.marker(7, 0)
    assert palette.marker(2, 0) != palette.marker(2, 1)
    assert palette.marker(5, 0) != palette.marker(54, 0)
    assert len(set(palette.LIGHT.values())) == len(palette.LIGHT)
    assert set(palette.LIGHT) == set(palette.DARK)


def test_a_long_name_of_the_error_axis_ends_within_the_figure(results, page):
    label = "ℓ2 distance to the full-sample coefficients, per standard deviation of a column and of another"
    view = View.build(summarize(results), replace(page, metric_label=label))
    spec = LineFigure(view.series(view.headline), (), (0.01, 1.0), (100.0, 20_000.0), (), "m", label)
    for size in (PANEL, WIDE):
        figure = draw(spec, size)
        figure.set_dpi(300)
        assert text_of(figure, label)[1] <= size.width * 300 / 72
