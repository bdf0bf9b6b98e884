"""What a page says first: the values that its sentences get, and no contradiction with the table."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from data.results.table import noise_off_metric
from reports.cells import nearest_value
from reports.charts.certified import certified_picture
from reports.charts.study import NEW_SAMPLE, StudyChart, draw_study
from reports.error_table import error_table
from reports.exhibits import covered_shares, group_panels, own_table
from reports.fairness import limited_in_panels, limited_lines, noisy_lines
from reports.page import Axis
from reports.pages.error_page import headline_sentence, number_to_quote
from reports.ranking import (
    best_by_size,
    enough_epsilon,
    first_below,
    first_lines,
    index_errors,
    rows_for_the_same,
    slopes,
)
from reports.writing import num, render_sentence, slope_text, times
from tests.reports.synthetic import measured

NORM_OR_SYMBOL = re.compile(r"ℓ|δ|‖|σ|[²√±]|norm|z-score|error bar")


def with_error(results, page, error, **changes):
    """Return the same where every private estimate has an error."""
    rows = results.copy()
    rows.loc[rows["privacy_model"] != "none", "value"] = error
    return measured(rows, replace(page, **changes))


def plain(sentence, page):
    """Return a headline, which is for anyone except for the setting in brackets: panel, size and δ."""
    outside = re.sub(r" \(“.*?\)", "", sentence)
    assert len(outside.split()) <= 30, sentence
    assert not NORM_OR_SYMBOL.search(outside), sentence
    assert not any(info.title in outside for info in page.estimators), sentence
    return sentence


def test_rows_without_privacy_of_the_same_accuracy_follow_from_the_factor(results, page):
    page, _, head = with_error(results, page, 0.1)
    cost = head.cost
    assert cost.worth.value == pytest.approx(20_000 / cost.factor.value**2)
    low, high = cost.worth.limits
    assert low < cost.worth.value < high
    assert "instead of 20,000" in plain(headline_sentence(page, head), page)
    steps = results.assign(steps=results["n"].astype("Int64"))
    *_, of_steps = with_error(steps, page, 0.1, metric_label="", axis=Axis("T", "steps"))
    assert math.isnan(of_steps.cost.worth.value)


def test_the_wanted_error_is_found_between_points_and_never_beyond():
    points = [(1.0, 4.0, 0.0), (4.0, 2.0, 0.0), (16.0, 1.0, 0.0)]
    assert first_below(2.0, points) == pytest.approx((4, 4))
    assert first_below(1.5, points) == pytest.approx((4 * (2 / 1.5) ** 2,) * 2)
    low, high = first_below(1.5, [(x, error, 0.1 * error) for x, error, _ in points])
    assert low < 4 * (2 / 1.5) ** 2 < high
    assert first_below(8.0, points) == (1.0, 1.0)
    assert first_below(8.0, points[:1]) == (1.0, 1.0)
    assert first_below(2.0, points[:1]) == (math.inf, math.inf)
    assert first_below(0.5, points) == (math.inf, math.inf)
    assert first_below(0.5, [(1.0, math.nan, 0.0)]) == (math.inf, math.inf)


POPULATION = 40_000
SIZES = (100, 1000, 10_000, 20_000, 30_000)


def chance(m):
    return 3 / math.sqrt(m)


@pytest.fixture
def rows_of_chance(results, page):
    """A function that returns a page, its cells and its headline, where privacy adds an error."""

    def build(privacy, sizes=SIZES):
        rows = results[results["panel"].eq("public") & results["n"].isin([100, 1000, 10_000, 20_000])].copy()
        rows = rows[rows["estimator"].isin(["ols", "zero", "preconditioned_regression"])]
        copy = rows[rows["n"].eq(20_000)].assign(n=30_000)
        copy["cell"] += "+"
        rows = pd.concat([rows, copy], ignore_index=True)
        rows = rows[rows["n"].isin(sizes)].reset_index(drop=True)
        within = rows["n"].map(lambda m: chance(m) * math.sqrt(1 - m / POPULATION))
        beside = [privacy(m, e) for m, e in zip(rows["n"], rows["epsilon"], strict=True)]
        error = (within**2 + [p * p if math.isfinite(p) else 0.0 for p in beside]) ** 0.5
        rows["value"] = error.where(rows["estimator"] != "zero", 9.0)
        changes = {"population": (POPULATION, "rows"), "headline": {**page.headline, "n": max(sizes)}}
        return measured(rows, replace(page, **changes))

    return build


def test_a_page_has_one_reference(rows_of_chance):
    """The number to quote is the quotient of two numbers next to it; picture and its words have the same."""
    page, cells, head = rows_of_chance(lambda m, e: 2 * chance(m) + 0 * e)
    cost, (quoted, caption) = head.cost, number_to_quote(page, head)
    assert cost.of_new_sample
    assert cost.without.value == pytest.approx(chance(30_000))
    assert cost.factor.value == pytest.approx(cost.private.value / cost.without.value)
    assert cost.factor.value == pytest.approx(math.sqrt(5))
    assert quoted == times(cost.factor.value)
    drawn = cost.ranking.best.mean  # about the estimate from all rows, not about its population
    assert num(drawn) != num(cost.private.value)
    below = render_sentence("caption", page=page, head=head, left_out=0)
    for text in (caption, draw_study(page, cells, head).main.alt, below):
        assert num(drawn) in text
        assert num(cost.private.value) in text
    for text in (caption, draw_study(page, cells, head).main.alt):
        assert num(cost.without.value) in text
    assert index_errors(head, page)["without"][0] == cost.without.value


def test_a_sample_of_most_rows_is_no_reference(rows_of_chance):
    """Beyond half of the table only private lines and that of a new sample are drawn."""
    chart = StudyChart.build(*rows_of_chance(lambda m, e: 2 * chance(m) + 0 * e))
    rows = chart.rows
    largest = rows[rows["metric"].eq("l2_error")].groupby("line")["n"].max()
    assert largest["Ordinary least squares"] == POPULATION / 2
    assert largest["Preconditioned regression, tight"] == largest[NEW_SAMPLE] == 30_000
    drawn = chart.chosen([NEW_SAMPLE])
    assert drawn["mean"].tolist() == pytest.approx([chance(m) for m in SIZES])


def test_privacy_stops_to_matter_where_it_adds_less_than_sampling(rows_of_chance):
    def needed(factor):
        page, cells, head = rows_of_chance(lambda m, e: factor * chance(m) / e)
        found = enough_epsilon(head, page, cells)
        assert found["sample"].value == pytest.approx(chance(30_000))
        return found["needed"]

    assert needed(1.2) == pytest.approx((1.2, 1.2), rel=0.02)
    assert needed(1e-6) == pytest.approx((0.2, 0.2))  # the smallest ε
    assert needed(6) == (math.inf, math.inf)  # above the largest ε
    page, cells, head = rows_of_chance(lambda m, e: 9 * chance(m) * (e < 1))
    assert 0.5 < enough_epsilon(head, page, cells)["needed"][0] < 1  # nothing is added from 1 on


def test_rows_that_make_up_for_privacy_are_counted_between_sizes(rows_of_chance):
    page, _, head = rows_of_chance(lambda m, e: chance(m) + 0 * e, sizes=(100, 1000, 10_000))
    found = rows_for_the_same(head, page)
    assert found["worth"].value == pytest.approx(10_000 / 2)
    assert found["needed"] == (math.inf, math.inf)
    assert found["last"] == 10_000


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
    page, _, head = measured(random_rows(results, page, seed), page)
    found = re.search(r"makes? the error ([\d.,]+) times", plain(headline_sentence(page, head), page))
    factors = [head.cost.factor.value, head.cost.of_zero.value]
    assert found is None or found[1] in map(times, factors)
    private, zero = points_of(head, head.x)
    ranking, best = head.cost.ranking, min(private.values(), key=lambda point: point.mean)
    assert (ranking.best, ranking.zero.value) == (best, zero)
    assert ranking.best is private[ranking.best.label]
    assert ranking.non_private.mean in [row.mean for row in head.rows]
    beats_zero = [each.mean + 2 * each.error < zero for each in private.values()]
    assert ranking.any_beats_zero is any(beats_zero)
    found = best_by_size(head)
    for label, sizes in found["runs"].items():
        for size in sizes:
            at, _ = points_of(head, size)
            claimed = at.pop(label)
            for other in at.values():
                assert claimed.mean + 2 * math.hypot(claimed.error, other.error) < other.mean
    for size in [*found["zero_wins"], *found["zero_ties"]]:
        at, at_zero = points_of(head, size)
        least = min(at.values(), key=lambda point: point.mean)
        assert all(each.mean + 2 * each.error >= at_zero for each in at.values())
        assert size in found["zero_ties"] or least.mean - 2 * least.error > at_zero


def with_adassp_near_the_best(results, more):
    near = results.copy()
    at = (near["n"] == 20_000) & (near["epsilon"] == 0.5) & (near["panel"] == "public")
    at &= near["calibration"] == "tight"
    best = near.loc[at & (near["estimator"] == "preconditioned_regression"), "value"].to_numpy()
    near.loc[at & (near["estimator"] == "adassp"), "value"] = best + more
    return near


def names_in_bold(page, head):
    lines = error_table(page, head.rows, head.where).cells
    return [line[0].text for line in lines for cell in line if cell.kind == "best"]


def test_the_best_private_estimate_has_the_strongest_guarantee(results, page):
    *_, head = measured(results, page)
    weak = head.cost.ranking.best
    local = results.copy()
    others = local["privacy_model"].eq("central") & local["estimator"].ne(weak.estimator)
    local.loc[others, "privacy_model"] = "local"
    page, _, head = measured(local, page)
    assert head.cost.ranking.best.privacy_model == "local"
    bold = names_in_bold(page, head)
    assert bold
    assert weak.name not in bold


def test_only_estimates_at_the_size_count_for_the_strongest_guarantee(results, page):
    """A locally private estimator that fails there hides no central estimate."""
    rows = results.copy()
    of_local = rows["estimator"].eq("adassp")
    rows.loc[of_local, "privacy_model"] = "local"
    rows.loc[of_local & rows["n"].eq(20_000), ["value", "status"]] = math.nan, "refused"
    page, _, head = measured(rows, page)
    assert head.cost.ranking.best.privacy_model == "central"
    assert "no private estimator" not in headline_sentence(page, head)


@pytest.mark.parametrize("survivors", [1, 3])
def test_the_survivors_of_many_failures_are_not_the_best(results, page, survivors):
    rows = results.copy()
    of_sketched = rows["estimator"].eq("sheffet_ols") & rows["calibration"].eq("tight")
    failed = of_sketched & rows["replicate"].ge(survivors)
    rows.loc[of_sketched, "value"] = 0.001 + 1e-5 * rows["replicate"]
    rows.loc[failed, ["value", "status"]] = math.nan, "failed"
    page, _, head = measured(rows, page)
    assert head.cost.ranking.best.estimator != "sheffet_ols"
    assert all(row.estimator != "sheffet_ols" for row in head.cost.ranking.best_or_tied)


def test_nothing_is_better_if_one_repetition_ran(results, page):
    page, _, head = measured(results[results["replicate"] == results["replicate"].min()], page)
    assert not head.cost.ranking.any_beats_zero
    assert not head.cost.is_useful
    assert best_by_size(head) == {"runs": {}, "unsure": [], "zero_wins": [], "zero_ties": []}
    assert names_in_bold(page, head) == []
    assert all("±" not in slope_text(fit) for _, fit, _ in slopes(head, page))


@pytest.mark.parametrize("off", [1 - 2e-16, 1.0, 1 + 2e-16])
def test_no_comparison_hangs_on_rounding(results, page, off):
    rows = with_zero_at(results, 0.3)
    rows.loc[rows["privacy_model"] != "none", "value"] = 0.3 * off
    page, _, head = measured(rows, page)
    assert not head.cost.ranking.any_beats_zero
    assert not best_by_size(head)["zero_wins"]
    first = [row.label for row in head.at_x if row.role == "private"]
    assert [row.label for row in head.cost.ranking.best_or_tied] == first


def test_a_size_between_two_is_the_smaller_one():
    assert nearest_value([225, 100], 150) == 100
    assert nearest_value([4.5, 2], 3) == 2


def test_no_estimator_is_called_best_where_repetitions_cannot_tell(results, page):
    """Bold and the sentence on sizes name those that tie, and nothing not clearly better than zero."""
    page, _, head = measured(with_adassp_near_the_best(results, 0.001), page)
    assert {"AdaSSP", "Preconditioned regression"} <= set(names_in_bold(page, head))
    assert head.cost.ranking.tied
    unsure = results.copy()
    private = unsure["privacy_model"] != "none"
    zero = unsure.loc[unsure["estimator"] == "zero", "value"].mean()
    spread = np.where(unsure["replicate"] % 2 == 0, 0.7, 1.2)
    unsure.loc[private, "value"] = zero * spread[private]
    page, _, head = measured(unsure, page)
    assert names_in_bold(page, head) == []
    assert best_by_size(head)["zero_ties"]


def with_zero_at(results, level, spread=0.0):
    """Return results in which zero's error is ``level``, and differs between repetitions."""
    rows = results.copy()
    at_zero = rows["estimator"] == "zero"
    rows.loc[at_zero, "value"] = level * (1 + spread * (-1.0) ** rows["replicate"])[at_zero]
    return rows


def test_the_headline_names_its_panel_size_and_delta(results, page):
    """Another panel may have a better estimate; the sentence is about its own, and no number is quoted."""
    rows = with_zero_at(results, 1e-9)
    rows.loc[(rows["estimator"] == "zero") & (rows["panel"] != "public"), "value"] = 1e9
    page, _, head = measured(rows, page)
    sentence = headline_sentence(page, head)
    assert sentence.endswith("than ignoring the data (“public”, m = 20,000, δ = 10/m¹·¹).")
    assert number_to_quote(page, head) is None


def test_the_error_of_zero_counts(results, page):
    """Zero's error differs between simulated truths; a comparison has the errors of both."""
    rows = with_zero_at(results, 1.0, spread=0.5)
    rows.loc[rows["privacy_model"] != "none", "value"] = 0.9
    page, _, head = measured(rows, page)
    assert not head.cost.ranking.any_beats_zero
    assert head.cost.ranking.zero.error > 0.1


def test_privacy_costs_next_to_nothing_only_if_its_limits_say_so(results, page):
    rows = with_zero_at(results, 9.0)
    rows.loc[rows["estimator"].eq("ols"), "value"] = 1.0
    private = rows["privacy_model"] != "none"
    for spread, negligible in ((0.0, True), (0.5, False)):
        rows.loc[private, "value"] = (1.01 + spread * (-1.0) ** rows["replicate"])[private]
        page, _, head = measured(rows, page)
        assert head.cost.is_negligible is negligible
        assert "instead of" not in headline_sentence(page, head)  # it may cost nothing


def test_a_chart_begins_with_the_papers_own_method_in_both_calibrations(results, page):
    page, _, head = measured(results, replace(page, about="dp_linear_regression"))
    lines = first_lines(head.rows, head.x, page)
    of_subject = [line for line in lines if line.startswith("Noisy gradient descent")]
    forms = {line.rpartition(", ")[0] for line in of_subject}
    assert {line.rpartition(", ")[2] for line in of_subject} == {"tight", "paper's"}
    assert len(forms) == 1
    assert "Preconditioned regression, tight" in lines


def test_methods_that_privacy_noise_does_not_limit_are_listed_in_each_panel(results, page):
    """Sketched OLS keeps 0.9 of its error without noise, AdaSSP 0.1; only AdaSSP's error falls with ε."""
    private = results["privacy_model"] != "none"
    parts = {"sheffet_ols": 0.9, "adassp": 0.1}
    rows = results[~private | (results["estimator"].isin(parts) & results["calibration"].eq("tight"))].copy()
    at_least = rows["epsilon"].eq(0.2) & rows["estimator"].eq("sheffet_ols")
    rows.loc[rows["estimator"].eq("sheffet_ols"), "value"] = 0.8
    rows.loc[at_least, "value"] = 0.88
    off = rows[rows["estimator"].isin(parts)].assign(metric=noise_off_metric("l2_error"))
    off["value"] *= off["estimator"].map(parts)
    _, cells, head = measured(pd.concat([rows, off], ignore_index=True), page)
    pictures = draw_study(page, cells, head)
    assert b"without noise" in pictures.main.svg
    assert b"without noise" not in pictures.card.svg  # its name would be cut
    found = limited_in_panels(cells, page)
    assert [(where.panel, where.epsilon) for where, _ in found] == [("public", 0.5), ("paper", 0.5)]
    assert {(where.epsilon, each.label) for where, each in found} == {
        (0.5, "Sketched OLS, tight calibration")
    }
    for _, each in found:
        assert each.noise_off == pytest.approx(0.9 * each.mean)
        assert each.flat == pytest.approx((0.88, 0.8))


@pytest.mark.parametrize(("kept", "dominates", "samples"), [(0.3, True, False), (0.9, False, True)])
def test_noise_dominates_only_where_less_than_half_remains_without_it(
    results, page, kept, dominates, samples
):
    """Where the error without privacy is as large, sampling explains what remains."""
    rows = results[
        results["estimator"].isin(("adassp", "zero", "ols")) & results["calibration"].ne("paper")
    ].copy()
    rows.loc[rows["estimator"].isin(("adassp", "ols")), "value"] = 1.0
    off = rows[rows["estimator"].eq("adassp")].assign(metric=noise_off_metric("l2_error"), value=kept)
    page, cells, head = measured(pd.concat([rows, off], ignore_index=True), page)
    limited, noisy = limited_lines(cells, page, head.where), noisy_lines(head)
    sentence = render_sentence("noise_or_bias", page=page, head=head, limited=limited, noisy=noisy)
    assert ("privacy noise dominates the error of every private estimator" in sentence) is dominates
    assert ("sampling error is a large part of the error of 1 private estimator" in sentence) is samples
    assert "Early stopping" not in sentence


@pytest.mark.parametrize("audited", [(math.nan, 0.3), (0.3, math.nan)])
def test_audits_at_any_size_are_in_the_picture(results, page, audited):
    page, _, head = measured(results, page)
    sizes = {head.rows[0].x: audited[0], head.x: audited[1]}
    rows = [row._replace(audited=sizes.get(row.x, math.nan)) for row in head.rows]
    assert "audited ≥ 0.300" in certified_picture(page, replace(head, rows=rows)).alt


def test_panels_without_zero_are_compared_with_nothing(results, page):
    page, cells, head = measured(results[results["estimator"] != "zero"], page)
    (section,) = group_panels.draw(page, cells, head, {})
    assert "zero baseline in panel" not in section.context["text"]
    assert all(cell.kind != "best" for row in section.context["table"].cells for cell in row)


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
    assert covered_shares.draw(page, cells, head, content) == ()
