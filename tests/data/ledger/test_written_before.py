"""A ledger of an earlier version: plain answers, by width, held, approved, with reused moments, lost ones."""

import json
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from data.errors import AnswerLost, BudgetExhausted, LedgerBroken
from data.ledger import Ledger
from data.ledger.charges import Question
from data.ledger.database import EARLIER, EARLIER_HEAD
from tests.data.ledger.charging import COST

BEFORE = Path(__file__).with_name("written_before")
EXPECTED = json.loads((BEFORE / "expected.json").read_text())
ANSWERS = EXPECTED["answers"]


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    shutil.copy(BEFORE / "ledger.key", home)
    (home / "ledger.key").chmod(0o600)
    with closing(sqlite3.connect(home / "ledger.sqlite")) as connection:
        connection.executescript((BEFORE / "ledger.sql").read_text())
    return home


def run(home, statement):
    with closing(sqlite3.connect(home / "ledger.sqlite")) as connection:
        found = connection.execute(statement).fetchall()
        connection.commit()
        return found


def never(charges, new):
    raise BudgetExhausted("nothing may be charged")


def asked_then(home, name):
    """Return the question of an answer, from what the ledger shows of it."""
    (row,) = [row for row in Ledger(home).charges("patients") if row.id == ANSWERS[name]["charge"]]
    return row.question


def test_its_charges_are_shown_at_what_they_cost_and_its_answers_are_there(home):
    ledger = Ledger(home)
    n_entries = run(home, "SELECT count(*) FROM dpcost_ledger")
    assert ledger.verify(EXPECTED["head"]).ok
    assert not ledger.verify("ab" * 32).ok
    for shown, expected in zip(ledger.show(), EXPECTED["show"], strict=True):
        assert all(shown[name] == expected[name] for name in ("name", "epsilon", "delta"))
        for charge, before in zip(shown["charges"], expected["charges"], strict=True):
            # On another machine nobody knows whether the process that was charged still lives.
            assert charge["state"] in (before["state"], "pending" if before["state"] == "lost" else "")
            assert (charge["id"], charge["epsilon"]) == (before["id"], before["epsilon"])
            assert charge["cost"]["rho"] == before["rho"]
    shown = {charge["id"]: charge["answer"] for charge in ledger.show("patients")[0]["charges"]}
    for answer in ANSWERS.values():
        assert (shown[answer["charge"]] or {"estimate": {}})["estimate"] == answer["estimate"]
    assert run(home, "SELECT count(*) FROM dpcost_ledger_before") == n_entries  # nothing is thrown away


@pytest.mark.parametrize("name", ["plain", "interval", "width", "approved", "moments", "reuse", "last"])
def test_the_same_question_is_answered_as_then(home, name):
    question = asked_then(home, name)
    same = Question(
        "patients",
        question.content,
        question.estimator,
        json.loads(json.dumps(question.parameters)),
        question.epsilon,
        question.delta,
    )
    charge = Ledger(home).charge(same, COST, never)
    assert charge.id == ANSWERS[name]["charge"]
    assert charge.answer["estimate"] == ANSWERS[name]["estimate"]


def test_an_answer_that_waits_for_approval_is_not_shown(home):
    question = asked_then(home, "held")
    with pytest.raises(AnswerLost, match="approval"):
        Ledger(home).charge(question, COST, never)
    with pytest.raises(BudgetExhausted):
        Ledger(home).charge(question, COST, never, again=True)


def test_a_release_file_is_answered_as_then_and_new_ones_go_on(home, command_line, monkeypatch):
    monkeypatch.setenv("DPCOST_HOME", str(home))
    asked = ("release", "dp_mean", "--data", BEFORE / "table.csv", "--config", BEFORE / "mean.toml")
    status, out, err = command_line(*asked, "--epsilon", 0.5, "--delta", 1e-7, "--json")
    assert status == 0, err
    shown = json.loads(out)
    assert (shown["replayed"], shown["estimate"]) == (True, ANSWERS["plain"]["estimate"])
    spent = EXPECTED["show"][0]["epsilon_spent"]
    assert shown["spent_epsilon"] == pytest.approx(spent)
    status, out, _ = command_line(*asked, "--epsilon", 0.6, "--delta", 1e-7, "--json")
    assert (status, json.loads(out)["replayed"]) == (0, False)
    assert json.loads(out)["spent_epsilon"] > spent
    assert Ledger(home).verify(EXPECTED["head"]).n_charges == 11


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE dpcost_ledger SET body = replace(body, '\"epsilon\":0.5', '\"epsilon\":0.1') WHERE seq = 4",
        "UPDATE dpcost_ledger SET dataset = 'unused' WHERE seq = 4",
        "DELETE FROM dpcost_ledger WHERE seq = 42",
        "UPDATE dpcost_ledger_head SET n_entries = 41",
        "DELETE FROM dpcost_ledger_head",
    ],
)
def test_an_edited_one_is_not_taken_over(home, statement):
    for table, event in (("", "update"), ("", "delete"), ("_head", "delete")):
        run(home, f"DROP TRIGGER IF EXISTS dpcost_ledger{table}_no_{event}")
    run(home, statement)
    for use in (Ledger(home).show, lambda: Ledger(home).open_dataset("more", 1.0, 0.0)):
        with pytest.raises(LedgerBroken, match="nothing was taken over"):
            use()
    assert not Ledger(home).verify().ok
    assert run(home, "SELECT count(*) FROM sqlite_master WHERE name = 'dpcost_charges'") == [(0,)]


def test_a_backup_of_it_has_the_heads_of_then(tmp_path, home):
    Ledger(home).open_dataset("more", 1.0, 0.0)
    assert Ledger(home).backup(tmp_path / "later").ok
    assert Ledger(tmp_path / "other").restore(tmp_path / "later", noted=EXPECTED["head"]).n_datasets == 3


@pytest.mark.server
def test_one_in_postgresql_is_taken_over_at_once_by_several(home, new_schema):
    """The rows are those of the file; processes that open it together take it over once."""
    import psycopg
    from sqlalchemy import create_engine, insert

    url = new_schema.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url)
    with engine.begin() as connection:
        for table in (EARLIER, EARLIER_HEAD):
            table.create(connection)
            names = [column.name for column in table.c]
            rows = run(home, f"SELECT {', '.join(names)} FROM {table.name}")
            connection.execute(insert(table), [dict(zip(names, row, strict=True)) for row in rows])
    engine.dispose()
    name = Ledger(home, new_schema).location
    (home / "ledger.key").write_text((home / "ledger.key").read_text() + f"{name}\n")
    ledgers = [Ledger(home, new_schema) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        heads = set(pool.map(lambda ledger: ledger.verify(EXPECTED["head"]).head, ledgers))
    assert heads == {Ledger(home).verify().head}
    assert ledgers[0].verify(EXPECTED["head"]).n_charges == 10
    with psycopg.connect(new_schema) as connection:
        assert connection.execute("SELECT count(*) FROM dpcost_ledger_before").fetchone() == (42,)
