"""The rendered files: complete, escaped, self-contained, the same every time; figures and comparisons."""

import io
import math
import re
from dataclasses import replace
from html import escape, unescape
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from data.results.summary import summarize
from dpalgos import get_estimator
from flows.studies.find_study import find_study, study_names
from reports import palette
from reports.cells import cells_of, errors_of
from reports.charts.figure import draw_figure
from reports.charts.study import StudyChart
from reports.error_table import method_table
from reports.exhibits import covered_shares, draw_exhibits
from reports.exhibits.tables import draw
from reports.page import ZERO, Section
from reports.pages.index import render_index
from reports.pages.study import render_study
from reports.ranking import rank
from reports.render import SCRIPT
from reports.writing import error_bar, num, num_in
from tasks.report.build_page import _assumptions
from tests.reports.synthetic import entry, figure_4b, measured, replaced


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


def test_same_input_same_bytes(standin_results, standin_page, standin_report):
    again = render_study(standin_results.copy(), replace(standin_page)).files
    assert {f for f in again if standin_report.files[f] != again[f]} == set()


@pytest.mark.parametrize("fixture", ["report", "standin_report"])
def test_a_page_loads_pictures_of_its_own_and_one_script_next_to_it(fixture, request):
    html = request.getfixturevalue(fixture).files["report.html"].decode()
    page = Loads(html)
    addresses = [address for address in page.loaded if not address.startswith("data:image/svg+xml;base64,")]
    assert addresses == [f"../{SCRIPT}"]
    assert "@import" not in html
    assert "url(" not in html
    assert len(page.ids) == len(set(page.ids))
    assert page.scripts == 2  # its data and what pages run
    assert len(html) < 1_300_000
    assert {a[1:] for a in page.links if a.startswith("#")} <= set(page.ids)


def test_no_table_repeats_the_heading_above_it(report):
    html = report.files["methods.html"].decode()
    headings = set(re.findall(r"<h[23]>(.+?)</h[23]>", html))
    assert {"Budget shares", "The estimators"} <= headings
    assert headings.isdisjoint(re.findall(r"<caption>(.+?)</caption>", html))


def test_user_text_is_escaped(standin_report):
    html = standin_report.files["report.html"].decode()
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html
    assert "<b>short" not in html
    assert "error <i>" not in html
    assert "m <i>" not in html
    assert not any(link.startswith("javascript") for link in Loads(html).links)
    markdown = standin_report.files["report.md"].decode()
    prose = "\n".join(line for line in markdown.splitlines() if not line.startswith("    "))
    assert "<script>" not in prose
    assert not re.search(r"(?<!\\)\]\(javascript", prose)


def test_markdown_links_only_to_files_that_exist(report):
    markdown = report.files["report.md"].decode()
    others = {"results.parquet", "manifest.json"}  # the task writes them
    assert set(re.findall(r"\]\(([^)]+)\)", markdown)) <= set(report.files) | others
    assert "![" in markdown


def table_of(results, page):
    """Return the first table of a page by the text of its first cells, and its columns."""
    _, cells, head = measured(results, page)
    table = method_table(page, errors_of(cells, page), head.where, head.x)
    return {row[0].text + row[0].note: row for row in table.cells}, list(table.columns)


def test_figures_of_the_page_are_those_of_summary_csv(report):
    html = report.files["report.html"].decode()
    rows = re.findall(r"<tr.*?</tr>", html[: html.index("<script")], re.DOTALL)
    cells = [re.findall(r"<t[dh].*?</t[dh]>", row, re.DOTALL) for row in rows]
    cells = [[re.sub("<[^>]+>", "", cell).strip() for cell in row] for row in cells]
    summary = pd.read_csv(io.BytesIO(report.files["summary.csv"]))
    asked = "calibration == 'tight' and panel == 'public' and n == 20000"
    for name, title in (("adassp", "AdaSSP"), ("preconditioned_regression", "Preconditioned regression")):
        shown = next(row for row in cells if row[0] == title)  # of the headline's table
        found = summary.query(f"{asked} and (delta_rule == '10/n^1.1' or epsilon == 1000)")
        found = found[found["estimator"] == name].sort_values("epsilon")
        pairs = zip(found["mean"], found["se"], strict=True)
        assert shown[1:-1] == [f"{num(mean)}±\u00a0{error_bar(se, mean)}" for mean, se in pairs]


def test_an_estimator_that_proves_nothing_is_not_private_and_never_the_best(results, page):
    changed = results.copy()
    unprotected = (changed["estimator"] == "dp_linear_regression") & (changed["calibration"] == "paper")
    assert unprotected.any()
    changed.loc[unprotected, ["certified_epsilon", "estimator_epsilon"]] = np.inf
    changed.loc[unprotected, "value"] = 1e-6
    *_, head = measured(changed, page)
    names = {row.name for row in head.rows if row.role == "unprotected"}
    assert names
    for size in (100, 20_000):
        best = rank(head.rows, size).best
        assert best is None or best.role == "private"
    rows, _ = table_of(changed, page)
    for name in names:
        certified = rows[f"{name}paper's calibration"][-1]
        assert (certified.text, certified.kind) == ("none: not private", "flagged")


def test_a_certified_epsilon_above_its_target_is_flagged(results, page):
    """In the table, in HTML and as Markdown; a smaller one is not."""
    changed = results.copy()
    at = changed["estimator"].eq("adassp") & changed["calibration"].eq("tight") & changed["epsilon"].eq(0.5)
    changed.loc[at, ["certified_epsilon", "estimator_epsilon"]] = 0.6
    rows, _ = table_of(changed, page)
    assert (rows["AdaSSP"][-1].text, rows["AdaSSP"][-1].kind) == ("0.600", "flagged")
    assert rows["Preconditioned regression"][-1].kind == ""
    files = render_study(changed, page).files
    assert '<td class="flagged number">0.600' in files["report.html"].decode()
    assert "0.600 ⚠" in files["report.md"].decode()


def test_what_a_run_writes_makes_an_index(report, standin_report):
    times = {"started": "2026-03-12T14:05:00+00:00", "warning": "NOT FOR PUBLICATION"}
    one, other = entry(report, **times), entry(standin_report, "second")
    assert not one.is_compared
    one = entry(report, started=times["started"])
    errors = one.page["errors"]
    assert one.cost == pytest.approx(errors["private"][0] / errors["method"][0])
    assert one.cost > 1
    assert (one.source, other.source, one.datasets) == ("real", "stand-in", ["housing"])
    assert "AdaSSP" in one.estimators
    html = render_index([other, one])["index.html"].decode()
    assert html == render_index([one, other])["index.html"].decode()
    assert [each for each in Loads(html).loaded if not each.startswith("data:")] == [SCRIPT]
    assert len(Loads(html).ids) == len(set(Loads(html).ids))
    assert "<script>alert" not in html
    factor = num_in(one.cost, *one.page["factor"][1:])
    shown = "stand-in, not the real data", 'href="housing/report.html"', report.about["title"], f"× {factor}"
    html = html.replace("\u00a0", " ")
    assert [words for words in shown if words not in html] == []


@pytest.mark.parametrize("summary", [b"", b"a,b\n1,2\n", b'"', b"\xff\xfe"])
def test_a_summary_that_no_run_writes_is_refused(report, summary):
    with pytest.raises(ValueError):
        entry(replace(report, files={"summary.csv": summary}))


def test_the_index_has_each_study_once_by_what_privacy_costs(report):
    """Its bar has the parts of the error, as shares of the error of zero."""
    errors = {"without": (0.1, 0.01), "method": (0.1, 0.0), "zero": (1.0, 0.0)}
    private = {"dear": (0.5, 0.0), "cheap": (0.11, 0.0), "middle": (0.2, 0.0)}
    found = [
        entry(report, name, {"errors": errors | {"private": each}, "factor": [each[0] / 0.1, *limits]})
        for (name, each), limits in zip(private.items(), [(4, 6), (0.9, 1.3), (1.5, 3)], strict=True)
    ]
    html = render_index(found)["index.html"].decode()
    assert re.findall(r'href="(\w+)/report.html"', html) == ["cheap", "middle", "dear"]
    assert found[0].steps == [("sampling", 0, 10), ("method", 10, 0), ("privacy", 10, 40)]
    assert ("× 5.00" in html, "× 1.1" in html, "not distinguishable" in html) == (True, False, True)
    close = entry(
        report, "close", {"errors": errors | {"private": (0.1016, 0.0)}, "factor": [1.016, 1.002, 1.031]}
    )
    assert "× 1.016<" in render_index([close])["index.html"].decode()  # as the finding says


def test_the_index_of_all_shipped_studies_has_at_most_600_words(report):
    titles = {name: find_study(name).title for name in study_names()}
    entries = [entry(report, name, {"title": title, "trial": "Trial run"}) for name, title in titles.items()]
    html = render_index(entries)["index.html"].decode()
    main = re.sub(r"<[^>]*>", " ", html[html.index("<main") :])
    assert 300 < len(main.split()) <= 600


def few(results):
    return results[results["n"].isin([5000, 20_000]) & results["epsilon"].isin([0.5, np.nan])]


def test_a_headline_of_simulated_rows_is_no_error_on_real_data(results, page):
    mixed = few(results).copy()
    mixed.loc[mixed["panel"] == "public", "data_source"] = "simulated"
    assert entry(render_study(mixed, page)).source == "simulated"


def test_means_of_an_own_table_have_no_sign(page, results):
    about = {"estimator": "adassp", "form": "", "epsilon": 0.5, "n": 20_000, "left_out": [], "covers": ""}
    of_means = {**about, "numbers": "means", "rows": [["age", 55.0, 54.0, 56.0, 55.2]]}
    text = render_study(results, replaced(page, own_table=of_means)).files["report.md"].decode()
    assert "Each mean is in the units of the file." in text
    assert "| Column | private | 95% interval | without privacy |\n" in text


def test_an_estimate_of_zero_has_no_sign_and_the_page_says_that_its_interval_costs_budget(page, results):
    about = {"estimator": "adassp", "form": "", "epsilon": 0.5, "n": 20_000, "left_out": [], "covers": ""}
    rows = [["age", 1e-17, None, None, 0.5], ["bmi", 0.2, None, None, 0.1]]
    content = {**about, "numbers": "slopes", "rows": rows, "pays_interval": True}
    text = render_study(results, replaced(page, own_table=content)).files["report.md"].decode()
    assert "| age | 0 | none | 0.500 | none |" in text
    assert "1 of 2 have the sign" in text
    assert "whose interval costs a part of ε" in text


def test_a_data_page_states_the_origin_of_a_file(results, page):
    card = page.data_cards[0]
    note = "An address that nobody verified: https://example.org/all.zip."
    source = replace(card.dataset.source, note=note)
    other = replace(card, dataset=replace(card.dataset, source=source))
    files = render_study(results, replace(page, data_cards=(other,))).files
    assert source.note in unescape(files[other.file].decode())


def test_a_page_has_every_fact_that_is_in_no_table_of_results(page, report):
    """What a study's file, its manifest and its problem say stands on the page or on that of its methods."""
    of = {each.kind: each.context for each in page.sections}
    facts = [page.question, *of["trust"]["notes"], of["trust"]["measured"], "wrong for 0.051 of the rows"]
    facts += [text for each in of["public"]["rows"] for text in each]
    facts += [*of["variants"]["about"].values(), *of["estimators"]["settings"]["adassp"]]
    facts += [page.manifest[key] for key in ("command", "machine", "commit")]
    facts += page.manifest["rerun_commands"]
    facts += [f"{name} 50%" for name in ("XᵀX", "Xᵀy")]
    facts += ["20,640", page.data_cards[0].read["source_sha256"][:12]]
    pages = (report.files[name].decode() for name in ("report.html", "methods.html"))
    text = " ".join(re.sub(r"\u00a0", " ", unescape(each)) for each in pages)
    text = " ".join(text.split())
    assert [fact for fact in facts if " ".join(fact.split()) not in text] == []


POINTS = re.compile(r'<svg[^>]* width="([\d.]+)"')


@pytest.mark.parametrize("width", [3.3, 6.5])
def test_a_figure_has_the_wanted_width_and_its_data(results, page, width):
    svg, data = draw_figure(results, page, "svg", width)
    assert float(POINTS.search(svg.decode())[1]) == pytest.approx(72 * width)
    shown = re.search(r'width="([\d.]+)" height="([\d.]+)" viewBox="0 0 ([\d.]+) ([\d.]+)"', svg.decode())
    wide, high, of_drawing, height_of_drawing = map(float, shown.groups())
    assert wide / high == pytest.approx(of_drawing / height_of_drawing, rel=1e-3)  # no margins
    cut = re.findall(">([^<]*…)<", svg.decode())
    assert not cut or width < 4  # the title of a narrow axis
    rows = pd.read_csv(io.BytesIO(data), keep_default_na=False)
    assert {"Zero vector", "Ordinary least squares", "Preconditioned regression, tight"} <= set(rows["line"])
    for name in rows["line"].unique():
        assert escape(name.removesuffix(", tight"), quote=False) in svg.decode()
    ols = results[results["estimator"].eq("ols") & results["panel"].eq("public") & results["n"].eq(20_000)]
    measured = rows[rows["estimator"].eq("ols") & rows["x"].eq(20_000)]["mean"].item()
    assert float(measured) == pytest.approx(ols["value"].mean())


def shares_of(color):
    return np.array([int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)])


def contrast(one, other):
    def luminance(shares):
        linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
        return float(linear @ (0.2126, 0.7152, 0.0722)) + 0.05

    dark, light = sorted(map(luminance, (one, other)))
    return light / dark


@pytest.mark.parametrize(
    "color", [*palette.SERIES, palette.GUIDE, palette.ZERO_LINE, palette.NON_PRIVATE, palette.WARN]
)
def test_each_line_stands_out_from_the_page(color):
    assert contrast(shares_of(color), shares_of(palette.PAPER)) >= 3  # of graphics, by WCAG


def test_no_two_estimators_of_a_study_share_a_mark():
    """Of the private ones a color and a shape, of the others a shape."""
    for name in study_names():
        spec = find_study(name)
        every = {(i.name, i.form) for panel in spec.panels for i in spec.estimators_of(panel)}
        forms = {each: sorted(form for other, form in every if other == each) for each, _ in every}
        for panel in spec.panels:
            marks = []
            for each, form in {(i.name, i.form) for i in spec.estimators_of(panel)} - {(ZERO, "")}:
                info, place = get_estimator(each), forms[each].index(form)
                look = palette.look("private" if info.private else "nonprivate", info.order, place)
                marks.append((look.color, look.shape))
            assert sorted(marks) == sorted(set(marks)), (name, panel.name)


TABLE = {"title": "t", "text": "", "metric": "", "exhibit": "", "panels": (), "without_privacy": False}


def test_a_declared_table_has_the_means_of_its_groups(results, page):
    about = TABLE | {"metric": "l2_error", "rows": ("epsilon", "estimator")}
    about |= {"columns": "n", "names": {"n": "m"}}
    about["summaries"] = ("slope", "at most 1", "geometric mean")
    summary = summarize(results[results["panel"].eq("public") & results["delta_rule"].isin(["", "1/n^2"])])
    (section,) = draw(page, cells_of(summary, page), None, {"tables": [about]})
    table = section.context["table"]
    assert table.columns[:3] == ("epsilon", "estimator", "m = 100")
    assert table.columns[-3:] == about["summaries"]
    row = next(each for each in table.cells if [each[0].text, each[1].text] == ["0.5", "AdaSSP"])
    known = summary.query("estimator == 'adassp' and calibration == 'tight' and epsilon == 0.5")
    known = known.sort_values("n")
    assert [cell.text for cell in row[2:-3]] == [num(mean) for mean in known["mean"]]
    assert row[-2].text == f"{(known['mean'] <= 1).sum()} of {len(known)}"
    assert row[-1].text == num(np.exp(np.log(known["mean"]).mean()))
    assert row[-3].text.startswith("−0.4")  # the slope


def declared(page, cells, **about):
    """Return a declared table of some mean errors: (panel, form, mean), or with a calibration."""
    columns = ["panel", "form", "mean", "calibration"]
    cells = pd.DataFrame([(*each, "tight")[:4] for each in cells], columns=columns)
    same = {"metric": "l2_error", "estimator": "adassp", "role": "private", "se": 0.01, "name": "AdaSSP"}
    about = {**TABLE, "metric": "l2_error", "names": {}, "summaries": (), **about}
    (section,) = draw(page, cells.assign(**same), None, {"tables": [about]})
    return section.context["table"]


def test_forms_are_compared_with_the_same_calibration(page):
    rows = [("a", "", 1.0), ("a", "", 5.0, "paper"), ("a", "other", 2.0)]
    (row,) = declared(page, rows, rows=("panel",), columns="form").cells
    assert [(cell.text, cell.kind) for cell in row[1:]] == [("1.00", "best"), ("2.00", "")]


def test_a_form_without_a_rival_is_not_the_best(page):
    (row,) = declared(page, [("a", "", 1.0)], rows=("panel",), columns="form").cells
    assert [(cell.text, cell.kind) for cell in row] == [("a", ""), ("1.00", "")]


def test_a_summary_says_on_how_many_tables_a_row_has_no_number(page):
    rows = [
        ("easy", "A", 0.5),
        ("hard", "A", 50.0),
        ("easy", "B", 0.6),
        ("easy", "C", 0.0),
        ("hard", "C", 2.0),
    ]
    summaries = ("at most 1", "geometric mean")
    table = declared(page, rows, rows=("form",), columns="panel", summaries=summaries)
    expected = {
        "A": ["1 of 2", "5.00"],
        "B": ["1 of 2", "0.600 (1 left out)"],
        "C": ["1 of 2", "2.00 (1 left out)"],
    }
    assert {row[0]: row[-2:] for row in table.texts} == expected


def test_a_declared_table_shows_rows_of_an_exhibit_that_fit_it(results, page):
    rows = [["a", 0.12345], ["b", 12], ["of an earlier version", 1, 2]]
    about = {**TABLE, "exhibit": "spread", "rows": ("what", "value"), "content": rows}
    page = replaced(page, tables={"tables": [about]})
    (section,) = draw_exhibits(*measured(few(results), page))
    assert section.context["table"].texts == [["a", "0.123"], ["b", "12"]]


def test_a_study_of_intervals_says_how_many_cells_cover_too_rarely_and_shows_means_by_estimator(
    results, page
):
    cells = cells_of(summarize(few(results)), page)
    shares = {"coverage": 0.96, "naive": 0.5, "flagged": 0.25}
    cells = pd.concat([cells.assign(metric=name, mean=share, se=0.01) for name, share in shares.items()])
    private = cells["metric"].eq("coverage") & cells["epsilon"].notna()
    low = cells["estimator"].eq("adassp") & private
    cells.loc[low, "mean"] = 0.90
    content = dict(zip(shares, shares, strict=True))
    (section,) = covered_shares.draw(page, cells, None, content)
    counts = [int(each) for each in re.findall(r"(\d+) (?:private )?cells", section.context["answer"])]
    assert counts == [private.sum(), low.sum()]
    about = {**TABLE, "metric": "coverage", "rows": ("estimator", "code"), "columns": "metric"}
    about |= {"names": {"estimator": "Estimator", "code": "Name", **content}, "summaries": ()}
    (section,) = draw(page, cells, None, {"tables": [about]})
    rows = {row[1]: row[2:] for row in section.context["table"].texts}
    assert rows["adassp"] == ["0.900", "0.250", "0.500"]
    assert rows["sheffet_ols"] == ["0.960", "0.250", "0.500"]


def test_a_line_of_one_panel_is_none_of_another(results, page):
    rows = results[(results["estimator"] != "adassp") | (results["panel"] == "paper")]
    chart = StudyChart.build(*measured(rows, page))
    for panel in ("public", "paper"):
        lines = set(replace(chart, choice={**chart.choice, "panel": panel}).chosen(list(chart.looks))["line"])
        assert "Ordinary least squares" in lines
        assert any(line.startswith("AdaSSP") for line in lines) is (panel == "paper")


def test_theory_is_drawn_only_if_it_is_chosen(results, page):
    theory = page.guides[0].label
    live = StudyChart.build(*measured(results, page)).with_menus(page.metric, "")
    box = next(each for each in live["params"] if each["name"] == "theory")
    assert (box["value"], box["bind"]["input"]) == (False, "checkbox")
    assert theory in live["data"]["values"]
    assert theory.encode() not in render_study(results, page).files["figures/main.svg"]


def test_the_pointer_has_one_line_and_the_nearest_point_in_both_directions(results, page):
    live = StudyChart.build(*measured(results, page)).with_menus(page.metric, "")
    (picks,) = [layer["params"][0]["select"] for layer in live["layer"] if "params" in layer]
    assert picks["nearest"]
    assert "encodings" not in picks  # with one of x, the nearest point would be that in this direction alone
    rule = next(layer for layer in live["layer"] if layer["mark"]["type"] == "rule")
    assert {"aggregate": [], "groupby": ["x"]} in rule["transform"]


def test_every_panel_has_a_small_chart(results, page):
    files = render_study(results, page).files
    svg = files["figures/panels.svg"].decode()
    assert all(f"{name}: Preconditioned regression" in svg for name in ("public", "paper"))
    one = render_study(results[results["panel"] == "public"], page).files
    assert "figures/panels.svg" not in one


def repeated(results, page, **changes):
    with_figure = replace(page, figures=(figure_4b(**changes),), papers={"A": "The paper"})
    report = render_study(results, with_figure)
    return report.files["report.html"].decode(), report.files["report.md"].decode(), report.files


def test_a_page_has_the_figure_that_a_paper_prints(results, page):
    html, markdown, files = repeated(results, page)
    for text in (html, markdown):
        assert text.index("The paper’s Figure 4b, our run") < text.index("Can I trust it?")
        assert "Figure 4b of The paper. Nothing differs." in text
    assert 'data-name="Figure 4b of the paper"' in html
    svg = files["figures/figure-4b.svg"].decode()
    assert "without privacy" in svg
    assert "20,600" not in svg


def test_a_tab_names_all_figures_that_papers_print_and_says_that_data_stand_in(standin_results, standin_page):
    figures = figure_4b(x_range=None), figure_4b(name="Figure 5", x_range=None)
    page = replace(standin_page, figures=figures, papers={"A": "The paper"})
    html = render_study(standin_results, page).files["report.html"].decode()
    tab = html[html.index('data-name="Figures 4b and 5 of the paper"') :]
    assert "STAND-IN DATA" in tab[: tab.index("our run")]


def test_a_printed_figure_says_which_of_its_settings_ran(results, page):
    rows = results[(results["delta_rule"] != "10/n^1.1") & (results["panel"] != "paper")]
    _, markdown, _ = repeated(rows, page, instead="public")
    assert "our run, panel “public”, δ = 1/m²" in markdown
    assert "our run" not in repeated(rows, page)[1]


def test_a_printed_table_has_our_numbers_next_to_the_papers(results, page):
    results = results[results["panel"] == "public"].assign(s=7)
    lines = [{"estimator": "dp_linear_regression", "calibration": "tight"}, {"estimator": "ols"}]
    printed = [["1/n^2", 0.5, "0.25 (0.01)"], ["1/n^2", math.inf, "0.125"]]
    table = {"columns": "s", "values": [7], "printed": printed, "lines": lines, "panel": "public"}
    at_one_size = results[results["n"] == 20000]
    _, markdown, _ = repeated(at_one_size, page, **table)
    rows = [line for line in markdown.splitlines() if "0.25 (0.01)" in line or "| 0.125 |" in line]
    means = [float(row.split("|")[4].split("±")[0]) for row in rows]
    chosen = at_one_size[(at_one_size["delta_rule"] == "1/n^2") & (at_one_size["epsilon"] == 0.5)]
    ours = chosen[(chosen["estimator"] == "dp_linear_regression") & (chosen["calibration"] == "tight")]
    ols = at_one_size[at_one_size["estimator"] == "ols"]
    expected = [ours["value"].mean(), ols["value"].mean()]
    assert means == pytest.approx(expected, rel=0.06)


def test_a_trial_run_says_what_it_ran(results, page):
    """Few repetitions, and sizes below the study's; the banner of a stand-in does not replace the trial's."""
    rows = results[results["replicate"] < 3].assign(data_source="stand-in")
    card = replace(page.data_cards[0], read={**page.data_cards[0].read, "data_source": "stand-in"})
    trial = replace(page, full_sizes={"public": 40_000, "paper": 20_600}, data_cards=(card,))
    report = render_study(rows, trial)
    assert report.about["trial"].endswith("3 repetitions; public n = 20,600 instead of 40,000")
    first = report.files["report.md"].decode().partition("\n**Preconditioned")[0]
    assert "STAND-IN DATA" in first
    assert report.about["trial"] in first
    assert report.about["trial"] in render_index([entry(report)])["index.html"].decode()
    assert render_study(results, page).about["trial"] == ""


def test_the_index_says_why_a_study_has_no_bar(results, page):
    """Without a zero baseline there is none to divide by; without a non-private error the study is drawn."""
    without = [results[results["estimator"] != name] for name in ("zero", "ols")]
    no_zero, no_ols = (entry(render_study(rows, page), "ab"[k]) for k, rows in enumerate(without))
    whole = entry(render_study(results, page))
    assert (no_zero.is_compared, no_ols.is_compared) == (False, True)
    assert "no zero baseline" in no_zero.why_not_compared
    rows = render_index([whole, no_zero, no_ols])["index.html"].decode().split("<tr ")
    (row,) = [each for each in rows if 'href="a/report.html"' in each]
    assert "it has no zero baseline above 0" in row


def test_delta_times_people_counts_people(results, page):
    """A size may be the rows of a user, or half of the people."""
    for n_people, says in ((10**9, "too many"), (None, "")):
        people = {(panel, 20_000): n_people for panel in ("public", "paper")}
        text = render_study(results, replace(page, people=people)).files["report.md"].decode()
        assert ("people on average: too many" in text) is bool(says)
        assert ("people on average" in text) is (n_people is not None)


def test_an_error_that_is_not_known_is_not_bold(results, page):
    rows = results.copy()
    at = rows["estimator"].eq("adassp") & rows["n"].eq(20_000)
    rows.loc[rows["estimator"] == "zero", "value"] = 100.0
    rows.loc[at, "value"] = 5 + 5 * (-1.0) ** rows["replicate"]
    rows.loc[at & rows["replicate"].gt(0), "value"] = 0.1
    rows.loc[at & rows["replicate"].eq(0), "value"] = 60.0
    *_, head = measured(rows, page)
    row = next(row for row in head.ranking.tied if row.estimator == "adassp")
    assert row.mean > 10 * head.ranking.best.mean
    lines, columns = table_of(rows, page)
    assert lines["AdaSSP"][columns.index("ε = 0.5")].kind != "best"


def test_an_audit_has_a_column_and_a_word(results, page):
    audited = results.assign(audited_epsilon=np.where(results["calibration"] == "tight", 0.0, np.nan))
    rows, columns = table_of(audited, page)
    assert columns[-1] == "audited at ε = 0.5, ≥"
    assert rows["AdaSSP"][-1].text == "0"
    assert "an attack showed" in render_study(audited, page).files["report.md"].decode()
    assert "No attack was run" in render_study(results, page).files["report.md"].decode()


def test_one_repetition_has_no_headline_no_number_to_quote_and_no_place_on_the_index(results, page):
    report = render_study(results[results["replicate"] == results["replicate"].min()], page)
    markdown = report.files["report.md"].decode()
    assert "There is no headline" in markdown
    assert report.about["errors"] is None
    assert "one repetition" in report.about["not_compared"]


def test_a_page_names_errors_that_rise_with_epsilon_or_with_the_number_of_rows(results, page):
    rows = results[results["estimator"].isin(["zero", "ols", "adassp"])].copy()
    rows = rows[rows["n"].isin([100, 1000, 10_000, 20_000])]
    assert "Errors that rise" not in render_study(rows, page).files["report.md"].decode()
    of_adassp = rows["estimator"].eq("adassp") & rows["calibration"].eq("tight") & rows["panel"].eq("public")
    of_adassp &= rows["delta_rule"].eq("1/n^2") & rows["epsilon"].eq(2.0)
    rows.loc[of_adassp & rows["n"].eq(20_000), "value"] *= 10
    text = render_study(rows, page).files["report.md"].decode()
    for step in ("from ε = 1 to 2", "from m = 10,000 to 20,000"):
        assert "AdaSSP, tight calibration, panel “public”" in text
        assert step in text


def test_settings_by_forecast_are_on_the_page_of_methods(results, page):
    """Read from the cells that ran, by estimator and calibration."""
    assumptions = _assumptions(find_study("housing"))
    facts = [row for row in assumptions if row[0].startswith("AdaSSP")]
    public = replace(page, sections=(Section("public", {"rows": assumptions}),))
    methods = unescape(render_study(results, public).files["methods.html"].decode())
    assert all(text in methods for what, values, _ in facts for text in (what[:30], values.split(" = ")[-1]))
    assert len(facts) == 2
    for what, values, source in facts:
        assert "ε = 0.5, n = 20,000" in what
        assert re.fullmatch(r"covariate_bound = [\d.]+, response_bound = [\d.]+", values)
        assert "no row of the data" in source


def test_a_page_marks_a_commit_from_which_files_differed(results, page):
    for mark in ("", "-dirty"):
        manifest = {**page.manifest, "commit": "0123456789" * 4 + mark}
        methods = render_study(results, replace(page, manifest=manifest)).files["methods.html"].decode()
        assert f"commit 01234567{mark};" in methods or f"commit 01234567{mark}<" in methods
