"""What is charged, reserved, replayed and lost; what was edited or put back is found, and never shown."""

import os
import random
import shutil
import signal
import sqlite3
import threading
import tomllib
from pathlib import Path

import numpy as np
import pytest

from data.errors import AnswerLost, BudgetExhausted, LedgerBroken, LedgerError, LedgerUnavailable
from data.ledger import PrivacyCost
from data.ledger.book import START
from tests.builders import refused
from tests.data.ledger.charging import COST, charged


def test_an_answer_is_written_once(ledger, fits, ask):
    charge = charged(ledger, ask(), COST, fits)
    ledger.store(charge, {"estimate": 1.5})
    ledger.store(charge, {"estimate": 1.5})
    refused(lambda: ledger.store(charge, {"estimate": 2.5}), LedgerError, "another answer")
    assert charged(ledger, ask(), COST, fits).answer == {"estimate": 1.5}
    assert ledger.verify().n_releases == 1


def test_a_budget_is_opened_once(ledger):
    assert ledger.open_dataset("patients", 1, 1e-5) == ledger.account("patients").budget
    assert ledger.verify().n_datasets == 1
    for epsilon, delta in ((2, 1e-5), (0.5, 1e-5), (1, 1e-6)):
        with pytest.raises(LedgerError, match="epsilon 1 and delta 1e-05"):
            ledger.open_dataset("patients", epsilon, delta)


def test_an_error_of_the_arithmetic_charges_nothing(ledger, ask):
    with pytest.raises(ZeroDivisionError):
        charged(ledger, ask(), COST, lambda previous, new: 1 / 0)
    with pytest.raises(TypeError, match="must raise to refuse"):
        charged(ledger, ask(), COST, lambda previous, new: True)
    assert ledger.account("patients").charges == []
    assert ledger.verify().n_charges == 0


def test_the_arithmetic_sees_what_was_charged(ledger, fits, ask):
    cost = PrivacyCost(rho=0.02, pure_epsilon=0.2, failure=1e-9, unit="user", facts={"events": [1.5]})
    first = charged(ledger, ask(), cost, fits)
    seen = []
    new = charged(ledger, ask(epsilon=0.1), COST, lambda *charges: seen.append(charges) or fits(*charges))
    assert seen == [([first], new)]
    assert (first.cost, new.cost) == (cost, COST)
    assert ledger.account("patients").charges == [first, new]


def test_the_same_question_has_the_same_id(ask):
    written = ask(parameters={"a": 1, "b": [2.0, {"c": True}]})
    assert written.id == ask(parameters={"b": (np.int64(2), {"c": True}), "a": np.float32(1)}).id
    assert written.id != ask(parameters={"a": True, "b": [2.0, {"c": True}]}).id
    assert written.id == ask(parameters=written.parameters).id


def test_a_lost_answer_is_paid_again_only_on_demand(ledger, fits, ask):
    first = charged(ledger, ask(), COST, fits)
    refused(lambda: charged(ledger, ask(), COST, fits), AnswerLost, "epsilon 0.3, delta 1e-06")
    second = charged(ledger, ask(), COST, fits, again=True)
    assert second.id == f"{first.question.id}-2"
    assert [charge.epsilon for charge in ledger.account("patients").charges] == [0.3, 0.3]
    refused(lambda: ledger.store(first, {"estimate": 1}), LedgerError, "not the last one")
    ledger.store(second, {"estimate": 2})
    assert charged(ledger, ask(), COST, fits, again=True).answer == {"estimate": 2}
    assert [charge["state"] for charge in ledger.show("patients")[0]["charges"]] == ["no answer", "released"]
    assert ledger.verify().ok


def test_who_asks_while_an_answer_is_drawn_waits_for_it(place, ledger, fits, ask):
    found = []
    waiting = threading.Thread(target=lambda: found.append(charged(place.ledger(), ask(), COST, fits)))
    with ledger.answering(ask(), COST, fits) as (charge, account):
        assert account.charges == [charge]
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        ledger.store(charge, {"estimate": 3})
    waiting.join(10)
    assert found[0].answer == {"estimate": 3}
    assert len(ledger.account("patients").charges) == 1


def test_answers_about_other_data_do_not_wait(place, ledger, fits, ask):
    ledger.open_dataset("others", 1.0, 1e-5)
    found, question = [], ask("b", "others")
    there = lambda: found.append(charged(place.ledger(), question, COST, fits))  # noqa: E731
    other = threading.Thread(target=there, daemon=True)
    with ledger.answering(ask(), COST, fits):
        other.start()
        other.join(20)
        assert [charge.answer for charge in found] == [None]


def test_a_killed_process_lets_the_next_one_in_and_stays_charged(place, ledger, fits, ask):
    child = os.fork()
    if child == 0:
        with place.ledger().answering(ask(), COST, fits):
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with pytest.raises(AnswerLost):
        charged(ledger, ask(), COST, fits)
    assert len(ledger.account("patients").charges) == 1


def test_the_same_question_about_other_bits_is_another_one(ledger, fits, ask):
    ledger.store(charged(ledger, ask(epsilon=0.1, exact="before"), COST, fits), {"estimate": 1})
    mended = charged(ledger, ask(epsilon=0.1, exact="mended"), COST, fits)
    assert mended.answer is None
    ledger.store(mended, {"estimate": 2})
    for exact, answer in (("before", 1), ("mended", 2)):
        assert charged(ledger, ask(epsilon=0.1, exact=exact), COST, fits).answer == {"estimate": answer}
    assert ledger.account("patients").charges[1].question.exact == "mended"


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


TAMPERING = tomllib.loads(Path(__file__).with_name("tampering.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("statement", "problem"), TAMPERING["tampering"])
def test_tampering_is_found_and_closes_the_ledger(written, place, fits, ask, statement, problem):
    place.run(statement)
    report = place.ledger().verify()
    assert not report.ok
    assert any(problem in each for each in report.problems), report.problems
    refused(place.ledger().show, LedgerBroken, "dpcost ledger verify")
    refused(lambda: charged(place.ledger(), ask(epsilon=0.01), COST, fits), LedgerError)


def test_a_damaged_byte_is_found_or_harmless_and_shows_nothing_stored(written, place, fits, ask):
    if place.url:
        pytest.skip("about the file")
    path, kept = place.home / "ledger.sqlite", place.home / "kept"
    shutil.copy(path, kept)
    content, chance = kept.read_bytes(), random.Random(0)
    texts = (b"31337.625", b"a stored answer", b"value_bound", b"released", b"patients", b"pending")
    ends = [content.index(text) + k for text in texts for k in (0, len(text) - 1)]
    for where in [*chance.sample(range(len(content)), 60), *ends]:
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
    reading = () if replaced else (lambda: written.fingerprinter({}),)
    for use in (*reading, written.show, written.verify, lambda: charged(written, ask(), COST, fits)):
        with pytest.raises(LedgerError, match=message):
            use()
    assert key.exists() == replaced


NAMED = PrivacyCost(rho=COST.rho, unit="row", facts={"reserve": "plan/one"})


@pytest.fixture
def two(ask):
    return [(ask(epsilon=0.25), NAMED), (ask(epsilon=0.5), COST)]


def states(ledger):
    return [charge.state for charge in ledger.account("patients").charges]


def test_a_reserve_is_charged_once_and_counts_from_the_start(ledger, fits, ask, two):
    ledger.reserve("patients", two, fits)
    ledger.reserve("patients", two, fits)
    assert states(ledger) == ["reserved", "reserved"]
    refused(lambda: charged(ledger, ask(epsilon=0.75), COST, fits), BudgetExhausted)
    charge = charged(ledger, two[0][0], NAMED, fits)
    assert states(ledger) == ["pending", "reserved"]
    with pytest.raises(AnswerLost):
        charged(ledger, two[0][0], NAMED, fits)
    ledger.store(charge, {"estimate": 1.0})
    assert states(ledger) == ["released", "reserved"]
    assert ledger.verify().ok


def test_only_what_was_not_begun_is_given_back(ledger, fits, ask, two):
    first, second = ledger.reserve("patients", two, fits).charges
    charged(ledger, two[1][0], COST, fits)
    refused(lambda: ledger.reserve("patients", [], fits, give_back=[second.id]), LedgerError, "given back")
    account = ledger.reserve("patients", [], fits, give_back=[first.id])
    assert [charge.id for charge in account.charges] == [second.id]
    assert states(ledger) == ["pending"]
    again = charged(ledger, two[0][0], NAMED, fits)
    assert (again.attempt, again.state) == (2, "pending")
    assert ledger.verify().ok


def test_a_reserve_of_another_cost_is_not_drawn(ledger, fits, two):
    ledger.reserve("patients", two, fits)
    other = PrivacyCost(rho=2 * COST.rho, unit="row")
    refused(lambda: charged(ledger, two[0][0], other, fits), LedgerError, "plan/one")
    assert states(ledger) == ["reserved", "reserved"]


def test_a_backup_from_before_a_draw_does_not_replace_the_ledger(ledger, fits, two, tmp_path):
    ledger.reserve("patients", two, fits)
    ledger.backup(tmp_path / "backup")
    charged(ledger, two[0][0], NAMED, fits)
    refused(lambda: ledger.restore(tmp_path / "backup"), LedgerError, "lacks charges")
    assert states(ledger) == ["pending", "reserved"]


def test_the_unit_of_a_budget_is_declared_once_and_sealed(ledger, place):
    cohort = ledger.open_dataset("cohort", 1, 1e-6, "person")
    assert cohort.unit == "person"
    assert (
        ledger.open_dataset("cohort", 1, 1e-6) == ledger.open_dataset("cohort", 1, 1e-6, "person") == cohort
    )
    refused(lambda: ledger.open_dataset("cohort", 1, 1e-6, "clinic"), LedgerError, "the unit 'person'")
    refused(lambda: ledger.open_dataset("patients", 1, 1e-5, "person"), LedgerError, "no unit")
    place.run("UPDATE dpcost_budgets SET unit = 'clinic' WHERE name = 'cohort'")
    assert not ledger.verify().ok


def test_a_ledger_of_version_3_0_is_read_and_gets_the_column_of_units(ledger, place, fits, ask):
    charged(ledger, ask(), COST, fits)
    place.run("ALTER TABLE dpcost_budgets DROP COLUMN unit")
    assert ledger.account("patients").budget.unit == ""
    assert ledger.verify().ok
    assert ledger.open_dataset("cohort", 1, 1e-6, "person").unit == "person"
    assert ledger.verify().ok
