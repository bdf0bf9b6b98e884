"""Charges that reserve several attempts: written down before each, and settled by the end of the charge."""

import os
import subprocess
import sys
import textwrap

import pytest

from data.ledger import BudgetExhausted, Fingerprint, Ledger, LedgerError, Request, Verdict

ATTEMPTS = [
    {"epsilon": epsilon, "rho": epsilon**2 / 20, "pure_epsilon": None, "failure": 0.0}
    for epsilon in (0.25, 0.5, 1.0)
]


def request(question="a", epsilon=1.0, attempts=ATTEMPTS):
    accounting = {**attempts[-1], "attempts": attempts} if attempts else {}
    return Request(
        "patients", Fingerprint("a" * 64, "b" * 64), "box_mean", {"q": question}, epsilon, 0.0, accounting
    )


def fits(previous, new):
    spent = sum(charge.epsilon for charge in previous)
    return Verdict(spent + new.epsilon <= 1.0, spent, 0.0)


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.open_dataset("patients", 1.0, 1e-6)
    return ledger


def cost(ledger):
    return [charge.epsilon for charge in ledger.charges("patients")]


def refuse(ledger, charge, *numbers):
    for number in numbers:
        with pytest.raises(LedgerError):
            ledger.begin_attempt(charge.id, number)


def test_all_attempts_are_reserved_until_an_answer_settles_them(ledger):
    charge = ledger.charge(request(), fits)
    ledger.begin_attempt(charge.id, 1)
    ledger.begin_attempt(charge.id, 2)
    assert cost(ledger) == [1.0]
    with pytest.raises(BudgetExhausted):
        ledger.charge(request("b", 0.25, []), lambda *given: Verdict(sum(cost(ledger)) < 1, 1.0, 0.0))
    answered = ledger.store_release(charge.id, {"estimate": 1.0})
    assert answered.epsilon == 0.5
    assert answered.accounting["rho"] == ATTEMPTS[1]["rho"]
    assert cost(ledger) == [0.5]
    assert ledger.charge(request(), fits).epsilon == 0.5
    assert ledger.charge(request("b", 0.5, []), fits).release is None
    assert ledger.verify().ok


def test_a_held_answer_costs_all_attempts_until_it_is_approved(ledger):
    """The number of attempts is a part of the answer."""
    charge = ledger.charge(request(), fits, hold_by="ann")
    ledger.begin_attempt(charge.id, 1)
    assert ledger.store_release(charge.id, {"estimate": 1.0}).epsilon == 1.0
    assert cost(ledger) == [1.0]
    assert "made" not in ledger.charges("patients")[0].accounting
    ledger.approve(charge.id, "ben")
    assert cost(ledger) == [0.25]


def test_an_answer_that_is_given_up_costs_what_was_begun(ledger):
    charge = ledger.charge(request(), fits)
    ledger.begin_attempt(charge.id, 1)
    ledger.give_up(charge.id, "a test")
    assert cost(ledger) == [0.25]
    refuse(ledger, charge, 2)


def test_attempts_begin_in_turn_and_none_beyond_the_charge_or_after_the_answer(ledger):
    charge = ledger.charge(request(), fits)
    for number in (1, 2, 3):
        refuse(ledger, charge, 0, number - 1, number + 1, number + 2)
        ledger.begin_attempt(charge.id, number)
    refuse(ledger, charge, 4)
    ledger.store_release(charge.id, {"estimate": 1.0})
    refuse(ledger, charge, 3, 4)
    assert cost(ledger) == [1.0]
    assert ledger.verify().ok


def test_a_charge_without_attempts_has_none_to_begin(ledger):
    refuse(ledger, ledger.charge(request("b", 0.5, []), fits), 1)


def test_a_killed_process_leaves_what_it_began_and_no_more(ledger, tmp_path):
    code = """
        import os, sys
        from pathlib import Path
        sys.path.insert(0, sys.argv[2])
        from test_attempts import Ledger, fits, request
        ledger = Ledger(Path(sys.argv[1]))
        charge = ledger.charge(request(), fits)
        ledger.begin_attempt(charge.id, 1)
        os.kill(os.getpid(), 9)
    """
    words = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path), os.path.dirname(__file__)]
    assert subprocess.run(words, check=False).returncode == -9
    assert cost(ledger) == [1.0]  # reserved until somebody ends it
    assert ledger.charge(request("b", 0.5, []), fits).epsilon == 0.5
    assert cost(ledger) == [0.25, 0.5]
    with pytest.raises(LedgerError, match="again"):
        ledger.charge(request(), fits)
    assert ledger.verify().ok
