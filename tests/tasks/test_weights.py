"""Weights of rows at the command line: study, release, plan and forecast."""

import contextlib

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels import api as sm

import dpalgos.formula
import tasks.protocol.prepare
import tasks.release.rows
from data.errors import LedgerError
from data.ledger import open_ledger
from data.tables.streams import StreamedTable
from flows.studies.find_study import find_study
from tasks.problems.registered_table import RegisteredTable
from tasks.protocol.plan_file import read_plan
from tasks.protocol.prepare import prepare_plan, reserve_plan
from tasks.release.record import record_of
from tests.tasks.analyst_tables import (
    advice_of,
    computed,
    drawn_from_a_seed,
    edited,
    initialized,
    refusal,
    release,
)
from tests.tasks.protocol.trials import simulate_on_few

BOUNDS = {"age": (20, 90), "dose": (0, 4), "cost": (-10, 20), "visits": (0, 60)}
NAMES = {"linear": "preconditioned_regression", "logistic": "preconditioned_glm"}
NAMES["poisson"] = "preconditioned_glm"
FITS = {"linear": sm.families.Gaussian, "logistic": sm.families.Binomial, "poisson": sm.families.Poisson}
RESPONSES = {"linear": "cost", "logistic": "ill", "poisson": "visits"}


def survey(n=3000, seed=0):
    """People of a survey: the effect of a dose depends on what weights depend on."""
    rng = np.random.default_rng(seed)
    is_sampled_often = rng.random(n) < 0.5
    table = pd.DataFrame({"age": rng.uniform(20, 90, n).round(1), "dose": rng.uniform(0, 4, n).round(2)})
    predictor = 0.02 * (table.age - 55) + np.where(is_sampled_often, 0.1, 0.6) * table.dose - 0.7
    table["cost"] = (predictor + rng.normal(0, 1, n)).clip(-10, 20).round(3)
    table["ill"] = (rng.random(n) < 1 / (1 + np.exp(-predictor))).astype(int)
    table["visits"] = rng.poisson(np.exp(predictor))
    table["w"] = np.where(is_sampled_often, 0.5, 2.0) * rng.uniform(0.8, 1.2, n)
    return table.assign(person=np.arange(n) // 2)


def study(folder, table=None, family="linear", **options):
    response = RESPONSES[family]
    table = (survey() if table is None else table)[["age", "dose", response, "w", "person"]]
    special = {"weights": "w", "max_weight": 3.0, **options}
    if "formula" not in special:
        special |= {"response": response}
    if not special.get("user_id") and "formula" not in special:
        table = table.drop(columns="person")
    return initialized(folder, table, bounds=BOUNDS, family=family, **special)


def released(folder, home, family="linear", epsilon=1e6, **options):
    ledger = open_ledger(home)
    with contextlib.suppress(LedgerError):
        ledger.open_dataset("mine", 1e9, 1e-5)
    files = folder / "table.csv", folder / "mine-release.toml"
    return release(ledger, NAMES[family], *files, epsilon=epsilon, delta=1e-6, **options)


def weighted(family, table, weights):
    formula = f"{RESPONSES[family]} ~ age + dose"
    return smf.glm(formula, table, family=FITS[family](), var_weights=weights).fit()


def of_one_setting(file, n_rows, n):
    """Let a study of so many rows have one size and the budget 3."""
    sizes = f"{n_rows // 16}, {n_rows // 4}, {n_rows - n_rows // 10}"
    edited(file, f"n = [{sizes}]\nepsilon = [0.5, 1.0, 3.0]", f"n = [{n}]\nepsilon = [3.0]")
    edited(file, f"n = {n_rows - n_rows // 10}\nepsilon = 0.5", f"n = {n}\nepsilon = 3.0")
    return file


@pytest.mark.parametrize("user_id", ["", "person"])
@pytest.mark.parametrize("family", ["linear", "logistic", "poisson"])
def test_a_study_measures_weighted_fits(tmp_path, home, family, user_id):
    n = 1500 if user_id else 3000
    spec, _, results = computed(
        of_one_setting(study(tmp_path, family=family, user_id=user_id), n, n), tmp_path
    )
    problem = spec.head_panel.problem
    assert problem.covariates == ("age", "dose")
    rows = pd.read_parquet(results.path)
    assert set(rows["status"]) == {"ok"}
    error = rows[rows["metric"] == "l2_error"].groupby("estimator")["value"].mean()
    assert error["ols" if family == "linear" else "glm"] < 1e-8
    assert error[NAMES[family]] < error["zero"] / 2
    coef = problem.full_answer(problem.in_units(survey())).coef
    expected = weighted(family, survey(), survey().w / (2 if user_id else 1)).params
    units = problem.columns()
    scale = units[-1].scale if family == "linear" else 1.0
    for j, name in enumerate(["age", "dose"]):
        assert coef[j] * scale / units[j].scale == pytest.approx(expected[name], rel=1e-6)


@pytest.mark.parametrize("user_id", ["", "person"])
@pytest.mark.parametrize("family", ["linear", "logistic", "poisson"])
def test_a_release_without_noise_is_the_weighted_regression(tmp_path, home, monkeypatch, family, user_id):
    monkeypatch.setattr("tasks.release.release.draw_release", drawn_from_a_seed)
    study(tmp_path, family=family, user_id=user_id)
    answer, table = released(tmp_path, home, family), survey()
    expected = weighted(family, table, table.w).params
    for name in ("age", "dose"):
        assert answer.estimate[name] == pytest.approx(expected[name], abs=2e-4)
    model = record_of(answer)["release"]
    assert "Rows have the weights w, clipped to 0 to 3." in model["methods"]
    assert f"private for each {'user' if user_id else 'row'} at" in model["methods"]
    assert {"what": "weights w", "value": "0 to 3", "source": "declared in the study file"} in model["public"]


@pytest.mark.parametrize("user_id", ["", "person"])
def test_a_release_is_that_of_the_library_with_the_same_seed(tmp_path, home, monkeypatch, user_id):
    monkeypatch.setattr("tasks.release.release.draw_release", drawn_from_a_seed)
    table, formula = survey(), "cost ~ age + dose"
    study(tmp_path, table, formula=formula, user_id=user_id)
    answer = released(tmp_path, home, epsilon=2.0, interval=0.95)
    fitted = dpalgos.formula.ols(
        formula,
        pd.read_csv(tmp_path / "table.csv"),
        bounds={name: BOUNDS[name] for name in ("age", "dose", "cost")},
        epsilon=2.0,
        delta=1e-6,
        random_state=np.random.default_rng(0),
        weights="w",
        max_weight=3.0,
        user=user_id or None,
        interval_target="least squares",
    )
    limits = fitted.conf_int()
    assert np.isfinite(limits.loc["dose"]).all()
    for name in ("age", "dose"):
        np.testing.assert_allclose(answer.interval[name], limits.loc[name], rtol=1e-8)


def test_a_row_without_a_weight_is_treated_as_one_without_another_cell(tmp_path, home, monkeypatch):
    monkeypatch.setattr("tasks.release.release.draw_release", drawn_from_a_seed)
    table, is_missing = survey(), np.arange(3000) % 3 == 0
    file = study(tmp_path, table.assign(w=table.w.where(~is_missing)))
    assert "column w" in refusal(released, tmp_path, home)
    edited(file, 'missing = "refuse"', 'missing = "drop"')
    answer, kept = released(tmp_path, home), table[~is_missing]
    expected = weighted("linear", kept, kept.w).params
    assert answer.estimate["dose"] == pytest.approx(expected["dose"], abs=2e-4)


def test_weights_are_clipped_to_their_public_range(tmp_path, home, monkeypatch):
    monkeypatch.setattr("tasks.release.release.draw_release", drawn_from_a_seed)
    table = survey()
    table.loc[:20, "w"], table.loc[21:40, "w"] = 1e9, -5.0
    study(tmp_path, table)
    answer, clipped = released(tmp_path, home), table.w.clip(0, 3)
    assert answer.estimate["dose"] == pytest.approx(
        weighted("linear", table, clipped).params["dose"], abs=2e-4
    )


def test_other_weights_are_another_question(tmp_path, home):
    table = survey(400)
    study(tmp_path, table)
    first, again = released(tmp_path, home), released(tmp_path, home)
    assert again.replayed
    assert not first.replayed
    study(tmp_path, table.assign(w=np.where(np.arange(400) == 7, table.w * (1 + 1e-15), table.w)), force=True)
    assert "weights" in str(first.plan.question.parameters["rows"])
    assert not released(tmp_path, home).replayed


def test_no_formula_takes_the_weights_as_a_covariate(tmp_path, home):
    file = study(tmp_path, formula="cost ~ age + dose")
    edited(file, "cost ~ age + dose", "cost ~ age + dose + w")
    assert "'w'" in refusal(find_study, str(file))


def test_forecasts_count_the_design_effect(tmp_path, home, few_tables):
    guesses = '[guesses]\nexplained = 0.3\ncorrelation = 0.0\nmean = {{ "w" = 1.0 }}\nstd = {{ "w" = {} }}\n'
    errors = []
    for std in (0.05, 1.3):
        file = of_one_setting(study(tmp_path, force=True), 3000, 2700)
        one = advice_of(file, guesses.format(std)).best(2700, 3.0)
        errors.append((one.error, one.half_width))
    (even, narrow), (uneven, wide) = errors
    assert even < uneven
    assert narrow < wide


def test_advice_names_weights_that_are_not_guessed(tmp_path):
    spec = find_study(str(study(tmp_path)))
    problem = spec.head_panel.problem
    assert isinstance(problem, RegisteredTable)
    assert {"mean of w", "std of w"} <= set(problem.simulator(spec.guesses).left_open())


PLAN = """[plan]
dataset = "mine"
study = "mine.toml"
epsilon = 8.0
delta = 1e-6
[[question]]
name = "dose"
formula = "cost ~ age + dose"
interval = 0.95
"""


@pytest.mark.parametrize("user_id", ["", "person"])
def test_a_plan_takes_the_weights_of_its_study(tmp_path, home, monkeypatch, user_id):
    monkeypatch.setattr(tasks.protocol.prepare, "simulate_release", simulate_on_few)
    study(tmp_path, user_id=user_id)
    (tmp_path / "plan.toml").write_text(PLAN)
    ledger = open_ledger(home)
    ledger.open_dataset("mine", 20.0, 1e-5)
    prepared = prepare_plan(read_plan(tmp_path / "plan.toml"), ledger.account("mine"))
    terms = {name: middle for name, _, middle, _ in prepared.forecasts["dose"]["terms"]}
    assert 0 < terms["dose"] < 2
    reserve_plan(prepared, ledger)
    (charge,) = ledger.account("mine").charges
    assert charge.question.parameters["keywords"]["max_weight"] == 3.0
    assert charge.question.parameters["rows"]["weights"] == "w"


def test_weights_of_a_streamed_file_are_those_of_a_held_one(tmp_path, home, monkeypatch):
    monkeypatch.setattr("tasks.release.release.draw_release", drawn_from_a_seed)
    study(tmp_path)
    held = released(tmp_path, home, epsilon=3.0)
    monkeypatch.setattr(tasks.release.rows, "HELD_NUMBERS", 10)
    streamed = released(tmp_path, home, epsilon=3.0 + 1e-12)
    assert isinstance(streamed.plan.rows.X, StreamedTable)
    assert streamed.estimate == pytest.approx(held.estimate, rel=1e-6)
