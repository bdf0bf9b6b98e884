"""Deployments, and the forms that Prefect makes of their parameters."""

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from jsonschema import Draft202012Validator

from flows.serve import deployments
from flows.studies import find_study, parameters
from flows.studies.parameters import check_studies, reports_folder
from flows.study import ingest, report, rerun, scorecard, study
from tasks.errors import SpecError
from tests.tasks.analyst_tables import initialized

HOUSING = {"study": "housing"}
CELL = HOUSING | {"task": "run_block"}


def options(**given):
    return HOUSING | {"options": given}


RIGHT = {
    "the least": (study, HOUSING),
    "all": (study, options(profile="paper", reps=3, seed=7, out="trial-1", workers=2, offline=True)),
    "a cell": (rerun, CELL | {"cell": "ols:public:n=100", "options": {"profile": "paper"}}),
    "all datasets": (ingest, {"datasets": []}),
}
WRONG = {
    "unknown study": (study, {"study": "hosing"}),
    "no study": (study, {}),
    "a file": (study, {"study": "/etc/passwd.toml"}),
    "unknown profile": (study, options(profile="full")),
    "no repetitions": (study, options(reps=0)),
    "too many": (study, options(reps=10**9)),
    "negative seed": (study, options(seed=-1)),
    "the folder above": (study, options(out="../out")),
    "a folder below": (study, options(out="a/../../..")),
    "an end of line": (study, options(out="a\n")),
    "a text without end": (study, options(out="x" * 10_000)),
    "an unknown option": (study, options(color=1)),
    "an unknown task": (rerun, CELL | {"task": "rm"}),
    "an unknown dataset": (ingest, {"datasets": ["../secret"]}),
    "one dataset twice": (ingest, {"datasets": ["housing", "housing"]}),
    "an unknown report": (report, {"studies": ["x"]}),
}


def form(flow):
    """Return the form that Prefect makes of a flow's signature."""
    return flow.parameters.model_dump_for_openapi()


@pytest.mark.parametrize("case", WRONG)
def test_the_servers_form_refuses(case):
    flow, given = WRONG[case]
    assert not Draft202012Validator(form(flow)).is_valid(given)


@pytest.mark.parametrize("case", RIGHT)
def test_the_servers_form_takes_what_is_right(case):
    flow, given = RIGHT[case]
    Draft202012Validator(form(flow)).validate(given)


@pytest.mark.parametrize("flow", [study, rerun, ingest, report, scorecard])
def test_the_form_describes_every_parameter(flow):
    described = form(flow)
    models = [described, *described.get("definitions", {}).values()]
    for name, about in [item for model in models for item in model["properties"].items()]:
        assert about.get("description") or "allOf" in about or "$ref" in about, name


@pytest.fixture
def deployed(monkeypatch):
    """Return a function that pretends that a deployment runs."""

    def pretend(name):
        monkeypatch.setattr(parameters, "from_server", lambda: True)
        monkeypatch.setattr(parameters.runtime, "deployment", SimpleNamespace(name=name))

    return pretend


@pytest.mark.parametrize(
    ("deployment", "study"),
    [("rerun", "hosing"), ("rerun", "/etc/passwd.toml"), ("report", "x" * 10**6), ("housing", "snp")],
)
def test_a_study_that_no_form_offers_is_refused_before_it_begins(deployment, study, deployed):
    deployed(deployment)
    with pytest.raises(SpecError, match="study must") as refused:
        check_studies(study)
    assert len(str(refused.value)) < 1000


def test_a_study_that_a_form_offers_runs(deployed):
    deployed("housing")
    check_studies("housing")
    deployed("rerun")
    check_studies("housing", "snp")


def test_the_command_line_takes_any_file_and_any_folder(tmp_path):
    check_studies("/any/file.toml")
    assert reports_folder(str(tmp_path)) == tmp_path
    assert reports_folder(None) == parameters.REPORTS


def test_reports_of_the_server_stay_below_their_folder(tmp_path, monkeypatch):
    reports = tmp_path / "reports"
    (reports / "inside").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (reports / "away").symlink_to(tmp_path / "elsewhere")
    (reports / "inside" / "housing").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(parameters, "REPORTS", reports)
    monkeypatch.setattr(parameters, "from_server", lambda: True)
    assert reports_folder(None) == reports
    assert reports_folder("new", "housing") == reports / "new"
    for out in ("away", "../elsewhere", "/tmp"):
        with pytest.raises(SpecError, match="below reports/out"):
            reports_folder(out, "housing")
    with pytest.raises(SpecError, match="and housing leads elsewhere"):
        reports_folder("inside", "housing")


OTHERS = ["ingest", "scorecard", "report", "rerun"]


def cron(deployment):
    return [each.schedule.cron for each in deployment.schedules or []]


def test_every_study_and_whatever_else_can_be_run_is_deployed_with_its_tags_and_schedule():
    found = {each.name: each for each in deployments("home-1")}
    assert sorted(found) == sorted([*find_study.study_names(), *OTHERS])
    assert found["housing"].tags == ["home-1", "housing", "standard"]
    assert cron(found["housing"]) == ["0 3 * * 1"]
    assert all(cron(each) for name, each in found.items() if name not in (*OTHERS, "league"))
    assert all(each.description for name, each in found.items() if name not in OTHERS)


@pytest.mark.parametrize(("line", "expected"), [("", []), ('schedule = "0 4 * * *"\n', ["0 4 * * *"])])
def test_a_study_of_ones_own_table_is_deployed_by_its_file_with_its_schedule(
    tmp_path, line, expected, monkeypatch
):
    monkeypatch.setattr(find_study, "readable_studies", list)
    table = pd.DataFrame({"age": np.linspace(0, 1, 50), "cost": np.linspace(0, 1, 50)})
    file = initialized(tmp_path, table, response="cost", name="costs")
    file.write_text(line + file.read_text())
    found = {each.name: each for each in deployments("home-1", [file])}
    assert cron(found["costs"]) == expected
    assert found["costs"].parameters["study"] == str(file)


@pytest.mark.parametrize("schedule", ['"0 3 * *"', '"99 3 * * 1"'])
def test_a_wrong_schedule_is_refused_with_the_name_of_the_file(tmp_path, schedule, monkeypatch):
    monkeypatch.setattr(find_study, "readable_studies", list)
    text = (find_study.STUDIES / "fair.toml").read_text()
    (tmp_path / "costs.toml").write_text(
        re.sub(r"^schedule = .*", f"schedule = {schedule}", text, flags=re.M)
    )
    with pytest.raises(SpecError, match=r"costs\.toml.*schedule"):
        deployments("home-1", [tmp_path / "costs.toml"])
