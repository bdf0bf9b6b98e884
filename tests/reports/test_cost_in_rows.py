"""From which ε on privacy hardly matters, and how many rows would make up for it."""

import math
from dataclasses import replace

import pytest

from reports.analysis.ranking import enough_epsilon, rows_for_the_same
from reports.analysis.results import summarize
from reports.analysis.series import View
from reports.writing import num

POPULATION = 40_000
SIZES = (100, 1000, 10_000, 20_000)


def chance(m):
    return 3 / math.sqrt(m)


def view_of(results, page, privacy):
    """Return errors of a non-private estimator by chance alone, and of a private one with a known part."""
    rows = results[results["panel"].eq("public") & results["n"].isin(SIZES)].copy()
    rows = rows[rows["estimator"].isin(["ols", "zero", "preconditioned_regression"])]
    within = rows["n"].map(lambda m: chance(m) * math.sqrt(1 - m / POPULATION))
    beside = [privacy(m, e) for m, e in zip(rows["n"], rows["epsilon"], strict=True)]
    error = (within**2 + [p * p if math.isfinite(p) else 0.0 for p in beside]) ** 0.5
    rows["value"] = error.where(rows["estimator"] != "zero", 9.0)
    return View.build(summarize(rows), replace(page, population=(POPULATION, "rows")))


def test_privacy_stops_to_matter_where_it_adds_less_than_chance(results, page):
    view = view_of(results, page, lambda m, e: 1.2 * chance(m) / e)
    told = enough_epsilon(view)
    assert told.startswith(
        f"20,000 rows drawn from a large population miss its answer by {num(chance(20_000))} "
    )
    assert f"From ε = 2 on, privacy adds less than that ({num(0.6 * chance(20_000))})." in told
    assert "the smallest that was tried" in enough_epsilon(view_of(results, page, lambda m, e: 0.001))
    never = enough_epsilon(view_of(results, page, lambda m, e: 6 * chance(m) / e))
    assert "Privacy adds more at every ε that was tried; 3.0 times as much at ε = 2. It would add" in never
    assert "as much at about ε = 6, if errors go on falling as they do." in never
    far = enough_epsilon(view_of(results, page, lambda m, e: 12 * chance(m) / e))
    assert far.endswith("6.0 times as much at ε = 2.")


def test_where_repetitions_cannot_tell_what_privacy_adds_from_chance_the_page_says_so(results, page):
    def view():
        return view_of(results, page, lambda m, e: 0.99 * chance(m) * 2 / e)

    assert "privacy adds less than that" in enough_epsilon(view())
    unsure = view()
    unsure.table.loc[unsure.table["role"] == "private", "se"] = 0.05 * chance(20_000)
    told = enough_epsilon(unsure)
    assert f"privacy adds about as much or less ({num(0.99 * chance(20_000))}, standard error 0.00" in told


def test_rows_that_make_up_for_privacy_follow_from_how_errors_fall(results, page):
    # E² = s² (1 + 3) at ε = 0.5: four times as many rows.
    told = rows_for_the_same(view_of(results, page, lambda m, e: chance(m) * math.sqrt(3) * 0.5 / e))
    assert (
        "20,000 rows tell with privacy (Preconditioned regression, tight noise) what about 5,000 tell" in told
    )
    assert "About 80,000 rows would make up for privacy, 4.0 times as many" in told
    flat = rows_for_the_same(view_of(results, page, lambda m, e: 0 * e + 1.0))
    assert "More than 16 times as many rows would be needed" in flat


@pytest.mark.parametrize("population", [0, 20_000])
def test_nothing_is_said_where_chance_cannot_be_told(results, page, population):
    view = view_of(results, page, lambda m, e: chance(m))
    without = replace(view, page=replace(view.page, population=(population, "rows")))
    assert (enough_epsilon(without), rows_for_the_same(without)) == ("", "")


@pytest.mark.parametrize("privacy", [0.0, 100.0])
def test_rows_are_not_compared_where_privacy_is_free_or_zero_is_better(results, page, privacy):
    assert rows_for_the_same(view_of(results, page, lambda m, e: privacy)) == ""
