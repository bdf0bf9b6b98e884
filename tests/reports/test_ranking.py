"""What a page says first: the parts of an error, a ranking, and no contradiction with the table."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.results.summary import summarize
from data.results.table import LIMIT
from reports.cells import errors_of, nearest_value
from reports.charts.study import HARDLY_NOISY, StudyChart, draw_study
from reports.error_table import method_table
from reports.exhibits import covered_shares, own_table
from reports.new_sample import page_cells
from reports.pages.error_page import content
from reports.ranking import headline_of, index_errors, parts_of
from reports.writing import num
from tests.reports.synthetic import measured


def read(results, page):
    """Return the cells of a page, its headline and the parts of its error."""
    found = page_cells(summarize(results), results, page)
    head = headline_of(found.cells, page)
    return found, head, parts_of(head, page, found)


def sentence_of(results, page):
    found = page_cells(summarize(results), results, page)
    return content(page, found, headline_of(found.cells, page), found.cells).sentence


POPULATION = 40_000
SIZES = (100, 1000, 10_000, 20_000, 30_000)
KEPT = ["ols", "zero", "preconditioned_regression"]


def chance(m):
    return 3 / math.sqrt(m)


@pytest.fixture
def rows_of_chance(results, page):
    """A function that returns results and their page, where privacy adds an error to that of a subsample."""

    def build(added, spread=None):
        rows = results[results["panel"].eq("public") & results["n"].isin(SIZES)].copy()
        rows = rows[rows["estimator"].isin(KEPT)]
        copy = rows[rows["n"].eq(20_000)].assign(n=30_000)
        copy["cell"] += "+"
        rows = pd.concat([rows, copy], ignore_index=True)
        within = rows["n"].map(lambda m: chance(m) * math.sqrt(1 - m / POPULATION))
        beside = [
            added(m, e) if math.isfinite(e) else 0.0 for m, e in zip(rows["n"], rows["epsilon"], strict=True)
        ]
        error = np.hypot(within, beside)
        if spread is not None:
            error *= [spread(r, e) for r, e in zip(rows["replicate"], rows["epsilon"], strict=True)]
        rows["value"] = error.where(rows["estimator"] != "zero", 9.0)
        changes = {"population": (POPULATION, "rows"), "headline": {**page.headline, "n": max(SIZES)}}
        return rows, replace(page, **changes)

    return build


def test_errors_are_as_for_a_new_sample_everywhere(rows_of_chance):
    """Bars, headline, table, chart, its words and the index have the same numbers."""
    rows, page = rows_of_chance(lambda m, e: 2 * chance(m) if e < LIMIT else 0.0)
    found, head, parts = read(rows, page)
    assert parts.sampling.value == parts.method.value == pytest.approx(chance(30_000))
    assert parts.factor.value == pytest.approx(math.sqrt(5))
    drawn = StudyChart.build(page, found.cells, head).chosen(["Ordinary least squares"])
    assert drawn["mean"].tolist() == pytest.approx([chance(m) for m in SIZES])
    table = method_table(page, errors_of(found.cells, page), head.where, head.x)
    shown = {row[0].text: [cell.text for cell in row] for row in table.cells}
    alt = draw_study(page, found.cells, head).main.alt
    for error, name in (
        (parts.private, "Preconditioned regression"),
        (parts.sampling, "Ordinary least squares"),
    ):
        assert num(error.value) in shown[name]
        assert num(error.value) in alt
    assert index_errors(head, page)["without"][0] == pytest.approx(parts.sampling.value)
    assert "error 2.24 times as large" in sentence_of(rows, page)


def test_an_error_of_the_method_is_none_of_privacy(rows_of_chance):
    """A floor that stays at ε = 1,000 is in the second part alone, however large it is."""
    floor = 5 * chance(30_000)
    rows, page = rows_of_chance(lambda m, e: math.hypot(floor, 2 * chance(m)) if e < LIMIT else floor)
    _, _, parts = read(rows, page)
    s = chance(30_000)
    assert [each.value for _, each, _ in parts.steps] == pytest.approx(
        [s, math.sqrt(26) * s, math.sqrt(30) * s]
    )
    assert parts.factor.value == pytest.approx(math.sqrt(30 / 26))
    rows, page = rows_of_chance(lambda m, e: floor)
    _, _, parts = read(rows, page)
    assert parts.may_be_none
    assert "not distinguishable from none" in sentence_of(rows, page)


def test_a_bar_is_as_long_as_its_number(rows_of_chance):
    """Even if the method has a smaller error than the one without privacy, or noise makes it smaller."""
    for with_noise, without in ((2, 3), (3, 0), (2, 5)):
        rows, page = rows_of_chance(
            lambda m, e, more=with_noise, less=without: (more if e < LIMIT else less) * chance(m)
        )
        found, head, parts = read(rows, page)
        bars = content(page, found, head, found.cells).bars
        assert [bar.length for bar in bars] == pytest.approx([each.value for _, each, _ in parts.steps])


def test_standard_errors_of_parts_pair_repetitions(rows_of_chance):
    """What rows do to a method with and without noise counts once, what noise does counts whole."""

    def added(m, e):
        return 50 * chance(m) if e < LIMIT else 45 * chance(m)

    alike = lambda r, e: 1 + 0.3 * (-1) ** r  # noqa: E731
    noisy = lambda r, e: 1 + 0.3 * (-1) ** r * (e < LIMIT)  # noqa: E731
    spreads = [read(*rows_of_chance(added, spread))[2].factor.deviation for spread in (alike, noisy)]
    noise = 1 + 0.3 * np.array([1, -1, 1, -1, 1])
    assert spreads[0] < 0.01
    assert spreads[1] == pytest.approx(noise.std(ddof=1) / noise.mean() / math.sqrt(len(noise)), rel=0.01)


def test_disagreement_of_small_samples_widens_the_error_of_a_new_sample(rows_of_chance):
    rows, page = rows_of_chance(lambda m, e: 2 * chance(m))
    first, second = read(rows, page)[2], None
    drifted = rows.copy()
    drifted.loc[drifted["n"].eq(1000) & drifted["estimator"].eq("ols"), "value"] *= 1.5
    second = read(drifted, page)[2]
    assert first.sampling.deviation < 0.01
    assert second.sampling.deviation == pytest.approx(math.log(1.5), rel=0.05)


def test_without_small_samples_errors_stay_as_they_were_measured(rows_of_chance):
    """The error of nearly all rows is then no part of the comparison."""
    rows, page = rows_of_chance(lambda m, e: 2 * chance(m) if e < LIMIT else chance(m))
    found, head, parts = read(rows[rows["n"].isin([20_000, 30_000])], page)
    assert found.of_new_sample == frozenset()
    assert parts.sampling is None
    raw = rows.query("estimator == 'preconditioned_regression' and n == 30000 and epsilon == 0.5")["value"]
    assert head.ranking.best.mean == pytest.approx(raw.mean())


def test_a_method_that_certifies_nothing_with_little_noise_says_so(results, page):
    rows = results.copy()
    at = rows["epsilon"].eq(LIMIT) & rows["estimator"].eq("preconditioned_regression")
    rows.loc[at, ["certified_epsilon", "estimator_epsilon"]] = np.inf
    found, head, parts = read(rows, page)
    assert head.ranking.best.estimator == "preconditioned_regression"
    assert parts.method is not None
    assert not parts.is_proved
    caption = content(page, found, head, found.cells).caption
    assert "certifies no finite ε" in caption
    chart = StudyChart.build(page, found.cells, head).chosen([HARDLY_NOISY])
    assert head.ranking.best.line in set(chart["of"])


def test_without_limit_cells_noise_and_method_are_one_part(results, page):
    rows = results[results["epsilon"] != LIMIT]
    _, _, parts = read(rows, page)
    assert parts.method is None
    assert sentence_of(rows, page).endswith("noise and method together")


def random_rows(results, page, seed):
    """Return results of curves that fall, cross, tie or stand still, with noise of any size."""
    rng = np.random.default_rng(seed)
    rows = results.copy()
    keys = ["panel", "estimator", "form", "calibration", "epsilon", "delta_rule"]
    groups = rows.fillna({"epsilon": -1.0, "form": "", "delta_rule": ""}).groupby(keys).ngroup()
    level = rng.lognormal(-1, 0.7, groups.max() + 1)
    if rng.random() < 0.3:  # alike, so that they tie
        level[:] = level[0]
    slope = -rng.choice([0.0, 0.2, 0.5, 1.0], groups.max() + 1)
    curve = level[groups] * (rows["n"] / rows["n"].min()) ** slope[groups]
    rows["value"] = curve * rng.lognormal(0, rng.choice([0.01, 0.1, 0.5]), len(rows))
    rows.loc[rows["estimator"] == "zero", "value"] = rng.lognormal(-1, 1)
    if seed % 2:  # zero about as near as the best private estimate
        *_, head = measured(rows, page)
        best = min(points_of(head, head.x)[0].values(), key=lambda point: point.mean)
        near = max(best.mean + rng.uniform(-3, 3) * best.error, best.mean / 2)
        rows.loc[rows["estimator"] == "zero", "value"] = near
    return rows


def points_of(head, x):
    """Return the row of each private line at a size, and zero's error."""
    private = {row.label: row for row in head.rows if row.role == "private" and row.x == x and row.answered}
    zero = next((row.mean for row in head.rows if row.role == "zero" and row.x == x), math.nan)
    return private, zero


@pytest.mark.parametrize("seed", range(12))
def test_no_sentence_and_no_number_of_the_headline_is_contradicted_by_the_table(results, page, seed):
    rows = random_rows(results, page, seed)
    found, head, parts = read(rows, page)
    sentence = sentence_of(rows, page)
    assert len(sentence.split()) <= 30
    private, zero = points_of(head, head.x)
    ranking, best = head.ranking, min(private.values(), key=lambda point: point.mean)
    assert (ranking.best, ranking.zero.value) == (best, zero)
    assert ranking.best is private[ranking.best.label]
    beats_zero = [each.mean + 2 * each.error < zero for each in private.values()]
    assert ranking.any_beats_zero is any(beats_zero)
    at_limit = found.cells.query(
        "epsilon == 1000 and panel == @best.panel and n == @best.n and metric == 'l2_error'"
    )
    of_best = at_limit.query(
        "estimator == @best.estimator and form == @best.form and calibration == @best.calibration"
    )
    assert parts.factor.value == pytest.approx(best.mean / of_best["mean"].item())
    claims = re.search(r"makes the error ([\d.,]+)", sentence)
    assert (claims is not None) <= (parts.factor.limits[0] > 1 and any(beats_zero))


def with_adassp_near_the_best(results, more):
    near = results.copy()
    at = (near["n"] == 20_000) & (near["epsilon"] == 0.5) & (near["panel"] == "public")
    at &= near["calibration"] == "tight"
    best = near.loc[at & (near["estimator"] == "preconditioned_regression"), "value"].to_numpy()
    near.loc[at & (near["estimator"] == "adassp"), "value"] = best + more
    return near


def names_in_bold(page, cells, head):
    at = f"ε = {head.where.epsilon:g}"
    table = method_table(page, errors_of(cells, page), head.where, head.x)
    column = table.columns.index(at)
    return [line[0].text for line in table.cells if line[column].kind == "best"]


def test_the_best_private_estimate_has_the_strongest_guarantee(results, page):
    *_, head = measured(results, page)
    weak = head.ranking.best
    local = results.copy()
    others = local["privacy_model"].eq("central") & local["estimator"].ne(weak.estimator)
    local.loc[others, "privacy_model"] = "local"
    page, cells, head = measured(local, page)
    assert head.ranking.best.privacy_model == "local"
    bold = names_in_bold(page, cells, head)
    assert bold
    assert weak.name not in bold


def test_only_estimates_at_the_size_count_for_the_strongest_guarantee(results, page):
    """A locally private estimator that fails there hides no central estimate."""
    rows = results.copy()
    of_local = rows["estimator"].eq("adassp")
    rows.loc[of_local, "privacy_model"] = "local"
    rows.loc[of_local & rows["n"].eq(20_000), ["value", "status"]] = math.nan, "refused"
    page, _cells, head = measured(rows, page)
    assert head.ranking.best.privacy_model == "central"


@pytest.mark.parametrize("survivors", [1, 3])
def test_the_survivors_of_many_failures_are_not_the_best(results, page, survivors):
    rows = results.copy()
    of_sketched = rows["estimator"].eq("sheffet_ols") & rows["calibration"].eq("tight")
    failed = of_sketched & rows["replicate"].ge(survivors)
    rows.loc[of_sketched, "value"] = 0.001 + 1e-5 * rows["replicate"]
    rows.loc[failed, ["value", "status"]] = math.nan, "failed"
    page, _cells, head = measured(rows, page)
    assert head.ranking.best.estimator != "sheffet_ols"
    assert all(row.estimator != "sheffet_ols" for row in head.ranking.best_or_tied)


def test_nothing_is_better_if_one_repetition_ran(results, page):
    page, cells, head = measured(results[results["replicate"] == results["replicate"].min()], page)
    assert not head.ranking.any_beats_zero
    assert names_in_bold(page, cells, head) == []
    assert read(results[results["replicate"] == 0], page)[2] is None


@pytest.mark.parametrize("off", [1 - 2e-16, 1.0, 1 + 2e-16])
def test_no_comparison_hangs_on_rounding(results, page, off):
    rows = with_zero_at(results, 0.3)
    rows.loc[rows["privacy_model"] != "none", "value"] = 0.3 * off
    page, _cells, head = measured(rows, page)
    assert not head.ranking.any_beats_zero
    first = [row.label for row in head.at_x if row.role == "private"]
    assert [row.label for row in head.ranking.best_or_tied] == first


def test_a_size_between_two_is_the_smaller_one():
    assert nearest_value([225, 100], 150) == 100
    assert nearest_value([4.5, 2], 3) == 2


def test_no_estimator_is_called_best_where_repetitions_cannot_tell(results, page):
    """Bold names those that tie, and nothing not clearly better than zero."""
    page, cells, head = measured(with_adassp_near_the_best(results, 0.001), page)
    assert {"AdaSSP", "Preconditioned regression"} <= set(names_in_bold(page, cells, head))
    assert head.ranking.tied
    unsure = results.copy()
    private = unsure["privacy_model"] != "none"
    zero = unsure.loc[unsure["estimator"] == "zero", "value"].mean()
    spread = np.where(unsure["replicate"] % 2 == 0, 0.7, 1.2)
    unsure.loc[private, "value"] = zero * spread[private]
    page, cells, head = measured(unsure, page)
    assert names_in_bold(page, cells, head) == []


def with_zero_at(results, level, spread=0.0):
    """Return results in which zero's error is ``level``, and differs between repetitions."""
    rows = results.copy()
    at_zero = rows["estimator"] == "zero"
    rows.loc[at_zero, "value"] = level * (1 + spread * (-1.0) ** rows["replicate"])[at_zero]
    return rows


def test_the_headline_is_about_its_own_panel(results, page):
    """Another panel may have a better estimate."""
    rows = with_zero_at(results, 1e-9)
    rows.loc[(rows["estimator"] == "zero") & (rows["panel"] != "public"), "value"] = 1e9
    assert (
        sentence_of(rows, page)
        == "Even without privacy, no estimate is clearly better than ignoring the data"
    )


def test_the_error_of_zero_counts(results, page):
    """Zero's error differs between simulated truths; a comparison has the errors of both."""
    rows = with_zero_at(results, 1.0, spread=0.5)
    rows.loc[rows["privacy_model"] != "none", "value"] = 0.9
    page, _cells, head = measured(rows, page)
    assert not head.ranking.any_beats_zero
    assert head.ranking.zero.error > 0.1


def test_a_sign_of_rounding_is_none(page, results):
    page, cells, head = measured(results, page)
    signs = set()
    for exact in (3e-18, -3e-18, 0.0):
        rows = [("age", 0.2, 0.1, 0.3, exact), ("rooms", 0.2, None, None, exact)]
        content = {
            "rows": rows,
            "numbers": "terms",
            "estimator": "adassp",
            "n": 5,
            "epsilon": 1.0,
            "left_out": 0,
            "missing": "",
        }
        section = own_table.draw(page, cells, head, content)[0]
        signs.add((section.context["same"], *(row[-1] for row in section.context["rows"])))
    assert len(signs) == 1


def test_no_cell_with_intervals_has_no_sentence_on_coverage(page, results):
    coverage = results[results["privacy_model"] != "none"].assign(
        metric="coverage", value=math.nan, status="failed"
    )
    content = {"coverage": "coverage", "naive": "coverage", "flagged": "coverage"}
    page, cells, head = measured(pd.concat([results, coverage], ignore_index=True), page)
    assert covered_shares.draw(page, cells[cells["epsilon"] != LIMIT], head, content) == ()
