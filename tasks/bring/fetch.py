"""Fetch a dataset's raw file into the store."""

from typing import Any

from prefect import runtime, task

from data.fetch.raw_files import RawFile, fetch_or_stand_in, mirror_from_environment
from data.fetch.raw_files import fetch as fetch_raw
from data.registry import get_dataset
from data.store.folders import home
from tasks.faults import guarded

_RETRIES = 1  # the download itself has tried three times by then


def _may_pass(_task: Any, _run: Any, state: Any) -> bool:
    error = state.result(raise_on_failure=False)
    return bool(getattr(error, "transient", False))


@task(
    name="fetch",
    task_run_name="fetch {dataset}",
    persist_result=False,
    retries=_RETRIES,
    retry_delay_seconds=2,
    retry_jitter_factor=0.5,
    retry_condition_fn=_may_pass,
)
@guarded
def fetch(dataset: str, offline: bool = False, progress: bool = False, again: bool = False) -> RawFile:
    """Return the raw file's record as :func:`raw_file`; faults that may pass are tried again."""
    last_try = runtime.task_run.id is None or (runtime.task_run.run_count or 1) > _RETRIES
    return raw_file(dataset, offline, progress=progress, again=again, last_try=last_try)


def raw_file(
    dataset: str, offline: bool, *, progress: bool = False, again: bool = False, last_try: bool = True
) -> RawFile:
    """Return the raw file's record: from the store, the mirror or the official address, else a stand-in.

    With ``again`` the store is not looked at, and keeps what it has where no other place delivers. Unless
    this is the last try, a fault that may pass is raised.
    """
    places: dict[str, Any] = {
        "home": home(),
        "mirror": mirror_from_environment(),
        "offline": offline,
        "progress": progress,
    }
    entry = get_dataset(dataset)
    return (
        fetch_raw(entry, again=True, **places)
        if again
        else fetch_or_stand_in(entry, last_try=last_try, **places)
    )
