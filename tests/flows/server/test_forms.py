"""Deployments, and the forms that Prefect makes of their parameters."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from jsonschema import Draft202012Validator

from data.tables.queries import confirm, query_of
from flows.local_server import SERVED
from flows.serve import deployments
from flows.studies import find_study, parameters
from flows.studies.parameters import check_studies, reports_folder
from flows.study import ingest, report, rerun, study
from tasks.errors import SpecError
from tests.builders import PROJECT, refused
from tests.tasks.analyst_tables import initialized

FLOWS = {"study": study, "rerun": rerun, "ingest": ingest, "report": report}
FORMS = tomllib.loads(Path(__file__).with_name("forms.toml").read_text(encoding="utf-8"))
FORMS["study"]["wrong"]["a text without end"] = {"study": "housing", "options": {"out": "x" * 10_000}}
CASES = [
    pytest.param(FLOWS[flow], given, verdict == "right", id=f"{flow}: {name}")
    for flow, sides in FORMS.items()
    for verdict, cases in sides.items()
    for name, given in cases.items()
]


@pytest.mark.parametrize(("flow", "given", "is_right"), CASES)
def test_the_servers_form_takes_what_is_right_and_nothing_else(flow, given, is_right):
    form = Draft202012Validator(flow.parameters.model_dump_for_openapi())
    assert form.is_valid(given) == is_right


@pytest.fixture
def deployed(monkeypatch):
    def pretend(name):
        monkeypatch.setattr(parameters, "from_server", lambda: True)
        monkeypatch.setattr(parameters.runtime, "deployment", SimpleNamespace(name=name))

    return pretend


def test_a_deployment_runs_the_studies_that_its_form_offers_and_a_command_any(deployed):
    check_studies("/any/file.toml")
    deployed("housing")
    check_studies("housing")
    deployed("rerun")
    check_studies("housing", "snp")
    wrong = [("rerun", "hosing"), ("rerun", "/etc/passwd.toml"), ("report", "x" * 10**6), ("housing", "snp")]
    for deployment, name in wrong:
        deployed(deployment)
        assert len(refused(lambda name=name: check_studies(name), SpecError, "study")) < 1000


def test_reports_of_the_server_stay_below_their_folder_and_a_commands_do_not(tmp_path, monkeypatch):
    assert reports_folder(str(tmp_path)) == tmp_path
    reports = tmp_path / "reports"
    (reports / "inside").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (reports / "away").symlink_to(tmp_path / "elsewhere")
    (reports / "inside" / "housing").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(parameters, "REPORTS", reports)
    monkeypatch.setattr(parameters, "from_server", lambda: True)
    assert reports_folder(None) == reports
    assert reports_folder("new", "housing") == reports / "new"
    for out in ("away", "../elsewhere", "/tmp", "inside"):
        refused(lambda out=out: reports_folder(out, "housing"), SpecError, "out", out)


def cron(deployment):
    return [each.schedule.cron for each in deployment.schedules or []]


def test_every_study_and_whatever_else_can_be_run_is_deployed_with_its_tags_and_schedule():
    found = {each.name: each for each in deployments("home-1")}
    others = {"ingest", "scorecard", "report", "rerun"}
    assert set(found) == {*find_study.study_names(), *others}
    assert found["housing"].tags == ["home-1", "housing"]
    assert cron(found["housing"]) == ["0 3 * * 1"]
    assert all(cron(each) for name, each in found.items() if name not in others)
    times = [each for deployment in found.values() for each in cron(deployment)]
    assert len(times) == len(set(times))  # runs that are due at once wait for each other's writes
    assert all(each.description for name, each in found.items() if name not in others)


@pytest.mark.parametrize(("line", "expected"), [("", []), ('schedule = "0 4 * * *"\n', ["0 4 * * *"])])
def test_a_study_of_ones_own_table_is_deployed_with_its_schedule(tmp_path, line, expected, monkeypatch):
    monkeypatch.setattr(find_study, "readable_studies", list)
    table = pd.DataFrame({"age": np.linspace(0, 1, 50), "cost": np.linspace(0, 1, 50)})
    file = initialized(tmp_path, table, response="cost", name="costs")
    file.write_text(line + file.read_text())
    found = {each.name: each for each in deployments("home-1", [str(file)])}
    assert cron(found["costs"]) == expected
    assert found["costs"].parameters["study"] == str(file)


def test_a_query_that_nobody_confirmed_is_named_before_its_first_run(tmp_path, home, monkeypatch, capsys):
    monkeypatch.setattr(find_study, "readable_studies", list)
    table = pd.DataFrame({"age": np.linspace(0, 1, 50), "cost": np.linspace(0, 1, 50)})
    file = initialized(tmp_path, table, response="cost", name="costs")
    query = query_of("sqlite:costs.db?query=SELECT age, cost FROM costs", tmp_path)
    text = re.sub("(?m)^path = .*$", f'path = "{query.address}"', file.read_text())
    file.write_text(text)
    deployments("home-1", [str(file)])
    assert f"dpcost check {file}" in capsys.readouterr().err
    confirm(query)
    deployments("home-1", [str(file)])
    assert capsys.readouterr().err == ""


def test_own_studies_with_one_schedule_start_minutes_apart(tmp_path, monkeypatch):
    """Of 66 runs that were due at once, the writes to the database failed 522 times in four minutes."""
    monkeypatch.setattr(find_study, "readable_studies", list)
    table = pd.DataFrame({"age": np.linspace(0, 1, 50), "cost": np.linspace(0, 1, 50)})
    crons = {"a": "59 4 * * *", "b": "59 4 * * *", "c": "59 4 * * *", "d": "*/5 * * * *", "e": "*/5 * * * *"}
    files = []
    for name, stated in crons.items():
        files.append(initialized(tmp_path, table, response="cost", name=name))
        files[-1].write_text(f'schedule = "{stated}"\n{files[-1].read_text()}')
    found = {each.name: cron(each) for each in deployments("home-1", list(map(str, files)))}
    assert found["a"] == ["59 4 * * *"]
    assert [found[name] for name in "bc"] == [["0 4 * * *"], ["1 4 * * *"]]
    assert [found[name] for name in "de"] == [["*/5 * * * *"]] * 2  # as stated: it names no minute


def test_only_the_named_studies_are_deployed_on_demand():
    """All others with their schedules are much on the server of a team."""
    found = {each.name: each for each in deployments("home-1", ["housing"], only=True)}
    assert set(found) == {"housing", "rerun"}
    assert cron(found["housing"]) == ["0 3 * * 1"]
    assert not cron(found["rerun"])


def test_workers_of_a_pool_get_what_runs_inherit(monkeypatch):
    monkeypatch.setenv("DPCOST_HOME", "/srv/home")
    monkeypatch.setenv("DPCOST_LEDGER", "postgresql://somebody:secret@host/ledger")
    (study, rerun) = deployments("home-1", ["housing"], only=True, pool="local")
    for each in (study, rerun):
        assert each.work_pool_name == "local"
        assert each.tags[0] == "home-1"
        assert each.job_variables["env"]["DPCOST_HOME"] == "/srv/home"
        assert "secret" not in str(each.job_variables)  # the server's pages show them


FORM = """
import json
from flows.studies.parameters import check_studies
from flows.study import rerun
print(json.dumps(rerun.parameters.model_dump_for_openapi()["properties"]["study"]["enum"]))
"""


def test_the_form_of_a_rerun_lists_what_is_served(tmp_path):
    file = str(tmp_path / "costs: of, one.toml")
    served = {**os.environ, SERVED: json.dumps(["housing", file])}
    called = subprocess.run(
        [sys.executable, "-c", FORM], cwd=PROJECT, env=served, capture_output=True, text=True, check=True
    )
    assert json.loads(called.stdout) == ["housing", file]


def test_a_rerun_of_a_served_file_is_accepted_and_of_another_refused(deployed, monkeypatch):
    monkeypatch.setattr(parameters, "_STUDIES", ["housing", "/srv/costs.toml"])
    deployed("rerun")
    check_studies("/srv/costs.toml")
    refused(lambda: check_studies("/etc/passwd.toml"), SpecError, "passwd")
