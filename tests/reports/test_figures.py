"""Charts with menus, figures for papers, and pages of several runs."""

import io
import re
from dataclasses import replace

import pandas as pd
import pytest
import vl_convert

from reports.charts.drawing import specification
from reports.charts.figure import FigureChoice, draw_figure
from reports.charts.study import StudyChart
from reports.cost import first_lines
from reports.pages.compare import ComparedRun, render_comparison
from reports.results import summarize
from reports.series import View

POINTS = re.compile(r'<svg[^>]* width="([\d.]+)"')


@pytest.mark.parametrize("width", [3.3, 6.5])
def test_a_figure_has_the_wanted_width_and_its_data(results, page, width):
    svg, data = draw_figure(results, page, FigureChoice(format="svg", width=width))
    assert float(POINTS.search(svg.decode())[1]) == pytest.approx(72 * width)
    rows = pd.read_csv(io.BytesIO(data), keep_default_na=False)
    assert 2 <= rows["line"].nunique() <= 5
    for name in rows["line"].unique():
        assert name in svg.decode()
    ols = results[results["estimator"].eq("ols") & results["panel"].eq("public") & results["n"].eq(20_000)]
    measured = rows[rows["estimator"].eq("ols") & rows["x"].eq(20_000)]["mean"].item()
    assert measured == pytest.approx(ols["value"].mean())


def test_runs_are_laid_over_each_other_and_what_differs_is_listed(results, page):
    other = results.copy()
    far = (
        other["estimator"].eq("preconditioned_regression") & other["n"].eq(20_000) & other["epsilon"].eq(0.5)
    )
    other.loc[far, "value"] *= 30
    both = [ComparedRun("main", page, results), ComparedRun("branch", page, other)]
    html = render_comparison(both).decode()
    changed = int(re.search(r"(\d+) numbers? differ", html)[1])
    assert changed == other[far]["cell"].nunique()
    assert ">main</text>" in html
    assert ">branch</text>" in html
    same = render_comparison([both[0], replace(both[0], name="again")]).decode()
    assert "No number differs" in same


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
