import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from data.errors import StoreError
from flows.record import journal
from flows.record.journal import exclusive_run

LOCKER = """
import signal, sys, time
from pathlib import Path
from uuid import uuid4
from flows.record import journal
signal.signal(signal.SIGINT, signal.default_int_handler)
home = Path(sys.argv[1])
with journal.exclusive_run(home):
    journal.begin(home, uuid4(), sys.argv[3], "smoke", own_data=False)
    print("has it", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def locker(home, seconds, study="housing"):
    return subprocess.Popen(
        [sys.executable, "-c", LOCKER, str(home), str(seconds), study],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def statuses(home):
    return [(run["study"], run["status"]) for run in journal.recent_runs(home)]


def test_a_run_is_written_down_from_beginning_to_end(tmp_path):
    first, second = uuid4(), uuid4()
    with exclusive_run(tmp_path):
        journal.begin(tmp_path, first, "housing", "smoke", own_data=True)
        assert statuses(tmp_path) == [("housing", "running")]
        journal.end(tmp_path, first)
        journal.begin(tmp_path, second, "snp", own_data=False)
        journal.end(tmp_path, second, journal.FAILED)
    newest, oldest = journal.history(tmp_path)
    assert (oldest.status, oldest.profile, oldest.own_data) == ("completed", "smoke", True)
    assert (newest.study, newest.status, newest.flow_run_id) == ("snp", "failed", str(second))
    assert [run["publication"] for run in journal.recent_runs(tmp_path)] == ["", "not for publication"]
    assert len(journal.recent_runs(tmp_path, limit=1)) == 1


def test_a_run_is_running_while_its_process_holds_the_lock_and_has_crashed_otherwise(tmp_path, capsys):
    holder = locker(tmp_path, 60)
    assert holder.stdout.readline() == "has it\n"
    assert statuses(tmp_path) == [("housing", "running")]
    holder.kill()
    holder.wait()
    assert statuses(tmp_path) == [("housing", "crashed")]
    with exclusive_run(tmp_path):
        journal.begin(tmp_path, uuid4(), "snp", own_data=False)
        assert statuses(tmp_path) == [("snp", "running"), ("housing", "crashed")]
    assert "the housing run of" in capsys.readouterr().err
    assert journal.history(tmp_path)[1].ended


@pytest.mark.parametrize("damage", ["", "{", "[1, {}]", '{"study": "housing"}'])
def test_a_damaged_journal_is_passed_over(tmp_path, damage):
    (tmp_path / "journal.json").write_text(damage)
    assert journal.history(tmp_path) == journal.history(tmp_path / "nowhere") == []


def test_old_runs_go_but_for_the_last_one_of_each_study(tmp_path, monkeypatch):
    def entry(study, days):
        started = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="milliseconds")
        about = {"flow_run_id": str(uuid4()), "study": study, "status": "completed"}
        return about | {"started": started, "ended": started}

    runs = [("snp", 3), ("housing", 50), ("swarm", 200), ("housing", 300), ("swarm", 400)]
    (tmp_path / "journal.json").write_text(json.dumps([entry(*run) for run in runs]))
    journal.begin(tmp_path, uuid4(), "fair", own_data=False)
    assert [each.study for each in journal.history(tmp_path)] == ["fair", "snp", "housing", "swarm"]
    monkeypatch.setenv(journal.KEEP_DAYS, "1")
    journal.begin(tmp_path, uuid4(), "snp", own_data=False)
    assert [each.study for each in journal.history(tmp_path)] == ["snp", "fair", "housing", "swarm"]


@pytest.mark.parametrize("days", ["0", "-1", "many", "1.5", ""])
def test_a_wrong_number_of_days_is_refused(monkeypatch, days):
    monkeypatch.setenv(journal.KEEP_DAYS, days)
    with pytest.raises(StoreError, match=journal.KEEP_DAYS):
        journal.keep_days()


def test_a_second_run_waits_and_gets_the_place_of_a_killed_one(tmp_path):
    holder = locker(tmp_path, 60)
    assert holder.stdout.readline() == "has it\n"
    waiting = locker(tmp_path, 0)
    assert f"process {holder.pid} of " in waiting.stdout.readline()
    holder.kill()
    holder.wait()
    assert waiting.communicate(timeout=10)[0].endswith("has it\n")
    assert waiting.returncode == 0


def test_the_place_can_be_asked_for_again_by_its_holder_and_is_free_after_an_error(tmp_path, capsys):
    with pytest.raises(ZeroDivisionError), exclusive_run(tmp_path), exclusive_run(tmp_path):
        raise ZeroDivisionError
    assert not journal.is_held(tmp_path)
    with exclusive_run(tmp_path):
        assert journal.is_held(tmp_path)
    assert capsys.readouterr().err == ""


def test_runs_of_one_process_may_overlap(tmp_path, capsys):
    first, second = uuid4(), uuid4()
    with exclusive_run(tmp_path):
        journal.begin(tmp_path, first, "housing", own_data=False)
        journal.begin(tmp_path, second, "snp", own_data=False)
        assert statuses(tmp_path) == [("snp", "running"), ("housing", "running")]
        journal.end(tmp_path, first)
        journal.end(tmp_path, second)
    assert statuses(tmp_path) == [("snp", "completed"), ("housing", "completed")]
    assert capsys.readouterr().err == ""
