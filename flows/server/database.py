"""The database of a home's own server: a new one is what Prefect's migrations leave, without running them.

They take five seconds of the processor. After a change of Prefect's version, ``python -m
flows.server.database`` runs them once and writes down what they leave; with any other version the server runs
them itself.
"""

import gzip
import os
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

DATABASE = "prefect.db"  # as Prefect names it


def script() -> Path:
    """Return the file that has the statements for the installed version of Prefect, if it is known."""
    return Path(__file__).with_name(f"prefect-{version('prefect')}.sql.gz")


def make_database(folder: Path) -> bool:
    """Make the database in Prefect's folder, unless there is one or the user's settings name another.

    Return whether it is known to need no migration.
    """
    database, settings = folder / DATABASE, [name for name in os.environ if name.startswith("PREFECT_")]
    if not script().exists() or any("DATABASE" in name for name in settings):
        return False
    statements = gzip.decompress(script().read_bytes()).decode()
    if not database.exists():
        _make(database, statements)
    with suppress(sqlite3.Error, ValueError), closing(sqlite3.connect(database)) as connection:
        [(version_of_schema,)] = connection.execute("SELECT version_num FROM alembic_version")
        return f"'{version_of_schema}'" in statements
    return False


def _make(database: Path, statements: str) -> None:
    database.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(":memory:")) as connection, NamedTemporaryFile(dir=database.parent) as file:
        connection.executescript(statements)
        file.write(connection.serialize())
        file.flush()
        os.fsync(file.fileno())
        with suppress(OSError):  # another server was faster, or the disk has no links: it migrates
            os.link(file.name, database)


def migrated() -> str:
    """Run Prefect's migrations in a folder of their own, and return statements that lead to the same."""
    with TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        subprocess.run(
            [sys.executable, "-m", "prefect", "server", "database", "upgrade", "-y"],
            env=environment | {"PREFECT_HOME": folder, "PREFECT_SERVER_ANALYTICS_ENABLED": "false"},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        with closing(sqlite3.connect(Path(folder) / DATABASE)) as connection:
            return "\n".join(connection.iterdump())


if __name__ == "__main__":
    script().write_bytes(gzip.compress(migrated().encode(), mtime=0))
