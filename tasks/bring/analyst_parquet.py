"""Turn a file of one's analyst_table into a checked Parquet table in the store."""

from pathlib import Path

from prefect import task

from data.store.folders import close_home, home
from data.store.references import DatasetRef
from data.tables.declared import declared_to_parquet
from tasks.faults import guarded
from tasks.problems.analyst_table import AnalystTable


@task(name="analyst_parquet", persist_result=False)
@guarded
def analyst_parquet(name: str, analyst_table: AnalystTable) -> DatasetRef:
    """Return the table's reference; a table stored before from the same content is reused if whole."""
    return stored_analyst_table(name, analyst_table)


def stored_analyst_table(name: str, analyst_table: AnalystTable) -> DatasetRef:
    """Check a table against its declarations and store it, unless it is stored already.

    What the home keeps of it, and of answers without noise, is from then on its owner's alone.

    Raises
    ------
    DataError
        The file is not as declared.
    """
    close_home()
    return declared_to_parquet(
        name, Path(analyst_table.path), analyst_table.declaration(analyst_table.columns), home=home()
    )
