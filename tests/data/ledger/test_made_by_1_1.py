"""A ledger, its data and the release file that version 1.1 made: two answers, and one that was lost."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from data.errors import AnswerLost, ContentRefused
from data.ledger import Ledger
from tests.builders import refused
from tests.tasks.analyst_tables import release

MADE = Path(__file__).with_name("made_by_1_1")
HEAD = "85e2c6570007be7fd4b4b4cc1c56c99876ccf17777b239df6b3e0f1162d2413d"
STORED = {
    1.0: {"weight": 0.1486663818359375, "age": -0.013935089111328125},
    0.25: {"weight": -0.13979721069335938, "age": 0.07523727416992188},
}


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


def test_it_opens_whole_and_is_upgraded_by_the_first_writing(home):
    ledger = Ledger(home)
    assert ledger.verify(HEAD).ok
    states = [charge["state"] for charge in ledger.show("people")[0]["charges"]]
    assert states == ["released", "no answer", "released"]
    assert format_of(home) == [(1,)]
    ledger.open_dataset("more", 1.0, 0.0)
    assert format_of(home) == [(2,)]
    assert ledger.verify(HEAD).ok


def test_its_answers_are_replayed_and_its_losses_and_costs_count(home, caplog):
    for epsilon, stored in STORED.items():
        answer = ask(home, epsilon)
        assert answer.replayed
        assert answer.estimate == stored
    assert "version 1.1" in caplog.text
    with pytest.raises(AnswerLost):
        ask(home, 0.5)
    paid = ask(home, 0.5, again=True)
    assert not paid.replayed
    assert len(paid.account.charges) == 4
    assert ask(home, 0.5).estimate == paid.estimate
    assert len(Ledger(home).account("people").charges) == 4
    assert Ledger(home).verify(HEAD).ok


def test_its_data_keep_their_name(home, tmp_path):
    Ledger(home).open_dataset("again", 1.0, 1e-6)
    config = tmp_path / "again.toml"
    config.write_text((MADE / "release.toml").read_text().replace("people", "again"))
    refused(lambda: ask(home, 0.5, config=config), ContentRefused, "'people'")
    other = tmp_path / "other.csv"
    pd.read_csv(MADE / "people.csv").iloc[1:].to_csv(other, index=False)
    refused(lambda: ask(home, 0.5, data=other), ContentRefused, "'people'")


def test_its_backup_is_restored(home, tmp_path):
    ledger = Ledger(home)
    ledger.backup(tmp_path / "copy")
    ledger.open_dataset("more", 1.0, 0.0)
    assert ledger.restore(tmp_path / "copy", forget_newer=True).head == HEAD
    assert json.loads(json.dumps(ledger.show("people")))[0]["charges"][0]["answer"]["estimate"] == STORED[1.0]
