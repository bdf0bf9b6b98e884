"""What leaves the machine: figures for papers, static sites, pages over time and of several runs."""

import io
import math
import re
from dataclasses import replace

import pandas as pd
import pytest

from reports.charts.figure import FigureChoice, FigureError, draw_figure
from reports.pages.compare import ComparedRun, render_comparison
from reports.pages.history import Entry, moved, render_history
from reports.pages.index import Card, spark_line
from reports.pages.site import arranged, broken_links, render_site
from reports.pages.text import template_text

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


def test_fonts_are_embedded_in_a_pdf(results, page):
    pdf, _ = draw_figure(results, page, FigureChoice(format="pdf", width=3.3))
    assert pdf.startswith(b"%PDF")
    assert b"FontFile" in pdf or b"/ObjStm" in pdf


def test_a_figure_shows_the_chosen_lines_and_axis(results, page):
    choice = FigureChoice(format="svg", axis="epsilon", lines=("AdaSSP, tight",), epsilon=2.0)
    _, data = draw_figure(results, page, choice)
    rows = pd.read_csv(io.BytesIO(data))
    assert set(rows["line"]) == {"AdaSSP, tight"}
    assert rows["x"].tolist() == [0.2, 0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    ("choice", "named"),
    [
        ({"panel": "privat"}, "--panel"),
        ({"metric": "error"}, "--metric"),
        ({"epsilon": 7.0}, "--epsilon"),
        ({"lines": ("Nobody",)}, "--lines"),
        ({"axis": "m"}, "--axis"),
        ({"axis": "steps"}, "--axis"),
    ],
)
def test_a_choice_that_the_study_lacks_is_refused_with_what_there_is(results, page, choice, named):
    with pytest.raises(FigureError, match=named):
        draw_figure(results, page, FigureChoice(**choice))


def entry(value, day, *, error=0.01, profile="standard", **fields):
    finished = f"2026-11-{day:02d}T03:00:00+00:00"
    rest = {
        "commit": "c" * 40,
        "data": ("d" * 64,),
        "results": str(day),
        "headline": "Privacy costs.",
        **fields,
    }
    return Entry(finished=finished, profile=profile, replicates=30, value=value, error=error, **rest)


def test_a_run_that_moves_beyond_its_error_is_marked():
    entries = [entry(0.10, 1), entry(0.11, 2), entry(0.30, 3), entry(0.31, 4), entry(0.9, 5, profile="smoke")]
    assert moved(entries) == [False, False, True, False, False]
    assert moved([entry(0.1, 1, error=math.nan), entry(0.2, 2, error=math.nan)]) == [False, True]
    page = render_history("Houses", "error", entries[:4]).decode()
    assert page.count("moved beyond its error") == 1
    assert "cccccccccccc" in page


def test_an_entry_survives_storage():
    kept = entry(0.1, 1, error=math.nan)
    again = Entry.from_plain(kept.to_plain())
    assert again.to_plain() == kept.to_plain()


def test_a_spark_line_needs_three_runs():
    assert spark_line([1.0, 2.0]) == ""
    assert "3 runs" in spark_line([1.0, 2.0, 2.0])


def card(name, when, **fields):
    rest = {"title": name, "headline": "h", "data_source": "real", "seconds": 1.0, "figure_svg": ""}
    rest |= {"href": f"{name}/report.html", "profile": "standard", **fields}
    return Card(name=name, when=when, **rest)


def test_the_newest_run_of_a_study_has_its_name_and_others_say_where_they_came_from():
    runs = arranged(
        [
            (card("housing", "2026-11-01"), "a" * 40, "anna"),
            (card("housing", "2026-11-03"), "b" * 40, "ben"),
            (card("fair", "2026-11-02"), "a" * 40, "anna"),
            (card("housing", "2026-10-01"), "a" * 40, "anna"),
        ]
    )
    assert [run.folder for run in runs] == [
        "fair",
        "housing",
        "housing-aaaaaaaa-anna",
        "housing-aaaaaaaa-anna-2",
    ]
    index = render_site(runs)["index.html"].decode()
    assert "from anna, commit aaaaaaaaaaaa" in index
    assert 'href="housing-aaaaaaaa-anna/report.html"' in index


def test_links_to_nothing_are_found():
    pages = {
        "housing/report.html": b'<a href="../index.html">x</a><a href="gone.csv">y</a><a href="#z">z</a>'
    }
    assert broken_links(pages, ["index.html", "housing/report.html"]) == ["housing/report.html: gone.csv"]
    outside = {"a/b.html": b'<a href="https://example.org/x">x</a><script>"href=\\"q\\""</script>'}
    assert broken_links(outside, []) == []


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


def test_the_filter_searches_words():
    assert "dataset.words" in template_text("filter.js")
