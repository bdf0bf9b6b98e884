import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from uuid import uuid4

import pytest

from data.store.processes import ProcessIdentity
from flows.record import journal
from flows.server import dead_runs
from flows.server.dead_runs import _count_signals, prompt_end
from flows.server.deploy import STUDY

OURS, FOREIGN = uuid4(), uuid4()


class Server:
    """What the client of a Prefect server is asked and told; one that is away raises."""

    def __init__(self, *runs, away=False):
        self.runs, self.told, self.away = list(runs), [], away

    def __enter__(self):
        if self.away:
            raise ConnectionError("refused\nwith a long explanation")
        return self

    def __exit__(self, *_):
        pass

    def read_flow_runs(self, flow_run_filter, work_pool_filter):
        types = {each.value for each in flow_run_filter.state.type.any_}
        tags = set(flow_run_filter.tags.all_) if flow_run_filter.tags else set()
        return [run for run in self.runs if run.state.type.value in types and tags <= {*run.tags}]

    def read_task_runs(self, flow_run_filter, task_run_filter):
        return [SimpleNamespace(id="a task")]

    def read_deployment(self, deployment_id):
        return SimpleNamespace(entrypoint=STUDY if deployment_id == OURS else "evil.py:evil")

    def set_task_run_state(self, task_run_id, state, force):
        self.told.append(f"task {state.name}")

    def set_flow_run_state(self, flow_run_id, state, force):
        self.told.append(state.name)

    def create_flow_run_from_deployment(self, deployment_id, *, parameters, tags, idempotency_key):
        assert (deployment_id, parameters) == (OURS, {"study": "housing"})
        self.told.append(f"again: {', '.join(tags)}")


def a_run(kind, *, deployment=OURS, run_id=None, tags=()):
    from prefect.client.schemas.objects import State, StateType

    return SimpleNamespace(
        id=run_id or uuid4(),
        name="a run",
        deployment_id=deployment,
        parameters={"study": "housing"},
        state=State(type=StateType(kind)),
        tags=tags,
    )


@pytest.fixture
def serve(monkeypatch):
    """Return a function that makes a server of some runs the one that everything asks."""

    def answer(*runs, away=False):
        server = Server(*runs, away=away)
        monkeypatch.setattr("prefect.client.orchestration.get_client", lambda **_: server)
        return server

    return answer


@pytest.fixture
def marked(monkeypatch, serve):
    """Return a function: what a start says of runs to the server, and what to the webhook."""

    def mark(*runs):
        server, failures = serve(*runs), []
        monkeypatch.setattr(dead_runs, "tell_failure", lambda flow, run, state: failures.append(run.id))
        dead_runs.mark_deployed_runs()
        return server.told, failures

    return mark


@pytest.mark.parametrize("kind", ["PENDING", "RUNNING"])
def test_an_unfinished_run_is_crashed_and_started_again(marked, kind):
    assert marked(a_run(kind)) == (["task Crashed", "Crashed", "again: start 2"], [])
    second = a_run(kind, tags=["nightly", "start 2"])
    assert marked(second) == (["task Crashed", "Crashed", "again: nightly, start 3"], [])


def test_a_run_that_was_being_canceled_is_canceled(marked):
    assert marked(a_run("CANCELLING")) == (["task Cancelled", "Cancelled"], [])


def test_a_run_that_was_started_often_enough_stays_crashed_and_that_is_told(marked):
    run = a_run("RUNNING", tags=[f"start {dead_runs.MAX_STARTS}"])
    assert marked(run) == (["task Crashed", "Crashed"], [run.id])


def test_a_foreign_deployments_run_is_not_started_again(marked):
    assert marked(a_run("RUNNING", deployment=FOREIGN)) == (["task Crashed", "Crashed"], [])


def test_what_has_ended_or_is_scheduled_is_left_alone(marked):
    kinds = ("COMPLETED", "FAILED", "CRASHED", "SCHEDULED")
    assert marked(*(a_run(kind) for kind in kinds)) == ([], [])


def test_the_hook_leaves_runs_of_the_command_line_alone(monkeypatch):
    monkeypatch.setattr("prefect.client.orchestration.get_client", None)
    dead_runs.start_again(None, a_run("CRASHED", deployment=None), None)


def a_command(home, process=None, status=None, deployment=None):
    """Return a command's run on the server; with a process, it has an entry in the journal."""
    run = a_run("RUNNING", deployment=deployment, tags=[journal.home_tag(home)])
    if process is not None:
        entry = replace(journal.begin(home, run.id, "housing", "smoke"), process=process)
        journal._written(home, entry)
        if status:
            journal.end(home, entry, status)
    return run


def statuses(home):
    return {entry.flow_run_id: entry.status for entry in journal.history(home)}


def test_a_dead_run_is_marked_once_and_a_living_one_is_not(tmp_path, serve, gone, capsys):
    dead = a_command(tmp_path, gone)
    living = a_command(tmp_path, ProcessIdentity.of(os.getpid()))
    server = serve(dead, living, a_run("RUNNING", deployment=None))
    dead_runs.mark_dead_runs(tmp_path)
    assert server.told == ["task Crashed", "Crashed"]
    assert statuses(tmp_path) == {str(dead.id): "crashed", str(living.id): "running"}
    assert capsys.readouterr().err.count("it is now marked as crashed\n") == 1
    dead_runs.mark_dead_runs(tmp_path)
    assert capsys.readouterr().err == ""


def test_a_run_that_ended_without_telling_the_server_is_told_for_it(tmp_path, serve, gone):
    server = serve(a_command(tmp_path, gone, journal.COMPLETED))
    dead_runs.mark_dead_runs(tmp_path)
    assert server.told == ["task Completed", "Completed"]
    assert [*statuses(tmp_path).values()] == ["completed"]


def test_a_run_without_an_entry_is_dead_where_no_other_can_begin_now(tmp_path, serve, capsys):
    server = serve(a_command(tmp_path))
    dead_runs.mark_dead_runs(tmp_path)
    assert (server.told, capsys.readouterr().err) == ([], "")
    with journal.exclusive_run(tmp_path):
        dead_runs.mark_dead_runs(tmp_path)
    assert server.told == ["task Crashed", "Crashed"]
    assert "the run a run ended before it began" in capsys.readouterr().err


def test_a_deployments_run_is_left_to_its_worker(tmp_path, serve, gone):
    server = serve(a_command(tmp_path, gone, deployment=OURS))
    dead_runs.mark_dead_runs(tmp_path)
    assert server.told == []
    assert [*statuses(tmp_path).values()] == ["crashed"]


def test_a_server_that_is_away_keeps_no_run_from_being_marked_here(tmp_path, serve, gone, capsys):
    dead = a_command(tmp_path, gone)
    serve(away=True)
    dead_runs.mark_dead_runs(tmp_path)
    assert capsys.readouterr().err.startswith(
        "the server could not be informed about runs that died: refused\n"
    )
    assert statuses(tmp_path) == {str(dead.id): "crashed"}
    server = serve(dead)  # the next start tells it
    dead_runs.mark_dead_runs(tmp_path)
    assert server.told == ["task Crashed", "Crashed"]


def test_a_process_that_gives_up_tells_of_its_own_runs_only(tmp_path, serve, gone, capsys):
    me = ProcessIdentity.of(os.getpid())
    other, mine = a_command(tmp_path, gone), a_command(tmp_path, me)
    done = a_command(tmp_path, me, journal.COMPLETED)
    server = serve(other, mine)
    dead_runs.mark_dead_runs(tmp_path, own=True)
    assert (server.told, capsys.readouterr().err) == (["task Crashed", "Crashed"], "")
    assert statuses(tmp_path) == {
        str(other.id): "running",
        str(mine.id): "interrupted",
        str(done.id): "completed",
    }


BUSY = """
import contextlib, os, signal, sys, time
from functools import partial
from pathlib import Path
from flows.server.dead_runs import leave, prompt_end
from flows.server.processes import ChildProcess, started_processes

home, grace = Path(sys.argv[1]), float(sys.argv[2])
(home / "prefect").mkdir(parents=True)
child = ChildProcess(home, "server", ["sleep", "60"], environment=os.environ, folder=home)
child.start(ready=lambda: len(started_processes(home)) == 2)
with prompt_end(partial(leave, home), grace):
    for number in (signal.SIGINT, signal.SIGTERM):  # whoever waits for a long block
        signal.signal(number, lambda *_: print("heard", flush=True))
    print(max(each.process.pid for each in started_processes(home)), flush=True)
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(60)
"""


def busy(home, grace):
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY, str(home), str(grace)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, ProcessIdentity.of(int(process.stdout.readline()))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_does_not_end_after_a_signal_is_ended_with_what_it_started(tmp_path, number):
    process, child = busy(tmp_path, 0.3)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "interrupted, and not waiting longer than 0 s" in said
    assert "run the same command again" in said
    assert not child.is_alive()


def test_a_second_signal_does_not_wait(tmp_path):
    process, child = busy(tmp_path, 3600)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "heard\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "interrupted twice" in said
    assert not child.is_alive()


def test_two_signals_that_arrive_at_once_are_two():
    reading, writing = socket.socketpair()
    said = []
    writing.send(bytes([signal.SIGINT, signal.SIGINT]))
    _count_signals(reading, said.append, 3600)
    assert said == ["interrupted twice, so not waiting for the blocks in flight"]


def test_what_ends_by_itself_is_left_alone():
    left = []
    with prompt_end(left.append, 0.0):
        pass
    with pytest.raises(KeyboardInterrupt), prompt_end(left.append, 3600):
        signal.raise_signal(signal.SIGINT)
    assert left == []
    assert signal.set_wakeup_fd(-1) == -1
