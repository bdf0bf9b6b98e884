"""Tasks that bring data into the store; a fetch that may succeed a moment later is tried again."""

from functools import partial
from typing import Any

from prefect import runtime, task
from prefect.states import Completed

from data.fetch.raw import RawFile
from data.store.references import DatasetRef
from tasks.cache import Again
from tasks.own_table.analyst_table import AnalystTable
from tasks.run import datasets
from tasks.workers import compute_here, was_killed

_RETRIES = 2  # of a fetch


def _may_pass(task: Any, run: Any, state: Any) -> bool:
    return bool(getattr(state.result(raise_on_failure=False), "transient", False))


@task(
    task_run_name="fetch {dataset}",
    retries=_RETRIES,
    retry_delay_seconds=2,
    retry_jitter_factor=0.5,
    retry_condition_fn=_may_pass,
    persist_result=False,
)
def fetch(dataset: str, offline: bool = False, again: bool = False) -> Any:
    """Fetch a dataset's raw file; on the last try its stand-in takes the place of what cannot be had."""
    last_try = (runtime.task_run.run_count or 1) > _RETRIES
    raw = datasets.fetch(dataset, offline, again=again, last_try=last_try)
    if not raw.is_stand_in:
        return raw
    why = f"No source has {dataset}, so its stand-in takes its place, or its panels are left out."
    return Completed(name="Absent", message=" ".join([why, *raw.reasons]), data=raw)


@task(
    task_run_name="parquet {raw.dataset}",
    retries=1,
    retry_condition_fn=was_killed,
    persist_result=False,
)
def parquet(raw: RawFile, stand_in_rows: int | None = None, again: bool = False) -> DatasetRef:
    """Convert a raw file to a checked table in the store, unless it is there; a stand-in, in a worker."""
    key = datasets.parquet, raw, stand_in_rows, again
    return compute_here(*key) if raw.is_stand_in else key[0](*key[1:])


@task(task_run_name="parquet {name}", persist_result=False, retries=0)
def analyst_parquet(name: str, analyst_table: AnalystTable) -> DatasetRef:
    """Check an analyst's table against its declarations and store it, unless it is there."""
    return datasets.analyst_parquet(name, analyst_table)


def _fetched(dataset: str, offline: bool = False, again: bool = False) -> Any:
    return fetch(dataset, offline, again, return_state=True).result()


def bring(spec: Any, dataset: str, options: Any, again: Again) -> Any:
    """Bring a dataset of a study, fetched or converted again if a rerun says so."""
    fetched = partial(_fetched, again=again.asks("fetch"))
    converted = partial(parquet, again=again.asks("parquet"))
    return datasets.bring(
        spec, dataset, options, fetch=fetched, parquet=converted, analyst_parquet=analyst_parquet
    )


bring_datasets = partial(datasets.bring_datasets, fetch=_fetched, parquet=parquet)
