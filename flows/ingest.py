"""The story of bringing data: fetch, verify, convert to Parquet, and no more."""

from typing import Any

from prefect import flow, runtime
from prefect.artifacts import create_table_artifact

from data.registry import load_registry
from flows.record.recorded_run import recorded
from flows.server.died import HOOKS
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
    """Fetch datasets into the store, and return the paths of their tables.

    Parameters
    ----------
    datasets : list of str
        Their names; all of the registry if there is none.
    again : bool
        Anew, whatever is stored.
    offline : bool
        Never use the network.
    """
    with recorded("ingest"):
        names = datasets or sorted(load_registry())
        tables = [parquet(fetch(name, offline, again=again), again=again) for name in names]
    create_table_artifact(
        key="ingest",
        table=[
            {
                "dataset": table.name,
                "rows": table.n_rows,
                "of": table.rows_read,
                "source": table.data_source,
                "left out": "; ".join(f"{repair.count} rows: {repair.reason}" for repair in table.repairs),
                "why not real": "; ".join(table.reasons),
            }
            for table in tables
        ],
        description="The datasets in the store",
    )
    paths = {table.name: table.path for table in tables}
    return {"tables": paths, "flow_run_id": str(runtime.flow_run.id), "n_task_runs": 2 * len(names)}
