"""The flow of bringing data: fetch, verify, convert to Parquet, and no more."""

from typing import Any

from prefect import flow, runtime
from prefect.artifacts import create_table_artifact

from flows.record.journal import recorded
from flows.server.dead_runs import HOOKS
from flows.studies.datasets import bring_datasets, left_out
from flows.studies.parameters import Again, DatasetChoices, Offline, run_name
from flows.studies.prefect_tasks import PrefectTasks
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
    tasks = PrefectTasks()
    with recorded("ingest"):
        tables = list(bring_datasets(datasets, tasks.bring, again, offline))
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
    return {"tables": paths, "flow_run_id": str(runtime.flow_run.id), "n_task_runs": tasks.n_runs}
