"""Tables of results, what they summarize and compare."""

import math
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.results.comparison import compare_results, describe_differences
from data.results.summary import summarize
from data.results.table import SUMMARY_COLUMNS, ResultsError, validate_results
from tests.builders import refused, words
from tests.reports.synthetic import synthetic_results
from tests.tasks.blocks import results_table


@pytest.fixture
def small():
    return synthetic_results(replicates=5).head(200).copy()


FAULTS = tomllib.loads(Path(__file__).with_name("faults.toml").read_text(encoding="utf-8"))["faults"]
# A change of a table, and what the sentence names
CHANGES = [
    (lambda rows: pd.concat([rows, rows.head(1)]), "replicate"),
    (lambda rows: rows.drop(columns=["n", "value"]), "n, value"),
    (lambda rows: rows.assign(extra=1), "extra"),
    (lambda rows: rows.astype({"value": object}).assign(value="much"), ("value", "float64")),
    (lambda rows: rows.assign(n=1.5), "n must"),
    (
        lambda rows: rows.assign(epsilon=rows["epsilon"].fillna(0.5)),
        "epsilon",
    ),  # without privacy there is none
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_row_with_a_fault_is_refused_by_its_cell(small, fault):
    column, value, *named = fault
    row = small.index[(small["calibration"] == "tight") & (small["status"] == "ok")][0]
    small.loc[row, column] = value
    refused(lambda: validate_results(small), ResultsError, *named, repr(str(small.loc[row, "cell"])))


@pytest.mark.parametrize(("change", "named"), CHANGES)
def test_a_table_with_a_fault_is_refused(small, change, named):
    refused(lambda: validate_results(change(small)), ResultsError, *words(named))


def test_a_private_row_may_certify_nothing_where_its_estimator_proves_something(small):
    tight = small["calibration"] == "tight"
    small.loc[tight, "certified_epsilon"] = math.inf
    validate_results(small)
    found = summarize(small)
    assert np.isinf(found.loc[found["calibration"] == "tight", "certified_epsilon"]).all()
    assert np.isfinite(found.loc[found["calibration"] == "tight", "estimator_epsilon"]).all()


def test_summarize_by_hand(small):
    base = small[small["calibration"] == "tight"].head(1)
    rows = pd.concat([base] * 5, ignore_index=True).assign(replicate=range(5))
    rows["value"] = [1.0, 2.0, 3.0, 10.0, math.nan]
    rows.loc[4, ["status", "message"]] = ["failed", "singular"]
    rows.loc[2, ["certified_epsilon", "estimator_epsilon"]] = 0.1
    out = summarize(validate_results(rows))
    assert list(out.columns) == list(SUMMARY_COLUMNS)
    row = out.iloc[0]
    assert len(out) == 1
    assert row["mean"] == 4.0
    assert row["se"] == pytest.approx(np.std([1, 2, 3, 10], ddof=1) / 2)
    assert (row["median"], row["q10"], row["q90"]) == pytest.approx((2.5, 1.3, 7.9))
    assert (row["n_ok"], row["n_failed"]) == (4, 1)
    assert (row["status"], row["message"]) == ("failed", "singular")
    assert row["certified_epsilon"] == base["certified_epsilon"].iloc[0]


def test_a_table_is_identical_to_itself_in_any_order():
    first = results_table([1.0, 2.0])
    differences = compare_results(first, first.iloc[::-1])
    assert differences["identical"]
    assert describe_differences(differences) == "identical in all 1 means, one for each metric of a cell"


def test_differences_beyond_the_error_bars_are_told():
    values = [1.0, 1.1, 0.9] * 4
    first = results_table(values)
    within = compare_results(first, results_table([*values[1:], 1.05]))
    assert (within["identical"], within["different"]) == (False, [])
    beyond = compare_results(first, results_table([1 + value for value in values]))
    assert [row["cell"] for row in beyond["different"]] == ["ols:public:n=100"]
    assert "standard error" in describe_differences(beyond)


def test_missing_cells_and_failures_are_told():
    both = compare_results(results_table([1.0]), results_table([1.0], cell="ols:public:n=200"))
    assert (both["only_first"], both["only_second"]) == (["ols:public:n=100"], ["ols:public:n=200"])
    failed = compare_results(results_table([1.0]), results_table([1.0], status="failed"))
    assert failed["different"][0]["reasons"] == ["status ok → failed"]


DRAWS = {
    "normal": lambda rng, n: rng.normal(1, 0.1, n),
    "skewed": lambda rng, n: np.exp(rng.standard_normal(n)),
    "counts": lambda rng, n: rng.binomial(3, 0.05, n).astype(float),
}


@pytest.mark.parametrize("sizes", [(10, 10), (10, 30), (10, 100)])
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_runs_that_differ_in_their_seeds_differ_as_often_as_chance_predicts(draw, sizes):
    rng = np.random.default_rng(1)
    cells = [f"ols:public:n={i}" for i in range(120)]
    runs = ([results_table([*draw(rng, n)], cell=each) for each in cells] for n in sizes)
    found = compare_results(*map(pd.concat, runs))
    assert len(found["different"]) <= found["by_chance"] + 3 * max(found["by_chance"], 0.5) ** 0.5
    assert found["by_chance"] <= 120 * 0.0027 * 1.01


@pytest.mark.parametrize("few", [[0.0] * 3, [0.1, 0.2, 0.15], [1.0] * 10, [5.0]])
def test_few_repetitions_or_none_that_differ_are_unknown(few):
    many = results_table([1.0, 1.1, 1.2] * 10)
    for found in (compare_results(results_table(few), many), compare_results(many, results_table(few))):
        assert (found["different"], found["unknown"], found["by_chance"]) == ([], ["ols:public:n=100"], 0)
        assert "fewer than ten" in describe_differences(found)
