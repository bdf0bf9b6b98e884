"""Read the file of a release once: its fingerprint, its numbers, and the users of its rows."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from data.ledger import Fingerprint, Fingerprinter, Ledger
from data.tables.partitions import PartitionedTable, alike, files_of, is_folder
from data.tables.reading import Source, StreamedTable, load_numbers, opened_table
from data.tables.user_ids import UserIds
from tasks.faults import SpecError
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


class _SeenRows:
    """The fingerprint and the number of rows that were read so far; ``reader`` is None before the first."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.reader: Fingerprinter | None = None
        self.n_rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.reader = self.reader or self._ledger.fingerprinter(batch.schema.names)
        self.reader.add(batch)
        self.n_rows += batch.num_rows


def read_rows(
    ledger: Ledger,
    data: Source,
    asked: ReleaseConfig,
    analyst_table: AnalystTable | None,
    progress: Callable[[int], None] | None,
) -> ReleaseRows:
    """Read and check the file once; of a Parquet file without users keep no number."""
    x, y, user_id = asked.columns.x, asked.columns.y, asked.columns.user_id
    if is_folder(data) and (user_id or analyst_table):
        raise SpecError(
            "--data must be one file where users are protected or a study file declares the columns, got "
            f"the folder {data}; write its rows into one"
        )
    ids = UserIds(Path(data), user_id) if user_id and not analyst_table else None
    seen = _SeenRows(ledger)

    def watch(batch: pa.RecordBatch) -> None:
        seen.add(batch)
        if ids:
            ids.add(batch)
        if progress and not user_id:  # how many rows users have is private
            progress(seen.n_rows)

    if analyst_table:
        family = str(asked.params.get("family", ""))
        table = table_as_declared(Path(data), analyst_table, x, y, user_id, family=family, watch=watch)
    elif is_folder(data) or (str(data).lower().endswith(".parquet") and Path(data).is_file() and not user_id):
        stream = (PartitionedTable if is_folder(data) else StreamedTable)(data, x, y or "")
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
    assert seen.reader is not None
    return ReleaseRows(content=seen.reader.fingerprint(), n_rows=seen.n_rows, **vars(table))


def known_as(ledger: Ledger, data: Source) -> str:
    """Return the name under which the ledger has charged these rows, or "": no value of them is kept."""
    if not any(dataset["contents"] for dataset in ledger.show()):
        return ""
    seen = _SeenRows(ledger)
    of_all_files = alike(seen.add)
    for file in files_of(data) if is_folder(data) else [data]:
        with opened_table(file) as (_, batches):
            for batch in batches:
                of_all_files(batch)
    return next(iter(ledger.names_of(seen.reader.fingerprint())), "") if seen.reader and seen.n_rows else ""
