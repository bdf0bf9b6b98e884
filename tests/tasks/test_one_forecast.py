"""Advice, a plan, its check, the page and a release foretell the same intervals of one question."""

import json

import numpy as np
import pytest

from flows.studies.find_study import find_study
from tasks.advice.forecasts import Forecast, release_of_advice
from tasks.advice.releases import forecast_release, simulate_release
from tasks.own_table.row_simulator import STUDIED
from tasks.protocol.foreseen import Forecasts
from tasks.protocol.plan_file import read_plan
from tasks.protocol.prepare import prepare_plan
from tasks.release.request import read_request
from tests.tasks.test_advise import small, study

PLAN = """[plan]
dataset = "mine"
study = "mine.toml"
epsilon = {epsilon}
delta = {delta}
[[question]]
name = "one"
formula = "cost ~ age + region + smoker + visits"
"""


@pytest.mark.parametrize("target", ["least squares", "robust"])
def test_five_commands_have_one_forecast(command_line, tmp_path, monkeypatch, few_tables, target):
    monkeypatch.chdir(tmp_path)
    options = {"formula": "cost ~ age + region + smoker + visits", "target": target}
    file = small(study(tmp_path, 4000, **options))
    status, out, err = command_line("advise", file, "--json")
    assert status == 0, err
    spec, advised = find_study(str(file)), json.loads(out)["releases"]
    for epsilon in (0.5, 3.0):
        delta = spec.headline.delta if not isinstance(spec.headline.delta, str) else 1 / 3600**2
        of_advice = advised[f"{epsilon:g}"]
        budget = {"epsilon": epsilon, "delta": delta, "interval": 0.95}
        release = forecast_release(
            read_request(tmp_path / "mine-release.toml", "preconditioned_regression", **budget)
        )
        (tmp_path / "plan.toml").write_text(PLAN.format(epsilon=epsilon, delta=delta))
        plan = read_plan(tmp_path / "plan.toml")
        page = Forecasts().of(plan, "one", epsilon)
        best = Forecast(
            estimator="preconditioned_regression",
            form=spec.estimators_of(spec.head_panel)[-1].form,
            steps=None,
            n=spec.headline.n,
            epsilon=epsilon,
            error=1.0,
            low=1.0,
            high=1.0,
            coordinates=5,
        )
        assert release_of_advice(spec, best) is not None
        of_plan = prepare_plan(plan)
        at = of_plan.split.epsilons["one"]
        planned = {name: middle for name, _, middle, _ in of_plan.forecasts["one"]["terms"]}
        assert planned == {
            name: None if np.isnan(middle) else middle
            for name, _, middle, _ in Forecasts().of(plan, "one", at).terms
        }
        assert repr(page.terms) == repr(release.terms)
        assert page.none == release.none
        assert (list(release.intervals), release.none) == (of_advice["intervals"], of_advice["none"])


def test_rows_of_an_own_table_are_those_of_a_study_of_effects(tmp_path):
    file = small(study(tmp_path, 400, response="cost"))
    spec = find_study(str(file))
    budget = {"epsilon": 1.0, "delta": 1e-7, "interval": 0.95}
    request = read_request(tmp_path / "mine-release.toml", "preconditioned_regression", **budget)
    simulators = spec.head_panel.problem.simulator(spec.guesses), simulate_release(request, 2).simulator
    assert [each.usual for each in simulators] == [STUDIED, STUDIED]
