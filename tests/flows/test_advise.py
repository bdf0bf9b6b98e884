"""`dpcost advise`: errors foreseen from declarations alone, and what it refuses."""

import json

import numpy as np
import pandas as pd
import pytest
from own_tables import computed, initialised

from data import own_table, user_table
from data.ledger import open_ledger
from flows.advise_cli import advise as command
from flows.find_study import find_study
from tasks import advise as advising
from tasks.advise import advise, release_costs
from tasks.faults import SpecError
from tasks.problems.declared_rows import Guesses

BOUNDS = {"age": (0, 120), "cost": (-1000, 5000), "visits": (0, 20)}
CATEGORIES = {"region": ["north", "south", "west"], "smoker": ["no", "yes"]}


def people(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(60, 25, n), 1, 119)
    visits = np.clip(rng.poisson(np.exp(0.5 + 0.01 * age)), 0, 20)
    cost = np.clip(2000 + 20 * (age - 60) + rng.normal(0, 600, n), -999, 4999)
    smoker = np.where(rng.random(n) < 0.5, "yes", "no")
    region = rng.choice(CATEGORIES["region"], n)
    return pd.DataFrame({"age": age, "visits": visits, "region": region, "smoker": smoker, "cost": cost})


def study(folder, table=None, **options):
    table = people() if table is None else table
    return initialised(folder, table, bounds=BOUNDS, categories=CATEGORIES, **options)


def with_guesses(file, text):
    file.write_text(f"{file.read_text()}\n[guesses]\nsource = 'common knowledge'\n{text}\n")
    return find_study(str(file))


def refusal(call, *arguments, **keywords):
    with pytest.raises(SpecError) as refused:
        call(*arguments, **keywords)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"response": "cost"},
        {"response": "smoker"},
        {"response": "visits", "family": "poisson"},
        {"response": "region", "family": "multinomial"},
        {"response": "cost", "user_id": "person"},
    ],
)
def test_no_task_touches_the_data(tmp_path, monkeypatch, home, options):
    table = people(400).assign(person=np.arange(400) // 2)
    file = study(tmp_path, table if "user_id" in options else table.drop(columns="person"), **options)
    (tmp_path / "table.csv").unlink()

    def trap(path):
        raise AssertionError("the data were opened")

    monkeypatch.setattr(user_table, "opened_table", trap)
    monkeypatch.setattr(own_table, "opened_table", trap)
    spec = find_study(str(file))
    advice = advise(spec, replicates=2)
    private = [each for each in advice.forecasts if each.private]
    assert {each.epsilon for each in private} == {0.5, 1.0, 3.0}
    assert all(each.refused or each.error > 0 for each in private)
    assert advice.best(max(spec.grid.n), 3.0) is not None


def test_the_error_is_foreseen_where_the_guesses_are_true(tmp_path, home):
    file = study(tmp_path, people().drop(columns=["region", "visits"]), response="cost")
    guessed = "correlation = 0.0\nexplained = 0.41\nstd = { cost = 780.0, age = 24.0 }\n"
    foreseen = advise(with_guesses(file, guessed), replicates=8)
    _, _, results = computed(file, tmp_path, replicates=8)
    rows = pd.read_parquet(results["path"])
    rows = rows[(rows["metric"] == "l2_error") & (rows["n"] == 3600) & (rows["epsilon"] == 0.5)]
    measured = rows.groupby("estimator")["value"].mean()
    assert set(measured.index) == {"preconditioned_regression", "adassp"}
    for name, error in measured.items():
        each = next(f for f in foreseen.forecasts if (f.name, f.n, f.epsilon) == (name, 3600, 0.5))
        assert each.error == pytest.approx(error, rel=0.4)


def test_less_noise_and_more_rows_give_smaller_errors(tmp_path):
    advice = advise(find_study(str(study(tmp_path, response="cost"))), replicates=5)
    error = {(f.n, f.epsilon): f.error for f in advice.forecasts if f.name == "preconditioned_regression"}
    assert error[3600, 3.0] < error[3600, 0.5] < error[250, 0.5]
    need = next(need for need in advice.needs if need.estimator == "preconditioned_regression")
    assert 0.05 < need.epsilon < 10
    assert need.n > 3600


def test_made_up_columns_have_the_declared_moments_and_bounds(tmp_path):
    file = study(tmp_path, response="cost")
    guessed = (
        "correlations = [['age', 'visits', 0.9]]\nmean = { visits = 2.0 }\nstd = { visits = 2.0 }\n"
        "shares = { region = [0.1, 0.2, 0.7] }"
    )
    spec = with_guesses(file, guessed)
    made = spec.head_panel.problem.made_up(50_000, spec.guesses, np.random.default_rng(0))
    assert made.column_names == ("age", "visits", "region=south", "region=west", "smoker=yes", "intercept")
    age, visits = made.X[:, 0] * 30 + 60, made.X[:, 1] * 5 + 10
    assert (age.min() >= 0, age.max() <= 120, visits.min() >= 0, visits.max() <= 20) == (True,) * 4
    np.testing.assert_allclose(
        [age.mean(), age.std(), visits.mean(), visits.std()], [60, 30, 2, 2], rtol=0.03
    )
    assert np.corrcoef(np.argsort(np.argsort(age)), np.argsort(np.argsort(visits)))[0, 1] > 0.8
    np.testing.assert_allclose(made.X[:, 2:4].mean(axis=0), [0.2, 0.7], atol=0.01)
    assert np.corrcoef(made.X[:, :5] @ np.linalg.lstsq(made.X, made.y, rcond=None)[0][:5], made.y)[
        0, 1
    ] ** 2 == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("mean = { agee = 3.0 }", "guesses must be about columns of the study, got 'agee'"),
        ("mean = { age = 130.0 }", "guesses.mean of 'age' must lie between its bounds 0 and 120, got 130"),
        ("shares = { region = [0.5, 0.5] }", "one number for each of its 3 categories, got 2"),
        ("correlation = 1.0", "guesses.correlation must"),
        ("explaned = 0.5", "guesses.explaned is not a known key; did you mean 'explained'?"),
    ],
)
def test_a_wrong_guess_is_one_sentence(tmp_path, text, sentence):
    file = study(tmp_path, people(200), response="cost")
    assert sentence in refusal(lambda: advise(with_guesses(file, text), replicates=2))


def test_studies_without_declared_rows_are_refused():
    assert "advice is for studies of a table" in refusal(advise, find_study("mean_comparison"))
    assert "advice is for kind = 'subsamples'" in refusal(advise, find_study("snp"))


def test_what_a_release_would_cost_is_read_from_the_ledger(tmp_path, home):
    spec = find_study(str(study(tmp_path, response="cost")))
    ledger = open_ledger(home)
    ledger.open_dataset("mine", 1.0, 1e-6)
    costs = {(cost.estimator, cost.epsilon): cost for cost in release_costs(spec, ledger, "mine")}
    one = costs["preconditioned_regression", 0.5]
    assert (one.spent, one.budget) == (0.0, 1.0)
    assert 0.3 < one.spent_after < 0.7
    assert costs["preconditioned_regression", 3.0].spent_after > 1.0


def test_the_command_prints_one_json_document_without_nan(tmp_path, home, capsys, monkeypatch):
    monkeypatch.setattr(advising, "BUDGETS", (0.5, 2.0))
    command(str(study(tmp_path, people(200), response="cost")), None, 2, None, True)
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"forecasts", "wanted", "needs", "costs", "guesses"}
    assert told["guesses"] == Guesses().model_dump(mode="json")
    command(str(tmp_path / "mine.toml"), 0.1, 2, None, False)
    words = capsys.readouterr().out
    assert "no data were read" in words
    assert "for an error of 0.1" in words
    assert "dpcost ledger open mine" in words
    assert refusal(command, "housing", -1.0, 2, None, False).startswith("--error must be a positive number")
