"""Commands that are refused, in one line that names what is wrong: before anything starts, or for the ledger's rights."""

import os
import re
import shlex
import tempfile
from pathlib import Path

import pytest

from data.errors import StoreError
from data.ledger import Ledger
from flows.launch import check_table_is_no_output
from flows.local_server import KEEP_DAYS, keep_days
from flows.serve import deployments
from flows.studies.find_study import STUDIES
from tasks.errors import SpecError
from tests.builders import people, refused, release_file, words
from tests.flows.small_project import sentence

# A command, and what its line names
COMMANDS = [
    ("init housing --data people.csv", "'housing'"),
    ("init mine --data people.csv --response price", ("--response", "'price'")),
    ("init mine --data people.csv --response region --family poisson", ("--family poisson", "'region'")),
    ("init mine --data people.csv --family logistic", ("--family logistic", "--response")),
    ("init mine --data people.csv --response cost --family gamma", ("--family", "'gamma'")),
    ("init mine --data people.csv --user-id nobody", ("--user-id", "'nobody'")),
    ("init mine --data people.csv --user-id region --response region", ("--user-id", "--response")),
    ("init mine --data people.csv --user-id region --response age --family poisson", "--user-id"),
    ("init mine --data people.csv --user-id region --sparsity 2", ("--sparsity", "--user-id")),
    ("init mine --data people.csv --response age --family poisson --sparsity 2", "--sparsity"),
    ("init there --data people.csv", "there.toml"),
    ("run a/mine.toml b/mine.toml", "'mine' twice"),
    ("run a/housing.toml", "'housing'"),
    ("run a/scorecard.toml", "'scorecard'"),
    ("run a/wrong.toml", ("wrong.toml", "title", "got 3", "question")),
    ("run housing --out file", ("--out", "file")),
    ("run housing --out file/deeper", ("--out", "file")),
    ("run housing --out site", ("--out", "index.html")),
    ("run housing --out own", ("--out", "own/housing")),
    ("plan housing --profile smokey", "'smoke'"),
    ("status", ("DPCOST_HOME", "'~nosuchuser/x'"), "~nosuchuser/x"),
    ("status", ("DPCOST_HOME", "'loop/x'"), "loop/x"),
    ("table nowhere", "nowhere"),
    ("audit", "estimator"),
    ("audit ols", "'ols'"),
    ("audit dp_mean --trials 10", ("trials", "10")),
    ("audit sheffet_ols --interval 0.95", "interval"),
    ("audit dp_mean --callable a:b", "--callable"),
    ("audit --callable no_colon", "'no_colon'"),
    ("audit --callable no_such_module_here:f", "no_such_module_here"),
    ("audit --callable json:nothing", "nothing"),
    ("audit --callable json:__name__", "__name__"),
    ("audit --callable json:dumps --interval 0.95", "--interval"),
    ("audit dp_mean --rows 20", "--rows"),
    *[(f"audit preconditioned_regression --param {word}", word.partition("=")[0]) for word in ("nonsense=1", "clip=")],
]  # fmt: skip


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row[0])
def test_a_wrong_command_is_refused_in_one_line_that_names_it(tmp_path, monkeypatch, command_line, home, row):
    monkeypatch.chdir(tmp_path)
    command, named, *chosen_home = row
    monkeypatch.setenv("DPCOST_HOME", *chosen_home or [str(home)])
    os.symlink("loop", "loop")
    for folder in ("a", "b", "site", "own/housing"):
        (tmp_path / folder).mkdir(parents=True)
    people(60).to_csv("people.csv", index=False)
    study = (STUDIES / "housing.toml").read_text()
    files = dict.fromkeys(("a/mine.toml", "b/mine.toml", "a/housing.toml", "a/scorecard.toml"), study)
    files |= {"a/wrong.toml": "title = 3", "there.toml": "# mine", "file": ""}
    files |= {"own/housing/report.html": "mine", "site/index.html": "<title>My site</title>"}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    said = sentence(command_line(*shlex.split(command)))
    assert [word for word in words(named) if word not in said] == [], said
    assert (tmp_path / "there.toml").read_text() == "# mine"
    assert not (tmp_path / "mine.toml").exists()
    assert not (home / "store").exists()


@pytest.mark.parametrize("schedule", ["0 3 * *", "99 3 * * 1"])
def test_a_wrong_schedule_is_refused(tmp_path, schedule):
    text = (STUDIES / "fair.toml").read_text()
    file = tmp_path / "costs.toml"
    file.write_text(re.sub(r"^schedule = .*", f'schedule = "{schedule}"', text, flags=re.MULTILINE))
    refused(lambda: deployments("home", [file]), SpecError, "costs.toml", "schedule")


@pytest.mark.parametrize("days", ["0", "-1", "many", "1.5", ""])
def test_a_wrong_number_of_days_is_refused(monkeypatch, days):
    monkeypatch.setenv(KEEP_DAYS, days)
    refused(keep_days, StoreError, KEEP_DAYS, repr(days))


def test_a_table_in_the_folder_of_its_own_report_is_refused(tmp_path):
    check_table_is_no_output(tmp_path / "results.parquet", tmp_path / "mine")
    own = tmp_path / "mine"
    refused(lambda: check_table_is_no_output(own / "results.parquet", own), SpecError, "--out", own)


NOBODY = 65534
OPEN = "ledger open more --epsilon 1 --delta 1e-6"
RELEASE = "release dp_mean --data people.csv --config release.toml --delta 1e-7 --epsilon"
# What has which mode, the home, a command, and what its line names
RIGHTS = [
    ("ledger.sqlite", 0o444, "", OPEN, ("ledger.sqlite cannot be written", "SQLITE_READONLY")),
    ("ledger.sqlite", 0o444, "", RELEASE + " 0.4", ("ledger.sqlite cannot be written", "SQLITE_READONLY")),
    ("ledger.sqlite", 0o000, "", "ledger show", ("ledger.sqlite cannot be read", "SQLITE_CANTOPEN")),
    ("ledger.key", 0o000, "", "ledger show", ("ledger.key cannot be read", "readable")),
    (".", 0o555, "", OPEN, "ledger.sqlite cannot be written"),
    (".", 0o555, "below", OPEN, ("below", "cannot be created", "DPCOST_HOME")),
]


@pytest.fixture
def folder(command_line, monkeypatch):
    """The current folder, with data and a home with a ledger; the account is not root."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("DPCOST_HOME", str(folder / "home"))
        people(60).to_csv("people.csv", index=False)
        release_file(folder, "people", ["age"], bounds="value_bound = 120.0")
        for command in ("ledger open people --epsilon 1 --delta 1e-6", RELEASE + " 0.5", "ledger show"):
            assert command_line(*shlex.split(command))[0] == 0  # and everything is imported
        former = os.geteuid()
        for path in (folder, *folder.rglob("*")):
            os.chown(path, former or NOBODY, -1)
        os.seteuid(former or NOBODY)
        yield folder
        os.seteuid(former)


@pytest.mark.parametrize(("file", "mode", "home", "command", "named"), RIGHTS)
def test_what_may_not_be_used_is_named(folder, command_line, monkeypatch, file, mode, home, command, named):
    (folder / "home" / file).chmod(mode)
    monkeypatch.setenv("DPCOST_HOME", str(folder / "home" / home))
    said = sentence(command_line(*shlex.split(command)))
    assert mode != 0o444 or command_line("ledger", "show")[0] == 0
    (folder / "home" / file).chmod(0o700)
    assert [word for word in words(named) if word not in said] == [], said
    assert len(Ledger(folder / "home").account("people").charges) == 1
