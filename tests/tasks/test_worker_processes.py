"""What is computed in worker processes of this machine, and how they end."""

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from data.store.folders import PROJECT_ROOT
from tasks.errors import SpecError
from tasks.run.resources import computed, in_process, listening
from tasks.run.worker_processes import worker_processes
from tasks.turns import STOPPED
from tests.tasks import worker_calls

ASKING = """
import sys
from tasks.run.resources import in_process
from tasks.run.worker_processes import worker_processes
from tests.tasks.worker_calls import hanging
with worker_processes(1):
    in_process(hanging, sys.argv[1])
"""


@pytest.fixture(scope="module", autouse=True)
def importable():
    """Let workers import the functions of tests, wherever pytest was started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PROJECT_ROOT)
        yield


@pytest.fixture(scope="module")
def workers():
    with worker_processes(1) as count:
        assert count == 1
        yield


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_without_workers_a_call_stays_in_this_process():
    assert in_process(worker_calls.process) == computed(0, worker_calls.process) == os.getpid()


def test_calls_are_made_in_another_process_with_this_environment(workers, monkeypatch):
    assert os.getpid() not in {in_process(worker_calls.process), computed(0, worker_calls.process)}
    monkeypatch.setenv("DPCOST_HOME", "elsewhere")
    with worker_processes(1):
        assert in_process(worker_calls.environment, "DPCOST_HOME") == "elsewhere"


def test_shares_of_a_block_arrive(workers):
    heard = []
    with listening(lambda *share: heard.append(share)):
        in_process(worker_calls.shares, "a block")
        wait_for(lambda: len(heard) == 2)
    assert heard == [("a block", 0.25), ("a block", 0.5)]


def test_a_warning_is_shown_once_and_what_is_ignored_here_is_not():
    with warnings.catch_warnings(record=True) as said:
        warnings.filterwarnings("ignore", "dull", UserWarning, r"tests\.tasks")
        warnings.filterwarnings("default", "news")
        with worker_processes(1):
            for text in ("news", "dull", "news", "more news"):
                in_process(worker_calls.warning, text)
    assert [str(each.message) for each in said] == ["news", "more news"]


@pytest.mark.parametrize(("calls", "threads"), [(1, 4), (2, 2), (3, 1)])
def test_a_call_may_use_the_cores_that_no_other_call_uses(tmp_path, calls, threads):
    with worker_processes(4), ThreadPoolExecutor(calls) as pool:
        in_process(worker_calls.process)
        asking = [pool.submit(in_process, worker_calls.threads, tmp_path, calls) for _ in range(calls)]
        assert {each.result() for each in asking} == {threads}


def test_errors_arrive_as_they_are(workers):
    with pytest.raises(FileNotFoundError) as caught:
        in_process(worker_calls.refused)
    assert caught.value.filename == "a.csv"


def test_a_worker_that_is_killed_is_told():
    with worker_processes(1), pytest.raises(SpecError, match="--workers"):
        in_process(worker_calls.killed)


def test_workers_leave_neither_threads_nor_open_files():
    with worker_processes(1):  # starts the server that workers are forked from
        in_process(worker_calls.process)
    threads, files = threading.active_count(), psutil.Process().num_fds()
    for _ in range(3):
        with worker_processes(1):
            in_process(worker_calls.process)
    wait_for(lambda: threading.active_count() <= threads and psutil.Process().num_fds() <= files)


def test_a_worker_that_is_killed_within_a_message_leaves_no_thread():
    before = threading.active_count()
    dead, heard = threading.Event(), []

    def listener(*share):
        heard.append(share)
        dead.wait()  # nothing reads the second message

    with listening(listener):
        with worker_processes(1), pytest.raises(SpecError, match="--workers"):
            in_process(worker_calls.killed_while_it_tells, "a block")
        dead.set()
        wait_for(lambda: threading.active_count() <= before)
    assert heard == [("a block", 0.25)]


def test_a_command_that_ends_early_waits_for_no_call(tmp_path):
    begun = tmp_path / "begun"
    threading.Thread(target=lambda: (wait_for(begun.exists), STOPPED.set())).start()
    try:
        with worker_processes(1), pytest.raises(KeyboardInterrupt):
            in_process(worker_calls.hanging, begun)
    finally:
        STOPPED.clear()
    wait_for(lambda: not psutil.pid_exists(int(begun.read_text())))


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_the_process_that_asked(tmp_path, end):
    begun = tmp_path / "begun"
    process = subprocess.Popen([sys.executable, "-c", ASKING, str(begun)], cwd=PROJECT_ROOT)
    wait_for(lambda: begun.exists() and begun.read_text())
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(end)
    process.wait()
    _, alive = psutil.wait_procs(family, timeout=60)
    assert len(family) >= 2
    assert alive == []


def test_signals_to_all_leave_workers_to_the_one_that_asked(workers):
    worker = in_process(worker_calls.process)
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(worker, each)
    assert in_process(worker_calls.process) == worker
