"""Answers that are held until a second person approves them."""

import pytest

from data.ledger import LedgerError


def test_an_answer_is_held_until_another_person_approves_it(ledger, fits, ask):
    charge = ledger.charge(ask(), fits, hold_by="ann")
    with pytest.raises(LedgerError):
        ledger.approve(charge.id, "ben")  # there is no answer yet
    assert ledger.store_release(charge.id, {"estimate": 1.0}).is_held
    assert ledger.charge(ask(), fits).is_held  # asking without hold opens nothing
    assert ledger.show("patients")[0]["charges"][0]["state"] == "held"
    with pytest.raises(LedgerError, match="ann"):
        ledger.approve(charge.id, "ann")
    assert not ledger.approve(charge.id, "ben").is_held
    shown = ledger.charge(ask(), fits)
    assert (shown.is_held, shown.release) == (False, {"estimate": 1.0})
    with pytest.raises(LedgerError, match="already"):
        ledger.approve(charge.id, "ben")
    assert ledger.verify().ok


def test_an_answer_that_is_not_held_has_nothing_to_approve(ledger, fits, ask):
    charge = ledger.charge(ask(), fits)
    ledger.store_release(charge.id, {"estimate": 1.0})
    with pytest.raises(LedgerError):
        ledger.approve(charge.id, "ben")
    assert not ledger.charge(ask(), fits, hold_by="ann").is_held
