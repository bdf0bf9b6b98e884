"""Rates of counts in studies, releases and forecasts: an offset is declared, and has no coefficient."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from data.ledger import open_ledger
from tasks.release.record import record_of
from tests.tasks.analyst_tables import computed, drawn_from_a_seed, edited, release, reported, study_of

FORMULA = "visits ~ age + C(smoker) + exposure(days)"
BOUNDS = {"days": (1, 366), "age": (18, 110), "visits": (0, 200)}
CATEGORIES = {"smoker": ["no", "yes"]}


def patients(n=6000):
    rng = np.random.default_rng(3)
    days, age = rng.integers(7, 366, n), rng.integers(20, 91, n)
    smoker = rng.choice(CATEGORIES["smoker"], n)
    rate = np.exp(0.5 + 0.02 * (age - 50) + 0.5 * (smoker == "yes"))
    visits = rng.poisson(days / 365 * rate)
    return pd.DataFrame({"days": days, "age": age, "smoker": smoker, "visits": visits})


study = study_of(patients, bounds=BOUNDS, categories=CATEGORIES, formula=FORMULA, family="poisson")


def asked(folder, home, monkeypatch, estimator="preconditioned_glm"):
    monkeypatch.setattr("tasks.release.release.draw_release", drawn_from_a_seed)
    ledger = open_ledger(home)
    ledger.open_dataset("mine", 50.0, 1e-6)
    file = folder / "mine-release.toml"
    return release(ledger, estimator, folder / "table.csv", file, epsilon=20, delta=1e-7, interval=0.95)


def exact(table):
    return smf.poisson("visits ~ age + C(smoker)", table, offset=np.log(table.days.astype(float))).fit(disp=0)


def test_a_release_has_the_rates_of_statsmodels(tmp_path, home, monkeypatch):
    study(tmp_path)
    answer = asked(tmp_path, home, monkeypatch)
    expected = exact(patients())
    assert list(answer.estimate) == list(expected.params.index)
    for name, (low, high) in answer.interval.items():
        if name != "Intercept" or low is not None:  # some answers have none for it
            assert low < expected.params[name] < high
    record = record_of(answer)
    assert "mean exposure" in [each["label"] for each in record["release"]["events"]]
    _, *bounds = answer.plan.question.parameters["offset_bounds"]
    assert bounds == pytest.approx([-2.951, 2.951], abs=1e-3)


def test_rows_that_lack_a_cell_add_neither_counts_nor_exposure(tmp_path, home, monkeypatch):
    table = patients()
    table["age"] = table["age"].astype(object).where(np.arange(len(table)) % 2 == 0, "")
    edited(study(tmp_path, table), 'missing = "refuse"', 'missing = "drop"')
    answer, expected = asked(tmp_path, home, monkeypatch), exact(patients()[::2])
    given = {name: ends for name, ends in answer.interval.items() if ends[0] is not None}
    assert len(given) >= len(expected.params) - 1
    for name, (low, high) in given.items():
        assert low < expected.params[name] < high


def test_a_study_measures_the_coefficients_but_the_offset(tmp_path):
    file = study(tmp_path)
    spec, _, _ = computed(file, tmp_path)
    problem = spec.head_panel.problem
    assert problem.covariates[0] == "~ offset(log(days))"
    assert problem.traits.n_coefficients == 2
    page = reported(file, tmp_path)
    assert "of 2 coefficients" in page or "2 coefficients keep" in page
