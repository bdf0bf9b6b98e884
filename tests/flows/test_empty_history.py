"""The empty database of Prefect's history, and its copies in new homes."""

import contextlib
import os
import sqlite3
import sys
from importlib.metadata import version

import pytest

from flows import empty_history

NAME = f"prefect-{version('prefect')}.db"


@pytest.fixture
def commands(monkeypatch, tmp_path):
    """The databases that were made, by a command that writes one table in the place of Prefect's."""
    made, install = [], tmp_path / "installation"

    def upgrade(command, *, env, cwd, **_):
        assert command[1:] == ["-m", "prefect", "server", "database", "upgrade", "--yes"]
        made.append(env["PREFECT_API_DATABASE_CONNECTION_URL"].removeprefix("sqlite+aiosqlite:///"))
        with contextlib.closing(sqlite3.connect(made[-1])) as database:
            database.execute("CREATE TABLE alembic_version (version_num TEXT)")

    monkeypatch.setattr(sys, "prefix", str(install))
    monkeypatch.setattr(empty_history.subprocess, "run", upgrade)
    return made


def test_new_homes_share_one_empty_database(commands, tmp_path, monkeypatch):
    monkeypatch.setenv("PREFECT_PROFILES_ACTIVE", "other")
    for home in ("one", "two"):
        empty_history.start_history(tmp_path / home / "prefect.db")
    first, second = ((tmp_path / home / "prefect.db") for home in ("one", "two"))
    assert (
        first.read_bytes()
        == second.read_bytes()
        == (tmp_path / "installation/share/dpcost" / NAME).read_bytes()
    )
    assert first.stat().st_mode & 0o777 == 0o600
    assert [os.path.exists(made) for made in commands] == [False]


@pytest.mark.parametrize("fault", ["cut", "no digest", "of another version"])
def test_a_database_that_does_not_fit_is_made_again(commands, tmp_path, fault):
    empty_history.start_history(tmp_path / "one" / "prefect.db")
    kept = tmp_path / "installation/share/dpcost" / NAME
    whole = kept.read_bytes()
    if fault == "cut":
        kept.write_bytes(whole[:100])
    elif fault == "no digest":
        kept.with_name(NAME + ".sha256").unlink()
    else:
        kept.rename(kept.with_name("prefect-1.0.db"))
    empty_history.start_history(tmp_path / "two" / "prefect.db")
    assert len(commands) == 2
    assert (tmp_path / "two" / "prefect.db").read_bytes() == whole


def test_without_an_empty_database_the_server_makes_its_own(commands, tmp_path, monkeypatch):
    (tmp_path / "installation").write_text("a file where a folder is needed")
    empty_history.start_history(tmp_path / "home" / "prefect.db")
    assert not list(tmp_path.glob("home/*"))


def test_the_journal_of_a_history_that_was_moved_away_is_not_replayed(commands, tmp_path):
    file = tmp_path / "home" / "prefect.db"
    file.parent.mkdir()
    journal = file.with_name("prefect.db-wal")
    journal.write_bytes(b"of another database")
    empty_history.start_history(file)
    assert (file.exists(), journal.exists()) == (True, False)


@pytest.mark.slow
def test_prefects_own_command_makes_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    empty_history.start_history(tmp_path / "home" / "prefect.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "home" / "prefect.db")) as database:
        names = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        filled = {name for name in names if database.execute(f"SELECT 1 FROM '{name}'").fetchone()}
    assert {"flow_run", "task_run"} <= names
    assert filled == {"alembic_version"}
