"""Read the file of a release once: its fingerprint, its numbers, and the users of its rows."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from data.ledger import Fingerprint, Fingerprinter, Ledger
from data.tables.reading import StreamedTable, load_numbers, opened_table
from data.tables.user_ids import UserIds
from tasks.problems.analyst_table import AnalystTable
from tasks.release.config import ReleaseConfig
from tasks.release.table import FileUnits, TableInUnits, table_as_declared


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleaseRows(TableInUnits):
    """A file that was read and checked."""

    content: Fingerprint
    n_rows: int

    @property
    def n_users(self) -> int | None:
        return None if self.users is None else int(self.users.max()) + 1


def read_rows(
    ledger: Ledger,
    data: Path,
    asked: ReleaseConfig,
    analyst_table: AnalystTable | None,
    progress: Callable[[int], None] | None,
) -> ReleaseRows:
    """Read and check the file once; of a Parquet file without users keep no number."""
    x, y, user_id = asked.columns.x, asked.columns.y, asked.columns.user_id
    ids = UserIds(data, user_id) if user_id and not analyst_table else None
    reader: Fingerprinter | None = None
    n_rows = 0

    def watch(batch: pa.RecordBatch) -> None:
        nonlocal reader, n_rows
        reader = reader or ledger.fingerprinter(batch.schema.names)
        reader.add(batch)
        if ids:
            ids.add(batch)
        n_rows += batch.num_rows
        if progress and not user_id:  # how many rows users have is private
            progress(n_rows)

    if analyst_table:
        family = str(asked.params.get("family", ""))
        table = table_as_declared(data, analyst_table, x, y, user_id, family=family, watch=watch)
    elif data.suffix.lower() == ".parquet" and data.is_file() and not user_id:
        stream = StreamedTable(data, x, y or "")
        stream.check(watch)
        table = TableInUnits(X=stream, units=FileUnits.unchanged(x))
    else:
        numbers = load_numbers(data, [*x, *([y] if y else [])], watch=watch)
        table = TableInUnits(
            X=numbers[list(x)].to_numpy(),
            y=numbers[y].to_numpy() if y else None,
            users=ids.codes() if ids else None,
            units=FileUnits.unchanged(x),
        )
    assert reader is not None
    return ReleaseRows(content=reader.fingerprint(), n_rows=n_rows, **vars(table))


def known_as(ledger: Ledger, data: Path) -> str:
    """Return the name under which the ledger has charged a file's rows, or "": no value of them is kept."""
    if not any(dataset["contents"] for dataset in ledger.show()):
        return ""
    with opened_table(data) as (names, batches):
        reader = ledger.fingerprinter(names)
        n_rows = 0
        for batch in batches:
            reader.add(batch)
            n_rows += batch.num_rows
    return next(iter(ledger.names_of(reader.fingerprint())), "") if n_rows else ""
