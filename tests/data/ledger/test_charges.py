import subprocess
import threading
from dataclasses import replace

import numpy as np
import pytest

from data.errors import AnswerLost, AnswerPending, LedgerError
from data.ledger import PrivacyCost, charges, open_ledger
from data.ledger.charges import Charge, Holder, start_time
from tests.data.ledger.charging import COST


@pytest.fixture
def dead(monkeypatch):
    """Make every process that held a charge appear dead."""

    def die():
        monkeypatch.setattr(charges, "_boot_id", lambda: "the next boot")

    return die


def test_a_charge_is_released_once_and_replayed(ledger, place, fits, ask):
    charge = ledger.charge(ask(), COST, fits)
    assert charge.answer is None
    payload = {"estimate": [0.1 + 0.2, -0.0, 1e-300], "seed": None}
    assert ledger.store(charge, payload) == payload
    again = place.ledger().charge(ask(), COST, fits)
    assert again.answer == payload
    assert str(again.answer["estimate"]) == str(payload["estimate"])
    assert again.id == charge.id
    assert len(ledger.charges("patients")) == 1


def test_an_answer_is_written_once(ledger, fits, ask):
    charge = ledger.charge(ask(), COST, fits)
    ledger.store(charge, {"estimate": 1.5})
    ledger.store(charge, {"estimate": 1.5})
    with pytest.raises(LedgerError, match="another answer"):
        ledger.store(charge, {"estimate": 2.5})
    assert ledger.charge(ask(), COST, fits).answer == {"estimate": 1.5}
    assert ledger.verify().n_releases == 1


def test_an_unknown_charge_is_refused(ledger, ask):
    unknown = Charge(ask(), 1, COST, "", Holder.here())
    with pytest.raises(LedgerError, match=r"no charge '.*-1'"):
        ledger.store(unknown, {})


def test_a_budget_is_opened_once(ledger):
    assert ledger.open_dataset("patients", 1, 1e-5) == ledger.budget("patients")
    assert ledger.verify().n_datasets == 1
    for epsilon, delta in ((2, 1e-5), (0.5, 1e-5), (1, 1e-6)):
        with pytest.raises(LedgerError, match="epsilon 1 and delta 1e-05"):
            ledger.open_dataset("patients", epsilon, delta)


def test_a_dataset_must_be_opened(place, fits, ask):
    ledger = place.ledger()
    for use in (
        lambda: ledger.charge(ask(), COST, fits),
        lambda: ledger.show("patients"),
        lambda: ledger.budget("patients"),
    ):
        with pytest.raises(LedgerError, match="dpcost ledger open patients"):
            use()
    assert ledger.show() == []


def test_an_error_of_the_arithmetic_charges_nothing(ledger, ask):
    with pytest.raises(ZeroDivisionError):
        ledger.charge(ask(), COST, lambda previous, new: 1 / 0)
    with pytest.raises(TypeError, match="must raise to refuse"):
        ledger.charge(ask(), COST, lambda previous, new: True)
    assert ledger.charges("patients") == []
    assert ledger.verify().n_charges == 0


def test_the_arithmetic_sees_what_was_charged(ledger, fits, ask):
    cost = PrivacyCost(rho=0.02, pure_epsilon=0.2, failure=1e-9, unit="user", facts={"events": [1.5]})
    first = ledger.charge(ask(), cost, fits)
    seen = []
    new = ledger.charge(ask(epsilon=0.1), COST, lambda *charges: seen.append(charges) or fits(*charges))
    assert seen == [([first], new)]
    assert (first.cost, new.cost) == (cost, COST)
    assert ledger.charges("patients") == [first, new]


@pytest.mark.parametrize(
    "change",
    [
        {"estimator": "dp_sparse_mean"},
        {"epsilon": 0.31},
        {"delta": 2e-6},
        {"parameters": {"value_bound": 2.0, "shrinkage": None}},
        {"content": "b"},
    ],
)
def test_another_question_has_another_id(ask, change):
    assert ask(**change).id != ask().id


def test_the_same_question_has_the_same_id(ask):
    written = ask(parameters={"a": 1, "b": [2.0, {"c": True}]})
    assert written.id == ask(parameters={"b": (np.int64(2), {"c": True}), "a": np.float32(1)}).id
    assert written.id != ask(parameters={"a": True, "b": [2.0, {"c": True}]}).id
    assert written.id == ask(parameters=written.parameters).id


def test_a_lost_answer_is_paid_again_only_on_demand(ledger, fits, ask, dead):
    first = ledger.charge(ask(), COST, fits)
    dead()
    with pytest.raises(AnswerLost, match=r"epsilon 0\.3, delta 1e-06"):
        ledger.charge(ask(), COST, fits)
    second = ledger.charge(ask(), COST, fits, again=True)
    assert second.id == f"{first.question.id}-2"
    assert [charge.epsilon for charge in ledger.charges("patients")] == [0.3, 0.3]
    ledger.store(second, {"estimate": 2})
    assert ledger.charge(ask(), COST, fits, again=True).answer == {"estimate": 2}
    assert [charge["state"] for charge in ledger.show("patients")[0]["charges"]] == ["lost", "released"]
    assert ledger.verify().ok


def test_nobody_else_may_answer(ledger, fits, ask, dead):
    charge = ledger.charge(ask(), COST, fits)
    dead()
    with pytest.raises(LedgerError, match="alone may answer"):
        ledger.store(charge, {})


def test_the_thread_that_was_charged_does_not_wait_for_itself(ledger, fits, ask):
    ledger.charge(ask(), COST, fits)
    with pytest.raises(AnswerLost):
        ledger.charge(ask(), COST, fits)


def test_another_thread_waits_for_the_answer(place, ledger, fits, ask):
    charge = ledger.charge(ask(), COST, fits)
    found = []
    waiting = threading.Thread(target=lambda: found.append(place.ledger().charge(ask(), COST, fits)))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    ledger.store(charge, {"estimate": 3})
    waiting.join(10)
    assert found[0].answer == {"estimate": 3}


def test_the_waiting_ends(place, ledger, fits, ask):
    ledger.charge(ask(), COST, fits)
    caught = []

    def wait():
        with pytest.raises(AnswerPending, match=r"0\.1 s") as error:
            place.ledger(answer_timeout=0.1).charge(ask(), COST, fits, again=True)
        caught.append(error.value)

    waiting = threading.Thread(target=wait)
    waiting.start()
    waiting.join(10)
    assert caught
    assert len(ledger.charges("patients")) == 1


def test_a_charge_of_another_machine_counts_as_lost_after_a_while(place, ledger, fits, ask, monkeypatch):
    first = ledger.charge(ask(), COST, fits)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(charges.socket, "gethostname", lambda: "elsewhere")
        other = place.ledger(answer_timeout=0.1)
        with pytest.raises(AnswerLost):
            other.charge(ask(), COST, fits)
        second = other.charge(ask(), COST, fits, again=True)
        other.store(second, {"estimate": 2})
    with pytest.raises(LedgerError, match="taken for lost"):
        ledger.store(first, {"estimate": 1})
    assert ledger.charge(ask(), COST, fits).answer == {"estimate": 2}


def test_a_process_is_told_from_a_later_one_and_from_a_dead_one():
    with subprocess.Popen(["sleep", "60"]) as process:
        here = Holder.here()
        other = replace(here, pid=process.pid, start_time=start_time(process.pid))
        assert other.may_answer()
        assert not other.is_this_process
        for change in ({"start_time": here.start_time + "0"}, {"boot_id": "an earlier boot"}):
            assert not replace(other, **change).may_answer()
        process.kill()
        process.wait()
        assert not other.may_answer()


def test_what_is_shown_is_plain_data(ledger, fits, ask):
    ledger.open_dataset("others", 2.0, 0.0)
    charge = ledger.charge(ask(), COST, fits)
    others, patients = ledger.show("others")[0], ledger.show("patients")[0]
    assert ledger.show() == [patients, others]
    assert others["charges"] == others["contents"] == []
    assert (patients["epsilon"], patients["epsilon_charged"], patients["delta_charged"]) == (1.0, 0.3, 1e-6)
    (shown,) = patients["charges"]
    assert (shown["id"], shown["estimator"], shown["answer"]) == (charge.id, "dp_mean", None)
    assert shown["parameters"] == {"value_bound": 2}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a positive finite number, got 0; pass"),
        ({"epsilon": float("inf")}, "epsilon must be a positive finite number, got inf"),
        ({"epsilon": float("nan")}, "epsilon must be a positive finite number, got nan"),
        ({"epsilon": "1"}, "epsilon must be a positive finite number, got '1'"),
        ({"epsilon": True}, "epsilon must be a positive finite number, got True"),
        ({"delta": 1}, "delta must be at least 0 and below 1, got 1; pass"),
        ({"delta": -1e-9}, "delta must be at least 0 and below 1, got -1e-09"),
        ({"dataset": " a"}, "dataset must be 1 to 100 visible characters .* got ' a'; choose another name"),
        ({"dataset": ""}, "dataset must be"),
        ({"dataset": "a\u200bb"}, "dataset must be"),
        ({"parameters": {"a": [1, float("nan")]}}, "parameters must be made of .*; convert"),
        ({"parameters": {"X": np.ones(2)}}, "parameters must be made of .*; convert .*tolist"),
    ],
)
def test_a_bad_request_is_one_sentence(ask, change, message):
    with pytest.raises(LedgerError, match=message) as caught:
        ask(**change)
    assert "\n" not in str(caught.value)


def test_a_bad_answer_is_refused(ledger, fits, ask):
    charge = ledger.charge(ask(), COST, fits)
    with pytest.raises(LedgerError, match="answer must"):
        ledger.store(charge, {"estimate": float("inf")})
    with pytest.raises(LedgerError, match=r"answer .*; convert") as caught:
        ledger.store(charge, {"estimate": np.array([1.23456])})
    assert "1.23" not in str(caught.value)
    assert ledger.verify().n_releases == 0


def test_names_of_all_languages_are_kept(place, fits, ask):
    ledger = place.ledger()
    ledger.open_dataset("Größe 数 'x'", 1.0, 1e-5)
    ledger.charge(ask(dataset="Größe 数 'x'", parameters={"column": "\x00\ud800"}), COST, fits)
    assert ledger.show()[0]["charges"][0]["parameters"] == {"column": "\x00\ud800"}
    assert ledger.verify().ok


def test_the_environment_names_the_place(monkeypatch, tmp_path):
    monkeypatch.setenv("DPCOST_HOME", str(tmp_path))
    monkeypatch.delenv("DPCOST_LEDGER_URL", raising=False)
    assert open_ledger().location == str(tmp_path / "ledger.sqlite")
    pytest.importorskip("psycopg")
    monkeypatch.setenv("DPCOST_LEDGER_URL", "postgresql://me:secret@host:5433/books")
    assert open_ledger().location == "host:5433/books"
