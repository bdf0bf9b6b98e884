"""A table that is the result of one query to a database, read as Arrow batches.

Addresses are ``duckdb:FILE?query=SELECT …``, ``sqlite:FILE?query=SELECT …`` and
``postgresql://user@host/database?query=SELECT …``. The rows of the result are protected, or the users that
it names. If a query joins or aggregates, one row of the database may be in many of them.

A query changes nothing. Each database itself checks the statement before any part of it runs. PostgreSQL
declares a cursor in a read-only transaction. SQLite's authorizer allows reads only. DuckDB parses one SELECT
and opens no other file. PostgreSQL's functions that use files are closed to plain roles; other
roles are refused. A query runs only if a person has confirmed it in this home: it may come from the file of
somebody else. No message quotes what the database says, since that may hold a cell.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from data.errors import DataError
from data.store.folders import atomic_write, home, private_folder

EXTRAS = {"duckdb": "duckdb", "sqlite": "", "postgresql": "postgres"}
"""Databases, each with the optional extra of this package that reads it; SQLite needs none."""

_ADDRESS = re.compile(rf"({'|'.join(EXTRAS)}):(.*?)\?query=(.*)", re.DOTALL)
_BEGINS_AS_ADDRESS = re.compile(rf"({'|'.join(EXTRAS)}|postgres|mysql|mssql|oracle|snowflake|bigquery):")
_FORM = (
    "duckdb:FILE?query=SELECT …, sqlite:FILE?query=SELECT … or postgresql://user@host/database?query=SELECT …"
)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$", re.DOTALL)
_INNER = re.compile(r"\([^()]*\)")
_ORDERED = re.compile(r"\border\s+by\b", re.IGNORECASE)

_MEMORY_MB = 100  # of DuckDB, whatever the size of the database

# Types of columns whose cells are read as the database writes them, without the size in brackets.
_TYPES = {
    "postgresql": frozenset(
        [
            "bool",
            "int2",
            "int4",
            "int8",
            "float4",
            "float8",
            "numeric",
            "text",
            "varchar",
            "bpchar",
            "name",
            "date",
            "time",
            "timestamp",
            "timestamptz",
            "uuid",
        ]
    ),
    "duckdb": frozenset(
        [
            "BOOLEAN",
            "TINYINT",
            "SMALLINT",
            "INTEGER",
            "BIGINT",
            "HUGEINT",
            "UTINYINT",
            "USMALLINT",
            "UINTEGER",
            "UBIGINT",
            "UHUGEINT",
            "FLOAT",
            "DOUBLE",
            "DECIMAL",
            "VARCHAR",
            "ENUM",
            "UUID",
            "DATE",
            "TIME",
            "TIMESTAMP",
            "TIMESTAMP_S",
            "TIMESTAMP_MS",
            "TIMESTAMP_NS",
        ]
    )
    | {"TIMESTAMP WITH TIME ZONE", '"NULL"'},
}
_CASTS = {"money": "{}::numeric", "INTERVAL": "EXTRACT(EPOCH FROM {})", "BIGNUM": "{}::DOUBLE"}
_CASTS["interval"] = _CASTS["INTERVAL"]
# Roles of PostgreSQL that read or write files of the server, or run programs there.
_POWERS = "pg_read_server_files", "pg_write_server_files", "pg_execute_server_program"
# A role that is, or may become, one of them or a superuser; then a function that gives such power to a role:
# one of the server that not everybody may call, one that runs with the rights of such a role or in a language
# without limits, and one that opens connections of its own.
_POWERFUL = f"(SELECT oid, rolname FROM pg_roles WHERE rolsuper OR rolname IN {_POWERS})"
_STRONG_ROLE = f"""
SELECT rolname::text AS found FROM {_POWERFUL} p WHERE pg_has_role(session_user, p.oid, 'MEMBER')
ORDER BY rolname = session_user DESC LIMIT 1"""
_STRONG_FUNCTION = f"""
SELECT f.oid::regprocedure::text AS found FROM pg_proc f JOIN pg_language l ON l.oid = f.prolang
WHERE has_function_privilege(session_user, f.oid, 'EXECUTE') AND CASE
    WHEN f.pronamespace = 'pg_catalog'::regnamespace
    THEN NOT has_function_privilege('public', f.oid, 'EXECUTE')
    ELSE f.proname LIKE 'dblink%' OR (NOT l.lanpltrusted AND l.lanname NOT IN ('internal', 'c', 'sql'))
        OR (f.prosecdef AND EXISTS (SELECT FROM {_POWERFUL} p WHERE pg_has_role(f.proowner, p.oid, 'MEMBER')))
END LIMIT 1"""

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


def confirm(query: Query) -> None:
    """Note that a person has confirmed a query, which may run in this home from now on."""
    atomic_write(_confirmation(query), f"{query.address}\n".encode(), private=True)


def is_confirmed(query: Query) -> bool:
    return _confirmation(query).exists()


def _confirmation(query: Query) -> Path:
    digest = hashlib.sha256(query.address.encode()).hexdigest()
    return home() / "confirmed_queries" / f"{digest}.txt"


@contextmanager
def opened_query(query: Query, batch_rows: int) -> Iterator[tuple[Names, Batches]]:
    """Run a query in a transaction of its own, and yield the names of its columns and, once, its rows."""
    run = {"duckdb": _duckdb, "sqlite": _sqlite, "postgresql": _postgresql}[query.database]
    if not is_confirmed(query):
        raise DataError(
            f"{query} must be confirmed by a person before it first runs in this home, got {query.text!r}; "
            "read it, run dpcost check with its study file in a terminal, and confirm it"
        )
    with ExitStack() as connections:
        with _named_faults(query):
            names, batches = run(query, batch_rows, connections)
        yield names, _checked(query, batches)


def _checked(query: Query, batches: Batches) -> Batches:
    with _named_faults(query):
        yield from batches


def _check_types(query: Query, types: Iterable[tuple[str, str]]) -> None:
    """Refuse columns whose type is not among those that are read as the database writes them."""
    for name, kind in types:
        if kind.partition("(")[0].strip() not in _TYPES[query.database] or kind.endswith("]"):
            raise DataError(
                f"{query}: column {name!r} must have a type of numbers, text, truth values or times, got "
                f"{kind}; select e.g. {_CASTS.get(kind, '{}::text').format(name)} AS {name}, or leave it out"
            )


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
    result = connection.sql(query.text)
    _check_types(query, zip(result.columns, map(str, result.types), strict=True))
    reader = result.to_arrow_reader(batch_rows)
    connections.callback(reader.close)
    return list(reader.schema.names), iter(reader)


def _sqlite(query: Query, batch_rows: int, connections: ExitStack) -> tuple[Names, Batches]:
    import sqlite3

    _require_file(query)
    connection = sqlite3.connect(f"{Path(query.place).as_uri()}?mode=ro", uri=True)
    connections.callback(connection.close)
    reads = sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE

    def authorized(action: int, _: str | None, function: str | None, *__: str | None) -> int:
        is_read = action in reads and function not in ("load_extension", "fts3_tokenizer")
        return sqlite3.SQLITE_OK if is_read else sqlite3.SQLITE_DENY

    connection.set_authorizer(authorized)
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
    connection = connections.enter_context(driver.connect(f"postgresql:{query.place}"))
    cursor = connections.enter_context(connection.cursor())
    cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
    cursor.execute("SET TRANSACTION READ ONLY")
    _require_plain_role(query, cursor)
    # One prepared statement, which can only be a SELECT, VALUES, TABLE or WITH that changes nothing.
    cursor.execute(f"DECLARE dpcost NO SCROLL CURSOR FOR {query.text}")

    def rows(count: int) -> pa.RecordBatchReader:
        cursor.execute(f"FETCH FORWARD {count} FROM dpcost")
        return cursor.fetch_record_batch()

    schema = rows(0).schema  # of the cursor, before the query runs
    types = [(field.metadata or {}).get(b"POSTGRESQL:type", b"unknown").decode() for field in schema]
    _check_types(query, zip(schema.names, types, strict=True))

    def batches() -> Batches:
        while pieces := [batch for batch in rows(batch_rows) if batch.num_rows]:
            yield from pieces

    return list(schema.names), batches()


def _require_plain_role(query: Query, cursor: Any) -> None:
    """Refuse a role that may use files and programs of the server, since a query could do so in its name."""

    def found(question: str) -> tuple[str, str] | None:
        cursor.execute(question.replace(" AS found", " AS found, session_user::text AS role"))
        row: tuple[str, str] | None = cursor.fetchone()
        return row

    if strong := found(_STRONG_ROLE):
        power = "a superuser" if strong[0] not in _POWERS else strong[0]
        raise DataError(
            f"{query} must use a role that can only read tables, got {strong[1]!r}; it is or may become "
            f"{power}, and a query could use files of the server; make a reader, and name it in the "
            "address: CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;"
        )
    if strong := found(_STRONG_FUNCTION):
        raise DataError(
            f"{query} must use a role that can only read tables, got {strong[1]!r}; it may call "
            f"{strong[0]}, which could use files of the server or open connections; use another "
            f"role, or take the right away: REVOKE EXECUTE ON FUNCTION {strong[0]} FROM PUBLIC, {strong[1]};"
        )


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
            f"{query} cannot be run or was broken off ({type(error).__name__}); it must be one SELECT that "
            f"changes nothing: try it in a shell of {query.database}, as a user who may only read"
        ) from None


def _not_one_select(query: Query) -> DataError:
    return DataError(f"{query} must be one SELECT that changes nothing; write one statement")
