import json

import pytest

from data.ledger import LedgerBroken, LedgerError
from data.ledger.chain import START


@pytest.fixture
def written(ledger, fits, ask):
    """Six entries: open, bind, charge, release, charge, open."""
    charge = ledger.charge(ask(), fits)
    ledger.store_release(charge.id, {"estimate": 1})
    ledger.charge(ask(parameters={}), fits)
    ledger.open_dataset("others", 1.0, 0.0)
    report = ledger.verify()
    assert report.ok, report.problems
    assert (report.n_entries, report.n_datasets, report.n_charges, report.n_releases) == (6, 2, 2, 1)
    return ledger


def test_an_empty_ledger_is_whole_and_stays_unwritten(place):
    report = place.ledger().verify()
    assert report.ok
    assert (report.n_entries, report.head, report.problems) == (0, START, ())
    assert not place.home.exists()


CUT = (
    "DELETE FROM dpcost_ledger WHERE seq = 6",
    "UPDATE dpcost_ledger_head SET n_entries = 5, hash = (SELECT hash FROM dpcost_ledger WHERE seq = 5)",
)
EDIT, INSERT = "UPDATE dpcost_ledger SET ", "INSERT INTO dpcost_ledger SELECT "
COPY = ", 'x', digest, hash, hash, body FROM dpcost_ledger WHERE seq = 5"


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        ([EDIT + "body = replace(body, '\"epsilon\":0.3', '\"epsilon\":0.1') WHERE seq = 3"], "3 was edited"),
        ([EDIT + "dataset = 'others' WHERE seq = 3"], "entry 3 was edited"),
        ([EDIT + "subject = 'x' WHERE seq = 4"], "entry 4 was edited"),
        ([EDIT + "kind = 'lost' WHERE seq = 3"], "entry 3 was edited"),
        ([EDIT + "hash = previous WHERE seq = 3"], "entry 3 was edited"),
        ([EDIT + "hash = 'é' WHERE seq = 3"], "entry 3 was edited"),
        (["DELETE FROM dpcost_ledger WHERE seq = 3"], "entry 3 should come next, and entry 4 does"),
        (["DELETE FROM dpcost_ledger WHERE seq = 1"], "entry 1 should come next, and entry 2 does"),
        (["DELETE FROM dpcost_ledger WHERE seq = 6"], "6 entries were written, and 5 are there"),
        (["DELETE FROM dpcost_ledger WHERE seq > 2"], "6 entries were written, and 2 are there"),
        (["DELETE FROM dpcost_ledger"], "6 entries were written, and 0 are there"),
        (["DELETE FROM dpcost_ledger_head"], "it has 0 heads where one belongs"),
        (["DELETE FROM dpcost_ledger_head", "DELETE FROM dpcost_ledger"], "it has 0 heads where one belongs"),
        (CUT, "the head was edited"),
        ([f"{INSERT}7, kind, dataset{COPY}"], "entry 7 was edited, moved or inserted"),
        ([f"{INSERT}0, kind, 'x'{COPY}"], "entry 1 should come next, and entry 0 does"),
        ([f"{EDIT}seq = {new} WHERE seq = {old}" for new, old in ((9, 3), (3, 5), (5, 9))], "3 was edited"),
    ],
)
def test_tampering_is_found_and_admits_nothing_more(written, place, fits, ask, statements, problem):
    place.run(*statements)
    report = place.ledger().verify()
    assert not report.ok
    assert any(problem in each for each in report.problems), report.problems
    with pytest.raises(LedgerBroken, match=r"not as it was written.*run dpcost ledger verify") as caught:
        place.ledger().charge(ask(epsilon=0.01), fits)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("event", ["UPDATE dpcost_ledger SET body = ''", "DELETE FROM dpcost_ledger"])
def test_a_slip_is_stopped_by_the_database(written, place, event):
    with pytest.raises(Exception, match="the ledger is append-only"):
        place.run(event, belted=True)
    assert written.verify().ok


def test_a_noted_head_shows_that_an_older_ledger_was_put_back(ledger, place, fits, ask):
    report = ledger.verify()
    old = {table: place.run(f"SELECT * FROM {table}") for table in ("dpcost_ledger", "dpcost_ledger_head")}
    ledger.charge(ask(), fits)
    noted = ledger.verify(report.head)
    assert noted.ok
    place.run(
        "DELETE FROM dpcost_ledger WHERE seq > 1",
        "UPDATE dpcost_ledger_head SET n_entries = {}, hash = '{}', mac = '{}'".format(
            *(old["dpcost_ledger_head"][0][i] for i in (0, 1, 3))
        ),
    )
    assert ledger.verify().ok  # what nobody can see without a note
    assert "is not in the chain" in ledger.verify(noted.head).problems[0]


def test_a_deleted_ledger_is_seen_with_a_noted_head_only(place):
    assert place.ledger().verify().ok
    assert not place.ledger().verify("ab" * 32).ok


@pytest.mark.parametrize("replaced", [True, False])
def test_without_its_key_the_ledger_is_closed(written, place, fits, ask, replaced):
    key = place.home / "ledger.key"
    key.unlink()
    if replaced:
        key.touch(mode=0o600)
        key.write_text("ab" * 32)
    message = "written with another key than" if replaced else "ledger.key is missing.*restore it"
    for use in (written.show, written.verify, lambda: written.charge(ask(), fits)):
        with pytest.raises(LedgerError, match=message):
            use()
    assert key.exists() == replaced


def test_the_chain_is_what_it_says(written, place):
    rows = place.run("SELECT kind, dataset, body FROM dpcost_ledger ORDER BY seq", belted=True)
    assert [kind for kind, *_ in rows] == ["open", "bind", "charge", "release", "charge", "open"]
    assert json.loads(rows[2][2])["epsilon"] == 0.3
