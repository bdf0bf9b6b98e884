"""Tables of results, what they summarize and compare; the table of coefficients for publication."""

import io
import math
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from reports.pages.coefficient_table import FORMATS, Model, render_coefficients
from reports.results import (
    SUMMARY_COLUMNS,
    ResultsError,
    compare_results,
    describe_differences,
    summarize,
    validate_results,
)
from reports.writing import num_in
from tests.builders import refused, words
from tests.tasks.blocks import results_table


@pytest.fixture
def small(results):
    return results.head(200).copy()


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


def row(term, estimate, low=None, high=None, **more):
    known = low is not None
    note = "" if known and (low > 0 or high < 0) else "sign not known" if known else "no interval"
    error = (high - low) / 3.92 if known else None
    return {
        **{"term": term, "estimate": estimate, "std_error": error, "ci_low": low, "ci_high": high},
        **{"statistic": None, "p_value": 0.0004 if known else None, "note": note, **more},
    }


ROWS = [row("age", 20.0, 19.0, 21.0), row("region=s_1", -3.0, -9.0, 3.0), row("at the centers", 100.0)]
NOTE = "Differentially private for each row at ε = 1."
LINEAR = Model(title="costs", rows=ROWS, level=0.95, facts={"rows": "5,000", "ε": "1"}, notes=[NOTE])
RATIOS = [row("age", 0.7, 0.1, 1.3, odds_ratio=2.01, odds_ratio_low=1.1, odds_ratio_high=3.7)]
LOGISTIC = Model(title="sick & tired", rows=RATIOS, level=0.95, facts={"rows": "90"}, notes=["Private."])


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("models", [[LINEAR], [LOGISTIC], [LINEAR, LOGISTIC], [LINEAR, LINEAR]])
def test_every_format_holds_terms_numbers_and_the_footnote(form, models):
    content = render_coefficients(models, form)
    if form == "docx":
        from docx import Document

        document = Document(io.BytesIO(content))
        text = "\n".join(cell.text for line in document.tables[0].rows for cell in line.cells)
        text += "\n".join(each.text for each in document.paragraphs)
    else:
        text = content.decode()
    assert "age" in text
    for model in models:
        shown = "2.01" if model is LOGISTIC else "20.0"
        assert shown in text
        if form != "csv":
            assert model.notes[0].split(" at")[0] in text


def test_models_side_by_side_have_each_note_once():
    notes = {"a": ["Private.", "Rows are dropped."], "b": ["Private.", "Rows are dropped.", "Nested."]}
    models = [Model(**{**vars(LINEAR), "title": title, "notes": each}) for title, each in notes.items()]
    text = render_coefficients(models, "txt").decode()
    assert [text.count(each) for each in ("Private.", "Rows are dropped.", "b: Nested.")] == [1, 1, 1]


def test_latex_is_escaped():
    odd = Model(**{**vars(LINEAR), "rows": [row("[cm]", 3e-9), row("age=>65|x", 1.0)]})
    tex = render_coefficients([LINEAR, LOGISTIC, odd], "tex").decode()
    assert not [each for each in (r"sick \\& tired", "\n[cm]", "⁻", "sick & tired") if each in tex]
    wanted = r"sick \& tired", r"region=s\_1", r"\toprule", "10$^{-}$", r"age=$>$65\textbar{}x"
    assert not [each for each in wanted if each not in tex]


NUMBERS = [(1.01015, 1.00934, 1.01096, "1.0102"), (0.0352, 0.0341, 0.0363, "0.0352"), (1.5, 1.5, 1.5, "1.50")]
NUMBERS += [(2943.0, 2936.0, 3013.0, "2,943"), (-0.067, -0.0996, -0.034, "−0.067")]
NUMBERS += [(0.5, -math.inf, 1.0, "0.500")]
NUMBERS += [(123_456_789.0, 123_456_000.0, 123_457_000.0, "1.234568 × 10⁸")]


@pytest.mark.parametrize(("value", "low", "high", "written"), NUMBERS)
def test_a_number_is_written_with_two_digits_of_its_intervals_width(value, low, high, written):
    assert num_in(value, low, high) == written
