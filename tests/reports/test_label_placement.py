import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg

from reports.analysis.results import summarize
from reports.analysis.series import View
from reports.charts import palette
from reports.charts.chart import CARD, PANEL, WIDE, Frame, LineFigure, error_limits, labeled_ticks
from reports.charts.figures import draw
from reports.charts.label_placement import clearest, interpolate_log, spread
from reports.numbers import setting

PLACES = st.lists(st.floats(-0.5, 1.5), min_size=1, max_size=12)


@given(PLACES)
def test_labels_never_overlap_and_stay_inside(wanted):
    heights = [0.05 + 0.02 * (i % 3) for i in range(len(wanted))]
    places = spread(wanted, heights, 0.0, 1.0)
    ordered = sorted(zip(places, heights, strict=True))
    for (low, h_low), (high, h_high) in itertools.pairwise(ordered):
        assert high - low >= (h_low + h_high) / 2 - 1e-9
    assert ordered[0][0] - ordered[0][1] / 2 >= -1e-9
    assert ordered[-1][0] + ordered[-1][1] / 2 <= 1 + 1e-9


def test_labels_that_fit_stay_where_they_are():
    assert spread([0.2, 0.8, 0.5], [0.1] * 3, 0.0, 1.0) == [0.2, 0.8, 0.5]
    assert spread([], [], 0.0, 1.0) == []


def test_too_many_labels_are_shrunk_alike():
    places = spread([0.5] * 10, [0.2] * 10, 0.0, 1.0)
    assert min(places) >= 0
    assert max(places) <= 1


def test_clearest_avoids_the_other_line():
    line = interpolate_log([1, 1000], [1, 1])
    other = interpolate_log([1, 30], [1.02, 1.02])
    found = clearest(line, [other], (1, 1000), (0.1, 10), width=0.2, offsets=(0.03,))
    assert found is not None
    assert found[0] > 60


def test_clearest_without_room():
    outside = interpolate_log([1, 1000], [100, 100])
    assert clearest(outside, [], (1, 1000), (0.1, 10), width=0.2, offsets=(0.03,)) is None


def ticks(sizes, size):
    figure = LineFigure(
        series=(), references=(), limits=(0.1, 1.0), sizes=sizes, flagged=(), x_label="", y_label=""
    )
    return Frame(figure, size).x_ticks


def test_sizes_are_labeled_where_their_numbers_fit():
    for size in (WIDE, PANEL):
        assert ticks((25.0, 50.0, 100.0), size) == [25, 50, 100]
        assert ticks((20000.0, 50000.0), size) == [20000, 50000]
    many = (5000.0, 10000.0, 20000.0, 40000.0, 60000.0, 80000.0, 100000.0)
    assert ticks(many, WIDE) == [5000, 10000, 20000, 50000, 100000]
    assert ticks(many, PANEL) == [10000, 30000, 100000]
    assert ticks((100.0,), WIDE) == [100]
    crowded = tuple(10 ** (2 + 4 * k / 14) for k in range(15))
    assert ticks(crowded, WIDE) == [100, 1000, 10_000, 100_000, 1_000_000]


@pytest.mark.parametrize(
    ("low", "high"),
    [(0.1, 1.0), (0.3, 2.9), (0.011, 0.019), (0.31, 0.34), (9.0, 9.2), (1e-5, 1e3), (100, 250)],
)
@pytest.mark.parametrize("steps", [(1,), (1, 3), (1, 2, 5)])
def test_at_least_three_labels_tell_the_scale_of_a_logarithmic_axis(low, high, steps):
    ticks = labeled_ticks(low, high, steps)
    assert 3 <= len(ticks) == len({setting(tick) for tick in ticks})
    assert all(low <= tick <= high for tick in ticks)
    assert ticks == sorted(ticks)


def test_interpolation_outside_is_nan():
    assert math.isnan(interpolate_log([1, 2], [1, 2])(3))


@pytest.mark.parametrize(("size", "told"), [(WIDE, True), (PANEL, False)])
def test_a_long_axis_name_stays_within_the_figure_and_says_the_direction_where_it_fits(size, told):
    name = "ℓ2 distance to the answer of all rows, per standard deviation of a column"
    spec = LineFigure((), (), (0.1, 1.0), (100.0, 1000.0), (), "m", name)
    fig = draw(spec, size)
    (text,) = (each for each in fig.texts if each.get_text().startswith(name))
    assert ("lower is better" in text.get_text()) == told
    assert text.get_window_extent(FigureCanvasAgg(fig).get_renderer()).x1 <= fig.bbox.x1


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
    series = view.series(view.headline)
    spec = LineFigure(series, (), (0.01, 1.0), (100.0, 20_000.0), (), "m", label)
    for size in (CARD, PANEL, WIDE):
        figure = draw(spec, size)
        figure.set_dpi(300)
        (shown,) = [text for text in figure.texts if text.get_text().startswith(label)]
        right = shown.get_window_extent(FigureCanvasAgg(figure).get_renderer()).x1
        assert right <= size.width * 300 / 72
