"""The empty database of Prefect's server in a new home.

Prefect's hundred migrations of an empty file take 4 seconds, half of what a small run in a new home needs.
Their result is stored as SQL. Prefect itself applies the migrations that a newer version adds.
"""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

EMPTY_DATABASE = Path(__file__).with_name("prefect.sql")  # written by `tests.golden.prefect_database`


def create_database(path: Path) -> None:
    """Create Prefect's empty database unless it exists; if the disk is full, Prefect's server reports it."""
    if path.exists():
        return
    part = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError, sqlite3.Error):
        with closing(sqlite3.connect(part)) as database:
            database.executescript(EMPTY_DATABASE.read_text())
        os.link(part, path)  # which another process may have created
    part.unlink(missing_ok=True)
