"""Reserves: all charged or none, drawn once, given back only before noise may have been drawn."""

import pytest

from data.errors import AnswerLost, BudgetExhausted, LedgerError
from data.ledger import PrivacyCost
from tests.builders import refused
from tests.data.ledger.charging import COST, charged

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


def test_all_questions_are_reserved_or_none(ledger, fits, ask, two):
    with pytest.raises(BudgetExhausted):
        ledger.reserve("patients", [*two, (ask(epsilon=0.75), COST)], fits)
    assert states(ledger) == []


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
