"""No command writes over what it reads, or without ``--force`` over a file that is there."""

import csv
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_project import sentence

from tasks.report.write import write_report
from tests.builders import release_file, release_words
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
    "compare": (["compare", "out/good", "out/good", "--page"], "both.html", "out/good/results.parquet"),
    "release --table": ([*RELEASE, "--table"], "answer.csv", "people.csv"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_an_output_replaces_a_file_that_is_there_with_force_alone(name, record, command_line, monkeypatch):
    monkeypatch.setattr("flows.studies.results.comparison_page", lambda runs: b"<p>a page</p>")
    words, file, _ = WRITERS[name]
    assert command_line(*words, file)[0] == 0
    first = Path(file).read_bytes()
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


def test_a_backup_replaces_no_other_file(place, command_line, home):
    assert command_line(*OPEN)[0] == 0
    before = Path("people.csv").read_bytes()
    os.symlink(home / "ledger.key", "link")
    for file in ("people.csv", home / "ledger.key", "link"):
        sentence(command_line("ledger", "backup", file))
    assert Path("people.csv").read_bytes() == before


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
    whole["release"]["answer"][1]["name"] = "-1+cmd|x"
    whole["deployment"]["product"]["name"] = "\x07\x00 @SUM(1)"
    (record / "release.json").write_text(json.dumps(whole))
    for form in ("csv", "docx"):
        status, _, err = command_line("table", "record", "--out", f"t.{form}")
        assert status == 0, err
    cells = [cell for row in csv.reader(Path("t.csv").read_text().splitlines()) for cell in row]
    assert "'=cmd|'/c calc'!A0" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "@"))]
