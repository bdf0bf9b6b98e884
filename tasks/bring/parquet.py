"""Turn a raw file into a checked Parquet table in the store."""

from prefect import task

from data.fetch.ingest import to_parquet
from data.fetch.raw_files import RawFile
from data.registry import get_dataset
from data.store.folders import home
from data.store.references import DatasetRef
from tasks.faults import guarded


@task(name="parquet", task_run_name="parquet {raw.dataset}", persist_result=False)
@guarded
def parquet(raw: RawFile, again: bool = False, stand_in_rows: int | None = None) -> DatasetRef:
    """Return the table's reference; a table stored before by the same code is reused if whole.

    With ``again`` it is made once more all the same. ``stand_in_rows`` are those of a simulated flock.
    """
    return to_parquet(get_dataset(raw.dataset), raw, home=home(), stand_in_rows=stand_in_rows, again=again)
