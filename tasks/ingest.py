"""Bring data into the store: raw files, and checked Parquet tables of them or of an analyst's file."""

from functools import partial
from pathlib import Path

from data.datasets import get_dataset
from data.fetch.ingest import stored_before, to_parquet
from data.fetch.raw_files import RawFile, fetch_or_stand_in
from data.fetch.raw_files import fetch as fetch_raw
from data.store.folders import close_home, home, mirror_from_environment
from data.store.references import DatasetRef
from data.tables.declared import declared_to_parquet
from tasks.errors import guarded
from tasks.problems.analyst_table import AnalystTable
from tasks.run.resources import in_process, threads_now


@guarded
def fetch(
    dataset: str, offline: bool = False, progress: bool = False, again: bool = False, last_try: bool = True
) -> RawFile:
    """Return the raw file's record: from the store, the mirror or the official address, else a stand-in."""
    entry, mirror = get_dataset(dataset), mirror_from_environment()
    if again:
        return fetch_raw(entry, home=home(), mirror=mirror, offline=offline, progress=progress, again=True)
    return fetch_or_stand_in(
        entry, home=home(), mirror=mirror, offline=offline, progress=progress, last_try=last_try
    )


@guarded
def parquet(raw: RawFile, again: bool = False, stand_in_rows: int | None = None) -> DatasetRef:
    """Return the table's reference; a table stored before by the same code is reused if whole."""
    make = partial(
        to_parquet, raw=raw, home=home(), stand_in_rows=stand_in_rows, again=again, threads=threads_now
    )
    entry = get_dataset(raw.dataset)
    return in_process(make, entry) if raw.is_stand_in else make(entry)  # a simulation computes


@guarded
def stored_parquet(raw: RawFile, stand_in_rows: int | None = None) -> DatasetRef | None:
    """Return the reference of the table that :func:`parquet` stored before; None if it has to be made."""
    return stored_before(get_dataset(raw.dataset), raw, home=home(), stand_in_rows=stand_in_rows)


@guarded
def analyst_parquet(name: str, analyst_table: AnalystTable) -> DatasetRef:
    """Check a table against its declarations and store it, for its owner alone, unless it is stored."""
    close_home()
    return declared_to_parquet(
        name, Path(analyst_table.path), analyst_table.declaration(analyst_table.columns), home=home()
    )
