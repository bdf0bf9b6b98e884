"""From an analyst's file to a study: what `init` writes, what a file may declare, what is wrong in it."""

import contextlib
import re
import shlex
import sqlite3
import tomllib
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

import flows.study
from flows.studies.find_study import find_study
from flows.studies.parameters import report_folder
from tasks.problems.problem import HeadlineRun
from tasks.release.request import checked_request, read_request
from tasks.run.datasets import analyst_parquet, bring, notes_on
from tasks.run_options import RunOptions
from tasks.study.study_file import checked_study
from tests import builders
from tests.builders import CATEGORIES
from tests.tasks.analyst_tables import completed, computed, edited, init_study, refusal, study_of

BOUNDS = {"age": (0, 120), "cost": (1, 5000), "visits": (0, 100)}


def people(n=200, seed=0):
    rng, table = np.random.default_rng(seed), builders.people(n).drop(columns="person")
    cost = (20 * table["age"] + rng.normal(0, 100, n)).clip(1, 5000).round(3)
    return table.assign(visits=rng.poisson(2, n), cost=cost, notes=np.nan)


study = study_of(people, bounds=BOUNDS, categories=CATEGORIES)


def test_init_writes_names_and_types_and_no_value(tmp_path):
    table = people().assign(age=98765.4321, region="Atlantis")
    table.to_csv(tmp_path / "table.csv", index=False)
    said = init_study("mine", tmp_path / "table.csv", response="cost", folder=tmp_path)
    written = (tmp_path / "mine.toml").read_text() + (tmp_path / "mine-release.toml").read_text()
    for value in ("98765", "Atlantis", "north", str(table["cost"].max())):
        assert value not in written + said
    lines = 'name = "region"\ncategories = ["?"]', 'name = "age"\nlower = "?"', 'because it is empty: "notes"'
    assert [line for line in lines if line not in written] == []
    asked = checked_request(tmp_path / "mine-release.toml")[0].columns
    assert (asked.x, asked.y) == ((), "cost")
    assert '# x = ["age", "region", "smoker", "visits"]    # default: all columns' in written


PLACES = {
    "another folder": "../people's tables/people.csv",
    "an address": "sqlite:../people.db?query=SELECT age, visits\nFROM people",
}


@pytest.mark.parametrize("place", PLACES)
def test_the_printed_commands_run_as_they_stand(place, tmp_path, monkeypatch, command_line, home):
    for folder in ("work", "people's tables"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    table = people()[["age", "visits"]]
    table.to_csv(tmp_path / "people's tables" / "people.csv", index=False)
    with contextlib.closing(sqlite3.connect(tmp_path / "people.db")) as database:
        table.to_sql("people", database, index=False)
    assert command_line("init", "mine", "--data", PLACES[place])[0] == 0
    completed(tmp_path / "work" / "mine.toml", BOUNDS)
    text = (tmp_path / "work" / "mine-release.toml").read_text()
    printed = [shlex.split(line.removeprefix("#")) for line in text.splitlines() if line.startswith("#     ")]
    assert [words[:2] for words in printed] == [["dpcost", "ledger"], ["dpcost", "release"]]
    for _, *words in printed:
        status, _, said = command_line(*words, *(["--yes"] if words[0] == "release" else []))
        assert status == 0, said


def test_an_unfinished_file_is_refused_with_all_open_lines(tmp_path):
    file = tmp_path / "mine.toml"
    people().to_csv(tmp_path / "table.csv", index=False)
    init_study("mine", tmp_path / "table.csv", response="cost", folder=tmp_path)
    said = refusal(find_study, str(file))
    assert "data.privacy_unit" in said
    for column in tomllib.loads(file.read_text())["data"]["columns"]:
        for key in column.keys() - {"name"}:
            assert f"data.columns.{column['name']}.{key}" in said
    completed(file, BOUNDS, CATEGORIES)
    edited(file, "upper = 120", 'upper = "?"')
    assert refusal(find_study, str(file)).endswith("public value in: data.columns.age.upper")


STUDIES = [("region", "multinomial", "glm", 5), ("", "", "mean", 6), ("cost", "", "linear_regression", 6)]
STUDIES += [("visits", "poisson", "glm", 6), ("smoker", "", "glm", 6)]


@pytest.mark.parametrize(("response", "family", "task", "d"), STUDIES)
def test_a_completed_file_becomes_a_study_of_its_table(tmp_path, response, family, task, d):
    spec = find_study(str(study(tmp_path, response=response, family=family)))
    assert (spec.task, spec.head_panel.problem.sizes(100)["d"]) == (task, d)
    columns = spec.about("mine").columns
    units = {column.name: (column.center, column.scale) for column in columns}
    assert units["age"] == (60, 30)
    assert units["region=south"] == (0.333, 0.472)  # (1 / 3, √2 / 3)
    assert units["smoker=yes"] == (0.5, 0.5)
    assert "region" not in spec.head_panel.problem.covariates
    if response == "smoker":
        assert spec.head_panel.problem.response == "smoker=yes"


def test_the_page_shows_coefficients_next_to_the_exact_ones_and_what_is_left_out(tmp_path, home):
    spec, ref, _ = computed(study(tmp_path, people(2000).assign(flat=1.0), response="cost"), tmp_path)
    blocks = [each for each in spec.blocks("paper", replicates=2, seed=1) if each.replicates.n == 1800]
    about = {"table": ref, "design": next(tmp_path.glob("design.*npz"))}
    block = spec.headline_block(blocks)
    run = HeadlineRun(replicates=block.replicates, cells=block.cells, **about)
    shown = spec.head_panel.problem.exhibits(run)["own_table"]
    rows = {name: (coef, low, high, exact) for name, coef, low, high, exact in shown["rows"]}
    assert set(rows) == {"age", "region=south", "region=west", "smoker=yes", "visits"}
    assert shown["left_out"] == ["flat"]
    coef, low, high, exact = rows["age"]
    assert exact == pytest.approx(0.98, abs=0.03)
    assert low is None or low < coef < high


def test_means_next_to_their_non_private_ones_are_in_the_units_of_the_file(tmp_path, home):
    table = people(600)[["age", "cost"]]
    spec, ref, _ = computed(study(tmp_path, table), tmp_path)
    block = spec.headline_block(spec.blocks("smoke", replicates=2, seed=1))
    about = {"table": ref, "design": next(tmp_path.glob("design.*npz"))}
    run = HeadlineRun(replicates=block.replicates, cells=block.cells, **about)
    shown = spec.head_panel.problem.exhibits(run)["own_table"]
    assert shown["numbers"] == "means"
    for name, coef, _, _, exact in shown["rows"]:
        assert exact == pytest.approx(table[name].mean())
        assert coef == pytest.approx(exact, rel=0.5)


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


def test_of_a_table_of_ones_own_no_answer_goes_to_the_server(tmp_path, monkeypatch):
    sent = Mock()
    monkeypatch.setattr(flows.study, "create_markdown_artifact", sent)
    spec = Mock(analyst_table=object())
    spec.name = "mine"  # Mock takes a name for itself
    flows.study.attach_report(spec, tmp_path / "report.html", "a headline")
    sent.assert_not_called()


def test_open_lines_and_faults_of_columns_sizes_and_grid_are_listed_together(tmp_path, command_line):
    file = study(tmp_path, people(100), response="cost")
    edited(file, 'privacy_unit = "a person"', 'privacy_unit = "?"')
    edited(file, "lower = 0 ", "lower = 200 ")
    edited(file, "['north', 'south', 'west']", "[\n'?'\n]")
    edited(file, 'missing = "refuse"', 'missing = "mean"')
    edited(file, "n = [9, 25, 90]", "n = [9, 25, -90]")
    status, _, said = command_line("check", file)
    assert status == 2
    assert not any(each.isdigit() for each in said.partition("\n")[0].replace(str(file), ""))  # no count
    wanted = ("data.privacy_unit", "'age': lower", "data.columns.region.categories", "data.missing", "grid.n")
    for text in (said, refusal(find_study, str(file))):
        assert [words for words in wanted if words not in text] == []
    (tmp_path / "other").mkdir()
    file = study(tmp_path / "other", people(100), response="cost")
    edited(file, "n = [9, 25, 90]", "n = [90, 900]")
    assert ["grid.n" in fault for fault in checked_study(file)[1]] == [True]  # which depends on the table


def test_the_name_of_a_study_of_the_project_is_refused_as_by_its_run(tmp_path, command_line):
    file = study(tmp_path, response="cost")
    taken = file.rename(file.with_name("housing.toml"))
    said = command_line("check", taken)
    assert said[0] == 2
    assert refusal(find_study, str(taken)) in said[2]


def test_codes_are_asked_about_in_a_few_columns(tmp_path, command_line):
    table = pd.DataFrame({f"c{j}": range(100) for j in range(40)})
    said = command_line("check", study_of(lambda: table, bounds=dict.fromkeys(table, (0, 100)))(tmp_path))[1]
    assert [each in said for each in ("c4: ", "c5: ", "35 more columns")] == [True, False, True]


def test_a_release_lists_its_own_faults_with_those_of_its_study(tmp_path, command_line):
    file = study(tmp_path, response="cost")
    edited(file, "lower = 0 ", "lower = 200 ")
    config = tmp_path / "mine-release.toml"
    edited(config, 'y = "cost"', 'y = "costs"\nz = 1')
    edited(config, 'name = "mine"', 'name = "?"')
    refused = refusal(read_request, config, "preconditioned_regression", epsilon=1.0, delta=1e-7)
    for said in (command_line("check", config)[2], refused):
        assert all(words in said for words in ("dataset.name", "columns.z: ", "'age': lower must be below"))
    edited(config, "\nz = 1", "")
    edited(config, 'name = "?"', 'name = "mine"')
    edited(file, "lower = 200 ", "lower = 0 ")
    assert "'costs'" in " ".join(checked_request(config)[2])
    edited(config, 'y = "costs"', 'y = "cost"')
    assert "complete and valid" in command_line("check", config)[1]


def test_sizes_above_the_rows_that_are_left_are_refused_without_their_number(tmp_path, home, command_line):
    table = people(1000)
    table.loc[:199, "age"] = np.nan
    file = study(tmp_path, table, response="cost")
    edited(file, 'missing = "refuse"', 'missing = "drop"')
    status, _, err = command_line("run", file, "--profile", "smoke", "--out", tmp_path / "out")
    assert status == 2
    assert [word in err for word in ("grid.n", "rows of mine", "got 900", "800")] == [True] * 3 + [False]


def test_notes_on_left_out_rows_have_no_count(tmp_path, home):
    table = people(1000)
    table.loc[:199, "age"] = np.nan
    file = study(tmp_path, table, response="cost")
    edited(file, 'missing = "refuse"', 'missing = "drop"')
    spec = find_study(str(file))
    (note,) = notes_on(spec, {spec.name: bring(spec, spec.name, RunOptions(profile="smoke"))})
    assert "column age" in note
    assert not set("0123456789") & set(note)


def test_the_frequency_of_an_event_may_be_left_out(tmp_path, home):
    table = people(1000).assign(ill=np.arange(1000) % 2)
    file = study(tmp_path, table, response="ill", family="logistic")
    text = file.read_text()
    assert 'mean."ill"' in text
    file.write_text(re.sub(r'mean."ill" = .*\n', "", text))
    assert find_study(str(file)).guesses.means == {}


def test_codes_with_leading_zeros_and_dates_are_asked_about(tmp_path, home):
    table = people().assign(ward="003", when="2024-05-01", note="a", mixed="2024-05-01", plain="7")
    table.loc[:50, ["ward", "mixed"]] = "12", "later"
    table.to_csv(tmp_path / "table.csv", index=False)
    said = init_study("mine", tmp_path / "table.csv", folder=tmp_path, response="cost")
    assert '"ward": numbers with leading zeros' in said
    assert '"when": dates' in said
    columns = (tmp_path / "mine.toml").read_text().split("[[data.columns]]\n")[1:]
    named = {tomllib.loads(each.splitlines()[0])["name"]: each for each in columns}
    assert 'categories = ["?"]' in named["ward"]
    assert [name for name, each in named.items() if "leading zeros" in each] == ["ward"]
    assert [name for name, each in named.items() if "Dates." in each] == ["when"]
    for value in ("003", "2024"):
        assert value not in said.replace("such as 003", "")


@pytest.mark.parametrize("between", [".", " "])
def test_marks_that_are_ambiguous_are_declared(between, tmp_path, command_line, monkeypatch):
    monkeypatch.chdir(tmp_path)
    marks = str.maketrans({",": between, ".": ","})
    table = people(60)
    table["cost"] = [f"{30 * value:,.2f}".translate(marks) for value in table["cost"]]
    table[["cost", "age"]].to_csv("table.csv", sep=";", index=False, decimal=",")
    assert command_line("init", "mine", "--data", "table.csv")[0] == 2
    declared = ("--data", "table.csv", "--decimal", ",", "--thousands", between)
    status, out, err = command_line("init", "mine", *declared)
    assert (status, err) == (0, "")
    assert "read the names" in out


@pytest.mark.parametrize("whole", [True, False])
def test_a_time_to_an_event_is_declared_checked_and_released(tmp_path, command_line, whole):
    rng, n = np.random.default_rng(0), 1500
    time = rng.integers(0, 6, n) if whole else rng.uniform(0, 5, n).round(3)
    table = pd.DataFrame({"time": time, "died": rng.integers(0, 2, n), "arm": rng.choice(["a", "b"], n)})
    table.assign(code=rng.integers(1, 4, n), other=1.0).to_csv(tmp_path / "t.csv", index=False)
    formula = "Surv(time, died) ~ arm + C(code)"
    init_study("mine", tmp_path / "t.csv", folder=tmp_path, formula=formula)
    file = completed(tmp_path / "mine.toml", {"time": (0, 5)}, {"arm": ["a", "b"], "code": ["1", "2", "3"]})
    columns = {each["name"]: each for each in tomllib.loads(file.read_text())["data"]["columns"]}
    assert columns.keys() == {"time", "died", "arm", "code"}
    assert columns["time"].get("resolution") == (1 if whole else None)
    for each in ("mine.toml", "mine-release.toml"):
        assert command_line("check", tmp_path / each)[0] == 0
    assert command_line("ledger", "open", "mine", "--epsilon", "9", "--delta", "1e-5")[0] == 0
    ask = ["--data", tmp_path / "t.csv", "--config", tmp_path / "mine-release.toml", "--yes"]
    budget = ["--epsilon", "9", "--delta", "1e-6", "--interval", "0.95"]
    assert command_line("release", "preconditioned_glm", *ask, *budget)[0] == 0


def test_a_column_of_whole_numbers_that_a_formula_calls_a_category_is_declared_as_one(tmp_path, command_line):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"y": rng.uniform(0, 1, 300), "code": rng.integers(1, 4, 300)})
    table.to_csv(tmp_path / "t.csv", index=False)
    init_study("mine", tmp_path / "t.csv", folder=tmp_path, formula="y ~ C(code)")
    file = completed(tmp_path / "mine.toml", {"y": (0, 1)}, {"code": ["1", "2", "3"]})
    assert command_line("check", file)[0] == 0
