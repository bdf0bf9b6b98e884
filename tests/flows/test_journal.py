import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace
from uuid import uuid4

import pytest
from prefect import states
from prefect.client import orchestration

from data.store.processes import ProcessIdentity
from flows.record import journal


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def until(condition, timeout=10.0):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def python(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def a_run_that_died(home):
    """Return the identifier of a run whose process was killed."""
    code = """
import sys, time
from pathlib import Path
from flows.record.journal import begin
begin(Path(sys.argv[1]), sys.argv[2], "housing", profile="smoke")
print("begun", flush=True)
time.sleep(60)
"""
    flow_run_id = str(uuid4())
    process = python(code, home, flow_run_id)
    assert process.stdout.readline() == "begun\n"
    assert journal.dead_runs(home) == []
    process.kill()
    process.wait()
    return flow_run_id


def test_a_living_process_is_alive_and_a_killed_one_is_not(sleeper):
    identity = ProcessIdentity.of(sleeper.pid)
    assert identity.is_alive()
    sleeper.kill()
    until(lambda: not identity.is_alive())  # before it is collected, too
    sleeper.wait()
    assert not identity.is_alive()
    with pytest.raises(ProcessLookupError, match=str(sleeper.pid)):
        ProcessIdentity.of(sleeper.pid)


def test_another_process_with_the_same_number_is_told_apart(sleeper):
    identity = ProcessIdentity.of(sleeper.pid)
    assert not replace(identity, start_time="1").is_alive()
    assert not replace(identity, boot_id="an earlier boot").is_alive()


def test_a_process_on_another_machine_is_left_alone(sleeper):
    assert replace(ProcessIdentity.of(sleeper.pid), host="elsewhere", start_time="1").is_alive()


def test_a_run_is_written_down_from_beginning_to_end(tmp_path):
    first, second = uuid4(), uuid4()
    journal.begin(tmp_path, first, "housing", profile="smoke")
    journal.begin(tmp_path, str(second), "snp")
    journal.end(tmp_path, first, "completed", report="index.html")
    by_id = {entry.flow_run_id: entry for entry in journal.history(tmp_path)}
    assert by_id[str(first)].status == "completed"
    assert by_id[str(first)].ended is not None
    assert by_id[str(first)].details == {"profile": "smoke", "report": "index.html"}
    assert by_id[str(second)].status == "running"
    assert by_id[str(second)].process.pid == os.getpid()
    assert journal.dead_runs(tmp_path) == []


def test_history_is_newest_first_and_passes_over_damaged_files(tmp_path):
    started = []
    for _ in range(3):
        started.append(journal.begin(tmp_path, uuid4(), "housing").started)
        time.sleep(0.002)
    (tmp_path / "journal" / "cut.json").write_text('{"flow_run_id": "')
    assert [entry.started for entry in journal.history(tmp_path)] == started[::-1]
    assert journal.history(tmp_path / "nowhere") == []


def test_a_run_cannot_end_before_it_begins(tmp_path):
    with pytest.raises(KeyError, match="call begin"):
        journal.end(tmp_path, uuid4())


def test_a_killed_run_is_found_dead(tmp_path):
    flow_run_id = a_run_that_died(tmp_path)
    assert [entry.flow_run_id for entry in journal.dead_runs(tmp_path)] == [flow_run_id]


def test_a_dead_run_is_marked_once(tmp_path, monkeypatch):
    flow_run_id = a_run_that_died(tmp_path)
    monkeypatch.setattr(journal, "_mark_on_server", lambda api_url, entry: "crashed")
    said = []
    marked = journal.mark_dead_runs(tmp_path, "http://127.0.0.1:1/api", said.append)
    assert [(entry.flow_run_id, entry.status) for entry in marked] == [(flow_run_id, "crashed")]
    assert marked[0].details == {"profile": "smoke"}
    assert len(said) == 1
    assert "crashed" in said[0]
    assert journal.mark_dead_runs(tmp_path, "http://127.0.0.1:1/api", said.append) == []


@pytest.mark.parametrize(
    ("state", "deployment", "marked"),
    [
        (states.Running(), "deployment", "CRASHED"),
        (states.Running(), None, "CRASHED"),
        (states.AwaitingRetry(), "deployment", None),  # somebody pressed Retry while its process was ending
        (states.Pending(), "deployment", None),
        (states.Pending(), None, "CRASHED"),  # of the command line: nobody starts it again
        (states.Failed(), "deployment", None),
    ],
)
def test_a_dead_run_that_is_to_start_again_is_not_marked(tmp_path, monkeypatch, state, deployment, marked):
    told = []
    client = SimpleNamespace(
        read_flow_run=lambda _: SimpleNamespace(state=state, deployment_id=deployment),
        read_task_runs=lambda **_: [],
        set_flow_run_state=lambda _, state, force: told.append(state.type.value),
    )
    monkeypatch.setattr(orchestration, "get_client", lambda **_: contextlib.nullcontext(client))
    a_run_that_died(tmp_path)
    (entry,) = journal.mark_dead_runs(tmp_path, "http://127.0.0.1:1/api", lambda _: None)
    assert told == ([marked] if marked else [])
    assert entry.status == ("failed" if state.is_failed() else "crashed")


def test_a_dead_run_waits_for_a_server_that_answers(tmp_path, monkeypatch):
    flow_run_id = a_run_that_died(tmp_path)

    def refuse(api_url, entry):
        raise ConnectionError("refused\nwith a long explanation")

    monkeypatch.setattr(journal, "_mark_on_server", refuse)
    said = []
    assert journal.mark_dead_runs(tmp_path, "http://127.0.0.1:1/api", said.append) == []
    assert said == [f"run {flow_run_id} died, but http://127.0.0.1:1/api could not be told: refused"]
    assert len(journal.dead_runs(tmp_path)) == 1


LOCKER = """
import sys, time
from pathlib import Path
from flows.record.journal import exclusive_run
with exclusive_run(Path(sys.argv[1]), lambda sentence: print(sentence, flush=True)):
    print("has it", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def test_a_second_run_waits_and_gets_the_place_of_a_killed_one(tmp_path):
    holder = python(LOCKER, tmp_path, 60)
    assert holder.stdout.readline() == "has it\n"
    waiting = python(LOCKER, tmp_path, 0)
    assert f"process {holder.pid}" in waiting.stdout.readline()
    holder.kill()
    holder.wait()
    assert waiting.communicate(timeout=10)[0] == "has it\n"
    assert waiting.returncode == 0


def test_ctrl_c_ends_the_wait(tmp_path):
    with journal.exclusive_run(tmp_path):
        waiting = python(LOCKER, tmp_path, 0)
        assert f"process {os.getpid()}" in waiting.stdout.readline()
        waiting.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in waiting.communicate(timeout=10)[0]


def test_the_place_is_free_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), journal.exclusive_run(tmp_path):
        raise ZeroDivisionError
    said = []
    with journal.exclusive_run(tmp_path, said.append):
        assert said == []


def test_a_run_that_ended_without_telling_the_server_is_told_for_it(tmp_path, monkeypatch):
    flow_run_id = a_run_that_died(tmp_path)
    journal.end(tmp_path, flow_run_id)
    told = []
    monkeypatch.setattr(journal, "_mark_on_server", lambda api_url, entry: told.append(entry.status) or "x")
    said = []
    for _ in range(2):
        assert journal.mark_dead_runs(tmp_path, "http://127.0.0.1:1/api", said.append) == []
    assert told == ["completed"]
    assert said == []
    assert journal.history(tmp_path)[0].status == "completed"


def test_a_process_that_gives_up_tells_of_its_own_runs_only(tmp_path, monkeypatch):
    other, mine, done = a_run_that_died(tmp_path), str(uuid4()), str(uuid4())
    for each in (mine, done):
        journal.begin(tmp_path, each, "housing")
    journal.end(tmp_path, done)
    journal.reported(tmp_path, done)
    told = []
    monkeypatch.setattr(journal, "_mark_on_server", lambda api_url, entry: told.append(entry.flow_run_id))
    journal.mark_own_runs(tmp_path, "http://127.0.0.1:1/api")
    assert told == [mine]
    statuses = {entry.flow_run_id: entry.status for entry in journal.history(tmp_path)}
    assert statuses == {other: "running", mine: "interrupted", done: "completed"}


def test_the_place_can_be_asked_for_again_by_its_holder(tmp_path):
    said = []
    with journal.exclusive_run(tmp_path), journal.exclusive_run(tmp_path, said.append):
        pass
    waiting = python(LOCKER, tmp_path, 0)
    assert waiting.communicate(timeout=10)[0] == "has it\n"
    assert said == []


def test_whoever_waited_for_a_home_that_was_deleted_takes_the_new_ones_place(tmp_path):
    home = tmp_path / "home"
    with journal.exclusive_run(home):
        waiting = python(LOCKER, home, 0)
        assert f"another run (process {os.getpid()} of " in waiting.stdout.readline()
        (home / "run.lock").unlink()
    assert waiting.communicate(timeout=10)[0] == "has it\n"
    assert (home / "run.lock").read_text().startswith(f"{waiting.pid} of ")
