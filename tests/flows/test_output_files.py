"""No command writes over what it reads, or without ``--force`` over a file; models within a record."""

import csv
import json
import os
import re
import shutil
from copy import deepcopy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_project import sentence

import dpalgos.formula as private
from data.ledger import open_ledger
from dpalgos.answers.stored import plain_model
from dpalgos.formula.columns import CategoryColumn, NumberColumn
from dpalgos.formula.design import design_of
from tasks.errors import SpecError
from tasks.release.record import record_of, write_record
from tasks.report.coefficients import means_formula, record_by_group, released_model
from tasks.report.write import write_report
from tests.builders import refused, release_file, release_words
from tests.tasks import analyst_tables

MINE = b"nobody else has this\n"


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("study")
        patch.setenv("DPCOST_HOME", str(folder / "home"))
        rng = np.random.default_rng(0)
        table = pd.DataFrame(rng.uniform(0, 1, (400, 3)), columns=["age", "weight", "cost"])
        file = analyst_tables.initialized(folder, table, name="good", response="cost")
        table.to_csv(folder / "good.csv", index=False)
        analyst_tables.edited(file, str(folder / "table.csv"), "good.csv")
        (folder / "table.csv").unlink()
        spec, stored, results = analyst_tables.computed(file, folder)
        write_report(spec, results.path, analyst_tables.manifest_of(spec, stored, results))
        (folder / "out").rename(folder / "good")
        (folder / "out").mkdir()
        (folder / "good").rename(folder / "out" / "good")
    return folder


@pytest.fixture
def place(study, tmp_path, monkeypatch):
    shutil.copytree(study, tmp_path / "desk")
    monkeypatch.chdir(tmp_path / "desk")
    Path("people.csv").write_bytes(Path("good.csv").read_bytes())
    release_file(Path.cwd(), "people", ["age", "cost"])
    return tmp_path / "desk"


@pytest.fixture
def record(place, command_line):
    assert command_line(*OPEN)[0] == 0
    status, _, err = command_line(*RELEASE, "--record", "record")
    assert status == 0, err
    return place / "record"


OPEN = ["ledger", "open", "people", "--epsilon", 5, "--delta", 1e-5]
RELEASE = release_words("dp_mean", "people.csv", "release.toml", 0.5)
FIGURE = ["figure", "good.toml", "--reports", "out", "--format", "svg"]


# A command with the option of its output, the file, and one of its inputs
WRITERS = {
    "figure": ([*FIGURE, "--out"], "chart.svg", "good.csv"),
    "table": (["table", "record/release.json", "--out"], "answer.csv", "record/release.json"),
    "release --table": ([*RELEASE, "--table"], "answer.csv", "people.csv"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_an_output_replaces_a_file_that_is_there_with_force_alone(name, record, command_line):
    words, file, _ = WRITERS[name]
    assert command_line(*words, file)[0] == 0
    first = Path(file).read_bytes()
    if name != "release --table":
        assert "--force" in sentence(command_line(*words, file))
    Path(file).write_bytes(MINE)
    assert Path(file).name in sentence(command_line(*words, file))
    assert Path(file).read_bytes() == MINE
    assert command_line(*words, file, "--force")[0] == 0
    assert Path(file).read_bytes()[:10] == first[:10]


@pytest.mark.parametrize("spelling", ["detour", "link", "hard link", "folder"])
@pytest.mark.parametrize("name", WRITERS)
def test_an_input_is_never_replaced(name, spelling, record, command_line):
    words, file, source = WRITERS[name]
    (os.symlink if spelling == "link" else os.link)(Path(source).absolute(), file)
    os.symlink(Path.cwd(), "again")
    named = {"detour": Path("..", "desk", file), "folder": Path("again", file)}.get(spelling, Path(file))
    before = Path(source).read_bytes()
    for force in ([], ["--force"]):
        assert named.name in sentence(command_line(*words, named, *force))
        assert Path(source).read_bytes() == before


def test_a_release_that_cannot_write_its_table_is_not_charged(place, command_line, home):
    assert command_line(*OPEN)[0] == 0
    (place / "full").write_bytes(MINE)
    (place / "release.json").write_bytes(MINE)
    (home / "x.csv").write_bytes(MINE)
    for file in ("people.csv", "./full/x.csv", home / "x.csv"):
        sentence(command_line(*RELEASE, "--table", file))
    sentence(command_line(*RELEASE, "--record", "."))
    _, out, _ = command_line("ledger", "show", "--json")
    assert json.loads(out)[0]["charges"] == []
    assert (place / "release.json").read_bytes() == MINE


def test_a_repeated_release_writes_the_same_table_again(place, command_line):
    assert command_line(*OPEN)[0] == 0
    words = [*RELEASE, "--table", "answer.tex"]
    status, out, _ = command_line(*words)
    first = Path("answer.tex").read_bytes()
    status, again, _ = command_line(*words)
    assert (status, Path("answer.tex").read_bytes()) == (0, first)
    assert again != out  # it says that the result was stored
    other = release_words("dp_mean", "people.csv", "release.toml", 0.25)
    assert "answer.tex" in sentence(command_line(*other, "--table", "answer.tex"))
    charges = json.loads(command_line("ledger", "show", "--json")[1])[0]["charges"]
    assert len(charges) == 1  # the file was refused before the second charge
    assert Path("answer.tex").read_bytes() == first


DAMAGED = {"": "", "nested": "[" * 10**5, "list": "[]", "name": '"other"', "level": '"levels"'}
DAMAGED |= {"answer": '"answers"', "estimate": '"estimate": "x", "was"', "epsilon": '"epsilon": null, "was"'}


def test_a_damaged_record_is_one_sentence_that_names_it(record, command_line):
    whole = (record / "release.json").read_text()
    for key, now in DAMAGED.items():
        text = re.sub(rf'"{key}"', now, whole) if f'"{key}"' in whole else now
        (record / "release.json").write_text(text)
        assert "release.json" in sentence(command_line("table", "record")), key


def test_a_table_runs_nothing_in_a_spreadsheet_and_holds_no_control_character(record, command_line):
    whole = json.loads((record / "release.json").read_text())
    whole["release"]["answer"][0]["name"] = "=cmd|'/c calc'!A0"
    whole["release"]["answer"][1]["name"] = "-1+cmd|x\x1b[2J\u202e"
    whole["deployment"]["product"]["name"] = "\x07\x00 @SUM(1)"
    (record / "release.json").write_text(json.dumps(whole))
    for form in ("csv", "docx", "md", "html", "tex", "txt"):
        status, _, err = command_line("table", "record", "--out", f"t.{form}")
        assert status == 0, err
        if form != "docx":
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", Path(f"t.{form}").read_text()), form
    write_record(whole, Path("again"))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", Path("again/release.html").read_text())
    cells = [cell for row in csv.reader(Path("t.csv").read_text().splitlines()) for cell in row]
    assert "'=cmd|'/c calc'!A0" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "@"))]


CATEGORIES = {"region": ["north", "south", "west"]}
BOUNDS = {"age": (18, 75), "cost": (0, 400)}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The record of a release by formula, and of one whose study lists the columns."""
    folder, rng, n = tmp_path_factory.mktemp("release"), np.random.default_rng(2), 20_000
    table = pd.DataFrame({"age": rng.uniform(20, 70, n), "region": rng.choice(CATEGORIES["region"], n)})
    effect = table.region.map({"north": 0, "south": 10, "west": -5})
    table["cost"] = 100 + 2 * table.age + effect + 20 * rng.standard_normal(n)
    stored, declared = {}, {"bounds": BOUNDS, "categories": CATEGORIES, "target": "robust"}
    asked_of = {"formula": {"formula": "cost ~ age + C(region)"}, "plain": {"response": "cost"}}
    for name, options in asked_of.items():
        here = folder / name
        here.mkdir()
        analyst_tables.initialized(here, table, **declared, **options)
        ledger = open_ledger(here / "home")
        ledger.open_dataset("mine", 10.0, 1e-5)
        asked = ledger, "preconditioned_regression", here / "table.csv", here / "mine-release.toml"
        budget = {"epsilon": 3.0, "delta": 1e-6, "interval": 0.95}
        stored[name], replayed = (record_of(analyst_tables.release(*asked, **budget)) for _ in range(2))
        assert replayed["release"]["released_model"] == stored[name]["release"]["released_model"]
    # The numbers that tests look at have noise with a seed.
    budget = {"epsilon": 3.0, "delta": 1e-6, "random_state": 1}
    seeded = private.ols("cost ~ age + C(region)", table, bounds=BOUNDS, levels=CATEGORIES, **budget)
    assert set(stored["formula"]["release"]["released_model"]) == set(plain_model(seeded.model))
    stored["formula"]["release"]["released_model"] = plain_model(seeded.model)
    return stored


@pytest.fixture
def stored(made, tmp_path, monkeypatch):
    for name, record in made.items():
        write_record(record, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_nested_model_and_its_tests_are_printed(stored, command_line):
    tests = ["--test", "age = 2", "--test", "Intercept = -1e3"]
    status, out, err = command_line("submodel", "formula", "--formula", "cost ~ age", *tests)
    assert (status, err) == (0, "")
    assert "C(region)" not in out
    assert [words for words in ("uses no further ε", "age = 2", "Intercept = -1e3") if words not in out] == []


@pytest.mark.parametrize("again", [[], ["--models"]])
def test_a_table_of_models_has_a_column_for_each(again, stored, command_line):
    words = ["--models", "cost ~ age", *again, "cost ~ age + C(region)"]
    assert command_line("table", "formula", *words, "--out", "three.csv")[0] == 0
    rows = list(csv.DictReader(Path("three.csv").read_text().splitlines()))
    models = {row["release"] for row in rows}
    assert models == {"cost ~ age", "cost ~ age + C(region)"}
    model = released_model(json.loads((stored / "formula" / "release.json").read_text()))
    numbers = {row["term"]: float(row["estimate"]) for row in rows if row["release"] != "cost ~ age"}
    assert numbers == pytest.approx(dict(model.params))


def test_means_by_a_category_have_a_row_for_each_level(stored, command_line):
    status, out, err = command_line("table", "formula", "--by", "region")
    assert (status, err) == (0, "")
    assert [level for level in ("north", "south", "west") if f"cost, region[{level}]" not in out] == []
    assert "private" in out
    assert command_line("table", "formula", "--by", "region", "--out", "by.csv")[0] == 0
    means = [float(row["estimate"]) for row in csv.DictReader(Path("by.csv").read_text().splitlines())]
    assert means == pytest.approx([190, 200, 185], abs=8)
    _, out, _ = command_line("table", "formula", "--by", "region")
    assert "robust location" in out.splitlines()[1]
    assert "table1" in out
    for record, category in (("formula", "age"), ("formula", "bmi"), ("plain", "region")):
        status, _, err = command_line("table", record, "--by", category)
        assert (status, category in err) == (2, True), record


@pytest.mark.parametrize("family", ["poisson", "logit"])
def test_means_of_counts_and_events_by_a_category_are_on_the_scale_of_the_response(made, family):
    rng, n = np.random.default_rng(4), 20_000
    table = pd.DataFrame({"arm": rng.choice(["drug", "placebo"], n), "age": rng.uniform(18, 75, n)})
    mean = np.where(table.arm == "drug", 0.2, 0.6)
    table["y"] = rng.binomial(1, mean) if family == "logit" else rng.poisson(5 * mean)
    declared = {"bounds": {"age": (18, 75), "y": (0, table.y.max())}, "levels": {"arm": ["drug", "placebo"]}}
    ask = {"epsilon": 1e6, "delta": 1e-6, "random_state": 0, **declared}
    record = deepcopy(made["formula"])
    model = getattr(private, family)("y ~ arm + age", table, **ask).model
    record["release"]["released_model"] = plain_model(model)
    release = record_by_group(record, "arm")["release"]
    found = {each["name"]: each["estimate"] for each in release["answer"]}
    true = table.groupby("arm").y.mean()
    assert found == pytest.approx({f"y, arm[{arm}]": true[arm] for arm in true.index}, rel=0.02)
    assert all(each["lower"] < each["estimate"] < each["upper"] for each in release["answer"])


def test_times_and_rates_have_no_mean_by_a_category():
    numbers = {"time": NumberColumn(0, 5), "days": NumberColumn(1, 9), "visits": NumberColumn(0, 9)}
    declared = {**numbers, "died": NumberColumn(0, 1), "arm": CategoryColumn(("drug", "placebo"))}
    for formula in ("Surv(time, died) ~ arm", "visits ~ arm + offset(log(days))"):
        refused(lambda each=formula: means_formula(design_of(each, declared), "arm"), SpecError, "offset")


def test_a_study_without_a_formula_nests_by_its_columns(stored, command_line):
    status, out, _ = command_line("submodel", "plain", "--formula", "cost ~ region")
    assert status == 0
    assert "region=south" in out
    assert "age" not in out.split("response")[0].split("\n", 2)[2]
