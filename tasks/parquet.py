"""Turn a raw file into a checked Parquet table in the store."""

from typing import Any

from prefect import task

from data.fetch import RawFile
from data.ingest import to_parquet
from data.registry import get_dataset
from data.store import home


@task(name="parquet")
def parquet(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the table's reference; a table stored before by the same code is reused if whole."""
    record = RawFile(**{**raw, "reasons": tuple(raw["reasons"])})
    return to_parquet(get_dataset(record.dataset), record, home=home()).to_dict()
