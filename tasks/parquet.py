"""Turn a raw file into a checked Parquet table in the store."""

from typing import Any

from prefect import task

from data.ingest import to_parquet
from data.raw_files import RawFile
from data.registry import get_dataset
from data.store import home
from tasks.faults import guarded


@task(name="parquet", persist_result=False)
@guarded
def parquet(raw: dict[str, Any], again: bool = False, stand_in_rows: int | None = None) -> dict[str, Any]:
    """Return the table's reference; a table stored before by the same code is reused if whole.

    With ``again`` it is made once more all the same. ``stand_in_rows`` are those of a simulated flock.
    """
    record = RawFile(**{**raw, "reasons": tuple(raw["reasons"])})
    ref = to_parquet(
        get_dataset(record.dataset), record, home=home(), stand_in_rows=stand_in_rows, again=again
    )
    return ref.to_dict()
