from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import uuid4

import pytest

from flows.record import journal
from flows.server import dead_runs

NOW = datetime.now(UTC)


class Server:
    """What the client of a Prefect server is asked and told."""

    def __init__(self, *runs):
        self.runs, self.told = list(runs), []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def read_flow_runs(self, flow_run_filter, sort):
        types = {each.value for each in flow_run_filter.state.type.any_}
        return [run for run in self.runs if run.state.type.value in types]

    def set_flow_run_state(self, flow_run_id, state, force):
        self.told.append((flow_run_id, state.type.value, state.name))


def a_run(kind, *, minutes_ago=1.0, starts=1, deployment=True):
    from prefect.client.schemas.objects import State, StateType

    return SimpleNamespace(
        id=uuid4(),
        name="a run",
        run_count=starts,
        deployment_id=uuid4() if deployment else None,
        state=State(type=StateType(kind), timestamp=NOW - timedelta(minutes=minutes_ago)),
    )


@pytest.fixture
def marked(home, monkeypatch):
    """Return a function: what becomes of runs if the worker was started ten seconds ago."""
    monkeypatch.setattr(journal, "mark_dead_runs", lambda *_: [])

    def mark(*runs):
        server = Server(*runs)
        monkeypatch.setattr("prefect.client.orchestration.get_client", lambda **_: server)
        dead_runs.mark_crashed(home, "http://127.0.0.1:1/api", NOW - timedelta(seconds=10), lambda _: None)
        return [state for _, state, _ in server.told]

    return mark


@pytest.fixture
def again(monkeypatch):
    """Return a function: which runs are put back into the queue, and how often in three looks."""

    def look(*runs, looks=1):
        server, starts = Server(*runs), {}
        monkeypatch.setattr("prefect.client.orchestration.get_client", lambda **_: server)
        for _ in range(looks):
            dead_runs.run_again(lambda _: None, starts)
        return [name for _, _, name in server.told]

    return look


@pytest.mark.parametrize("kind", ["PENDING", "RUNNING"])
def test_a_run_of_the_worker_before_is_crashed(marked, kind):
    assert marked(a_run(kind)) == ["CRASHED"]


def test_a_run_that_was_being_cancelled_is_cancelled(marked):
    assert marked(a_run("CANCELLING")) == ["CANCELLED"]


def test_a_run_of_the_worker_that_is_there_goes_on(marked):
    assert marked(a_run("RUNNING", minutes_ago=0), a_run("PENDING", minutes_ago=0)) == []


def test_a_run_whose_process_lives_goes_on(marked, home):
    run = a_run("RUNNING")
    journal.begin(home, run.id, "housing")
    assert marked(run) == []


def test_runs_without_a_deployment_and_runs_that_ended_are_left_alone(marked):
    assert marked(a_run("RUNNING", deployment=False), a_run("COMPLETED"), a_run("FAILED")) == []


def test_a_crashed_run_is_put_back_a_bounded_number_of_times(again):
    assert again(a_run("CRASHED")) == ["AwaitingRetry"]
    assert again(a_run("CRASHED", starts=dead_runs.MAX_STARTS)) == []
    assert len(again(a_run("CRASHED", starts=0), looks=9)) == dead_runs.MAX_STARTS - 1


def test_what_crashed_long_ago_failed_or_was_cancelled_stays_so(again):
    old = a_run("CRASHED", minutes_ago=8 * 24 * 60)
    assert again(old, a_run("FAILED"), a_run("CANCELLED"), a_run("CRASHED", deployment=False)) == []
