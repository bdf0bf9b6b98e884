"""Bring data into the store: raw files, and checked Parquet tables of them or of an analyst's file."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from data.datasets import get_dataset, load_registry
from data.errors import DataError, Unreachable
from data.fetch.ingest import stored_before, to_parquet
from data.fetch.raw import RawFile, fetch_or_stand_in
from data.fetch.raw import fetch as fetch_raw
from data.store.folders import close_home, home, mirror_from_environment
from data.store.references import DatasetRef
from data.store.shared import shared_address
from data.tables.stored import declared_to_parquet
from tasks.errors import guarded
from tasks.own_table.analyst_table import AnalystTable, require_clusters
from tasks.run_options import RunOptions
from tasks.study.spec import StudySpec

_log = logging.getLogger(__name__)
Tables = Mapping[str, DatasetRef]  # by dataset
Brought = Mapping[str, DatasetRef | RawFile]  # a raw file where neither a source nor a stand-in has one


@guarded
def fetch(
    dataset: str, offline: bool = False, progress: bool = False, again: bool = False, last_try: bool = True
) -> RawFile:
    """Return the raw file's record: from the store, the mirror or the official address, else a stand-in."""
    about: dict[str, Any] = {
        "home": home(),
        "mirror": mirror_from_environment(),
        "offline": offline,
        "progress": progress,
    }
    if again:
        return fetch_raw(get_dataset(dataset), again=True, **about)
    return fetch_or_stand_in(get_dataset(dataset), last_try=last_try, **about)


@guarded
def parquet(raw: RawFile, stand_in_rows: int | None = None, again: bool = False) -> DatasetRef:
    """Return the table's reference; a table stored before by the same code is reused if whole."""
    return to_parquet(get_dataset(raw.dataset), raw, home=home(), stand_in_rows=stand_in_rows, again=again)


@guarded
def analyst_parquet(name: str, analyst_table: AnalystTable) -> DatasetRef:
    """Check a table against its declarations and store it, for its owner alone, unless it is stored."""
    close_home()
    source, declared = analyst_table.source, analyst_table.declaration(analyst_table.columns)
    require_clusters(source, analyst_table)
    return declared_to_parquet(name, source, declared, home=home())


def bring(
    spec: StudySpec,
    dataset: str,
    options: RunOptions,
    *,
    fetch: Callable[[str, bool], RawFile] = fetch,
    parquet: Callable[[RawFile, int | None], DatasetRef] = parquet,
    analyst_parquet: Callable[[str, AnalystTable], DatasetRef] = analyst_parquet,
) -> DatasetRef | RawFile:
    """Bring a dataset of a study; return the raw file's record if it has neither a source nor a stand-in."""
    if spec.analyst_table and dataset == spec.name:
        return analyst_parquet(dataset, spec.analyst_table)
    raw = fetch(dataset, options.offline)
    if raw.is_stand_in and not get_dataset(dataset).stand_in:
        return raw
    return parquet(raw, spec.stand_in_rows(dataset, options.profile))


def stored_tables(spec: StudySpec, options: RunOptions) -> Brought | None:

    def stored(raw: RawFile, stand_in_rows: int | None) -> DatasetRef:
        if table := stored_before(get_dataset(raw.dataset), raw, home=home(), stand_in_rows=stand_in_rows):
            return table
        raise Unreachable(f"{raw.dataset} has to be converted")

    try:
        return {
            name: bring(spec, name, options, parquet=stored) for name in spec.datasets_at(options.profile)
        }
    except DataError:
        return None


def bring_datasets(
    names: Sequence[str],
    *,
    fetch: Callable[..., RawFile] = fetch,
    parquet: Callable[..., DatasetRef] = parquet,
    again: bool,
    offline: bool,
) -> Iterator[DatasetRef]:
    """Bring datasets by name, or all that can be had; with `again`, stored ones stay if nothing else is."""
    chosen = [get_dataset(name).name for name in names or sorted(load_registry())]

    def bring_one(name: str) -> DatasetRef | None:
        try:
            raw = fetch(name, offline, again=again)
        except Unreachable:
            if not again:
                raise
            raw = fetch(name, offline)
        if not raw.is_stand_in or get_dataset(name).stand_in:
            return parquet(raw, None, again)
        if names:
            raise raw.absence()
        _log.warning("%s", raw.absence())
        return None

    return filter(None, map(bring_one, chosen))


def notes_on(spec: StudySpec, tables: Brought) -> Iterator[str]:
    """Yield what the user should know of a study's tables: stand-ins, and what is left out."""
    if spec.analyst_table and shared_address():
        yield (
            "your table and its results are also stored in DPCOST_STORE; protect it like the table. The "
            "report stays here"
        )
    yield from spec.not_run.values()
    for name, table in tables.items():
        if not isinstance(table, DatasetRef):
            continue
        if not spec.analyst_table or name != spec.name:
            if table.data_source != "real":
                yield f"{name} is a {table.data_source}, not the real data: {'; '.join(table.reasons)}"
            continue
        for repair in table.repairs:
            yield f"rows {repair.reason}: {repair.done}; the report counts them"  # a server records no count


def dropped_rows(table: DatasetRef) -> str:
    return "; ".join(f"{repair.count} rows: {repair.reason}" for repair in table.repairs)
