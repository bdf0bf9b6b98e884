"""Bring the tables of a study, as a run and a plan of it do."""

from collections.abc import Callable
from typing import Any, NamedTuple

from data.store.references import DatasetRef
from tasks.bring.analyst_parquet import analyst_parquet
from tasks.bring.fetch import fetch
from tasks.bring.parquet import parquet
from tasks.limits import Profile
from tasks.study.spec import StudySpec


class StudyTables(NamedTuple):
    """Tables by dataset, the study without the panels that need other data, and why each was left out."""

    tables: dict[str, DatasetRef]
    spec: StudySpec
    not_run: dict[str, str]


def bring_tables(spec: StudySpec, profile: Profile, offline: bool, call: Callable[..., Any]) -> StudyTables:
    """Fetch and convert the datasets of a study; a panel is left out where nothing may stand in for its data.

    ``call(task, ...)`` runs a task, or its function alone.
    """
    tables: dict[str, DatasetRef] = {}
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
