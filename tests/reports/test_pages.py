"""The rendered files: complete, escaped, self-contained, the same every time; figures and comparisons."""

import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import vl_convert

from reports import palette
from reports.charts.drawing import specification
from reports.charts.figure import FigureChoice, draw_figure
from reports.charts.lines import Axes, Line, line_chart
from reports.cost import rank
from reports.pages.compare import ComparedRun, render_comparison
from reports.pages.index import Card, render_index
from reports.pages.study import render_study
from reports.results import summarize
from reports.series import View
from reports.table import error_table
from reports.writing import error_bar, num
from tests.reports.synthetic import with_source


class Loads(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.loaded, self.ids, self.scripts, self.links = [], [], 0, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids += [values["id"]] if "id" in values else []
        self.scripts += tag == "script"
        if tag == "a":
            self.links.append(values.get("href", ""))
        else:
            self.loaded += [values[k] for k in ("src", "href", "xlink:href", "data") if k in values]


def test_same_input_same_bytes(standin_results, standin_page, standin_files):
    again = render_study(standin_results.copy(), replace(standin_page))
    assert {f for f in again if standin_files[f] != again[f]} == set()


@pytest.mark.parametrize("fixture", ["files", "standin_files"])
def test_page_is_self_contained(fixture, request):
    html = request.getfixturevalue(fixture)["report.html"].decode()
    page = Loads(html)
    own = html[: html.index("<script")]
    assert all(address.startswith("#") for address in page.loaded)
    assert "@import" not in own
    assert not re.search(r"url\((?!#)", own)
    assert len(page.ids) == len(set(page.ids))
    assert page.scripts == 4  # printing, data, Vega, and what draws the view
    assert len(html) < 1_300_000
    assert set(re.findall(r"url\(#([^)]*)\)", own)) <= set(page.ids)
    assert {a[1:] for a in page.links if a.startswith("#")} <= set(page.ids)


def test_user_text_is_escaped(standin_files):
    html = standin_files["report.html"].decode()
    html = html[: html.index("<script")]
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html
    assert "<b>short" not in html
    assert "<i>" not in html
    assert not any(link.startswith("javascript") for link in Loads(html).links)
    markdown = standin_files["report.md"].decode()
    prose = "\n".join(line for line in markdown.splitlines() if not line.startswith("    "))
    assert "<script>" not in prose
    assert not re.search(r"(?<!\\)\]\(javascript", prose)


def test_markdown_links_only_to_files_that_exist(files):
    markdown = files["report.md"].decode()
    others = {"results.parquet", "manifest.json"}  # the task writes them
    assert set(re.findall(r"\]\(([^)]+)\)", markdown)) <= set(files) | others
    assert "![" in markdown


def test_figures_of_the_page_are_those_of_summary_csv(files):
    html = re.sub(r"<sup.*?</sup>", "", files["report.html"].decode())
    rows = re.findall(r"<tr.*?</tr>", html[: html.index("<script")], re.DOTALL)
    cells = [re.findall(r"<t[dh].*?</t[dh]>", row, re.DOTALL) for row in rows]
    cells = [[re.sub("<[^>]+>", "", cell).strip() for cell in row] for row in cells]
    summary = pd.read_csv(io.BytesIO(files["summary.csv"]))
    asked = "calibration == 'tight' and panel == 'public' and epsilon == 0.5 and delta_rule == '10/n^1.1'"
    for name, title in (("adassp", "AdaSSP"), ("preconditioned_regression", "Preconditioned regression")):
        shown = next(row for row in cells if row[0] == f"{title}tight noise")  # of the headline's table
        found = summary.query(asked)[lambda rows, name=name: rows["estimator"] == name]
        pairs = zip(found["mean"], found["se"], strict=True)
        assert shown[1:-1] == [f"{num(mean)}± {error_bar(se, mean)}" for mean, se in pairs]


def test_an_estimator_that_proves_nothing_is_not_private_and_never_the_best(results, page):
    changed = results.copy()
    unprotected = (changed["estimator"] == "dp_linear_regression") & (changed["calibration"] == "paper")
    assert unprotected.any()
    changed.loc[unprotected, ["certified_epsilon", "estimator_epsilon"]] = np.inf
    changed.loc[unprotected, "value"] = 1e-6
    view = View.build(summarize(changed), page)
    series = {s.label: s for s in view.series(view.headline) if s.role == "unprotected"}
    assert series
    for size in (100, 20_000):
        best = rank(view.series(view.headline), size).best
        assert best is None or best[0].label not in series
    names = {s.name for s in view.series(view.headline) if s.role == "unprotected"}
    rows = [row for row in error_table(view, view.headline).cells if row[0].text in names and row[0].flags]
    printed = [row for row in rows if row[0].note == "printed noise"]
    assert [row[-1].text for row in printed] == ["not private"] * len(names)


def test_card_survives_storage_and_makes_an_index(files, standin_files):
    card, other = (Card.from_json(each["card.json"]) for each in (files, standin_files))
    assert (card.href, card.seconds) == ("housing/report.html", 48.0)
    assert [epsilon for epsilon, *_ in card.costs] == [0.2, 0.5, 1.0, 2.0]
    assert all(ratio > 1 and error > 0 for _, ratio, error in card.costs)
    assert not other.costs  # on a stand-in
    card = replace(card, warning="NOT FOR PUBLICATION", datasets=("mine",))
    html = render_index([other, card])["index.html"].decode()
    assert html == render_index([card, other])["index.html"].decode()
    page_read = Loads(html)
    assert page_read.loaded == ["housing/figures/card.svg"] * 2
    assert len(page_read.ids) == len(set(page_read.ids))
    assert "<script>alert" not in html
    for shown in ("stand-in, not the real data", "took 48 s", "overview-title", 'data-dataset="mine"'):
        assert shown in html
    assert '<p class="banner">NOT FOR PUBLICATION</p>' in html


def few(results):
    return results[results["n"].isin([5000, 20_000]) & results["epsilon"].isin([0.5, np.nan])]


def test_a_headline_of_simulated_rows_is_no_error_on_real_data(results, page, files):
    mixed = with_source(page, "real", public="simulated", paper="real")
    card = Card.from_json(render_study(few(results), mixed)["card.json"])
    assert (card.data_source, card.is_compared, card.costs) == ("simulated", False, [])
    assert Card.from_json(files["card.json"]).is_compared


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
    far = other["estimator"].eq("preconditioned_regression") & other["n"].eq(20_000)
    far &= other["epsilon"].eq(0.5)
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
