"""From an analyst's file to a study: what `init` writes, what a study file may declare, what is refused."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from data.ledger import open_ledger
from flows.studies.find_study import find_study
from flows.studies.parameters import report_folder
from reports.pages.study import render_study
from reports.results import SIGNS
from tasks.problems.problem import HeadlineRun
from tasks.release.request import checked_request, read_request
from tasks.release.rows import known_as
from tasks.report.build_page import build_page
from tasks.run.block import compute_block
from tasks.run.tables import analyst_parquet
from tasks.run_options import RunOptions
from tasks.study.grid import headline_block
from tests.tasks.analyst_tables import (
    completed,
    computed,
    edited,
    init_study,
    manifest_of,
    refusal,
    release,
    study_of,
)

CATEGORIES = {"region": ["north", "south", "west"], "smoker": ["no", "yes"]}
BOUNDS = {"age": (0, 120), "cost": (1, 5000), "visits": (0, 100)}


def people(n=200, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "region": rng.choice(CATEGORIES["region"], n),
            "smoker": rng.choice(CATEGORIES["smoker"], n),
            "visits": rng.poisson(2, n),
        }
    )
    return table.assign(cost=(20 * table["age"] + rng.normal(0, 100, n)).round(3), notes=np.nan)


study = study_of(people, bounds=BOUNDS, categories=CATEGORIES)


def test_init_writes_names_and_types_and_no_value(tmp_path):
    table = people().assign(age=98765.4321, region="Atlantis")
    table.to_csv(tmp_path / "table.csv", index=False)
    said = init_study("mine", tmp_path / "table.csv", response="cost", folder=tmp_path)
    written = (tmp_path / "mine.toml").read_text() + (tmp_path / "mine-release.toml").read_text()
    for value in ("98765", "Atlantis", "north", str(table["cost"].max())):
        assert value not in written + said
    assert 'name = "region"\ncategories = ["?"]' in written
    assert 'name = "age"\nlower = "?"' in written
    assert '# left out, since it is empty: "notes"' in written
    asked = checked_request(tmp_path / "mine-release.toml")[0].columns
    assert (asked.x, asked.y) == ((), "cost")
    assert '# x = ["age", "region", "smoker", "visits"]    # if not all but "cost" that' in written


def test_an_unfinished_file_is_refused_with_all_open_lines(tmp_path):
    file = tmp_path / "mine.toml"
    people().to_csv(tmp_path / "table.csv", index=False)
    init_study("mine", tmp_path / "table.csv", response="cost", folder=tmp_path)
    said = refusal(find_study, str(file))
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if re.match(r'\w+ = \[?"\?"', line):
            assert re.search(rf"{line.split()[0]} .*\b{number}\b", said)
    completed(file, BOUNDS, CATEGORIES)
    edited(file, "upper = 120", 'upper = "?"')
    assert re.search(r": upper .*in line \d+$", refusal(find_study, str(file)))


@pytest.mark.parametrize(
    ("response", "family", "task", "d"),
    [
        ("region", "multinomial", "glm", 5),
        ("", "", "mean", 6),
        ("cost", "", "linear_regression", 6),
        ("visits", "poisson", "glm", 6),
        ("smoker", "", "glm", 6),
    ],
)
def test_a_completed_file_becomes_a_study_of_its_table(tmp_path, response, family, task, d):
    spec = find_study(str(study(tmp_path, response=response, family=family)))
    assert (spec.task, spec.datasets, spec.head_panel.problem.sizes(100)["d"]) == (task, ("mine",), d)
    units = {
        column.name: (column.center, column.scale) for column in spec.analyst_table.dataset("mine").columns
    }
    assert units["age"] == (60, 30)
    assert units["region=south"] == (0.333, 0.472)  # (1 / 3, √2 / 3)
    assert units["smoker=yes"] == (0.5, 0.5)
    assert "region" not in spec.head_panel.problem.covariates
    if response == "smoker":
        assert spec.head_panel.problem.response == "smoker=yes"


def test_the_answers_are_those_of_the_declared_table(tmp_path, home):
    spec, table, results = computed(study(tmp_path, response="cost"), tmp_path)
    rows = pd.read_parquet(results.path)
    assert set(rows["status"]) == {"ok"}
    error = rows[rows["metric"] == "l2_error"].groupby(["estimator", "n"])["value"].mean()
    assert error["ols", 180] < error["preconditioned_regression", 180] < 2
    assert error["ols", 180] < 0.1 < error["zero", 180]
    manifest = manifest_of(spec, table, results)
    page = build_page(spec, rows, manifest)
    assert page.warning.startswith("NOT FOR PUBLICATION")
    assert page.data_cards[0].dataset.privacy_unit == "one row, a person"
    assert page.data_cards[0].read["source_sha256"] == table.source_sha256
    assert (
        "coefficients, the intercept left out) from the answer without privacy on all rows" in page.measured
    )
    gaps = {**manifest, "data": [{**manifest["data"][0], "n_rows": 190}]}
    populations = [build_page(spec, rows, each).population for each in (manifest, gaps)]
    assert populations == [(200, "rows"), (190, "rows")]
    assert page.settings["adassp"] == ("covariate_bound = sqrt(d), response_bound = 2.0",)


@pytest.mark.parametrize(
    ("options", "private"),
    [
        ({"response": "region", "family": "multinomial"}, "dp_glm"),
        ({"sparsity": 2}, "dp_sparse_mean"),
        ({"response": "cost", "sparsity": 2}, "screened_sparse_regression"),
    ],
)
def test_classes_and_few_entries_come_as_far_as_results(tmp_path, home, options, private):
    spec, _, results = computed(study(tmp_path, **options), tmp_path)
    rows = pd.read_parquet(results.path)
    assert set(rows["status"]) == {"ok"}
    at = rows[(rows["metric"] == "l2_error") & (rows["n"] == 180)]
    error = at.groupby("estimator")["value"].mean()
    exact = {"glm": "glm", "mean": "sample_mean"}.get(spec.task, "ols")
    assert error[exact] < error["zero"]
    assert (rows[rows["estimator"] == private]["certified_epsilon"] <= 0.5 + 1e-9).all()


def exhibited(spec, ref, tmp_path, n):
    problem, design = spec.head_panel.problem, tmp_path / "design.parquet"
    design.write_bytes(problem.prepare(ref))
    blocks = [each for each in spec.blocks("paper", replicates=2, seed=1) if each.replicates.n == n]
    block = headline_block(spec, blocks)
    run = HeadlineRun(table=ref, design=design, replicates=block.replicates, cells=block.cells, selected={})
    return problem, design, problem.exhibits(run)


def test_the_page_shows_coefficients_error_against_epsilon_a_verdict_and_what_is_missing(tmp_path, home):
    table = people(2000).assign(flat=1.0)
    file = study(tmp_path, table, response="cost")
    spec, ref, results = computed(file, tmp_path)
    problem, design, shown = exhibited(spec, ref, tmp_path, 1800)
    rows = {name: (coef, low, high, exact) for name, coef, low, high, exact in shown["own_table"]["rows"]}
    assert set(rows) == {"age", "region=south", "region=west", "smoker=yes", "visits"}
    assert shown["own_table"]["left_out"] == ["flat"]
    assert rows["age"][3] == pytest.approx(0.95, abs=0.1)
    assert rows["age"][1] is None or rows["age"][1] < rows["age"][0] < rows["age"][2]
    json.dumps(shown)
    every = pd.concat(
        compute_block(each, problem.load(design)) for each in spec.blocks("standard", replicates=2, seed=1)
    )
    page = build_page(spec, every, manifest_of(spec, ref, results), shown)
    markdown = render_study(every, page)["report.md"].decode()
    for text in (
        "NOT FOR PUBLICATION: the exact answer",
        "flat",
    ):
        assert text in markdown


def test_the_page_of_a_formula_shows_its_terms_however_the_model_is_written(tmp_path, home):
    found, table = {}, people(2000)
    for name, formula in {
        "plain": "cost ~ age*smoker + region",
        "moved": "cost ~ I(age - 55)*smoker + region",
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        spec, ref, results = computed(study(folder, table, formula=formula), folder)
        *_, shown = exhibited(spec, ref, folder, 1800)
        own = shown["own_table"]
        assert "least squares" in own["covers"] or all(row[2] is None for row in own["rows"])
        found[name] = {row[0]: row[1:] for row in own["rows"]}
        counted = pd.read_parquet(results.path)
        found[name, "signs"] = counted[counted["metric"] == SIGNS].groupby("estimator")["value"].max()
    exact = smf.ols("cost ~ age*smoker + region", table).fit().params
    assert set(found["plain"]) == set(exact.index)
    for term, (coef, _, _, without) in found["plain"].items():
        assert without == pytest.approx(exact[term])
        other = term.replace("age", "I(age - 55)")
        if term not in ("Intercept", "smoker[T.yes]"):  # what they mean depends on where age is zero
            assert coef == pytest.approx(found["moved"][other][0])
    assert found["plain", "signs"]["ols"] == 5


@pytest.mark.parametrize("response", ["cost", "Kosten", "maliyet", "x1", "income_2"])
def test_no_name_decides_which_coefficients_intervals_cover(tmp_path, response):
    """Where a response may have a long tail its owner says; "?" is refused with both choices."""
    file = study(tmp_path, people().rename(columns={"cost": response}), response=response, target="?")
    for call in (find_study, lambda name: read_request(Path(name), "preconditioned_regression", **BUDGET)):
        name = str(file if call is find_study else tmp_path / "mine-release.toml")
        assert all(f'"{each}"' in refusal(call, name) for each in ("least squares", "robust"))
        assert "numbers" not in refusal(call, name)
    edited(file, 'interval_target = "?"', 'interval_target = "robust"')
    assert {"interval_target": "robust"} in [item.params for item in find_study(str(file)).estimators]


BUDGET = {"epsilon": 1.0, "delta": 1e-7}


def test_rows_that_the_ledger_knows_by_another_name_are_recognized(tmp_path, home, command_line):
    study(tmp_path)
    command_line("ledger", "open", "mine", "--epsilon", 10, "--delta", 1e-6)
    ledger, file = open_ledger(home), tmp_path / "table.csv"
    assert known_as(ledger, file) == ""
    release(ledger, "dp_mean", file, tmp_path / "mine-release.toml", epsilon=1.0, delta=1e-7)
    people().iloc[::-1].to_csv(tmp_path / "sorted.csv", index=False)
    assert known_as(ledger, tmp_path / "sorted.csv") == "mine"
    said = init_study("second", tmp_path / "sorted.csv", folder=tmp_path)
    assert "'mine'" in said
    assert 'name = "mine"' in (tmp_path / "second-release.toml").read_text()
    status, _, err = command_line(
        *("ledger", "open", "second", "--epsilon", 1, "--delta", 1e-6, "--data", tmp_path / "sorted.csv")
    )
    assert (status, "'mine'" in err) == (2, True)
    assert [each["name"] for each in ledger.show()] == ["mine"]
    people(seed=5).to_csv(tmp_path / "third.csv", index=False)
    assert known_as(ledger, tmp_path / "third.csv") == ""


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("lower = 0 ", "lower = 120 ", "'age': lower must be below upper, got 120 and 120"),
        ("upper = 120", "upper = 120\ncenter = 121", "'age': center must lie within its bounds 0 and 120"),
        ("upper = 120", "uper = 120", "data.columns (age).uper is not a known key; did you mean 'upper'?"),
        ("version = 1", "version = 2", "version must be 1, got 2; update dpcost"),
        ("upper = 120", "", "'age' needs lower and upper, or categories"),
        ("['north', 'south', 'west']", "['north']", "must be two or more different texts"),
        ("upper = 120", "upper = 120\nimpute = 130", "impute of 'age' must lie within its bounds, got 130"),
        ('name = "visits"', 'name = "age"', "columns must differ in name, got 'age' twice"),
        ('missing = "refuse"', 'missing = "mean"', "data.missing must be 'refuse' or 'drop', got 'mean'"),
        ("rows = 200", "rows = 0", "data.rows must be at least 1, got 0"),
        ('response = "cost"', 'response = "region"', "of two categories, got 'region' with 3"),
        ('response = "cost"', 'response = "cost", covariates = ["age", "cost"]', "covariates must not hold"),
        ('response = "cost"', 'response = "price"', "mine has no column 'price'"),
        ('kind = "subsamples"', 'kind = "simulation"', "with [data], got 'simulation'"),
        ("n = [12, 50, 180]", "n = [12, 180, 300]", "grid.n must be at most the 200 rows of mine, got 300"),
    ],
)
def test_a_wrong_declaration_is_one_sentence(tmp_path, old, new, sentence):
    assert sentence in refusal(find_study, edited(study(tmp_path, response="cost"), old, new))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"name": "housing"}, "none of the studies that come with the project, got 'housing'"),
        ({"response": "price"}, "--response must be one of the 6 columns of the file, got 'price'"),
        ({"response": "region", "family": "poisson"}, "--family poisson needs numbers, got 'region'"),
        ({"family": "logistic"}, "--family logistic needs --response"),
        ({"response": "cost", "family": "gamma"}, "--family must be linear, logistic, poisson or"),
        ({"user_id": "person"}, "--user-id must be one of the 6 columns of the file, got 'person'"),
        ({"user_id": "region", "response": "region"}, "--user-id must be another column than --response"),
        ({"user_id": "region", "response": "visits", "family": "poisson"}, "--user-id is for means and"),
        ({"user_id": "region", "sparsity": 2}, "--sparsity and --user-id do not go together"),
        ({"response": "visits", "family": "poisson", "sparsity": 2}, "--sparsity is for means and linear"),
    ],
)
def test_init_refuses_in_one_sentence(tmp_path, options, sentence):
    people().to_csv(tmp_path / "table.csv", index=False)
    name = options.pop("name", "mine")
    assert sentence in refusal(init_study, name, tmp_path / "table.csv", folder=tmp_path, **options)
    assert not list(tmp_path.glob("*.toml"))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "is empty"),
        ("a,b\n", "has 0 rows, a study needs at least 10"),
        ("a,b\n1,2\n", "has 1 rows, a study needs at least 10"),
        ("3.5,17\n" + "1,2\n" * 20, "seems to lack a header"),
        ("a,b\n" + ",\n" * 20, "no column with values"),
        ("a\n\xff\n", "has 1 rows"),
    ],
)
def test_init_refuses_files_that_make_no_study(tmp_path, content, sentence):
    (tmp_path / "table.csv").write_text(content)
    assert sentence in refusal(init_study, "mine", tmp_path / "table.csv", folder=tmp_path)


def test_a_moved_file_keeps_its_results_and_another_content_does_not(tmp_path, home):
    def keys(folder):
        spec = find_study(str(folder / "mine.toml"))
        table = analyst_parquet(spec.name, spec.analyst_table)
        return table.sha256, [block.described() for block in spec.blocks("smoke", replicates=2, seed=1)]

    file = study(tmp_path, response="cost")
    here = keys(tmp_path)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (tmp_path / "table.csv").rename(moved / "table.csv")
    (moved / "mine.toml").write_text(file.read_text().replace(str(tmp_path / "table.csv"), "table.csv"))
    assert keys(moved) == here
    people(seed=1).to_csv(moved / "table.csv", index=False)
    assert keys(moved)[0] != here[0]


def test_no_other_account_can_reach_what_a_home_keeps_of_a_table_of_ones_own(tmp_path, home):
    for folder in (home / "store" / "parquet", home / "cache"):  # of an earlier study of public data
        folder.mkdir(parents=True)
    spec = find_study(str(study(tmp_path, response="cost")))
    table = analyst_parquet(spec.name, spec.analyst_table)
    assert Path(table.path).is_relative_to(home / "store")
    assert [(home / name).stat().st_mode & 0o777 for name in ("store", "cache")] == [0o700, 0o700]


@pytest.mark.parametrize("mode", [0o755, 0o775, 0o701])
def test_a_report_folder_that_was_there_is_closed_for_a_table_of_ones_own(tmp_path, home, mode):
    for folder in (tmp_path / "mine", tmp_path / "housing"):
        folder.mkdir()
        folder.chmod(mode)
    own = find_study(str(study(tmp_path, response="cost")))
    for spec in (own, find_study("housing")):
        report_folder(spec, RunOptions(out=str(tmp_path)))
    assert (tmp_path / "mine").stat().st_mode & 0o777 == mode & 0o700
    assert (tmp_path / "housing").stat().st_mode & 0o777 == mode


def test_init_overwrites_nothing(tmp_path):
    file = study(tmp_path, response="cost")
    before = file.read_text()
    assert "is there already" in refusal(init_study, "mine", tmp_path / "table.csv", folder=tmp_path)
    assert file.read_text() == before
