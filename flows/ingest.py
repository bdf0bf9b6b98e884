"""The flow of bringing data: fetch, verify, convert to Parquet, and no more."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from prefect import flow, runtime
from prefect.artifacts import create_table_artifact

from data.errors import Unreachable
from data.registry import get_dataset, load_registry
from data.store.references import DatasetRef
from flows.record.journal import recorded
from flows.server.dead_runs import HOOKS
from flows.studies.parameters import Again, DatasetChoices, Offline, run_name
from tasks.bring.fetch import fetch
from tasks.bring.parquet import parquet
from tasks.faults import guarded


@flow(name="ingest", flow_run_name=run_name, persist_result=False, **HOOKS)
@guarded
def run_ingest(
    datasets: DatasetChoices = [],  # noqa: B006 (a tuple is no default of the server's form)
    again: Again = False,
    offline: Offline = False,
) -> dict[str, Any]:
    """Fetch datasets into the store, all if none is named, and return the paths of their tables.

    With `again` they are fetched anew, whatever is stored; `offline` never uses the network.
    """
    with recorded("ingest"):
        tables = list(bring(datasets, call_task, again, offline))
    create_table_artifact(
        key="ingest",
        table=[
            {
                "dataset": table.name,
                "rows": table.n_rows,
                "of": table.rows_read,
                "source": table.data_source,
                "left out": left_out(table),
                "why not real": "; ".join(table.reasons),
            }
            for table in tables
        ],
        description="The datasets in the store",
    )
    paths = {table.name: table.path for table in tables}
    return {"tables": paths, "flow_run_id": str(runtime.flow_run.id), "n_task_runs": 2 * len(tables)}


def bring(
    names: Sequence[str], call: Callable[..., Any], again: bool, offline: bool, *, progress: bool = False
) -> Iterator[DatasetRef]:
    """Bring datasets, all if none is named; ``call(task, ...)`` runs a task, or its function alone."""

    def brought(name: str) -> Any:
        try:
            raw = call(fetch, name, offline, progress, again)
        except Unreachable:  # then what is stored stays
            raw = call(fetch, name, offline, progress)
        return call(parquet, raw, again)

    return map(brought, [get_dataset(name).name for name in names or sorted(load_registry())])


def call_task(task: Any, *arguments: Any, **options: Any) -> Any:
    """Run a task of this flow run."""
    return task(*arguments, **options)


def call_function(task: Any, *arguments: Any, **options: Any) -> Any:
    """Run a task's function, without a server."""
    return task.fn(*arguments, **options)


def left_out(table: DatasetRef) -> str:
    """Say which rows of a dataset are left out, and why."""
    return "; ".join(f"{repair.count} rows: {repair.reason}" for repair in table.repairs)
