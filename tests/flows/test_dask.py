"""Blocks on Dask workers, without Prefect: workers know nothing of it."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("distributed")
import dask as dask_library
from distributed import LocalCluster

from flows.server import dask_workers as dask
from tasks.run.resources import computed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    """A standing cluster of two worker processes."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as found:
        yield found


def compute(at_once, n_calls, function, *arguments):
    with ThreadPoolExecutor(at_once) as pool:
        return [
            each.result() for each in [pool.submit(computed, function, *arguments) for _ in range(n_calls)]
        ]


def test_a_cluster_serves_one_run_after_another_and_survives_the_loss_of_a_worker(cluster):
    lost = []
    for _ in range(2):
        with dask.standing_cluster(cluster.scheduler_address, lost.append) as at_once:
            pids = set(compute(at_once, 20, os.getpid))
            assert os.getpid() not in pids
    with (
        dask.standing_cluster(cluster.scheduler_address, lost.append) as at_once,
        ThreadPoolExecutor(1) as killer,
    ):
        killer.submit(lambda: (time.sleep(0.5), os.kill(min(pids), signal.SIGKILL)))
        assert compute(at_once, 20, time.sleep, 0.2) == [None] * 20
    assert computed(os.getpid) == os.getpid()
    assert lost == []


def test_own_workers_compute_and_end_with_the_run():
    with dask.own_workers(1) as at_once:
        (pid,) = set(compute(at_once, 3, os.getpid))
    assert pid != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_an_error_on_a_worker_is_the_callers(cluster):
    with dask.standing_cluster(cluster.scheduler_address, print), pytest.raises(ZeroDivisionError):
        computed(divmod, 1, 0)


@pytest.mark.parametrize("name", dask._CONFIG)
def test_what_dask_is_set_to_dask_knows(name):
    assert dask_library.config.get(name, "unknown") != "unknown"
