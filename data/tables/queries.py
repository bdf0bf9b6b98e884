"""A table that is the result of one query to a database, read as Arrow batches.

Addresses are ``duckdb:FILE?query=SELECT …``, ``sqlite:FILE?query=SELECT …`` and
``postgresql://user@host/database?query=SELECT …``. The rows of the result are protected, or the users that
it names. If a query joins or aggregates, one row of the database may be in many of them.

A query changes nothing: the connection is read-only, and only one statement is run. No message quotes what
the database says, since that may hold a cell.
"""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from data.errors import DataError
from data.store.folders import home, private_folder

EXTRAS = {"duckdb": "duckdb", "sqlite": "", "postgresql": "postgres"}
"""Databases, each with the optional extra of this package that reads it; SQLite needs none."""

_ADDRESS = re.compile(rf"({'|'.join(EXTRAS)}):(.*?)\?query=(.*)", re.DOTALL)
_BEGINS_AS_ADDRESS = re.compile(rf"({'|'.join(EXTRAS)}|postgres|mysql|mssql|oracle|snowflake|bigquery):")
_FORM = (
    "duckdb:FILE?query=SELECT …, sqlite:FILE?query=SELECT … or postgresql://user@host/database?query=SELECT …"
)
_READ_ONLY = "options=-c%20default_transaction_read_only%3Don"
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$", re.DOTALL)
_INNER = re.compile(r"\([^()]*\)")
_ORDERED = re.compile(r"\border\s+by\b", re.IGNORECASE)

_MEMORY_MB = 100  # of DuckDB, whatever the size of the database

Names = list[str]
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Query:
    """One query to one database; as text, it is what messages call it."""

    database: str  # a key of `EXTRAS`
    place: str  # the file; of PostgreSQL the address without the query
    text: str

    def __str__(self) -> str:
        return f"the query to {self.name}"

    @property
    def name(self) -> str:
        """The name of the database: of its file, or on its server."""
        return Path(urlsplit(self.place).path if self.database == "postgresql" else self.place).name

    @property
    def file(self) -> Path | None:
        """The file of the database; None for a server."""
        return None if self.database == "postgresql" else Path(self.place)

    @property
    def address(self) -> str:
        return f"{self.database}:{self.place}?query={self.text}"

    @property
    def is_ordered(self) -> bool:
        """Whether the query states the order of its rows."""
        text = _QUOTED.sub(" ", self.text)
        while (outer := _INNER.sub(" ", text)) != text:
            text = outer
        return bool(_ORDERED.search(text))


def query_of(address: str, folder: Path) -> Query | None:
    """Return the query of an address, its file from a folder on; None for what is no such address.

    Raises
    ------
    DataError
        The address has no query, names another database, or holds a password.
    """
    if not _BEGINS_AS_ADDRESS.match(address):
        return None
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise DataError(f"the address of a query must be {_FORM}; correct its form")
    database, place, text = match.groups()
    if database == "postgresql":
        split = urlsplit(f"postgresql:{place}")
        if split.password is not None or split.query:
            raise DataError(
                "the address of a query must be postgresql://user@host/database, without a password or "
                "options, which others could read; write the password into ~/.pgpass or PGPASSWORD"
            )
    else:
        if not place:
            raise DataError(f"the address of a query to {database} must name a file; it must be {_FORM}")
        place = str((folder / place).resolve())
    if not text.strip():
        raise DataError(
            "the query of an address must not be empty; write e.g. SELECT * FROM visits after ?query="
        )
    return Query(database, place, text.strip())


@contextmanager
def opened_query(query: Query, batch_rows: int) -> Iterator[tuple[Names, Batches]]:
    """Run a query in a transaction of its own, and yield the names of its columns and, once, its rows."""
    run = {"duckdb": _duckdb, "sqlite": _sqlite, "postgresql": _postgresql}[query.database]
    with ExitStack() as connections:
        with _named_faults(query):
            names, batches = run(query, batch_rows, connections)
        yield names, _checked(query, batches)


def _checked(query: Query, batches: Batches) -> Batches:
    with _named_faults(query):
        for batch in batches:
            for column in batch.schema:
                if pa.types.is_interval(column.type):
                    raise DataError(
                        f"{query}: column {column.name!r} holds intervals of time; select a number, e.g. "
                        "EXTRACT(EPOCH FROM …)"
                    )
            yield batch


def _duckdb(query: Query, batch_rows: int, connections: ExitStack) -> tuple[Names, Batches]:
    duckdb = _imported("duckdb", query)
    _require_file(query)
    statements = duckdb.extract_statements(query.text)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise _not_one_select(query)
    options = {
        "enable_external_access": "false",
        "threads": "1",
        "memory_limit": f"{_MEMORY_MB}MB",
        # Of a sort, say. DuckDB makes and deletes it; a process may open a file with one configuration.
        "temp_directory": str(private_folder(home()) / f"duckdb-{os.getpid()}"),
    }
    connection = duckdb.connect(query.place, read_only=True, config=options)
    connections.callback(connection.close)
    reader = connection.sql(query.text).to_arrow_reader(batch_rows)
    connections.callback(reader.close)
    return list(reader.schema.names), iter(reader)


def _sqlite(query: Query, batch_rows: int, connections: ExitStack) -> tuple[Names, Batches]:
    import sqlite3

    _require_file(query)
    connection = sqlite3.connect(f"{Path(query.place).as_uri()}?mode=ro", uri=True)
    connections.callback(connection.close)
    connection.execute("PRAGMA query_only = ON")
    try:
        cursor = connection.execute(query.text)
    except sqlite3.ProgrammingError:  # several statements
        raise _not_one_select(query) from None
    if cursor.description is None:
        raise _not_one_select(query)
    names = [each[0] for each in cursor.description]
    return names, _sqlite_batches(cursor, names, batch_rows)


def _sqlite_batches(cursor: Any, names: Names, batch_rows: int) -> Batches:
    """Yield rows by columns. SQLite has a type per cell: a column of several types is text, as in CSV."""
    while rows := cursor.fetchmany(batch_rows):
        yield pa.RecordBatch.from_arrays([_column(cells) for cells in zip(*rows, strict=True)], names=names)


def _column(cells: tuple[Any, ...]) -> pa.Array:
    kinds = {type(cell) for cell in cells if cell is not None}
    if len(kinds) > 1 and not kinds <= {int, float}:
        cells = tuple(cell if cell is None or isinstance(cell, bytes) else str(cell) for cell in cells)
    try:
        return pa.array(cells)
    except pa.ArrowException:  # bytes among texts, or a number that is too large for 64 bits
        return pa.array([None if cell is None else str(cell) for cell in cells])


def _postgresql(query: Query, batch_rows: int, connections: ExitStack) -> tuple[Names, Batches]:
    driver = _imported("adbc_driver_postgresql.dbapi", query)
    connection = connections.enter_context(driver.connect(f"postgresql:{query.place}?{_READ_ONLY}"))
    cursor = connections.enter_context(connection.cursor())
    cursor.execute(query.text)  # as one prepared statement
    reader = cursor.fetch_record_batch()
    return list(reader.schema.names), (part for batch in reader for part in _pieces(batch, batch_rows))


def _pieces(batch: pa.RecordBatch, batch_rows: int) -> Batches:
    for start in range(0, batch.num_rows, batch_rows):
        yield batch.slice(start, batch_rows)


def _imported(module: str, query: Query) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise DataError(
            f"{query} needs a package that reads {query.database}; install it: "
            f'pip install "dpcost[{EXTRAS[query.database]}]"'
        ) from None


def _require_file(query: Query) -> None:
    if not Path(query.place).is_file():
        raise DataError(f"{query.place} is not a file; check the path")


@contextmanager
def _named_faults(query: Query) -> Iterator[None]:
    """Refuse what a database refuses, without its words; each has errors of its own."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"{query} cannot be run or was broken off ({type(error).__name__}); try it in a shell of "
            f"{query.database}, as a user who may read"
        ) from None


def _not_one_select(query: Query) -> DataError:
    return DataError(f"{query} must be one SELECT that changes nothing; write one statement")
