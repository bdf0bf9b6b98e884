"""What is computed in worker processes of this machine, and how they end."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor

import psutil
import pytest

import tasks.workers
from data.store.folders import PROJECT_ROOT
from tasks.workers import WorkerKilled, Workers, compute, compute_here, local_workers, opened
from tests.flows.small_project import until
from tests.tasks import worker_calls

ASKING = """
import sys
from tasks.workers import compute, local_workers
from tests.tasks.worker_calls import hanging
with local_workers(1):
    compute(hanging, sys.argv[1])
"""


@pytest.fixture(scope="module", autouse=True)
def importable():
    """Let workers import the functions of tests, wherever pytest was started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PROJECT_ROOT)
        yield


@pytest.fixture
def workers():
    with local_workers(1):
        yield


def test_what_has_to_stay_on_this_machine_is_sent_to_its_processes_alone(monkeypatch):
    monkeypatch.setenv("DPCOST_HOME", "elsewhere")
    assert compute_here(worker_calls.process) == os.getpid()
    with local_workers(1):
        assert compute(worker_calls.environment, "DPCOST_HOME") == "elsewhere"
        assert os.getpid() not in (compute(worker_calls.process), compute_here(worker_calls.process))
    with opened(Workers(lambda: ThreadPoolExecutor(1), 1)):  # as of a cluster
        assert compute_here(threading.get_ident) == threading.get_ident()


def test_a_worker_that_is_killed_is_told_and_another_takes_its_place(workers):
    for last_try_of in ("", "a block"):
        with pytest.raises(WorkerKilled, match=last_try_of or "killed"):
            compute(worker_calls.killed, n_bytes=5e6, last_try_of=last_try_of)
        assert compute(worker_calls.process) != os.getpid()


def test_a_worker_that_begins_while_its_broken_pool_ends_the_others_ends_too():
    """The pool knows nothing of it, and waited for it for ever."""
    with local_workers(1):
        broken = tasks.workers._open[-1].executor
        with pytest.raises(WorkerKilled):
            compute(worker_calls.killed)
        assert broken.pipe.closed
    late = tasks.workers._Processes(1)
    tasks.workers.let_go(late)
    with pytest.raises(BrokenExecutor):
        late.submit(worker_calls.process_later).result(timeout=60)
    late.shutdown()


def test_a_call_that_wants_to_be_alone_waits_for_the_others_and_they_for_it(tmp_path):
    with local_workers(2), ThreadPoolExecutor(3) as pool:
        first = pool.submit(compute, worker_calls.waiting, tmp_path, 2)
        until(lambda: list(tmp_path.glob("begun *")))
        alone = pool.submit(compute, worker_calls.waiting, tmp_path, 3, last_try_of="it")
        time.sleep(0.2)
        last = pool.submit(compute, worker_calls.waiting, tmp_path, 3)
        assert [each.result() for each in (first, alone, last)] == [1, 2, 3]


def test_the_call_with_the_most_work_is_next_and_its_turn_is_told_before():
    order, begun, going_on = [], threading.Event(), threading.Event()

    def call(name, **stated):
        stated["before"] = lambda: order.append(("before", name))
        return threading.Thread(target=compute, args=[order.append, name], kwargs=stated)

    def busy():
        begun.set()
        going_on.wait(30)

    calls = [call(work, work=work) for work in (1, 3, 2)] + [call("what others wait for")]
    with opened(workers := Workers(lambda: ThreadPoolExecutor(1), 1)):
        first = threading.Thread(target=compute, args=[busy])
        first.start()
        assert begun.wait(30)
        for each in calls:
            each.start()
        until(lambda: len(workers.waiting) == len(calls))
        assert not order  # a pause is heeded when it is a call's turn
        going_on.set()
        for each in (first, *calls):
            each.join()
    assert order[1::2] == ["what others wait for", 3, 2, 1]
    assert order[::2] == [("before", work) for work in order[1::2]]


def test_a_call_that_waits_is_woken_when_it_is_its_turn_alone():
    """All blocks of all studies wait at once: each one woken by each end took more than quadratic time."""

    def switches(count):
        workers, gate = Workers(lambda: ThreadPoolExecutor(1), 1), threading.Event()

        def call(work):
            gate.wait()
            workers.call(lambda: None, 0, work, lambda: None)

        threads = [threading.Thread(target=call, args=[work]) for work in range(count)]
        for each in threads:
            each.start()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        gate.set()
        for each in threads:
            each.join()
        return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before

    assert switches(800) < 40 * switches(100)  # a hundred times as many if each end wakes all


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_the_process_that_asked(tmp_path, end):
    begun = tmp_path / "begun"
    process = subprocess.Popen([sys.executable, "-c", ASKING, str(begun)], cwd=PROJECT_ROOT)
    until(lambda: begun.exists() and begun.read_text())
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(end)
    process.wait()
    _, alive = psutil.wait_procs(family, timeout=60)
    assert len(family) >= 2
    assert alive == []


def test_a_temporary_folder_may_have_a_long_name(tmp_path):
    folder, code = tmp_path / ("long" * 20), "import tasks.workers; tasks.workers.start_loading()"
    folder.mkdir()
    of = {"cwd": PROJECT_ROOT, "env": {**os.environ, "TMPDIR": str(folder)}}
    subprocess.run([sys.executable, "-c", code], check=True, **of)


def test_ctrl_c_is_for_the_one_that_asked(workers):
    worker = compute(worker_calls.process)
    os.kill(worker, signal.SIGINT)
    os.kill(psutil.Process(worker).ppid(), signal.SIGINT)
    assert compute(worker_calls.process) == worker
