"""Numbers, sentences, and the table behind them."""

import ast
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import reports
from dpalgos.accounting.events import Relation
from reports import writing
from reports.cost import rank
from reports.headline import NoiseComparison, build_headline, guide_at, noise_sentence
from reports.page import Guide
from reports.pages.text import manifest_rows
from reports.results import summarize
from reports.series import View
from reports.table import error_table, failure_table
from reports.writing import macros, repaired
from tests.reports.synthetic import SIZES, with_source


@pytest.fixture(scope="module")
def view(results, page):
    return View.build(summarize(results), page)


def mean(results, **where):
    rows = results
    for column, value in where.items():
        rows = rows[rows[column] == value]
    return rows["value"].mean()


AT_HEAD = {"n": 20000, "panel": "public"}


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (writing.num, 0.10937, "0.109"),
        (writing.num, 0.00716, "0.0072"),
        (writing.num, 0.9999, "1.00"),
        (writing.num, 1234.5, "1,230"),
        (writing.num, 0, "0"),
        (writing.num, math.inf, "∞"),
        (writing.num, 3.2e-5, "3.2 × 10⁻⁵"),
        (writing.setting, 20000, "20,000"),
        (writing.setting, 1e6, "1,000,000"),
        (writing.setting, 1e-6, "1e−06"),
        (writing.times, 0.0016, "0.0016"),
        (writing.times, 0.4, "0.4"),
        (lambda value: writing.error_bar(value, 1.86), 0.02, "0.02"),
        (lambda value: writing.error_bar(value, 1.86), 0.0003, "0.0003"),
        (lambda value: writing.error_bar(value, 2.2e6), 193_452.3, "193,000"),
        (writing.span, [0.034, 0.0361], "0.034–0.036"),
        (writing.span, [0.5, 0.5, math.nan], "0.500"),
        (lambda rule: writing.rule_text(rule, "m"), "10/n^1.1", "10/m¹·¹"),
        (lambda rule: writing.rule_text(rule, "m"), "1e-6", "10⁻⁶"),
        (writing.duration, 125, "2 min 5 s"),
        (writing.words, ["a", "b", "c"], "a, b and c"),
    ],
)
def test_numbers_are_written_as_people_do(write, value, text):
    assert write(value) == text


def test_every_sentence_of_the_template_is_said_somewhere_with_its_arguments():
    said = set()
    for path in Path(reports.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Name)
                and call.func.id == "render_sentence"
            ):
                macro = call.args[0].value
                assert {each.arg for each in call.keywords} == set(getattr(macros(), macro).arguments), macro
                said.add(macro)
    assert said == {name for name in vars(macros()) if not name.startswith("_")}


def test_headline_is_computed_from_the_table(results, view):
    private = {"epsilon": 0.5, "estimator": "preconditioned_regression", **AT_HEAD}
    best = mean(results[results["delta_rule"] == "10/n^1.1"], **private)
    ols = mean(results, estimator="ols", **AT_HEAD)
    head = build_headline(view)
    assert "At ε = 0.5, δ = 10/m¹·¹ and m = 20,000" in head.details
    assert f"(Preconditioned regression, tight noise) has a mean error of {writing.num(best)}" in head.details
    assert f"(Ordinary least squares) it would be {writing.num(ols)}" in head.details
    assert "gives 0.912" in head.details
    assert [tile.value for tile in head.tiles] == [
        writing.num(best),
        writing.num(ols),
        writing.times(best / ols),
        "0.912",
    ]
    assert "20,640 rows" in head.data
    assert "real" in head.data


def test_an_error_that_is_small_since_nearly_all_rows_were_drawn_is_no_small_error(results, page):
    def of(population):
        return View.build(summarize(results), replace(page, population=(population, "rows")))

    ols = series_of(results, page, "ols")
    e, best = ols.mean_at(20_000), series_of(results, page, "preconditioned_regression").mean_at(20_000)
    chance = ols.mean_at(5000) / math.sqrt(1 - 5000 / 20_640) / 2  # .97 of all rows do not tell it
    head = build_headline(of(20_640))
    assert (
        f"it would be {writing.num(e)}, since 20,000 are most of the 20,640 rows that it is compared with; "
        f"about a large population it would be {writing.num(chance)} (standard error" in head.details
    )
    cost = math.sqrt(chance**2 + best**2 - e**2) / chance
    assert [tile.value for tile in head.tiles[1:3]] == [writing.num(chance), writing.times(cost)]
    assert all("about a large population" in tile.caption for tile in head.tiles[1:3])
    assert "most of" not in build_headline(of(100_000)).details


def series_of(results, page, name):
    view = View.build(summarize(results), page)
    return next(s for s in view.series(view.headline) if s.info.name == name)


def with_adassp_near_the_best(results, more):
    near = results.copy()
    at = (near["n"] == 20_000) & (near["epsilon"] == 0.5) & (near["panel"] == "public")
    at &= near["calibration"] == "tight"
    best = near.loc[at & (near["estimator"] == "preconditioned_regression"), "value"].to_numpy()
    near.loc[at & (near["estimator"] == "adassp"), "value"] = best + more
    return near


@pytest.mark.parametrize(("more", "told"), [(0.001, True), (0.5, False)])
def test_estimators_that_repetitions_cannot_tell_apart_are_named(results, page, more, told):
    choice = build_headline(View.build(summarize(with_adassp_near_the_best(results, more)), page)).choice
    sentence = "At m = 20,000 these repetitions cannot tell the best from AdaSSP, tight noise:"
    assert (sentence in choice) == told


@pytest.mark.parametrize(
    ("sparse", "more", "told"),
    [
        ("adassp", 0.5, True),
        ("adassp", 0.001, False),
        ("preconditioned_regression", 0.5, False),
        ("", 0.5, False),
    ],
)
def test_a_page_says_where_a_dense_estimator_is_better(results, page, sparse, more, told):
    near = with_adassp_near_the_best(results, more)
    marked = replace(page, sparse=frozenset([sparse]))
    choice = build_headline(View.build(summarize(near), marked)).choice
    assert ("Dense is better here" in choice) == told


def compared(name, printed, tight, *, certified=0.4, deviation=0.02):
    return NoiseComparison(name, 1, printed, tight, certified, deviation)


def test_the_noise_matters_most_where_errors_differ_most_whichever_way():
    rows = [
        compared("R safe", 0.295, 0.316),
        compared("quantiles", 0.153, 0.202),
        compared("alike", 1.0, 1.0),
    ]
    told = noise_sentence(rows, 0.5)
    assert "most for quantiles: an error of 0.153" in told
    assert "(0.8 times as much)" in told
    unsure = noise_sentence([compared("users", 0.069, 0.051, deviation=0.8)], 0.5)
    assert "most for" not in unsure
    assert "lie within two standard errors" in unsure
    once = noise_sentence([compared("once", 0.069, 0.051, deviation=math.nan)], 0.5)
    assert once == "The noise as printed proves ε = 0.400."


def test_printed_noise_that_proves_nothing_is_named_next_to_noise_that_proves_more():
    told = noise_sentence(
        [compared("(a)", 1, 2, certified=0.2), compared("(b)", 1, 2, certified=math.inf)], 0.5
    )
    assert "The printed noise of (b) proves no finite ε." in told
    assert "than the guarantee needs for (a)" in told


def test_noise_and_limits_are_stated(view):
    head = build_headline(view)
    assert (
        "for Noisy gradient descent, Noisy gradient descent (residual-clipped) and Sketched OLS" in head.noise
    )
    assert "It matters most for Noisy gradient descent" in head.noise
    assert any("Theory" in text and "0.030" in text for text in head.limits)
    assert any("not private" in text and "0.051" in text for text in head.limits)


def test_worse_than_zero_is_said_plainly(results, page):
    worse = results.copy()
    worse.loc[worse["privacy_model"] != "none", "value"] *= 100
    head = build_headline(View.build(summarize(worse), page))
    assert "zero vector beats them all" in head.choice


def test_printed_noise_too_small_is_said(results, page):
    weak = results.copy()
    weak.loc[weak["calibration"] == "paper", ["certified_epsilon", "estimator_epsilon"]] = 0.61
    weak = weak[(weak["epsilon"] == 0.5) | weak["epsilon"].isna()]
    head = build_headline(View.build(summarize(weak), page))
    assert "Too small for the ε = 0.5" in head.noise
    assert "proves only ε = 0.610" in head.noise


def test_headline_falls_back_to_what_ran(standin_results, page):
    view = View.build(summarize(standin_results), page)
    assert view.headline_size == 20600
    assert "m = 20,600" in build_headline(view).details


def rows_of(table):
    """Return the rows of a table of errors by name and noise."""
    return {(row[0].text, row[0].note): row for row in table.cells}


def test_table_marks_best_worse_refused_and_flags(view):
    table = error_table(view, view.headline)
    rows, n_sizes = rows_of(table), len(SIZES)
    best = rows["Preconditioned regression", "tight noise"]
    assert {cell.kind for cell in best[1 : n_sizes + 1]} == {"best"}
    printed = rows["Noisy gradient descent", "printed noise"]
    assert {cell.kind for cell in printed[1 : n_sizes + 1]} == {"worse"}
    refused = rows["Sketched OLS", "printed noise"][1]
    assert (refused.text, refused.kind) == ("refused", "missing")
    assert "50 rows more" in refused.title
    exposed = rows["δ·m", ""][1 : n_sizes + 1]
    assert {cell.kind for cell in exposed} == {"flagged"}
    assert exposed[0].text == "6.3"
    key = dict(table.key)
    assert "more noise than" in key[printed[0].flags]
    assert any("some repetitions failed" in text for text in key.values())
    assert best[-1].text == "0.490–0.500"
    assert [row[-1].text for row in table.cells[-2:]] == ["not private", "sees no data"]


def test_other_rule_is_not_flagged_and_other_preparation_is(view):
    strict = next(s for s in view.settings if s.delta_rule == "1/n^2")
    assert "flagged" not in {cell.kind for cell in rows_of(error_table(view, strict))["δ·m", ""]}
    exposed = next(s for s in view.settings if s.panel == "paper")
    table = error_table(view, exposed)
    letter = next(mark for mark, text in table.key if "prepared with the full data" in text)
    assert all(letter in row[0].flags for row in table.cells if row[0].note)


def test_what_an_answer_remarks_becomes_a_footnote(results, page):
    flagged = results.copy()
    cell = results.loc[results["estimator"] == "preconditioned_regression", "cell"].iloc[0]
    flagged.loc[flagged["cell"] == cell, "message"] = "outside the proof"
    view = View.build(summarize(flagged), page)
    keys = [text for where in view.settings for _, text in error_table(view, where).key]
    assert keys.count("outside the proof") == 1


def test_failures_are_counted_and_grouped(results, view):
    rows = failure_table(results, view).rows
    assert sum(int(row[-1]) for row in rows) == (results["status"] != "ok").sum()
    assert len(rows) == 2
    (what, _, _, where, _) = next(row for row in rows if row[1] == "refused")
    assert what == "Sketched OLS, printed noise"
    assert "m = 100 and 200" in where
    assert "“public” and “paper”" in where


def test_guide_is_interpolated_on_log_scales():
    guide = Guide("1/n", (10.0, 1000.0), (1.0, 0.01))
    assert guide_at(guide, 100) == pytest.approx(0.1)
    assert math.isnan(guide_at(guide, 5))


def test_what_the_page_says_in_its_own_words_is_not_listed_again():
    rows = manifest_rows({"seed": 3, "command": "dpcost run", "data": [{"n_rows": 5}], "budgets": [{"a": 1}]})
    assert rows == (("Seed", "3"), ("Data, 1, n rows", "5"))


def test_the_best_private_estimate_keeps_the_strongest_promise(results, page):
    ranked = rank(View.build(summarize(results), page).series(None) or (), 20000)
    assert ranked.weaker is None
    weak = build_headline(View.build(summarize(results), page)).tiles[0].caption
    best = next(info for info in page.estimators if info.title in weak)
    others = tuple(
        replace(info, relation=info.relation and Relation.LOCAL) if info != best else info
        for info in page.estimators
    )
    view = View.build(summarize(results), replace(page, estimators=others))
    head = build_headline(view)
    assert best.title not in head.tiles[0].caption
    assert f"With a weaker promise ({best.title}" in head.details
    bold = [row[0].text for row in error_table(view, view.headline).cells for c in row if c.kind == "best"]
    assert bold
    assert best.label not in bold


def test_the_headline_names_a_stand_in_of_its_panel_and_no_simulation(results, page):
    panel, summary = page.headline["panel"], summarize(results)
    for source, named in (("stand-in", True), ("simulated", False), ("real", False)):
        mixed = with_source(page, "stand-in", **{panel: source})
        sentence = build_headline(View.build(summary, mixed)).details
        assert sentence.startswith("On a stand-in, not the real data: at ε") is named


def test_no_estimator_is_called_best_where_repetitions_cannot_tell(results, page):
    """Bold and the sentence on sizes name those that tie, and nothing not clearly better than zero."""
    near = with_adassp_near_the_best(results, 0.001)
    view = View.build(summarize(near), page)
    bold = [row[0].text for row in error_table(view, view.headline).cells if row[-3].kind == "best"]
    assert {"AdaSSP", "Preconditioned regression"} <= set(bold)
    assert "share" in build_headline(view).choice
    unsure = results.copy()
    private = unsure["privacy_model"] != "none"
    zero = unsure.loc[unsure["estimator"] == "zero", "value"].mean()
    spread = np.where(unsure["replicate"] % 2 == 0, 0.7, 1.2)
    unsure.loc[private, "value"] = zero * spread[private]
    view = View.build(summarize(unsure), page)
    cells = [cell.kind for row in error_table(view, view.headline).cells for cell in row]
    assert "best" not in cells
    assert "none is clearly better" in build_headline(view).choice


def test_cells_that_are_moved_to_a_bound_are_no_rows_that_are_dropped():
    assert repaired([]) == "nothing was left out or changed"
    blank = {"reason": "moved to the nearer bound", "count": 3}  # a reason is never parsed
    assert repaired([blank]) == "3 rows left out"
    same = {"what": "value", "done": "moved to the nearer bound"}
    moved = [{"reason": name, "count": count, **same} for name, count in (("age", 2682), ("income", 2668))]
    assert repaired(moved) == "5,350 values moved to the nearer bound"
    assert repaired([{**blank, "count": 1}, *moved]) == (
        "1 row left out and 5,350 values moved to the nearer bound"
    )
