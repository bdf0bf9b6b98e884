"""Analysis plans: what is refused by name, how a budget is split, and which rows forecasts simulate."""

import tomllib
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpalgos import InputError
from dpalgos.accounting.budget import Spending, concentrated_rho
from dpalgos.central.preconditioned.plan import ROBUST
from tasks.advice.releases import simulate_release
from tasks.protocol.plan_file import read_plan
from tasks.protocol.questions import PlanQuestion, QuestionSet
from tasks.protocol.split import Curve, likely_half_width, split_budget
from tests.builders import refused
from tests.tasks.analyst_tables import initialized

DELTA = 1e-6
TARGET = {"name": "primary", "formula": "y ~ x", "precision": {"x": 1.0}}
MEAN = {"name": "mean", "mean": "x"}


def other(name):
    """Return a question that has one covariate more than `TARGET`."""
    return {**TARGET, "name": name, "formula": f"{TARGET['formula']} + z_{name}"}


def plan_of(*questions, epsilon=2.0, tables=(), **plan):
    content = {"plan": {"epsilon": epsilon, "delta": DELTA, **plan}, "question": list(questions)}
    return QuestionSet.read(content | ({"table": list(tables)} if tables else {}))


ROWS = tomllib.loads(Path(__file__).with_name("refused_questions.toml").read_text())


@pytest.mark.parametrize("row", ROWS["refused"], ids=str)
def test_a_wrong_question_is_refused_by_name(row):
    changes, *named = row
    usual = {"target": TARGET, "mean": MEAN, "other": {}}
    questions = [{**usual[kind], **changes[kind]} for kind in usual if kind in changes]
    first = [] if "target" in changes else [TARGET]
    refused(lambda: plan_of(*first, *questions), InputError, *named)


@pytest.mark.parametrize("row", ROWS["all_at_once"], ids=str)
def test_wrong_values_and_contradictions_are_each_named_at_once(row):
    questions, plan, *named = row
    refused(lambda: plan_of(*questions, **plan), InputError, *named)


STORED = (
    {"name": "a", "formula": "y ~ x", "precision": {"x": 1.0}, "test": ["x = 0"], "weights": ""},
    {"name": "b", "mean": ["x", "z"], "weight": 2.0, "interval": 0.9},
    {
        "name": "c",
        "columns": {"x": ["x"], "y": "y"},
        "estimator": "adassp",
        "bounds": {"response_bound": 3.0},
    },
    {"name": "d", "survival": "Surv(t, e) ~ g", "params": {"chain": 2}, "form": "one"},
    {"name": "e", "table1": "g ~ x", "interval": None},
    {"name": "f", "submodel": "a", "formula": "y ~ 1"},
)


@pytest.mark.parametrize("stored", STORED, ids=lambda each: each["name"])
def test_a_ledger_stores_the_fields_that_a_question_states(stored):
    """Registered plans of earlier versions are compared with these."""
    stated = {key: 0 if value is None else value for key, value in stored.items()}
    assert PlanQuestion.model_validate(stated).declared == stored


def test_what_is_no_plan_is_refused_and_a_wrong_question_is_named_once():
    refused(lambda: QuestionSet.read("[plan"), InputError, "TOML")
    refused(plan_of, InputError, "[[question]]")
    refused(lambda: plan_of({**MEAN, "weight": 0}), InputError, "'weight'", hidden=("[[question]]",))
    for text in (5, None, b"[plan]", ["plan"]):
        refused(lambda text=text: QuestionSet.read(text), InputError, "the plan must")


TERMS = ["C(arm)[T.b]", "Q('my age')", "x:C(arm)[T.b]", "x"]


@pytest.mark.parametrize(("written", "term"), ROWS["targets"].items())
def test_targets_take_names_in_quotes_and_interactions_in_any_order(written, term):
    (question,) = plan_of({**TARGET, "precision": {written: 1.0}}).questions
    known = question.with_terms(TERMS, ["arm"], ["arm", "my age", "x"])
    assert known.precision == {term: 1.0}
    twice = question.model_copy(update={"precision": {written: 1.0, term: 2.0}})
    refused(lambda: twice.with_terms(TERMS, ["arm"], ["arm", "my age", "x"]), InputError, "already")


def curve(width_at_one, terms=("x",)):
    """Return a Gaussian release whose half-widths are in proportion to 1/ε."""

    def cost(epsilon):
        return Spending(rho=concentrated_rho(epsilon, DELTA), pure_epsilon=inf)

    widths = lambda epsilon: dict.fromkeys(terms, np.full(20, width_at_one / epsilon))  # noqa: E731
    return Curve(half_widths=widths, cost=cost)


def rhos(split):
    return {name: concentrated_rho(epsilon, DELTA) for name, epsilon in split.epsilons.items()}


def test_targets_get_the_smallest_epsilon_and_the_rest_is_shared_by_weights():
    plan = plan_of(TARGET, {**MEAN, "weight": 1}, {**MEAN, "name": "other", "weight": 3})
    split = split_budget(plan, {"primary": curve(0.5), "mean": curve(1.0), "other": curve(1.0)})
    assert not split.refusal
    assert 0.5 <= split.epsilons["primary"] <= 0.5 * 1.03
    assert rhos(split)["other"] / rhos(split)["mean"] == pytest.approx(3, rel=0.01)
    assert 0.99 * plan.epsilon < split.total <= plan.epsilon
    assert sum(rhos(split).values()) <= concentrated_rho(plan.epsilon, DELTA)


def test_without_weights_nothing_is_spent_beyond_the_targets():
    split = split_budget(plan_of(TARGET), {"primary": curve(0.5)})
    assert split.total == pytest.approx(split.epsilons["primary"], rel=1e-3)


def test_a_split_that_cannot_be_met_says_what_would():
    plan = plan_of(TARGET, other("second"), other("third"))
    curves = {"primary": curve(1.9), "second": curve(0.5), "third": curve(1.0)}
    refusal = split_budget(plan, curves).refusal
    assert all(word in refusal for word in ("'primary'", "'second'", "'third'", "leaving out 'primary'"))
    needed = float(refusal.partition("they need epsilon ")[2].partition(";")[0])
    assert not split_budget(
        plan_of(*(each.declared for each in plan.questions), epsilon=needed), curves
    ).refusal
    assert split_budget(
        plan_of(*(each.declared for each in plan.questions), epsilon=0.97 * needed), curves
    ).refusal


def with_floor(lowest, none=0):
    """Return a question with a lowest half-width, which some of 60 tables have without an interval."""

    def widths(epsilon):
        at = np.full(60, lowest + 1 / epsilon)
        at[: none * (epsilon > 1)] = inf
        return {"x": at}

    return Curve(half_widths=widths, cost=curve(1.0).cost)


def test_a_target_that_no_epsilon_meets_is_named_with_the_smallest_that_can_be_met():
    split = split_budget(plan_of(TARGET), {"primary": with_floor(1.5)})
    assert "'primary'" in split.refusal
    assert "any epsilon" in split.refusal
    assert "inf" not in split.refusal.replace("infeasible", "")
    smallest = float(split.refusal.partition("is ")[2].partition(" for")[0])
    assert smallest == pytest.approx(1.5 + 1 / 32, rel=0.02)
    feasible = plan_of({**TARGET, "precision": {"x": smallest}}, epsilon=40)
    assert not split_budget(feasible, {"primary": with_floor(1.5)}).refusal


@pytest.mark.parametrize("none", [1, 14, 20])
@pytest.mark.parametrize("target", [50.0, 5.0, 1.0])
def test_a_target_that_is_met_at_some_epsilon_is_never_called_infeasible(none, target):
    """A few tables without an interval at larger ε change nothing; nor do many, since smaller ε is tried."""
    questions = [
        {**TARGET, "name": f"{number}", "precision": {"x": target * (number + 1)}} for number in range(3)
    ]
    plan = plan_of(*questions, epsilon=3.0)
    split = split_budget(plan, {each["name"]: with_floor(0.0, none) for each in questions})
    assert not split.refusal
    assert split.epsilons["0"] <= 2.05 / target


def test_a_target_beyond_the_whole_budget_is_refused_with_what_can_be_met_there():
    refusal = split_budget(plan_of(TARGET), {"primary": curve(4.0)}).refusal
    smallest = float(refusal.partition("can be met is ")[2].partition(" for")[0])
    assert smallest == pytest.approx(2.0, rel=0.03)
    assert not split_budget(
        plan_of({**TARGET, "precision": {"x": smallest}}), {"primary": curve(4.0)}
    ).refusal


def test_charges_of_a_plan_count_in_its_split_and_are_not_left_out_by_its_advice():
    plan = plan_of(TARGET, other("second"))
    spent = curve(1.0).cost(1.5)
    split = split_budget(plan, {"second": curve(1.0)}, {"primary": 1.5}, spent)
    assert not split.refusal
    assert split.total == pytest.approx((spent + curve(1.0).cost(split.epsilons["second"])).epsilon(DELTA))
    refusal = split_budget(plan, {"second": curve(1.9)}, {"primary": 1.5}, spent).refusal
    assert "epsilon 1.5 is charged" in refusal
    assert "leaving out 'primary'" not in refusal
    assert not split_budget(plan_of(TARGET, epsilon=1.0), {}, {"primary": 1.5}, spent).refusal
    full = split_budget(plan_of(TARGET, MEAN, epsilon=1.5), {"mean": curve(1.0)}, {"primary": 1.5}, spent)
    assert "nothing is left" in full.refusal


def test_an_estimator_that_may_fail_is_refused_by_name():
    may_fail = replace(curve(1.0), cost=lambda epsilon: replace(curve(1.0).cost(epsilon), failure=1e-7))
    split = split_budget(plan_of(TARGET), {"primary": may_fail})
    assert "'primary' may fail" in split.refusal


def test_targets_that_leave_nothing_for_the_others_are_refused():
    split = split_budget(plan_of(TARGET, MEAN), {"primary": curve(2.0), "mean": curve(1.0)})
    assert "left for 'mean'" in split.refusal


def test_pure_noise_next_to_gaussian_noise_stays_within_the_budget():
    pure = Curve(
        half_widths=lambda epsilon: {"x": np.full(20, 1 / epsilon)},
        cost=lambda epsilon: Spending(rho=epsilon**2 / 2, pure_epsilon=epsilon),
    )
    plan = plan_of(TARGET, MEAN)
    split = split_budget(plan, {"primary": curve(0.5), "mean": pure})
    assert split.epsilons["mean"] > 0
    assert split.total <= plan.epsilon


def test_all_targets_together_are_met_on_nine_tables_in_ten():
    widths = np.exp(np.random.default_rng(0).normal(0, 0.2, 4000))
    for targets in (1, 2):
        plan = plan_of(*(other(f"{number}") for number in range(targets)))
        exceeded = np.mean(widths > likely_half_width(plan, widths))
        assert exceeded == pytest.approx(0.1 / targets, abs=0.01)
    plan = plan_of(TARGET)
    widths[:200] = np.inf  # a twentieth of the tables has no interval
    assert np.mean(widths > likely_half_width(plan, widths)) == pytest.approx(0.1, abs=0.01)
    widths[:400] = np.inf
    assert likely_half_width(plan, widths) == inf


@pytest.fixture
def simulated(tmp_path, home):
    """A function that simulates the tables of a question about age, score and y, under guesses."""
    table = pd.DataFrame({"age": [20.0, 80.0] * 500, "y": [0.0, 2000.0] * 500, "score": [0.0, 10.0] * 500})
    bounds = {"age": (18, 90), "score": (0, 10), "y": (0, 2000)}
    study = initialized(tmp_path, table.assign(ill=[0, 1] * 500), bounds=bounds, response="y", target=ROBUST)
    declared = study.read_text()
    path = tmp_path / "plan.toml"

    def simulated(question, guesses=""):
        study.write_text(f"{declared}\n[guesses]\n{guesses}")
        head = '[plan]\ndataset = "d"\nstudy = "mine.toml"\nepsilon = 20.0\ndelta = 1e-6\n'
        path.write_text(f'{head}[[question]]\nname = "q"\n{question}\n')
        return simulate_release(read_plan(path).requests["q"], 20)

    return simulated


def test_the_guess_that_decides_most_of_the_spread_is_named(simulated):
    question, guesses = 'formula = "ill ~ age"\nfamily = "logistic"', "std = { age = 12.0 }\nexplained = 0.05"
    wide = simulated(question, guesses)
    assert wide.forecast(20.0).guess == "mean of ill"
    narrow = simulated(question, f"{guesses}\nmean = {{ ill = 0.2 }}")
    assert narrow.forecast(20.0).guess != "mean of ill"
    spreads = [np.log(each.half_widths(20.0)["age"]).std() for each in (wide, narrow)]
    assert spreads[1] < spreads[0]


def test_rows_of_a_plan_are_drawn_as_analyses_are_planned(simulated):
    """Effects are small, columns do not say the same, and a stated deviation keeps values off the bounds."""
    drawn = simulated('formula = "y ~ age + score"', "std = { score = 2.0 }").drawn
    assert np.median([each["explained"] for each in drawn]) < 0.3
    assert max(each["correlation"] for each in drawn) < 0.9
    assert all(1.25 < each["mean of score"] < 8.75 for each in drawn)
