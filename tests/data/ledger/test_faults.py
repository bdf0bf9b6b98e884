import sqlite3
import sys

import pytest
import sqlalchemy as sa

from data.errors import AnswerLost, DataError, LedgerError, LedgerUnavailable
from data.ledger import Ledger
from tests.data.ledger.charging import COST, charged


@pytest.fixture
def home(tmp_path):
    Ledger(tmp_path).open_dataset("patients", 1.0, 1e-5)
    return tmp_path


def refused(use, message):
    with pytest.raises(LedgerUnavailable, match=message) as caught:
        use()
    assert isinstance(caught.value, DataError)
    assert "\n" not in str(caught.value)
    return caught.value


END = "SELECT pg_terminate_backend(pid) FROM "
DAMAGED = "SQLITE_(CORRUPT|NOTADB)"
DAMAGE = [
    (lambda content: b"privacy " * 1000, "SQLITE_NOTADB.*dpcost ledger restore"),
    (lambda content: content[:4096].ljust(len(content), b"\xff"), DAMAGED + ".*dpcost ledger restore"),
    (lambda content: content[:5000], DAMAGED),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE)
def test_a_damaged_file_and_one_that_is_no_ledger(home, fits, ask, damage, message):
    path = home / "ledger.sqlite"
    path.write_bytes(damage(path.read_bytes()))
    ledger = Ledger(home)
    for use in (ledger.show, ledger.verify, lambda: charged(ledger, ask(), COST, fits)):
        refused(use, message)


def test_a_full_disk_charges_nothing(home, fits, ask, monkeypatch):
    class Small(sqlite3.Connection):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self.execute("PRAGMA max_page_count = 14")

    connect = sqlite3.connect
    ledger = Ledger(home)
    ledger.store(charged(ledger, ask(), COST, fits), {"estimate": 1})
    with monkeypatch.context() as full:
        full.setattr(sqlite3, "connect", lambda *a, **o: connect(*a, factory=Small, **o))
        large = ask(parameters={"X": "x" * 100_000})
        refused(lambda: charged(ledger, large, COST, fits), "SQLITE_FULL.*disk has room")
    assert len(ledger.account("patients").charges) == 1
    assert charged(ledger, ask(), COST, fits).answer == {"estimate": 1}
    assert ledger.verify().ok


def full(monkeypatch):
    """Make no page of the ledger's file writable."""

    class Full(sqlite3.Connection):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self.execute("PRAGMA max_page_count = 1")

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **o: connect(*a, factory=Full, **o))


LARGE = {"estimate": ["x" * 100_000]}


def test_a_result_that_cannot_be_stored_is_said_to_be_charged_and_lost(home, fits, ask, monkeypatch):
    ledger = Ledger(home, store_timeout=0.1)
    charge = charged(ledger, ask(), COST, fits)
    with monkeypatch.context() as patch:
        full(patch)
        with pytest.raises(AnswerLost, match=r"was charged, and its result is lost.*--again") as caught:
            ledger.store(charge, LARGE)
    assert "\n" not in str(caught.value)
    assert [each.answer for each in ledger.account("patients").charges] == [None]


def test_a_result_waits_until_the_disk_has_room(home, fits, ask, monkeypatch):
    ledger = Ledger(home, store_timeout=30.0)
    charge = charged(ledger, ask(), COST, fits)
    with monkeypatch.context() as patch:
        full(patch)
        pauses = []

        def wait(seconds):
            pauses.append(seconds)
            patch.undo()

        patch.setattr("data.ledger.ledger.time.sleep", wait)
        ledger.store(charge, LARGE)
    assert len(pauses) == 1
    assert [each.answer for each in ledger.account("patients").charges] == [LARGE]
    assert ledger.verify().ok


def test_a_locked_ledger_is_waited_for_and_refused(home, fits, ask):
    other = sqlite3.connect(home / "ledger.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    impatient = Ledger(home, lock_timeout=0.1)
    error = refused(lambda: charged(impatient, ask(), COST, fits), "other processes are writing")
    assert error.transient
    other.close()
    charged(Ledger(home), ask(), COST, fits)


def test_the_driver_is_ours_whatever_the_url_names_and_a_missing_one_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(LedgerError, match=r"psycopg.*pip install"):
        Ledger(tmp_path, "postgresql+asyncpg://host/x")


def test_postgresql_away_is_one_sentence(tmp_path, closed_port, fits, ask):
    pytest.importorskip("psycopg")
    ledger = Ledger(tmp_path, f"postgresql://me:secret@127.0.0.1:{closed_port}/books")
    for use in (ledger.show, ledger.verify, lambda: charged(ledger, ask(), COST, fits)):
        error = refused(use, r"127.0.0.1:\d+/books cannot be (reached|read) .*")
        assert "secret" not in str(error)


@pytest.mark.server
def test_a_connection_that_breaks_charges_nothing(tmp_path, new_schema, fits, ask):
    import psycopg

    ledger = Ledger(tmp_path, new_schema)
    ledger.open_dataset("patients", 1.0, 1e-5)

    def cut(previous, new):
        with psycopg.connect(new_schema, autocommit=True) as other:
            other.execute(END + "pg_locks WHERE locktype = 'advisory' AND granted")
        return fits(previous, new)

    refused(lambda: charged(ledger, ask(), COST, cut), "cannot be written")
    assert ledger.account("patients").charges == []
    assert charged(ledger, ask(), COST, fits).answer is None


@pytest.mark.server
@pytest.mark.parametrize("after", [1, 2], ids=["the charge", "the answer"])
def test_what_a_break_at_a_commit_says_is_never_wrong(tmp_path, new_schema, fits, ask, monkeypatch, after):
    import psycopg
    import sqlalchemy as sa

    ledger, commit, commits = Ledger(tmp_path, new_schema), sa.Connection.commit, []
    ledger.open_dataset("patients", 1.0, 1e-5)

    def stored_and_cut(connection):
        commit(connection)
        commits.append(connection)
        if len(commits) == after:
            with psycopg.connect(new_schema, autocommit=True) as other:
                other.execute(END + "pg_stat_activity WHERE pid <> pg_backend_pid()")
            connection.execute(sa.text("SELECT 1"))

    def release():
        ledger.store(charged(ledger, ask(), COST, fits), {"estimate": 1})

    with monkeypatch.context() as patch:
        patch.setattr(sa.Connection, "commit", stored_and_cut)
        if after == 1:
            said = str(refused(release, "repeat the command: without --again no question is charged twice"))
            assert "nothing was written" not in said
        else:
            release()  # the result is written again, and found
    (charge,) = ledger.account("patients").charges
    assert charge.answer == (None if after == 1 else {"estimate": 1})


@pytest.mark.server
def test_a_locked_postgresql_ledger_is_waited_for_and_refused(tmp_path, new_schema, fits, ask):
    ledger = Ledger(tmp_path, new_schema)
    ledger.open_dataset("patients", 1.0, 1e-5)
    impatient = Ledger(tmp_path, new_schema, lock_timeout=0.1)

    def meanwhile(previous, new):
        refused(lambda: impatient.open_dataset("others", 1.0, 0.0), "other processes are writing")
        return fits(previous, new)

    charged(ledger, ask(), COST, meanwhile)
    assert len(ledger.account("patients").charges) == 1


@pytest.mark.server
def test_a_read_only_postgresql_ledger_is_one_sentence(tmp_path, new_schema):
    url = new_schema.replace("search_path", "default_transaction_read_only%3Don%20-csearch_path")
    use = lambda: Ledger(tmp_path, url).open_dataset("a", 1.0, 0.0)  # noqa: E731
    assert not refused(use, "cannot be written .SQLSTATE 25006.*is writable").transient


@pytest.mark.server
def test_a_second_machine_needs_the_same_key(tmp_path, new_schema):
    Ledger(tmp_path / "a", new_schema).open_dataset("patients", 1.0, 1e-5)
    with pytest.raises(LedgerError, match=r"ledger\.key is missing"):
        Ledger(tmp_path / "b", new_schema).open_dataset("patients", 1.0, 1e-5)


def test_a_ledger_of_an_unknown_format_is_refused_and_left_as_it_is(place, tmp_path):
    ledger = place.ledger()
    ledger.open_dataset("patients", 1.0, 0.0)
    assert ledger.backup(tmp_path / "copy").ok
    place.run("UPDATE dpcost_format SET number = 3")
    more, back = lambda: ledger.open_dataset("more", 1.0, 0.0), lambda: ledger.restore(tmp_path / "copy")
    for use in (ledger.show, ledger.verify, more, back):
        with pytest.raises(LedgerError, match=r"format 1 or 2, got 3"):
            use()
    assert place.run("SELECT count(*) FROM dpcost_budgets") == [(1,)]
    place.run("DROP TABLE dpcost_format")  # as version 1.0.0 wrote it
    assert ledger.show("patients")[0]["epsilon"] == 1.0


def test_a_charge_is_on_the_disk_before_it_is_returned(home, monkeypatch):
    """SQLite waits for the disk, also for the folder in which its journal is removed."""
    ledger, asked = Ledger(home), []
    event = "before_cursor_execute"
    engine = sa.engine.Engine
    listener = lambda connection, cursor, statement, *_: asked.append(statement)  # noqa: E731
    sa.event.listen(engine, event, listener)
    try:
        ledger.open_dataset("others", 1.0, 1e-5)
    finally:
        sa.event.remove(engine, event, listener)
    pragmas = [each for each in asked if each.startswith("PRAGMA")]
    assert "PRAGMA synchronous=EXTRA" in pragmas
    assert "PRAGMA journal_mode=DELETE" in pragmas
    begin = next(k for k, each in enumerate(asked) if each.startswith("BEGIN IMMEDIATE"))
    assert asked.index("PRAGMA synchronous=EXTRA") < begin
