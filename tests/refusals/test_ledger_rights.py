"""A ledger whose file, folder or key may not be read or written: one line that names it, and no charge."""

import os
import shlex
import tempfile
from pathlib import Path

import pytest

from data.ledger import Ledger
from tests.builders import people, release_file, words
from tests.flows.small_project import sentence

NOBODY = 65534
OPEN = "ledger open more --epsilon 1 --delta 1e-6"
RELEASE = "release dp_mean --data people.csv --config release.toml --delta 1e-7 --epsilon"
# What has which mode, the home, a command, and what its line names
RIGHTS = [
    ("ledger.sqlite", 0o444, "", OPEN, ("ledger.sqlite cannot be written", "SQLITE_READONLY")),
    ("ledger.sqlite", 0o444, "", RELEASE + " 0.4", ("ledger.sqlite cannot be written", "SQLITE_READONLY")),
    ("ledger.sqlite", 0o000, "", "ledger show", ("ledger.sqlite cannot be read", "SQLITE_CANTOPEN")),
    ("ledger.key", 0o000, "", "ledger show", ("ledger.key cannot be read", "readable")),
    (".", 0o555, "", OPEN, "ledger.sqlite cannot be written"),
    (".", 0o555, "below", OPEN, ("below", "cannot be created", "DPCOST_HOME")),
]


@pytest.fixture
def folder(command_line, monkeypatch):
    """The current folder, with data and a home with a ledger; the account is not root."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("DPCOST_HOME", str(folder / "home"))
        people(60).to_csv("people.csv", index=False)
        release_file(folder, "people", ["age"], bounds="value_bound = 120.0")
        for command in ("ledger open people --epsilon 1 --delta 1e-6", RELEASE + " 0.5", "ledger show"):
            assert command_line(*shlex.split(command))[0] == 0  # and everything is imported
        former = os.geteuid()
        for path in (folder, *folder.rglob("*")):
            os.chown(path, former or NOBODY, -1)
        os.seteuid(former or NOBODY)
        yield folder
        os.seteuid(former)


@pytest.mark.parametrize(("file", "mode", "home", "command", "named"), RIGHTS)
def test_what_may_not_be_read_or_written_is_named(
    folder, command_line, monkeypatch, file, mode, home, command, named
):
    (folder / "home" / file).chmod(mode)
    monkeypatch.setenv("DPCOST_HOME", str(folder / "home" / home))
    said = sentence(command_line(*shlex.split(command)))
    assert mode != 0o444 or command_line("ledger", "show")[0] == 0
    (folder / "home" / file).chmod(0o700)
    assert [word for word in words(named) if word not in said] == [], said
    assert len(Ledger(folder / "home").account("people").charges) == 1
