"""Lines of charts, and what leaves the machine: figures for papers, and pages of several runs."""

import io
import re
from dataclasses import replace

import pandas as pd
import pytest
import vl_convert

from reports import palette
from reports.charts.drawing import specification
from reports.charts.figure import FigureChoice, draw_figure
from reports.charts.lines import Axes, Line, line_chart
from reports.pages.compare import ComparedRun, render_comparison

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


def test_every_line_is_named_at_its_end_or_in_the_legend():
    look = palette.look("private", 0)
    lines = [Line(name, [(1.0, 1.0), (2.0, end)], look) for name, end in (("a", 0.1), ("b", 0.105))]
    for y_log in (True, False):
        svg = vl_convert.vegalite_to_svg(specification(line_chart(lines, Axes("", "", [1, 2], y_log=y_log))))
        assert sorted(text for text in re.findall(r">([^<>]+)</text>", svg) if text in "ab") == ["a", "b"]
