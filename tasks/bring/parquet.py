"""Turn a raw file, or an analyst's own file, into a checked Parquet table in the store."""

from pathlib import Path

from data.fetch.ingest import to_parquet
from data.fetch.raw_files import RawFile
from data.registry import get_dataset
from data.store.folders import close_home, home
from data.store.references import DatasetRef
from data.tables.declared import declared_to_parquet
from tasks.faults import guarded
from tasks.problems.analyst_table import AnalystTable


@guarded
def parquet(raw: RawFile, again: bool = False, stand_in_rows: int | None = None) -> DatasetRef:
    """Return the table's reference; a table stored before by the same code is reused if whole."""
    return to_parquet(get_dataset(raw.dataset), raw, home=home(), stand_in_rows=stand_in_rows, again=again)


@guarded
def analyst_parquet(name: str, analyst_table: AnalystTable) -> DatasetRef:
    """Return the table's reference; a table stored before from the same content is reused if whole."""
    return stored_analyst_table(name, analyst_table)


def stored_analyst_table(name: str, analyst_table: AnalystTable) -> DatasetRef:
    """Check a table against its declarations and store it, for its owner alone, unless it is stored."""
    close_home()
    return declared_to_parquet(
        name, Path(analyst_table.path), analyst_table.declaration(analyst_table.columns), home=home()
    )
