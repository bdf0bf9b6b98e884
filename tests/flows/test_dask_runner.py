"""What a Dask worker gets of a run is unpacked once: settings, client, task."""

import os

import pytest

pytest.importorskip("prefect_dask")
import cloudpickle
import dask
from distributed.nanny import _get_env_variables
from prefect.client.orchestration import get_client
from prefect.context import SettingsContext, hydrated_context, serialize_context
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.utilities.annotations import quote

from flows.engines import dask_runner
from tasks.run.run_block import run_block

ADDRESS = "http://127.0.0.1:1/api"


@pytest.fixture
def common():
    with temporary_settings({PREFECT_API_URL: ADDRESS}):
        packed = cloudpickle.dumps((run_block, serialize_context()))
    yield packed
    dask_runner._unpacked.cache_clear()


def test_a_worker_has_the_settings_of_the_run_and_does_not_check_them_again(common):
    _, context, _ = dask_runner._unpacked(common)
    seen = []
    for _ in range(2):
        with hydrated_context(context):
            seen.append(SettingsContext.get().settings)
    assert seen[0] is seen[1]
    assert str(seen[0].api.url) == ADDRESS
    assert os.environ.get("PREFECT_API_URL") != ADDRESS


def test_tasks_on_a_worker_share_a_client_that_stays_open(common):
    _, _, client = dask_runner._unpacked(common)
    assert str(client.api_url).rstrip("/") == ADDRESS
    for _ in range(2):
        with dask_runner._OpenClient(client):
            assert get_client(sync_client=True) is client
            assert not client._client.is_closed
    assert not client._client.is_closed


def test_what_is_quoted_reaches_the_task_on_a_worker_as_a_quote(common, monkeypatch):
    got = {}
    monkeypatch.setattr(dask_runner, "run_task_sync", lambda task, **given: got.update(given, task=task))
    dask_runner.run_on_worker(common, {"block": dask_runner._Quoted((1, 2)), "path": "x"}, task_run_id="7")
    assert got["parameters"] == {"block": quote((1, 2)), "path": "x"}
    assert isinstance(got["parameters"]["block"], quote)
    assert (got["task"].name, got["task_run_id"], got["return_type"]) == ("run_block", "7", "state")


def test_workers_of_an_own_cluster_keep_freed_memory(monkeypatch):
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    with dask.config.set({}):
        dask_runner.dask_runner(workers=1)
        assert "MALLOC_TRIM_THRESHOLD_" not in _get_env_variables("distributed.nanny.pre-spawn-environ")


@pytest.mark.parametrize("name", dask_runner._CONFIG)
def test_what_dask_is_set_to_dask_knows(name):
    assert dask.config.get(name, "unknown") != "unknown"
