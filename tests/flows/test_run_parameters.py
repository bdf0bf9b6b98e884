import threading
from types import SimpleNamespace

import pytest
from prefect.context import FlowRunContext
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.utilities.schema_tools.validation import ValidationError
from wrong_parameters import CELL, HOUSING, WRONG

from flows.engines.threads import threads_at_once
from flows.ingest import run_ingest
from flows.report import run_report
from flows.rerun import run_part
from flows.scorecard import run_scorecard
from flows.studies import parameters as run_parameters
from flows.studies.parameter_words import check_in_words
from flows.studies.parameters import check_parameters, form, reports_folder
from flows.study import run_study
from tasks.faults import SpecError

RIGHT = {
    "the least": (run_study, HOUSING),
    "all": (run_study, HOUSING | {"profile": "paper", "reps": 3, "seed": 7, "out": "trial-1", "workers": 2}),
    "left empty": (run_study, HOUSING | {"reps": None, "out": None, "workers": None}),
    "a cell": (run_part, CELL | {"cell": "ols:public:n=100", "profile": "paper", "seed": None}),
    "all datasets": (run_ingest, {"datasets": []}),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_servers_form_refuses_in_words(case):
    flow, parameters, said = WRONG[case]
    with pytest.raises(ValidationError, match=said):
        check_in_words(parameters, form(flow))


@pytest.mark.parametrize("flow", [run_study, run_part, run_ingest, run_report, run_scorecard])
def test_the_form_has_one_field_for_every_parameter(flow):
    for name, about in form(flow)["properties"].items():
        assert isinstance(about["type"], str), name


@pytest.mark.parametrize("case", RIGHT)
def test_the_servers_form_takes_what_is_right(case):
    flow, parameters = RIGHT[case]
    check_in_words(parameters, form(flow))


@pytest.fixture
def deployed(monkeypatch):
    """Return a function that pretends that a deployment runs a flow."""

    def pretend(flow, parameters):
        monkeypatch.setattr(run_parameters, "from_server", lambda: True)
        context = SimpleNamespace(flow=flow, parameters=parameters)
        monkeypatch.setattr(FlowRunContext, "get", classmethod(lambda cls: context))

    return pretend


@pytest.mark.parametrize("case", ["unknown study", "a file", "the folder above", "a text without end"])
def test_a_deployment_s_run_that_no_form_saw_is_refused_before_it_begins(case, deployed):
    flow, parameters, said = WRONG[case]
    deployed(flow, parameters)
    with pytest.raises(SpecError, match=said):
        check_parameters()


def test_a_deployment_s_run_with_everything_left_empty_begins(deployed):
    deployed(run_part, CELL | dict.fromkeys(("cell", "profile", "reps", "seed", "out", "workers")))
    check_parameters()


def test_the_command_line_takes_any_file_and_any_folder(tmp_path):
    check_parameters()
    assert reports_folder(str(tmp_path)) == tmp_path
    assert reports_folder(None) == run_parameters.REPORTS


def test_reports_of_the_server_stay_below_their_folder(tmp_path, monkeypatch):
    reports = tmp_path / "reports"
    (reports / "inside").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (reports / "away").symlink_to(tmp_path / "elsewhere")
    (reports / "inside" / "housing").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(run_parameters, "REPORTS", reports)
    monkeypatch.setattr(run_parameters, "from_server", lambda: True)
    assert reports_folder(None) == reports
    assert reports_folder("new", "housing") == reports / "new"
    for out in ("away", "../elsewhere", "/tmp"):
        with pytest.raises(SpecError, match="must be a folder below reports/out"):
            reports_folder(out, "housing")
    with pytest.raises(SpecError, match="and housing leads elsewhere"):
        reports_folder("inside", "housing")


def test_a_flow_runs_as_many_blocks_at_a_time_as_it_was_asked_for():
    running, most, lock, two = set(), [], threading.Lock(), threading.Barrier(2)

    def block(number):
        with lock:
            running.add(number)
            most.append(len(running))
        two.wait(timeout=20)
        with lock:
            running.remove(number)

    with (
        ThreadPoolTaskRunner(max_workers=8) as own,
        FlowRunContext.model_construct(task_runner=own) as context,
    ):
        with threads_at_once(2):
            runner = FlowRunContext.get().task_runner
            assert list(runner._executor.map(block, range(8))) == [None] * 8
        assert max(most) == 2
        with threads_at_once(None):
            assert FlowRunContext.get() is context
    assert own._executor is None
