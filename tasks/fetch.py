"""Fetch a dataset's raw file into the store."""

from dataclasses import asdict
from functools import partial
from typing import Any

from prefect import runtime, task

from data.errors import Unreachable
from data.fetch import RawFile, fetch_or_stand_in, mirror_from_environment
from data.fetch import fetch as fetch_raw
from data.registry import get_dataset
from data.store import home

_RETRIES = 1  # the download itself has tried three times by then


def _may_pass(_task: Any, _run: Any, state: Any) -> bool:
    error = state.result(raise_on_failure=False)
    return bool(getattr(error, "transient", False))


@task(
    name="fetch",
    retries=_RETRIES,
    retry_delay_seconds=2,
    retry_jitter_factor=0.5,
    retry_condition_fn=_may_pass,
)
def fetch(dataset: str, offline: bool = False, progress: bool = False) -> dict[str, Any]:
    """Return the raw file's record: from the store, the mirror or the official address, else a stand-in.

    Only faults that may pass are tried again, never wrong bytes or bad input.
    """
    get = partial(
        fetch_raw,
        get_dataset(dataset),
        home=home(),
        mirror=mirror_from_environment(),
        offline=offline,
        progress=progress,
    )
    try:
        raw: RawFile = get()
    except Unreachable as fault:
        if fault.transient and (runtime.task_run.run_count or 1) <= _RETRIES:
            raise
        raw = fetch_or_stand_in(*get.args, **{**get.keywords, "offline": True})
        raw = RawFile(**{**asdict(raw), "reasons": fault.reasons}) if raw.origin == "stand-in" else raw
    return asdict(raw)
