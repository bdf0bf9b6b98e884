"""A ledger comes back whole: from a backup, from a damaged file, and from version 1.1."""

import json
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from data.errors import ContentRefused, LedgerBroken, LedgerError, StoreError
from data.ledger import Ledger
from tests.builders import refused
from tests.data.ledger.charging import COST, charged
from tests.tasks.analyst_tables import release


@pytest.fixture
def backed_up(ledger, tmp_path, fits, ask):
    ledger.store(charged(ledger, ask(), COST, fits), {"estimate": [1.5, "\udc80"]})
    ledger.backup(tmp_path / "copy")
    return ledger, tmp_path / "copy"


def counts(ledger):
    report = ledger.verify()
    return report.n_datasets, report.n_charges, report.n_releases


def test_a_lost_home_comes_back_with_its_answers_and_is_its_owners_alone(backed_up, place, fits, ask):
    ledger, copy = backed_up
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert ledger.restore(copy) == (whole := ledger.verify())
    shutil.rmtree(place.home)
    if place.url:
        refused(ledger.show, LedgerError, "ledger.key")
    assert ledger.restore(copy).head == whole.head
    assert charged(ledger, ask(), COST, fits).answer == {"estimate": [1.5, "\udc80"]}
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (place.home, place.home / "ledger.key")]
    assert modes == [0o700, 0o600]
    assert counts(ledger) == (1, 1, 1)


def test_an_older_backup_over_a_newer_ledger_is_refused_unless_said_so(backed_up, fits, ask):
    ledger, copy = backed_up
    head = ledger.verify().head
    charged(ledger, ask(parameters={"value_bound": 3.0}), COST, fits)
    refused(lambda: ledger.restore(copy), LedgerError, "has 2 charges", "the backup 1")
    refused(lambda: ledger.restore(copy, noted=head), LedgerError, "would forget them")
    assert counts(ledger) == (1, 2, 1)
    assert ledger.restore(copy, forget_newer=True).n_charges == 1
    charged(ledger, ask(parameters={"value_bound": 3.0}), COST, fits)
    assert ledger.verify().ok


def test_a_backup_without_the_last_answer_is_older(ledger, tmp_path, fits, ask):
    charge = charged(ledger, ask(), COST, fits)
    ledger.backup(tmp_path / "copy")
    ledger.store(charge, {"estimate": 1})
    refused(lambda: ledger.restore(tmp_path / "copy"), LedgerError, "would forget them")
    assert charged(ledger, ask(), COST, fits).answer == {"estimate": 1}
    ledger.backup(tmp_path / "copy")
    assert ledger.restore(tmp_path / "copy").n_releases == 1


def test_a_later_backup_replaces_an_earlier_one_and_nothing_else(backed_up, tmp_path, fits, ask):
    ledger, copy = backed_up
    early = tmp_path / "early"
    shutil.copy(copy, early)
    charged(ledger, ask(parameters={"value_bound": 3.0}), COST, fits)
    ledger.backup(copy)
    ledger.restore(early, forget_newer=True)
    refused(lambda: ledger.backup(copy), LedgerBroken, "ledger lacks")
    assert ledger.restore(copy).n_charges == 2
    (tmp_path / "notes").write_text("mine")
    refused(lambda: ledger.backup(tmp_path / "notes"), LedgerError, "no backup")
    assert (tmp_path / "notes").read_text() == "mine"


def test_the_noted_head_tells_an_older_backup(backed_up, tmp_path, place, fits, ask):
    ledger, copy = backed_up
    early = tmp_path / "early"
    shutil.copy(copy, early)
    charged(ledger, ask(parameters={"value_bound": 3.0}), COST, fits)
    head = ledger.backup(copy).head
    place.run("UPDATE dpcost_charges SET rho = 0")
    refused(lambda: ledger.restore(copy), LedgerError, "--noted")
    refused(lambda: ledger.restore(early, noted=head), LedgerError, "not in the backup")
    assert ledger.restore(copy, noted=head).ok


@pytest.mark.parametrize("content", [b"", b"privacy " * 1000])
def test_a_deleted_or_damaged_file_is_replaced_and_kept(backed_up, place, content):
    ledger, copy = backed_up
    if place.url:
        pytest.skip("about the file")
    path = place.home / "ledger.sqlite"
    path.write_bytes(content)
    refused(lambda: ledger.restore(copy), LedgerError, "--noted")
    assert ledger.restore(copy, forget_newer=True).n_charges == 1
    aside = [each.read_bytes() for each in place.home.glob("*.damaged-*")]
    assert aside == ([content] if content else [])


EDITS = ["DELETE FROM dpcost_charges", "UPDATE dpcost_charges SET rho = 0"]
EDITS += ["UPDATE dpcost_charges SET answer = NULL", "UPDATE dpcost_budgets SET epsilon = 9"]


@pytest.mark.parametrize("change", EDITS)
def test_an_edited_backup_is_refused(backed_up, change):
    ledger, copy = backed_up
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute(change)
        connection.commit()
    refused(lambda: ledger.restore(copy, forget_newer=True), LedgerBroken, "as it was written")
    assert counts(ledger) == (1, 1, 1)


def test_another_ledgers_home_is_left_alone(backed_up, place, tmp_path):
    from data.ledger import Ledger

    _, copy = backed_up
    other = Ledger(tmp_path / "other")
    other.open_dataset("patients", 1.0, 1e-5)
    refused(lambda: other.restore(copy, forget_newer=True), LedgerError, "another ledger")
    assert counts(other) == (1, 0, 0)
    assert not list((tmp_path / "other").glob("tmp*"))


def test_what_cannot_be_backed_up_is_one_sentence(place, tmp_path):
    ledger = place.ledger()
    refused(lambda: ledger.backup(tmp_path / "copy"), LedgerError, "no ledger")
    ledger.open_dataset("patients", 1.0, 1e-5)
    (tmp_path / "file").touch()
    refused(lambda: ledger.backup(tmp_path / "file" / "copy"), StoreError, "place of the folder")
    refused(lambda: ledger.restore(tmp_path / "missing"), LedgerError, "cannot be read")
    place.run("UPDATE dpcost_budgets SET epsilon = 2")
    refused(lambda: ledger.backup(tmp_path / "copy"), LedgerBroken, "not backed up")


MADE = Path(__file__).with_name("made_by_1_1")
HEAD = "85e2c6570007be7fd4b4b4cc1c56c99876ccf17777b239df6b3e0f1162d2413d"
STORED = {"weight": 0.1486663818359375, "age": -0.013935089111328125}


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    for name, kept in {"ledger.sqlite": "ledger.sqlite", "ledger.key": "key.txt"}.items():
        shutil.copy(MADE / kept, home / name)
        (home / name).chmod(0o600)
    return home


def ask(home, epsilon, data=MADE / "people.csv", config=MADE / "release.toml", **charging):
    return release(Ledger(home), "box_mean", data, config, epsilon=epsilon, delta=1e-8, **charging)


def format_of(home):
    with closing(sqlite3.connect(home / "ledger.sqlite")) as connection:
        return connection.execute("SELECT number FROM dpcost_format").fetchall()


def test_a_ledger_of_1_1_opens_whole_and_is_upgraded_by_the_first_writing(home):
    ledger = Ledger(home)
    assert ledger.verify(HEAD).ok
    states = [charge["state"] for charge in ledger.show("people")[0]["charges"]]
    assert states == ["released", "no answer", "released"]
    assert format_of(home) == [(1,)]
    ledger.open_dataset("more", 1.0, 0.0)
    assert format_of(home) == [(2,)]
    assert ledger.verify(HEAD).ok


def test_data_of_a_ledger_of_1_1_cannot_be_compared_and_get_no_second_budget(home, tmp_path):
    Ledger(home).open_dataset("again", 1.0, 1e-6)
    config = tmp_path / "again.toml"
    config.write_text((MADE / "release.toml").read_text().replace("people", "again"))
    for options in ({}, {"config": config}, {"allow_new_content": True}):
        refused(lambda options=options: ask(home, 0.5, **options), ContentRefused, "'people'", "dpcost 2.1")
    assert len(Ledger(home).account("people").charges) == 3


def test_a_backup_of_1_1_is_restored(home, tmp_path):
    ledger = Ledger(home)
    ledger.backup(tmp_path / "copy")
    ledger.open_dataset("more", 1.0, 0.0)
    assert ledger.restore(tmp_path / "copy", forget_newer=True).head == HEAD
    assert json.loads(json.dumps(ledger.show("people")))[0]["charges"][0]["answer"]["estimate"] == STORED
