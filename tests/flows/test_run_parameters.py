import threading
from types import SimpleNamespace

import pytest
from prefect.context import FlowRunContext
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.utilities.schema_tools.validation import ValidationError

from flows import run_parameters
from flows.parameter_words import check_in_words
from flows.run_ingest import run_ingest
from flows.run_parameters import check_parameters, form, reports_folder
from flows.run_part import run_part
from flows.run_report import run_report
from flows.run_scorecard import run_scorecard
from flows.study import run_study
from flows.threads_at_once import threads_at_once
from tasks.faults import SpecError

HOUSING = {"study": "housing"}
CELL = HOUSING | {"task": "run_block"}

WRONG = {
    "unknown study": (run_study, {"study": "hosing"}, "'study'.*'hosing' is not one of"),
    "no study": (run_study, {}, "'study' is a required property"),
    "a file": (run_study, {"study": "/etc/passwd.toml"}, "'study'.*is not one of"),
    "a number for a study": (run_study, {"study": 1}, "1 is not one of"),
    "a list for a study": (run_study, {"study": ["housing"]}, "is not one of"),
    "unknown profile": (run_study, HOUSING | {"profile": "full"}, "'full' is not one of"),
    "no repetitions": (run_study, HOUSING | {"reps": 0}, "0 is less than the minimum of 1"),
    "too many": (run_study, HOUSING | {"reps": 10**9}, "greater than the maximum"),
    "text for a number": (
        run_study,
        HOUSING | {"reps": "3; rm"},
        "'reps'.*must be a whole number of at least 1 and at most 100,000 or empty, got '3; rm'",
    ),
    "a truth for a number": (run_study, HOUSING | {"reps": True}, "'reps'.*or empty, got True"),
    "text without end for a number": (run_study, HOUSING | {"reps": "3" * 500}, "or empty, got '3{79} …$"),
    "a number for a folder": (run_study, HOUSING | {"out": 3}, "'out'.*must be text or empty, got 3"),
    "negative seed": (run_study, HOUSING | {"seed": -1}, "-1 is less than the minimum of 0"),
    "negative workers": (run_study, HOUSING | {"workers": -1}, "'workers'.*-1 is less than the minimum of 1"),
    "no workers": (run_part, CELL | {"workers": 0}, "'workers'.*0 is less than the minimum of 1"),
    "too many workers": (
        run_study,
        HOUSING | {"workers": 2000},
        "'workers'.*greater than the maximum of 1024",
    ),
    "a part of a worker": (
        run_study,
        HOUSING | {"workers": 1.5},
        "'workers'.*must be a whole number of at least 1 and at most 1,024 or empty, got 1.5",
    ),
    "workers of a report": (run_report, {"workers": 1}, "'workers' was unexpected"),
    "unknown key": (run_study, HOUSING | {"__class__": "os.system"}, "'__class__' was unexpected"),
    "the folder above": (run_study, HOUSING | {"out": "../out"}, "'out'.*does not match"),
    "a folder below": (run_study, HOUSING | {"out": "a/../../.."}, "'out'.*does not match"),
    "a whole path": (run_study, HOUSING | {"out": "/tmp/out"}, "'out'.*does not match"),
    "a hidden folder": (run_study, HOUSING | {"out": ".git"}, "'out'.*does not match"),
    "an end of line": (run_study, HOUSING | {"out": "a\n"}, "'out'.*does not match"),
    "a text without end": (run_study, HOUSING | {"command": "x" * 10_000}, "is too long"),
    "an unknown task": (run_part, CELL | {"task": "rm"}, "'rm' is not one of"),
    "no task": (run_part, HOUSING, "'task' is a required property"),
    "a cell without end": (run_part, CELL | {"cell": "x" * 1000}, "is too long"),
    "an unknown dataset": (run_ingest, {"datasets": ["../secret"]}, "'../secret' is not one of"),
    "one dataset twice": (run_ingest, {"datasets": ["housing", "housing"]}, "non-unique"),
    "an unknown report": (run_report, {"studies": ["x"]}, "'x' is not one of"),
}

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
