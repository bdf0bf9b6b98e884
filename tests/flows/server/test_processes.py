import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace

import pytest
from small_project import until

from data.store.processes import ProcessIdentity
from flows.server import processes
from flows.server.processes import (
    ChildProcess,
    ServerError,
    end_leftovers,
    end_own_processes,
    started_processes,
)


def child(home, *command, **settings):
    folder = home / "prefect"
    folder.mkdir(exist_ok=True)
    settings = {"stop_timeout": 1.0} | settings
    return ChildProcess(home, "server", command, environment=os.environ, folder=folder, **settings)


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a process which says that `owner` started it for a home."""
    started = []

    def start(owner, home=tmp_path):
        mark = {"name": "server", "home": str(home), "owner": asdict(owner)}
        environment = os.environ | {"DPCOST_STARTED": json.dumps(mark)}
        started.append(subprocess.Popen(["sleep", "60"], env=environment, start_new_session=True))
        until(lambda: [p for p in started_processes(home) if p.process.pid == started[-1].pid])
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_leftover_of_a_killed_run_is_ended_though_no_file_tells_of_it(tmp_path, gone, start, capsys):
    leftover = start(gone)
    assert end_leftovers(tmp_path) == 1
    assert leftover.wait(timeout=5) == -signal.SIGTERM
    assert started_processes(tmp_path) == []
    assert capsys.readouterr().err == "ending the server that a killed run left behind\n"


def test_what_a_living_run_or_another_home_has_is_left_alone(tmp_path, gone, start):
    kept = [start(ProcessIdentity.of(os.getpid())), start(gone, tmp_path / "other")]
    assert end_leftovers(tmp_path) == 0
    assert [process.poll() for process in kept] == [None, None]
    start(replace(ProcessIdentity.of(os.getpid()), start_time="1"))  # another process got its number
    assert end_leftovers(tmp_path) == 1


def test_a_child_leaves_nothing_behind(tmp_path):
    process = child(tmp_path, "sleep", "60")
    process.start(ready=lambda: len(started_processes(tmp_path)) == 2)
    (watcher, sleep) = sorted(started_processes(tmp_path), key=lambda each: each.process.pid)
    assert watcher.owner == sleep.owner == ProcessIdentity.of(os.getpid())
    assert os.getsid(sleep.process.pid) == watcher.process.pid != os.getsid(0)
    process.stop()
    assert started_processes(tmp_path) == []
    process.stop()


def test_a_child_that_is_stopped_while_it_starts_leaves_nothing_behind(tmp_path):
    for pause in (0.0, 0.1, 0.4):
        process = child(tmp_path, "sleep", "60")
        process.start()
        time.sleep(pause)
        process.stop()
        assert started_processes(tmp_path) == []


def test_a_child_whose_watcher_is_killed_is_ended_all_the_same(tmp_path):
    process = child(tmp_path, "sleep", "60")
    process.start(ready=lambda: len(started_processes(tmp_path)) == 2)
    os.kill(min(each.process.pid for each in started_processes(tmp_path)), signal.SIGKILL)
    until(lambda: process.exit_status == -signal.SIGKILL)
    end_own_processes()
    assert started_processes(tmp_path) == []


def test_a_child_ends_with_a_killed_owner_and_so_does_what_it_started(tmp_path):
    code = """
import subprocess, sys, time
subprocess.Popen(["sleep", "60"], start_new_session=True)
open(sys.argv[1], "w").close()
time.sleep(60)
"""
    owner = """
import os, sys, time
from pathlib import Path
from flows.server.processes import ChildProcess
home, code = Path(sys.argv[1]), sys.argv[2]
command = [sys.executable, "-c", code, str(home / "up")]
ChildProcess(home, "server", command, environment=os.environ, folder=home).start((home / "up").exists)
print("up", flush=True)
time.sleep(60)
"""
    killed = subprocess.Popen(
        [sys.executable, "-c", owner, str(tmp_path), code], stdout=subprocess.PIPE, text=True
    )
    assert killed.stdout.readline() == "up\n"
    assert len(started_processes(tmp_path)) == 3
    killed.kill()
    killed.wait()
    until(lambda: started_processes(tmp_path) == [])


def test_a_process_that_cannot_start_says_why_in_one_sentence(tmp_path):
    process = child(tmp_path, "sh", "-c", "echo first; echo the port is taken; exit 3")
    with pytest.raises(ServerError, match=r"exit status 3 .* first / the port is taken\)"):
        process.start(ready=lambda: False)


def test_a_process_that_is_never_ready_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "START_TIMEOUT", 0.1)
    process = child(tmp_path, "sleep", "60")
    with pytest.raises(ServerError, match="not ready within 0 s"):
        process.start(ready=lambda: False)
    assert started_processes(tmp_path) == []


def test_a_process_that_ignores_the_signal_is_killed_with_all_it_started(tmp_path):
    code = """
import signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(subprocess.Popen(["sleep", "60"], start_new_session=True).pid, flush=True)
time.sleep(60)
"""
    process = child(tmp_path, sys.executable, "-c", code, stop_timeout=0.2)
    process.start(ready=lambda: process.log.read_text().endswith("\n"))
    grandchild = ProcessIdentity.of(int(process.log.read_text()))
    process.stop()
    until(lambda: not grandchild.is_alive())


def test_what_a_child_started_ends_although_its_mark_cannot_be_read(tmp_path, monkeypatch):
    """Linux shows the environment of another account's process to privileged ones alone."""
    monkeypatch.setattr(processes, "started_processes", lambda home: [])
    process = child(tmp_path, "sh", "-c", "sleep 600 & echo $! > started; wait")
    said = tmp_path / "prefect" / "started"
    process.start(ready=lambda: said.exists() and said.read_text().endswith("\n"))
    started = ProcessIdentity.of(int(said.read_text()))
    process.stop()
    until(lambda: not started.is_alive(), 10)
