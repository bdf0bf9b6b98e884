"""Turn a file of one's own into a checked Parquet table in the store."""

from pathlib import Path

from prefect import task

from data.store.folders import close_home, home
from data.store.references import DatasetRef
from data.tables.declared import declared_to_parquet
from tasks.faults import guarded
from tasks.problems.own_data import OwnData


@task(name="own_parquet", persist_result=False)
@guarded
def own_parquet(name: str, own: OwnData) -> DatasetRef:
    """Return the table's reference; a table stored before from the same content is reused if whole."""
    return stored_own_table(name, own)


def stored_own_table(name: str, own: OwnData) -> DatasetRef:
    """Check a table against its declarations and store it, unless it is stored already.

    What the home keeps of it, and of answers without noise, is from then on its owner's alone.

    Raises
    ------
    DataError
        The file is not as declared.
    """
    close_home()
    return declared_to_parquet(name, Path(own.path), own.declaration(own.columns), home=home())
