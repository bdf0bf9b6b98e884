"""A ledger in SQLite and in a private PostgreSQL; every test that asks for one runs on both."""

import itertools
import math
import os
import secrets
import shutil
import socket
import sqlite3
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from data.ledger import Fingerprint, Ledger, Request, Verdict

EVERY_PLACE = ["sqlite", pytest.param("postgresql", marks=pytest.mark.server)]
_numbers = itertools.count()


@dataclass
class Place:
    """Where a test's ledger is, and a way past its seat belts."""

    home: Path
    url: str | None = None

    def ledger(self, **options):
        return Ledger(self.home, self.url, **options)

    def run(self, *statements, belted=False):
        """Run SQL behind the ledger's back; return the rows of the last statement."""
        if self.url:
            import psycopg

            with psycopg.connect(self.url) as connection:
                for table in () if belted else ("dpcost_ledger", "dpcost_ledger_head"):
                    connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
                for statement in statements:
                    cursor = connection.execute(statement)
                return cursor.fetchall() if cursor.description else []
        connection = sqlite3.connect(self.home / "ledger.sqlite")
        try:
            if not belted:
                triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
                for (name,) in triggers.fetchall():
                    connection.execute(f"DROP TRIGGER {name}")
            for statement in statements:
                rows = connection.execute(statement).fetchall()
            connection.commit()
        finally:
            connection.close()
        return rows


@pytest.fixture(scope="session")
def postgresql():
    """The address of a private PostgreSQL cluster, which only this session's processes can reach."""
    pytest.importorskip("psycopg")
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin")) or [
        Path(shutil.which("initdb") or "").parent
    ]
    if not (programs[-1] / "initdb").exists():
        pytest.skip("PostgreSQL's server programs are not installed")
    user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root

    def run(program, *arguments):
        subprocess.run(
            [str(programs[-1] / program), *arguments],
            user=user,
            cwd="/",
            check=True,
            stdout=subprocess.DEVNULL,
        )

    with tempfile.TemporaryDirectory() as name:
        folder, password = Path(name), secrets.token_hex(16)
        (folder / "password").write_text(password)
        if user:
            for path in (folder, folder / "password"):
                shutil.chown(path, user)
        cluster, port = str(folder / "cluster"), free_port()
        run("initdb", "-D", cluster, "-U", "me", "-A", "scram-sha-256", f"--pwfile={folder / 'password'}")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
        run("pg_ctl", "start", "-w", "-D", cluster, "-l", str(folder / "log"), "-o", options)
        try:
            yield f"postgresql://me:{password}@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", cluster)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@pytest.fixture
def closed_port():
    """A port where nothing listens."""
    return free_port()


@pytest.fixture
def new_schema(postgresql):
    """The address of an empty schema."""
    import psycopg

    schema = f"ledger_{next(_numbers)}"
    with psycopg.connect(postgresql) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"{postgresql}?options=-csearch_path%3D{schema}"


@pytest.fixture(params=EVERY_PLACE)
def place(request, tmp_path):
    if request.param == "sqlite":
        return Place(tmp_path / "home")
    return Place(tmp_path / "home", request.getfixturevalue("new_schema"))


@pytest.fixture
def ledger(place):
    """A ledger with a budget of epsilon 1 and delta 1e-5 for ``patients``."""
    ledger = place.ledger()
    ledger.open_dataset("patients", 1.0, 1e-5)
    return ledger


@pytest.fixture
def fits():
    return additive(1.0, 1e-5)


def additive(epsilon, delta):
    """Compose by plain sums."""

    def fits(previous, new):
        spent_epsilon = math.fsum(charge.epsilon for charge in previous)
        spent_delta = math.fsum(charge.delta for charge in previous)
        accepted = spent_epsilon + new.epsilon <= epsilon * (
            1 + 1e-12
        ) and spent_delta + new.delta <= delta * (1 + 1e-12)
        return Verdict(accepted, spent_epsilon, spent_delta)

    return fits


@pytest.fixture
def ask():
    """Make a request for 0.3 of epsilon about the data ``a``."""

    def ask(content="a", dataset="patients", **changes):
        asked = {
            "estimator": "dp_mean",
            "parameters": {"value_bound": 2.0},
            "epsilon": 0.3,
            "delta": 1e-6,
            **changes,
        }
        return Request(dataset, Fingerprint(content * 64, content * 64), **asked)

    return ask
