"""Analysis plans: what is refused by name, how a budget is split, and plans on data frames."""

import tomllib
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpalgos import Budget, InputError
from dpalgos.accounting.budget import concentrated_rho
from dpalgos.accounting.composition import Spending
from dpalgos.central.preconditioned.plan import ROBUST
from tasks.advice.releases import simulate_release
from tasks.protocol.plan import AnalysisPlan
from tasks.protocol.plan_file import read_plan
from tasks.protocol.questions import PlanQuestion
from tasks.protocol.split import Curve, likely_half_width, split_budget
from tests.builders import refused
from tests.tasks.analyst_tables import initialized

DELTA = 1e-6
TARGET = {"name": "primary", "formula": "y ~ x", "precision": {"x": 1.0}}
MEAN = {"name": "mean", "mean": "x"}


def plan_of(*questions, epsilon=2.0, tables=(), **plan):
    content = {"plan": {"epsilon": epsilon, "delta": DELTA, **plan}, "question": list(questions)}
    return AnalysisPlan.from_toml(content | ({"table": list(tables)} if tables else {}))


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
    stated = {key: value for key, value in stored.items() if value is not None}
    assert PlanQuestion.model_validate(stated).declared == stored


def test_what_is_no_plan_is_refused_and_a_wrong_question_is_named_once():
    refused(lambda: AnalysisPlan.from_toml("[plan"), InputError, "TOML")
    refused(plan_of, InputError, "[[question]]")
    refused(lambda: plan_of({**MEAN, "weight": 0}), InputError, "'weight'", hidden=("[[question]]",))
    for text in (5, None, b"[plan]", ["plan"]):
        refused(lambda text=text: AnalysisPlan.from_toml(text), InputError, "the plan must")


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
    plan = plan_of(TARGET, {**TARGET, "name": "second"}, {**TARGET, "name": "third"})
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
    plan = plan_of(TARGET, {**TARGET, "name": "second"})
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
        plan = plan_of(*({**TARGET, "name": f"{number}"} for number in range(targets)))
        exceeded = np.mean(widths > likely_half_width(plan, widths))
        assert exceeded == pytest.approx(0.1 / targets, abs=0.01)
    plan = plan_of(TARGET)
    widths[:200] = np.inf  # a twentieth of the tables has no interval
    assert np.mean(widths > likely_half_width(plan, widths)) == pytest.approx(0.1, abs=0.01)
    widths[:400] = np.inf
    assert likely_half_width(plan, widths) == inf


TEXT = Path(__file__).with_name("costs_plan.toml").read_text()
N = 3000
DECLARED = {
    "bounds": {"age": (20, 80), "cost": (0, 2000)},
    "levels": {"plan": ["a", "b"]},
    "center": {"age": 50, "cost": 700},
    "scale": {"age": 12, "cost": 200},
}


def frame(seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.uniform(30, 70, N), "plan": rng.choice(["a", "b"], N)})
    table["cost"] = 700 + 3 * (table.age - 50) + 50 * (table.plan == "b") + rng.normal(0, 190, N)
    return table.assign(visit=(rng.random(N) < 0.4).astype(int))


@pytest.fixture(scope="module")
def plan():
    return AnalysisPlan.from_toml(TEXT, n_rows=N, **DECLARED)


def test_a_plan_on_frames_is_forecast_without_data_and_released_within_one_budget(plan, few_tables):
    forecast = plan.forecast().set_index(["question", "term"])
    assert set(forecast.index.get_level_values(0)) == {"primary", "mean age", "visit"}
    row = forecast.loc["primary", "C(plan)[T.b]"]
    assert row["half_width"] <= row["likely_half_width"] <= row["target"] == 40
    answers = plan.release(frame(), random_state=0)
    assert list(answers) == ["primary", "unadjusted", "mean age", "visit"]
    events = [event for name in ("primary", "mean age", "visit") for event in answers[name].events]
    assert sum(event.rho for event in events) <= concentrated_rho(2.0, DELTA)
    low, high = answers["mean age"].interval[:, 0]
    assert low < frame().age.mean() < high
    assert "C(plan)[T.b]" in answers["unadjusted"].params.index


def test_a_nested_model_outside_the_span_of_its_release_is_refused_before_it(plan, few_tables):
    wrong = TEXT.replace('formula = "cost ~ C(plan)"', 'formula = "cost ~ I(age**2)"')
    other = AnalysisPlan.from_toml(wrong, n_rows=N, **DECLARED)
    refused(lambda: other.release(frame()), InputError, "I(age ** 2)")


def test_all_questions_of_a_plan_are_charged_to_one_budget(plan, few_tables, monkeypatch):
    budgets = []

    class Kept(Budget):
        def __init__(self, **keywords):
            super().__init__(**keywords)
            budgets.append(self)

    monkeypatch.setattr("tasks.protocol.plan.Budget", Kept)
    answers = plan.release(frame(), random_state=0)
    (budget,) = budgets
    released = {id(answers[name]) for name in ("primary", "mean age", "visit")}
    assert budget.spent_epsilon == pytest.approx(2.0, rel=0.01)
    assert len(released) == 3


def plan_on_age(question, n=1000, **guesses):
    content = {"plan": {"epsilon": 20.0, "delta": 1e-6}, "question": [{"name": "q", **question}]}
    bounds = {"age": (18, 90), "score": (0, 10), "y": (0, 2000)}
    return AnalysisPlan.from_toml(content, n_rows=n, bounds=bounds, guesses=guesses)


def test_the_guess_that_decides_most_of_the_spread_is_named():
    question = {"formula": "ill ~ age", "family": "logistic"}
    wide = plan_on_age(question, std={"age": 12.0}, explained=0.05).forecast().set_index("term").loc["age"]
    assert wide["guess"] == "mean of ill"
    stated = plan_on_age(question, std={"age": 12.0}, explained=0.05, mean={"ill": 0.2})
    narrow = stated.forecast().set_index("term").loc["age"]
    assert narrow["guess"] != "mean of ill"
    ratios = [each["likely_half_width"] / each["half_width"] for each in (wide, narrow)]
    assert ratios[1] < ratios[0]


def test_rows_of_a_plan_are_drawn_as_analyses_are_planned():
    """Effects are small, columns do not say the same, and a stated deviation keeps values off the bounds."""
    plan = plan_on_age({"formula": "y ~ age + score"}, std={"score": 2.0})
    plan.forecast()
    drawn = plan._simulated["q"].drawn
    assert np.median([each["explained"] for each in drawn]) < 0.3
    assert max(each["correlation"] for each in drawn) < 0.9
    assert all(1.25 < each["mean of score"] < 8.75 for each in drawn)


def test_a_question_in_a_file_is_forecast_as_on_a_frame(tmp_path, home):
    table = pd.DataFrame({"age": [20.0, 80.0] * 500, "y": [0.0, 2000.0] * 500, "score": [0.0, 10.0] * 500})
    bounds = {"age": (18, 90), "score": (0, 10), "y": (0, 2000)}
    study = initialized(tmp_path, table, bounds=bounds, response="y", target=ROBUST)
    assert "guesses" not in tomllib.loads(study.read_text())
    path = tmp_path / "plan.toml"
    head = '[plan]\ndataset = "d"\nstudy = "mine.toml"\nepsilon = 20.0\ndelta = 1e-6\n'
    path.write_text(f'{head}[[question]]\nname = "q"\nformula = "y ~ age + score"\n')
    in_file = simulate_release(read_plan(path).requests["q"], 20).half_widths(20.0)
    plan = plan_on_age({"formula": "y ~ age + score"})
    plan.forecast()
    on_frame = plan._simulated["q"].half_widths(20.0)
    assert in_file.keys() == on_frame.keys()
    for term, widths in in_file.items():
        assert widths == pytest.approx(on_frame[term])


def test_a_refused_plan_names_the_guesses_that_would_narrow_its_forecast(few_tables):
    plan = plan_on_age({"formula": "ill ~ age", "family": "logistic", "precision": {"age": 1e-4}})
    with pytest.raises(InputError, match=r"not stated: explained, effects, mean of age, ill, std of age$"):
        plan.forecast()


@pytest.mark.parametrize("formula", ["log(y + 1) ~ age", "I(y - score) ~ age"])
def test_formulas_with_computed_responses_are_forecast(formula, few_tables):
    forecast = plan_on_age({"formula": formula}, n=300).forecast()
    assert (forecast["half_width"] > 0).all()


@pytest.mark.parametrize("levels", [[0, 1], [0.0, 1.0], [False, True]])
def test_levels_of_a_plan_on_frames_may_be_of_any_type(levels, few_tables):
    content = {"plan": {"epsilon": 20.0, "delta": 1e-6}, "question": [{"name": "q"}]}
    content["question"][0]["formula"] = f"y ~ C(g, Treatment({levels[1]}))"
    plan = AnalysisPlan.from_toml(content, n_rows=300, bounds={"y": (0, 2000)}, levels={"g": levels})
    assert list(plan.forecast()["term"]) == [f"C(g, Treatment({levels[1]}))[T.{levels[0]}]"]


def test_a_wrong_guess_of_a_plan_is_refused_by_its_key():
    question = {"formula": "y ~ age"}
    refused(plan_on_age(question, mean={"weight": 1.0}).forecast, InputError, "'weight'")
    twice = plan_on_age(question, correlations=[("age", "age", 0.9)])
    refused(twice.forecast, InputError, "guesses.correlations", "'age'")
    refused(lambda: plan_on_age(question, means={"y": 0.1}), InputError, "guesses.means")


def test_the_mean_of_a_plan_is_of_numbers_and_its_refusal_quotes_no_cell(few_tables):
    plan = plan_on_age({"mean": "age"}, n=300)
    rows = pd.DataFrame({"age": np.linspace(20, 80, 300)})
    assert 18 <= plan.release(rows, random_state=0)["q"].estimate[0] <= 90
    for cell in ("secret", "40", np.nan, pd.NA, pd.Timestamp("2024-01-31"), 1j):
        odd = rows.astype(object)
        odd.loc[7, "age"] = cell
        refused(lambda odd=odd: plan.release(odd), InputError, "'age'", hidden=("secret", "40", "2024"))
    for odd in (rows[[]], {"age": rows["age"]}, None, rows.to_dict("records")):
        refused(lambda odd=odd: plan.release(odd), InputError)
    refused(lambda: plan.release(rows, random_state="a"), InputError, "random_state")


@pytest.mark.parametrize(("named", "changes"), ROWS["declared"])
def test_a_plan_on_frames_is_refused_by_what_is_wrong_in_it(named, changes, few_tables):
    settings = {"n_rows": 300, "bounds": {"age": (18, 90), "y": (0, 2000)}, **changes}
    question = {"name": "q", **settings.pop("question", {"mean": "age"})}
    content = {"plan": {"epsilon": 20.0, "delta": 1e-6}, "question": [question]}
    refused(lambda: AnalysisPlan.from_toml(content, **settings).forecast(), InputError, named)


def test_more_rows_narrow_the_forecast_of_a_plan(few_tables):
    few, many = (plan_on_age({"mean": "age"}, n=n).forecast()["half_width"][0] for n in (300, 30_000))
    assert many < few / 5


def test_what_frames_lack_is_refused(plan, few_tables):
    refused(
        lambda: AnalysisPlan.from_toml(TEXT.replace('"plan[T.b]"', "age")).forecast(),
        InputError,
        "n_rows",
        "none",
    )
    other = AnalysisPlan.from_toml(TEXT.replace('"plan[T.b]"', "weight"), n_rows=N, **DECLARED)
    refused(other.forecast, InputError, "'weight'", "C(plan)[T.b]")
    refused(lambda: plan.release(frame()[:-1]), InputError, "rows", str(N))
