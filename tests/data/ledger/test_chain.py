"""What was edited, cut off or put back is found, whatever the byte; no sentence shows what is stored."""

import os
import random
import shutil
import sqlite3

import pytest

from data.errors import LedgerBroken, LedgerError, LedgerUnavailable
from data.ledger.book import START
from tests.builders import refused
from tests.data.ledger.charging import COST, charged

ANSWER = {"estimate": 31337.625, "name": "a stored answer"}


@pytest.fixture
def written(ledger, fits, ask):
    """Two budgets; of one two charges, and an answer."""
    ledger.store(charged(ledger, ask(), COST, fits), ANSWER)
    charged(ledger, ask(parameters={}), COST, fits)
    ledger.open_dataset("others", 1.0, 0.0)
    report = ledger.verify()
    assert report.ok, report.problems
    assert (report.n_datasets, report.n_charges, report.n_releases) == (2, 2, 1)
    return ledger


def test_an_empty_ledger_is_whole_and_stays_unwritten(place):
    report = place.ledger().verify()
    assert report.ok
    assert (report.n_charges, report.head, report.problems) == (0, START, ())
    assert not place.home.exists()


CHARGE, BUDGET = "UPDATE dpcost_charges SET ", "UPDATE dpcost_budgets SET "

DELETE = "DELETE FROM dpcost_"
# A statement, what the problem names, and whether it is of the tail, after which nothing more is charged
TAMPERING = [
    (CHARGE + "rho = rho / 2 WHERE number = 1", "charge 1", False),
    (CHARGE + "rho = rho / 2 WHERE number = 2", "charge 2", True),
    (CHARGE + "asked = replace(asked, '0.3', '0.1') WHERE number = 1", "charge 1", False),
    (CHARGE + "asked = replace(asked, '0.3', '0.1') WHERE number = 2", "charge 2", True),
    (CHARGE + "dataset = 'others' WHERE number = 2", "charge 2", True),
    (CHARGE + "dataset = 'nobody' WHERE number = 2", "charge 2", False),
    (CHARGE + "content = 'x' WHERE number = 1", "charge 1", False),
    (CHARGE + "hash = previous WHERE number = 1", "charge 1", False),
    (CHARGE + "hash = 'é' WHERE number = 2", "charge 2", False),
    (CHARGE + "answer = replace(answer, '3', '4')", "charge 1", False),
    (CHARGE + "state = 'pending', answer = NULL", "charge 1", False),
    (CHARGE + "state = 'released', answer = '{}' WHERE number = 2", "charge 2", True),
    (DELETE + "charges WHERE number = 1", "charge 1 is missing", False),
    (DELETE + "charges WHERE number = 2", "the last charge of budget 1", True),
    (DELETE + "charges", "the last charge of budget 1", True),
    (CHARGE + "number = 0 WHERE number = 2", "charge 1 is missing", False),
    (DELETE + "budgets WHERE number = 1", "charge 1", False),
    (BUDGET + "epsilon = 9 WHERE number = 1", "charge 1", True),
    (BUDGET + "epsilon = 9 WHERE number = 2", "budget 2", False),
    (BUDGET + "last = seal WHERE number = 1", "budget 1", True),
]


@pytest.mark.parametrize(("statement", "problem", "of_tail"), TAMPERING)
def test_tampering_is_found_and_closes_the_ledger(written, place, fits, ask, statement, problem, of_tail):
    place.run(statement)
    report = place.ledger().verify()
    assert not report.ok
    assert any(problem in each for each in report.problems), report.problems
    refused(place.ledger().show, LedgerBroken, "dpcost ledger verify")
    if of_tail:
        refused(lambda: charged(place.ledger(), ask(epsilon=0.01), COST, fits), LedgerBroken)


def test_a_damaged_byte_is_found_or_harmless_and_shows_nothing_stored(written, place, fits, ask):
    if place.url:
        pytest.skip("about the file")
    path, kept = place.home / "ledger.sqlite", place.home / "kept"
    shutil.copy(path, kept)
    content, chance = kept.read_bytes(), random.Random(0)
    for where in [*chance.sample(range(len(content)), 60), *stored_bytes(content)]:
        path.write_bytes(content[:where] + bytes([content[where] ^ 0xFF]) + content[where + 1 :])
        try:
            report = place.ledger().verify()
            whole = report.ok
            said = " ".join(report.problems)
            if whole:  # of a byte that says nothing: all charges and answers are there
                assert charged(place.ledger(), ask(), COST, fits).answer == ANSWER
                assert len(place.ledger().account("patients").charges) == 2
        except LedgerError as error:
            said = str(error)
        assert not any(each in said for each in ("31337", "stored answer", "estimate", "value_bound"))


def stored_bytes(content):
    texts = (b"31337.625", b"a stored answer", b"value_bound", b"released", b"patients", b"pending")
    return [content.index(text) + k for text in texts for k in (0, len(text) - 1)]


def test_what_the_driver_quotes_is_not_shown(written, place, monkeypatch):
    """Without a reader of damaged text, SQLite's own error quotes what it cannot decode."""
    if place.url:
        pytest.skip("about the file")

    class Quoting(sqlite3.Connection):
        text_factory = property(lambda self: str, lambda self, factory: None)

    content, connect = (place.home / "ledger.sqlite").read_bytes(), sqlite3.connect
    damaged = content.replace(b"a stored answer", b"a stored answe\xff")
    (place.home / "ledger.sqlite").write_bytes(damaged)
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **o: connect(*a, factory=Quoting, **o))
    with pytest.raises(LedgerUnavailable) as refused:
        place.ledger().verify()
    assert "stored" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_noted_head_shows_that_an_older_ledger_was_put_back(ledger, place, fits, ask, tmp_path):
    charged(ledger, ask(), COST, fits)
    early = ledger.verify()
    ledger.backup(tmp_path / "early")
    charged(ledger, ask(parameters={}), COST, fits)
    noted = ledger.verify(early.head)
    assert noted.ok
    ledger.restore(tmp_path / "early", forget_newer=True)
    assert ledger.verify().ok  # what nobody can see without a note
    assert "is not in the chain" in ledger.verify(noted.head).problems[0]


def test_a_deleted_ledger_is_seen_with_a_noted_head_and_by_its_key(written, place, fits, ask):
    assert not place.ledger().verify("ab" * 32).ok
    if place.url:
        place.run("DROP TABLE dpcost_charges", "DROP TABLE dpcost_budgets")
    else:
        os.unlink(place.home / "ledger.sqlite")
    assert not place.ledger().verify().ok
    for use in (place.ledger().show, lambda: charged(place.ledger(), ask(), COST, fits)):
        refused(use, LedgerBroken, "not known")


@pytest.mark.parametrize("replaced", [True, False])
def test_without_its_key_the_ledger_is_closed(written, place, fits, ask, replaced):
    key = place.home / "ledger.key"
    key.unlink()
    if replaced:
        key.touch(mode=0o600)
        key.write_text("ab" * 32)
    message = "written with another key than" if replaced else "ledger.key is missing.*restore it"
    for use in (written.show, written.verify, lambda: charged(written, ask(), COST, fits)):
        with pytest.raises(LedgerError, match=message):
            use()
    assert key.exists() == replaced
