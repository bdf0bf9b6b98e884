"""Bringing data: the datasets of a study, or any by name; ``call(task, ...)`` runs a task or its function."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from data.datasets import get_dataset, load_registry
from data.errors import Unreachable
from data.store.references import DatasetRef
from tasks.bring import analyst_parquet, fetch, parquet
from tasks.limits import Profile
from tasks.study.spec import StudySpec

Tables = dict[str, DatasetRef]  # by dataset


class StudyTables(NamedTuple):
    """Tables by dataset, the study without the panels that need other data, and why each was left out."""

    tables: Tables
    spec: StudySpec
    not_run: dict[str, str]


def bring_tables(spec: StudySpec, profile: Profile, offline: bool, call: Callable[..., Any]) -> StudyTables:
    """Bring the datasets of a study; a panel is left out where nothing may stand in for its data."""
    tables: Tables = {}
    not_run: dict[str, str] = {}
    for dataset in spec.datasets_at(profile):
        if spec.analyst_table and dataset == spec.name:
            tables[dataset] = call(analyst_parquet, dataset, spec.analyst_table)
            spec.check_rows(tables[dataset])
            continue
        raw = call(fetch, dataset, offline)
        panels = spec.panels_without_stand_in(dataset) if raw.origin == "stand-in" else ()
        if panels:
            why = f"{dataset} cannot be had here: {'; '.join(raw.reasons)}"
            not_run |= {panel: f"Panel “{panel}” did not run, since {why}." for panel in panels}
            spec = spec.without_panels(panels)
        else:
            tables[dataset] = call(parquet, raw, stand_in_rows=spec.stand_in_rows(dataset, profile))
    return StudyTables(tables, spec, not_run)


def bring_datasets(
    names: Sequence[str], call: Callable[..., Any], again: bool, offline: bool, *, progress: bool = False
) -> Iterator[DatasetRef]:
    def brought(name: str) -> Any:
        try:
            raw = call(fetch, name, offline, progress, again)
        except Unreachable:  # then what is stored stays
            raw = call(fetch, name, offline, progress)
        return call(parquet, raw, again)

    return map(brought, [get_dataset(name).name for name in names or sorted(load_registry())])


def left_out(table: DatasetRef) -> str:
    return "; ".join(f"{repair.count} rows: {repair.reason}" for repair in table.repairs)
