import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from uuid import uuid4

import pytest

from data.store.processes import ProcessIdentity
from flows.record import journal


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


LOCKER = """
import signal, sys, time
from pathlib import Path
from flows.record.journal import exclusive_run
signal.signal(signal.SIGINT, signal.default_int_handler)
with exclusive_run(Path(sys.argv[1])):
    print("has it", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def locker(home, seconds):
    return subprocess.Popen(
        [sys.executable, "-c", LOCKER, str(home), str(seconds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_run_is_written_down_from_beginning_to_end(tmp_path):
    first = journal.begin(tmp_path, uuid4(), "housing", "smoke", own_data=True)
    second = journal.begin(tmp_path, str(uuid4()), "snp")
    ended = journal.end(tmp_path, first)
    assert (ended.status, ended.profile, ended.own_data) == ("completed", "smoke", True)
    assert (second.status, second.ended, second.process.pid) == ("running", None, os.getpid())
    assert {each.flow_run_id: each for each in journal.history(tmp_path)} == {
        first.flow_run_id: ended,
        second.flow_run_id: second,
    }


def test_history_is_newest_first_and_passes_over_damaged_files(tmp_path):
    started = []
    for _ in range(3):
        started.append(journal.begin(tmp_path, uuid4(), "housing").started)
        time.sleep(0.002)
    (tmp_path / "journal" / "cut.json").write_text('{"flow_run_id": "')
    assert [entry.started for entry in journal.history(tmp_path)] == started[::-1]
    assert journal.history(tmp_path / "nowhere") == []


def test_entries_of_earlier_versions_are_read(tmp_path):
    entry = journal.begin(tmp_path, uuid4(), "housing", "smoke")
    older = {key: value for key, value in asdict(entry).items() if key not in ("profile", "own_data")}
    older |= {"details": {"profile": "smoke", "own_data": False}, "reported": True}
    (tmp_path / "journal" / f"{entry.flow_run_id}.json").write_text(json.dumps(older))
    assert journal.history(tmp_path) == [entry]


def test_a_run_whose_process_is_gone_has_died(tmp_path, sleeper):
    entry = replace(journal.begin(tmp_path, uuid4(), "housing"), process=ProcessIdentity.of(sleeper.pid))
    assert not entry.died
    sleeper.kill()
    sleeper.wait()
    assert entry.died
    journal._written(tmp_path, entry)
    assert [run["status"] for run in journal.recent_runs(tmp_path)] == ["crashed"]
    assert not journal.end(tmp_path, entry).died
    journal.begin(tmp_path, uuid4(), "snp")
    assert [run["status"] for run in journal.recent_runs(tmp_path)] == ["running", "completed"]
    assert len(journal.recent_runs(tmp_path, limit=1)) == 1


def test_a_second_run_waits_and_gets_the_place_of_a_killed_one(tmp_path):
    holder = locker(tmp_path, 60)
    assert holder.stdout.readline() == "has it\n"
    waiting = locker(tmp_path, 0)
    assert f"process {holder.pid}" in waiting.stdout.readline()
    holder.kill()
    holder.wait()
    assert waiting.communicate(timeout=10)[0] == "has it\n"
    assert waiting.returncode == 0


def test_the_place_can_be_asked_for_again_by_its_holder_and_is_free_after_an_error(tmp_path, capsys):
    with (
        pytest.raises(ZeroDivisionError),
        journal.exclusive_run(tmp_path),
        journal.exclusive_run(tmp_path),
    ):
        raise ZeroDivisionError
    assert not journal.holds_place(tmp_path)
    with journal.exclusive_run(tmp_path):
        assert capsys.readouterr().err == ""


def test_who_waited_for_a_home_that_was_deleted_takes_the_new_ones_place(tmp_path):
    home = tmp_path / "home"
    with journal.exclusive_run(home):
        waiting = locker(home, 0)
        assert f"another run (process {os.getpid()} of " in waiting.stdout.readline()
        (home / "run.lock").unlink()
    assert waiting.communicate(timeout=10)[0] == "has it\n"
    assert (home / "run.lock").read_text().startswith(f"{waiting.pid} of ")
