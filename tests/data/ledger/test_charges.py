import os
import signal
import threading

import numpy as np
import pytest

from data.errors import AnswerLost, LedgerError
from data.ledger import PrivacyCost, open_ledger
from tests.builders import refused
from tests.data.ledger.charging import COST, charged


def test_a_charge_is_released_once_and_replayed(ledger, place, fits, ask):
    charge = charged(ledger, ask(), COST, fits)
    assert charge.answer is None
    payload = {"estimate": [0.1 + 0.2, -0.0, 1e-300], "seed": None}
    assert ledger.store(charge, payload) == payload
    again = charged(place.ledger(), ask(), COST, fits)
    assert again.answer == payload
    assert str(again.answer["estimate"]) == str(payload["estimate"])
    assert again.id == charge.id
    assert len(ledger.account("patients").charges) == 1


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


CHANGES = [{"estimator": "dp_sparse_mean"}, {"epsilon": 0.31}, {"delta": 2e-6}, {"content": "b"}]
CHANGES += [{"parameters": {"value_bound": 2.0, "shrinkage": None}}]


@pytest.mark.parametrize("change", CHANGES)
def test_another_question_has_another_id(ask, change):
    assert ask(**change).id != ask().id


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


def test_an_answer_that_ends_in_an_error_stays_charged_and_lets_others_in(place, ledger, fits, ask):
    with pytest.raises(ArithmeticError), ledger.answering(ask(), COST, fits):
        raise ArithmeticError
    with pytest.raises(AnswerLost):
        charged(place.ledger(), ask(), COST, fits)
    assert len(ledger.account("patients").charges) == 1


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


def test_an_answer_of_an_earlier_version_is_replayed(ledger, fits, ask):
    former = ask(parameters={"x": ["b", "a"]})
    ledger.store(charged(ledger, former, COST, fits), {"estimate": 1})
    now = ask("c", parameters={"x": ["a", "b"]}, exact="now", former=former)
    assert charged(ledger, now, COST, fits).answer == {"estimate": 1}
    other = ask("c", parameters={"x": ["a"]}, exact="now", former=ask(parameters={"x": ["a"]}))
    assert charged(ledger, other, COST, fits).answer is None  # its content is known by its former name


def test_the_environment_names_the_place(monkeypatch, tmp_path):
    monkeypatch.setenv("DPCOST_HOME", str(tmp_path))
    monkeypatch.delenv("DPCOST_LEDGER_URL", raising=False)
    assert open_ledger().location == str(tmp_path / "ledger.sqlite")
    pytest.importorskip("psycopg")
    monkeypatch.setenv("DPCOST_LEDGER_URL", "postgresql://me:secret@host:5433/books")
    assert open_ledger().location == "host:5433/books"
