"""Every kind of question has a forecast, and none without an interval is released without a typed word."""

import pytest

from data.ledger import open_ledger
from tasks.errors import SpecError
from tasks.protocol.plan_file import read_plan
from tasks.protocol.prepare import check_forecast, prepare_plan
from tests.builders import refused
from tests.tasks.protocol.trials import written

HEAD = """[plan]
dataset = "trial"
data = "trial.parquet"
study = "trial.toml"
epsilon = {epsilon}
delta = 1e-6
"""
KINDS = {
    "regression": 'formula = "systolic ~ C(arm) + baseline"',
    "logistic": 'formula = "adherent ~ age"\nfamily = "logistic"',
    "mean": 'mean = "baseline"',
    "table1": 'table1 = "arm ~ age + sex"',
    "no interval": 'mean = "age"\ninterval = 0',
}


@pytest.fixture
def plan(tmp_path, home, monkeypatch):
    monkeypatch.setattr("tasks.advice.releases._TABLES", 4)
    open_ledger(home).open_dataset("trial", 9.0, 1e-6)

    def make(questions, epsilon=4.0, n=3000):
        blocks = [f'[[question]]\nname = "{name}"\n{text}\n' for name, text in questions.items()]
        return read_plan(written(tmp_path, n, HEAD.format(epsilon=epsilon) + "".join(blocks)))

    return make


def test_every_kind_of_question_has_a_forecast(plan):
    prepared = prepare_plan(plan(KINDS))
    for name, forecast in prepared.forecasts.items():
        middles = [middle for _, _, middle, _ in forecast["terms"]]
        assert middles, name
        assert any(middles), name
    assert prepared.without_interval == []
    check_forecast(prepared, none_expected=False)
    requests = prepared.plan.requests
    assert {name: each.level for name, each in requests.items()} == dict.fromkeys(KINDS, 0.95) | {
        "no interval": None
    }


def test_the_forecast_of_a_baseline_table_is_that_of_its_release(plan):
    """The half-width of a mean is that of its sum of noise and sampling, within the spread of guesses."""
    one, other = (
        {
            term: middle
            for term, _, middle, _ in prepare_plan(plan({"table1": KINDS["table1"]}, epsilon)).forecasts[
                "table1"
            ]["terms"]
        }
        for epsilon in (0.5, 4.0)
    )
    assert set(one) == set(other) >= {"age, drug", "age, placebo", "sex=female, drug", "n, drug"}
    assert one["n, drug"] == pytest.approx(8 * other["n, drug"], rel=0.3)
    assert one["age, drug"] > 1.5 * other["age, drug"]


def test_a_plan_without_an_interval_is_refused_until_a_word_is_typed_and_the_route_is_named(plan):
    questions = {"by region": 'formula = "systolic ~ C(region)"', "mean": KINDS["mean"]}
    prepared = prepare_plan(plan(questions, epsilon=0.02, n=600))
    assert prepared.without_interval == ["by region"]
    assert any("table1 = 'region ~ systolic'" in note for note in prepared.table.notes)
    refused(
        lambda: check_forecast(prepared, none_expected=False), SpecError, "'by region'", "--none-expected"
    )
    check_forecast(prepared, none_expected=True)
