"""Releases and commands that are refused before a charge: by which exception, in one line that names what is wrong."""

import os
import shlex
import tempfile
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.errors import DataError, StoreError
from data.ledger import Ledger, open_ledger
from data.store.output_files import claim_report
from dpalgos import InputError
from flows.launch import check_table_is_no_output
from flows.local_server import KEEP_DAYS, keep_days
from flows.studies.find_study import STUDIES
from tasks.errors import USER_ERRORS, SpecError
from tests.builders import BOUNDS, REGIONS, people, refused, release_file, words
from tests.flows.small_project import sentence
from tests.tasks.analyst_tables import edited, initialized, release

SECRET = 987654.321
REGRESSION = {"y": 'y = "cost"', "bounds": "covariate_bound = 1.0\nresponse_bound = 1.0"}


@pytest.fixture
def ask(home, tmp_path):
    open_ledger(home).open_dataset("people", 1.0, 1e-5)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(-1, 1, (400, 3)), columns=["age", "weight", "cost"])
    table.loc[0, "cost"] = SECRET
    table.to_csv(tmp_path / "people.csv", index=False)

    def asked(estimator="dp_mean", file="people.csv", epsilon=0.5, delta=1e-6, interval=None, y="", **parts):
        parts = {"name": "people", "x": '["age", "weight"]', "bounds": "value_bound = 1.0", **parts}
        file_of_release = release_file(tmp_path, columns=y, **parts)
        options = {"epsilon": epsilon, "delta": delta, "interval": interval}
        return release(open_ledger(home), estimator, tmp_path / file, file_of_release, **options)

    return asked


REFUSED = tomllib.loads(Path(__file__).with_name("requests.toml").read_text())


@pytest.mark.parametrize("row", REFUSED["requests"], ids=str)
def test_a_refused_request_costs_nothing_and_shows_no_value(ask, home, row):
    asked, *named = row
    refused(lambda: ask(**asked), USER_ERRORS, *named, hidden=(SECRET,))
    assert open_ledger(home).account("people").charges == []


@pytest.fixture
def refuse(tmp_path, home):
    """A function that asks for a release of a declared table, which is refused by name and costs nothing."""
    ledger, rng = open_ledger(home), np.random.default_rng(0)
    ledger.open_dataset("mine", 1.0, 1e-5)
    table = pd.DataFrame({"age": rng.uniform(20, 100, 400), "cost": rng.uniform(0, 9000, 400)})
    table["region"], table["smoker"] = rng.choice(REGIONS, 400), rng.integers(0, 2, 400)
    public = {"bounds": {**BOUNDS, "smoker": (0, 1)}, "categories": {"region": REGIONS}}
    initialized(tmp_path, table, response="cost", **public)

    def refuse(estimator, config, *named):
        asked = (ledger, estimator, tmp_path / "table.csv", config)
        refused(lambda: release(*asked, epsilon=0.5, delta=1e-7), USER_ERRORS, *named)
        assert ledger.account("mine").charges == []

    return refuse


@pytest.mark.parametrize("row", REFUSED["declared"], ids=str)
def test_what_is_not_as_declared_costs_nothing(tmp_path, refuse, row):
    file, old, new, *named = row
    edited(tmp_path / f"{file}.toml", old, new)
    refuse("preconditioned_regression", tmp_path / "mine-release.toml", *named)


@pytest.mark.parametrize("row", REFUSED["by_group"], ids=str)
def test_a_wrong_table_by_group_or_of_times_costs_nothing(tmp_path, refuse, row):
    lines, estimator, *named = row
    config = tmp_path / "by-group.toml"
    config.write_text(f'{lines}\ndataset = {{ name = "mine", study = "mine.toml" }}\n')
    refuse(estimator, config, *named)


MEAN_OF_USERS = "value_bound = 10.0\nconcentration_radius = 5.0"
# Cells of the ids of users, changes of the request, what the sentence names
USERS = [
    (range(400), {"y": ""}, "user_ids"),
    (range(400), {"y": 'user_id = "nobody"'}, "'nobody'"),
    (range(400), {"bounds": "value_bound = 100.0"}, "user_level_mean"),
    (range(400), {"epsilon": 0.01}, "400 users"),
    (["Maria"] * 400, {}, "two users"),
    ([None, *range(399)], {}, "without an id"),
]


@pytest.mark.parametrize(("ids", "changes", "named"), USERS)
def test_a_wrong_request_about_users_costs_nothing(tmp_path, home, ask, ids, changes, named):
    table = pd.read_csv(tmp_path / "people.csv").assign(person=pd.Series(ids))
    table.to_csv(tmp_path / "people.csv", index=False)
    usual = {"y": 'user_id = "person"', "bounds": MEAN_OF_USERS, "estimator": "user_level_mean"}
    refused(lambda: ask(**{**usual, **changes}), USER_ERRORS, named, hidden=("Maria",))
    assert open_ledger(home).account("people").charges == []


def test_rows_of_parquet_are_refused_as_those_of_csv(tmp_path, home, ask):
    table = pd.read_csv(tmp_path / "people.csv")
    table.assign(age=np.nan).to_parquet(tmp_path / "blank.parquet")
    table.to_parquet(tmp_path / "labels.parquet")
    labels = {**REGRESSION, "bounds": "covariate_bound = 1.0", "params": 'family = "logistic"'}
    refused(lambda: ask(file="blank.parquet"), DataError, "column age")
    refused(lambda: ask("dp_glm", "labels.parquet", **labels), InputError, "'logistic'", hidden=(SECRET,))
    assert open_ledger(home).account("people").charges == []


COMMANDS = [*tomllib.loads(Path(__file__).with_name("commands.toml").read_text()).items()]
COMMANDS += [("status", ("DPCOST_HOME", f"'{place}'"), place) for place in ("~nosuchuser/x", "loop/x")]


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
    files |= {"few.csv": "age\n" + "5\n" * 9, "one.csv": "age\n" + "5\n" * 60}
    files |= {"own/housing/report.html": "mine", "site/index.html": "<title>My site</title>"}
    files |= {"exits.py": "raise SystemExit(0)"}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    claim_report(tmp_path / "of/mine", tmp_path / "b/mine.toml")
    said = sentence(command_line(*shlex.split(command)))
    assert [word for word in words(named) if word not in said] == [], said
    assert (tmp_path / "there.toml").read_text() == "# mine"
    assert not (tmp_path / "mine.toml").exists()
    assert not (home / "store").exists()


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
