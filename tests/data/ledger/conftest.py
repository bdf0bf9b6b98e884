"""A ledger in SQLite and in a private PostgreSQL; every test that asks for one runs on both."""

import itertools
import math
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import pytest

from data.errors import BudgetExhausted
from data.ledger import Ledger, Question
from tests.own_processes import free_port, private_postgres

EVERY_PLACE = ["sqlite", pytest.param("postgresql", marks=pytest.mark.server)]
_numbers = itertools.count()


@dataclass
class Place:
    """Where a test's ledger is, and a way past its seat belts."""

    home: Path
    url: str | None = None

    def ledger(self, **options):
        return Ledger(self.home, self.url, **options)

    def run(self, *statements):
        """Run SQL behind the ledger's back; return the rows of the last statement."""
        if self.url:
            import psycopg

            with psycopg.connect(self.url) as connection:
                for statement in statements:
                    cursor = connection.execute(statement)
                return cursor.fetchall() if cursor.description else []
        connection = sqlite3.connect(self.home / "ledger.sqlite")
        try:
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
    with private_postgres() as address:
        yield address


@pytest.fixture
def closed_port():
    return free_port()


@pytest.fixture
def new_schema(postgresql):
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
    def fits(previous, new):
        spent_epsilon = math.fsum(charge.epsilon for charge in previous)
        spent_delta = math.fsum(charge.question.delta for charge in previous)
        within = (spent_epsilon + new.epsilon) / epsilon, (spent_delta + new.question.delta) / delta
        if max(within) > 1 + 1e-12:
            raise BudgetExhausted(f"spent is epsilon {spent_epsilon:g}, delta {spent_delta:g}")

    return fits


@pytest.fixture
def ask():
    """Make a request for 0.3 of epsilon about the data ``a``."""

    def ask(content="a", dataset="patients", **changes):
        asked = {"estimator": "dp_mean", "parameters": {"value_bound": 2.0}, "epsilon": 0.3, "delta": 1e-6}
        return Question(dataset, f"2-{content * 64}", **{**asked, **changes})

    return ask
