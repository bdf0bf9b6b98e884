"""A folder of Parquet files, here or at an address that fsspec understands, as one table in partitions."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import pyarrow as pa

from data.errors import DataError
from data.tables.reading import Source, StreamedTable, Watch, is_address


class PartitionedTable:
    """Columns of numbers of a folder's files, in the order of their names.

    `check` reads all files once; each is then a :class:`StreamedTable`, which refuses other numbers wherever
    it is read. Files that come into the folder later are no part of the table.
    """

    def __init__(self, folder: Source, columns: Sequence[str], response: str = "") -> None:
        self._parts = [StreamedTable(file, columns, response) for file in files_of(folder)]
        self.partitions: list[tuple[StreamedTable, int]] = []

    def check(self, watch: Watch) -> None:
        """Read every file; refuse its faults, and columns that differ from file to file."""
        n_rows = 0
        of_all_files = alike(watch)

        def counted(batch: pa.RecordBatch) -> None:
            nonlocal n_rows
            n_rows += batch.num_rows
            of_all_files(batch)

        for part in self._parts:
            n_rows = 0
            part.check(counted)
            self.partitions.append((part, n_rows))


def alike(watch: Watch) -> Watch:
    """Return a watch that refuses pieces with other columns than the first one's."""
    columns: set[str] = set()

    def checked(batch: pa.RecordBatch) -> None:
        nonlocal columns
        columns = columns or set(batch.schema.names)
        if set(batch.schema.names) != columns:
            raise DataError(
                "the files of a folder must all have the same columns, got others in a later file; "
                "write them alike, or choose the folder of one table"
            )
        watch(batch)

    return checked


def is_folder(source: Source) -> bool:
    """Return whether a source is a folder; an address stands for one."""
    return is_address(source) or Path(source).is_dir()


def files_of(folder: Source) -> list[Source]:
    """Return the Parquet files of a folder by name; hidden names and those with _ in front are left out."""
    entries: list[tuple[Source, bool]]
    if is_address(folder):
        entries = _at_address(str(folder))
    else:
        entries = [(path, path.is_dir()) for path in Path(folder).iterdir()]
    seen = [(source, inner) for source, inner in entries if PurePosixPath(source).name[:1] not in "._"]
    if any(inner for _, inner in seen):
        raise DataError(
            f"{folder} has folders inside, and which rows are meant is not clear; keep files only"
        )
    if others := [source for source, _ in seen if not str(source).lower().endswith(".parquet")]:
        raise DataError(
            f"{folder} may hold .parquet files only, since each is a part of the table, got "
            f"{PurePosixPath(others[0]).name!r}; move it away"
        )
    if not seen:
        raise DataError(f"{folder} has no .parquet files; check the path")
    return sorted((source for source, _ in seen), key=str)


def _at_address(folder: str) -> list[tuple[Source, bool]]:
    import fsspec

    try:
        system, root = fsspec.core.url_to_fs(folder)
        listed = system.ls(root, detail=True)
    except (OSError, ValueError, ImportError) as error:
        raise DataError(
            f"{folder} cannot be listed ({type(error).__name__}); check the address, its package and "
            "credentials"
        ) from None
    return [
        (system.unstrip_protocol(entry["name"]), entry["type"] == "directory")
        for entry in listed
        if entry["name"].rstrip("/") != root.rstrip("/")
    ]
