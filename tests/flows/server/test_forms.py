from types import SimpleNamespace

import pytest
from jsonschema import Draft202012Validator

from flows.studies import parameters
from flows.studies.parameters import check_studies, reports_folder, run_name
from flows.study import run_ingest, run_part, run_report, run_scorecard, run_study
from tasks.errors import SpecError

HOUSING = {"study": "housing"}
CELL = HOUSING | {"task": "run_block"}

RIGHT = {
    "the least": (run_study, HOUSING),
    "all": (run_study, HOUSING | {"profile": "paper", "reps": 3, "seed": 7, "out": "trial-1", "workers": 2}),
    "a cell": (run_part, CELL | {"cell": "ols:public:n=100", "profile": "paper"}),
    "all datasets": (run_ingest, {"datasets": []}),
}

WRONG = {
    "unknown study": (run_study, {"study": "hosing"}),
    "no study": (run_study, {}),
    "a file": (run_study, {"study": "/etc/passwd.toml"}),
    "unknown profile": (run_study, HOUSING | {"profile": "full"}),
    "no repetitions": (run_study, HOUSING | {"reps": 0}),
    "too many": (run_study, HOUSING | {"reps": 10**9}),
    "negative seed": (run_study, HOUSING | {"seed": -1}),
    "the folder above": (run_study, HOUSING | {"out": "../out"}),
    "a folder below": (run_study, HOUSING | {"out": "a/../../.."}),
    "an end of line": (run_study, HOUSING | {"out": "a\n"}),
    "a text without end": (run_study, HOUSING | {"out": "x" * 10_000}),
    "an unknown task": (run_part, CELL | {"task": "rm"}),
    "an unknown dataset": (run_ingest, {"datasets": ["../secret"]}),
    "one dataset twice": (run_ingest, {"datasets": ["housing", "housing"]}),
    "an unknown report": (run_report, {"studies": ["x"]}),
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


@pytest.mark.parametrize("flow", [run_study, run_part, run_ingest, run_report, run_scorecard])
def test_the_form_has_one_field_for_every_parameter(flow):
    for name, about in form(flow)["properties"].items():
        assert isinstance(about["type"], str), name
        assert about["description"], name


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


@pytest.mark.parametrize(
    ("scheduled", "typed", "name"),
    [
        (False, "a name of mine", "a name of mine"),
        (False, "ruby-coot", "housing smoke 2026-11-21 (ruby-coot)"),
        (True, "ruby-coot", "housing smoke 2026-11-21"),
    ],
)
def test_a_run_name_typed_in_the_form_stays(scheduled, typed, name, monkeypatch):
    run = SimpleNamespace(auto_scheduled=scheduled, name=typed)
    monkeypatch.setattr(parameters, "get_run_context", lambda: SimpleNamespace(flow_run=run))
    monkeypatch.setattr(parameters, "from_server", lambda: True)
    date = SimpleNamespace(date=lambda: SimpleNamespace(isoformat=lambda: "2026-11-21"))
    given = {"study": "housing", "profile": "smoke"}
    of_run = SimpleNamespace(parameters=given, scheduled_start_time=date, flow_name="study")
    monkeypatch.setattr(parameters.runtime, "flow_run", of_run)
    assert run_name() == name


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
