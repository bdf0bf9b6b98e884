"""Before a run: one at a time in a home, and folders that it may not write to."""

import shutil
import subprocess
import sys
from collections import namedtuple
from unittest.mock import Mock

import pytest

from data.errors import StoreError
from flows import ServerError, launch
from flows.launch import check_folder, check_index, check_table_is_no_output
from flows.lock import exclusive_run, holder
from tasks import dask_cluster as dask_engine
from tasks.errors import SpecError
from tasks.report.write import write_index
from tasks.run_options import RunOptions


def test_a_worker_closes_its_home_to_other_accounts(home):
    (home / "cache").mkdir(parents=True)
    (home / "cache").chmod(0o755)
    assert dask_engine.check_worker(dask_engine._code(), dask_engine._results_at()) == ""
    assert [(home / name).stat().st_mode & 0o777 for name in ("store", "cache")] == [0o700, 0o700]


@pytest.mark.parametrize("below", ["", "/deeper"])
def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path, below):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecError, match=r"--out must .*file"):
        check_folder("--out", tmp_path / f"file{below}", 1)


def test_a_foreign_index_page_is_not_replaced(tmp_path):
    check_index(tmp_path)
    (tmp_path / "index.html").write_text("<title>My site</title>")
    with pytest.raises(SpecError, match=r"--out .*index\.html"):
        check_index(tmp_path)
    write_index(tmp_path)
    check_index(tmp_path)


def test_a_table_in_the_folder_of_its_own_report_is_refused(tmp_path):
    check_table_is_no_output(tmp_path / "results.parquet", tmp_path / "mine")
    with pytest.raises(SpecError, match="--out"):
        check_table_is_no_output(tmp_path / "mine" / "results.parquet", tmp_path / "mine")


def test_a_disk_that_fills_up_while_the_server_starts_is_named(home, tmp_path, monkeypatch):
    usage, free = namedtuple("usage", "free"), iter([10**9, 10**9, 0])
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(next(free)))
    failure = ServerError("the server ended with exit status 3")
    monkeypatch.setattr(launch, "prefect_server", Mock(side_effect=failure))
    with pytest.raises(StoreError, match=f"{home} is full"):
        launch.launch(["housing"], RunOptions(workers=1, out=str(tmp_path)))


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
