"""A ledger of an earlier version: plain answers, by width, held, approved, with reused moments, lost ones."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from data.ledger import Ledger

BEFORE = Path(__file__).with_name("written_before")
EXPECTED = json.loads((BEFORE / "expected.json").read_text())


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    shutil.copy(BEFORE / "ledger.key", home)
    (home / "ledger.key").chmod(0o600)
    with closing(sqlite3.connect(home / "ledger.sqlite")) as connection:
        connection.executescript((BEFORE / "ledger.sql").read_text())
    return home


def test_its_charges_are_shown_at_what_they_cost(home):
    ledger = Ledger(home)
    assert ledger.verify(EXPECTED["head"]).ok
    for shown, expected in zip(ledger.show(), EXPECTED["show"], strict=True):
        assert (shown["name"], shown["epsilon"], shown["delta"]) == (
            expected["name"],
            expected["epsilon"],
            expected["delta"],
        )
        for charge, before in zip(shown["charges"], expected["charges"], strict=True):
            assert charge["id"] == before["id"]
            assert charge["epsilon"] == before["epsilon"]
            assert charge["cost"]["rho"] == before["rho"]


def test_its_backup_is_restored(tmp_path):
    assert Ledger(tmp_path / "other").restore(BEFORE / "backup.json").n_charges == 10
