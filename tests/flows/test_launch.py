"""Before a run: one at a time in a home, and folders that it may not write to."""

import subprocess
import sys

import pytest

from flows.lock import exclusive_run, holder
from tasks import dask_cluster as dask_engine


def test_a_worker_closes_its_home_to_other_accounts(home):
    (home / "cache").mkdir(parents=True)
    (home / "cache").chmod(0o755)
    assert dask_engine.check_worker(dask_engine._code(), dask_engine._results_at()) == ""
    assert [(home / name).stat().st_mode & 0o777 for name in ("store", "cache")] == [0o700, 0o700]


LOCKER = """
import signal, sys, time
from pathlib import Path
from flows.lock import exclusive_run
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


def test_a_second_run_waits_and_gets_the_place_of_a_killed_one(tmp_path):
    first = locker(tmp_path, 60)
    assert first.stdout.readline() == "has it\n"
    assert holder(tmp_path).startswith(f"{first.pid} of ")
    waiting = locker(tmp_path, 0)
    assert f"process {first.pid} of " in waiting.stdout.readline()
    first.kill()
    first.wait()
    assert waiting.communicate(timeout=10)[0].endswith("has it\n")
    assert waiting.returncode == 0
    assert holder(tmp_path) == ""


def test_its_holder_may_take_it_again_and_it_is_free_after_an_error(tmp_path, capsys):
    with pytest.raises(ZeroDivisionError), exclusive_run(tmp_path), exclusive_run(tmp_path):
        raise ZeroDivisionError
    assert holder(tmp_path) == ""
    with exclusive_run(tmp_path):
        assert holder(tmp_path)
    assert capsys.readouterr().err == ""
