"""A Dask worker that hangs is named: it neither ends nor answers."""

import os
import signal
import warnings

import psutil
import pytest

pytest.importorskip("distributed")
import distributed

from tasks import dask_cluster
from tasks.errors import SpecError
from tests.builders import refused
from tests.flows.small_project import until


@pytest.fixture
def hung(home, monkeypatch):
    """A cluster of two workers, and the address of one that is stopped."""
    monkeypatch.setenv("DPCOST_HOME", str(home))
    options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with (
        distributed.LocalCluster(n_workers=2, **options) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        worker, number = sorted(client.run(os.getpid).items())[0]
        psutil.Process(number).send_signal(signal.SIGSTOP)
        yield client, cluster.scheduler_address, worker
        psutil.Process(number).send_signal(signal.SIGCONT)


def test_a_worker_that_hangs_is_named_before_a_run_and_in_it(hung, monkeypatch):
    client, scheduler, worker = hung
    monkeypatch.setattr(dask_cluster, "_LOST_AFTER", 4.0)
    refused(lambda: dask_cluster.check_workers(scheduler), SpecError, worker, "4 s")
    with warnings.catch_warnings(record=True) as noted, dask_cluster.silence_noted(client, 1.0, 0.1):
        warnings.simplefilter("always")
        until(lambda: noted)
        until(lambda: dask_cluster.silent_workers(client, 1.0))
    assert [worker in str(each.message) for each in noted] == [True]
