from types import SimpleNamespace
from uuid import uuid4

import pytest

from flows.server import died
from flows.server.deploy import STUDY

OURS, FOREIGN = uuid4(), uuid4()


class Server:
    """What the client of a Prefect server is asked and told."""

    def __init__(self, *runs):
        self.runs, self.told = list(runs), []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def read_flow_run(self, flow_run_id):
        return next(run for run in self.runs if run.id == flow_run_id)

    def read_flow_runs(self, flow_run_filter, work_pool_filter):
        types = {each.value for each in flow_run_filter.state.type.any_}
        return [run for run in self.runs if run.state.type.value in types]

    def read_deployment(self, deployment_id):
        return SimpleNamespace(entrypoint=STUDY if deployment_id == OURS else "evil.py:evil")

    def set_flow_run_state(self, flow_run_id, state, force):
        self.told.append(state.name)


def a_run(kind, *, starts=1, deployment=OURS):
    from prefect.client.schemas.objects import State, StateType

    return SimpleNamespace(
        id=uuid4(),
        name="a run",
        run_count=starts,
        deployment_id=deployment,
        state=State(type=StateType(kind)),
    )


@pytest.fixture
def marked(monkeypatch):
    """Return a function: what a start says of runs to the server, and what to the webhook."""

    def mark(*runs):
        server, failures = Server(*runs), []
        monkeypatch.setattr("prefect.client.orchestration.get_client", lambda **_: server)
        monkeypatch.setattr(died, "tell_failure", lambda flow, run, state: failures.append(run.id))
        died.mark_died(lambda _: None)
        return server.told, failures

    return mark


@pytest.mark.parametrize("kind", ["PENDING", "RUNNING"])
def test_an_unfinished_run_is_crashed_and_put_back(marked, kind):
    assert marked(a_run(kind)) == (["Crashed", "AwaitingRetry"], [])


def test_a_run_that_was_being_canceled_is_canceled(marked):
    assert marked(a_run("CANCELLING")) == (["Cancelled"], [])


def test_a_run_that_was_started_often_enough_stays_crashed_and_that_is_told(marked):
    run = a_run("RUNNING", starts=died.MAX_STARTS)
    assert marked(run) == (["Crashed"], [run.id])


def test_a_foreign_deployments_run_is_not_started_again(marked):
    assert marked(a_run("RUNNING", deployment=FOREIGN)) == (["Crashed"], [])


def test_what_has_ended_is_left_alone(marked):
    assert marked(*(a_run(kind) for kind in ("COMPLETED", "FAILED", "CRASHED"))) == ([], [])


def test_the_hook_leaves_runs_of_the_command_line_alone(monkeypatch):
    monkeypatch.setattr("prefect.client.orchestration.get_client", None)
    died.start_again(None, a_run("CRASHED", deployment=None), None)
