"""An analyst's tables of users, whom a study protects whole, and of rates, whose offset is declared."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from data.columns import Declaration
from data.ledger import open_ledger
from data.tables import reading
from data.tables.declared import count_users, read_declared
from flows.studies.find_study import find_study
from tasks.release.record import record_of
from tasks.release.request import checked_request
from tasks.report.coefficients import nested_record, text_of
from tests.builders import declared_column, visits
from tests.tasks.analyst_tables import computed, drawn_from_a_seed, edited, release, reported, study_of

study = study_of(visits, bounds={"dose": (-2, 2), "weight": (-2, 2), "effect": (-4, 4)}, user_id="patient")


def test_init_asks_who_a_user_is_and_writes_no_id(tmp_path):
    file = study(tmp_path, response="effect")
    spec = find_study(str(file))
    table = spec.analyst_table
    assert (table.user_id, table.users, table.units) == ("patient", 60, (60, "users"))
    assert max(spec.grid.n) == 54
    assert spec.head_panel.problem.covariates == ("dose", "weight")
    assert "p001" not in file.read_text()
    release = checked_request(tmp_path / "mine-release.toml")[0]
    assert (release.columns.user_id, release.columns.x) == ("patient", ("dose", "weight"))


@pytest.mark.parametrize("response", ["", "effect"])
def test_users_are_drawn_with_all_their_rows_and_count_once(tmp_path, home, response):
    file = study(tmp_path, response=response)
    edited(file, "n = [9, 15, 54]", "n = [60]")
    edited(file, "n = 54", "n = 60")
    _, table, results = computed(file, tmp_path, replicates=3)
    rows = pd.read_parquet(results.path).query("metric == 'l2_error'")
    assert table.unit == "user"
    assert (table.n_rows, table.rows_read) == (60, 60)
    # All users: the non-private answer is that of all, though those of many visits hold most of the rows.
    error = rows[rows["estimator"] == ("ols" if response else "sample_mean")]["value"]
    assert (error < 1e-9).all()
    assert set(rows[rows["estimator"] == "zero"]["value"] > 0.1) == {True}
    private = rows[rows["privacy_model"] == "user"]
    assert set(private["status"]) <= {"ok", "refused"}
    assert set(private[private["form"].str.contains("clipped") | bool(response)]["status"]) == {"ok"}


@pytest.mark.parametrize("ids", [lambda ids: ids, lambda ids: ids.str[1:].astype(int)])
def test_a_user_of_several_pieces_of_a_file_is_one_user(tmp_path, monkeypatch, home, ids):
    monkeypatch.setattr(reading, "BATCH_ROWS", 7)
    table = visits()
    table.assign(patient=ids(table["patient"])).to_parquet(tmp_path / "table.parquet")
    assert count_users(tmp_path / "table.parquet", "patient") == 60
    about = {"columns": (declared_column("dose", lower=-2, upper=2),), "missing": "refuse"}
    declaration = Declaration(n_rows=len(table), user_id="patient", n_users=60, **about)
    read = read_declared(tmp_path / "table.parquet", declaration)
    assert len(set(zip(read.table["patient"], table["patient"], strict=True))) == 60


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


study_of_rates = study_of(patients, bounds=BOUNDS, categories=CATEGORIES, formula=FORMULA, family="poisson")


def rates(folder, home, monkeypatch, estimator="preconditioned_glm"):
    monkeypatch.setattr("tasks.release.release.draw_release", drawn_from_a_seed)
    ledger = open_ledger(home)
    ledger.open_dataset("mine", 50.0, 1e-6)
    file = folder / "mine-release.toml"
    return release(ledger, estimator, folder / "table.csv", file, epsilon=20, delta=1e-7, interval=0.95)


def exact(table):
    return smf.poisson("visits ~ age + C(smoker)", table, offset=np.log(table.days.astype(float))).fit(disp=0)


def test_a_release_has_the_rates_of_statsmodels(tmp_path, home, monkeypatch):
    study_of_rates(tmp_path)
    answer = rates(tmp_path, home, monkeypatch)
    expected = exact(patients())
    assert list(answer.estimate) == list(expected.params.index)
    for name, (low, high) in answer.interval.items():
        if name != "Intercept" or low is not None:  # some answers have none for it
            assert low < expected.params[name] < high
    record = record_of(answer)
    assert "mean exposure" in [each["label"] for each in record["release"]["events"]]
    assert record["release"]["model"]["offset"] == "log(days)"
    assert "offset log(days)" in record["release"]["methods"]
    nested = nested_record(record, "visits ~ age + exposure(days)")
    assert "offset(log(days))" in nested["deployment"]["product"]["name"]
    assert "log(days)" in text_of([record])
    bounds = answer.plan.question.parameters["keywords"]["offset_bounds"]
    assert bounds == pytest.approx([-2.951, 2.951], abs=1e-3)
    assert answer.plan.question.parameters["keywords"]["count_bound"] == BOUNDS["visits"][1]


def test_rows_that_lack_a_cell_add_neither_counts_nor_exposure(tmp_path, home, monkeypatch):
    table = patients()
    table["age"] = table["age"].astype(object).where(np.arange(len(table)) % 2 == 0, "")
    edited(study_of_rates(tmp_path, table), 'missing = "refuse"', 'missing = "drop"')
    answer, expected = rates(tmp_path, home, monkeypatch), exact(patients()[::2])
    given = {name: ends for name, ends in answer.interval.items() if ends[0] is not None}
    assert len(given) >= len(expected.params) - 1
    for name, (low, high) in given.items():
        assert low < expected.params[name] < high


def test_a_study_measures_the_coefficients_but_the_offset(tmp_path):
    file = study_of_rates(tmp_path)
    spec, _, _ = computed(file, tmp_path)
    problem = spec.head_panel.problem
    assert problem.covariates[0] == "~ offset(log(days))"
    assert problem.traits.n_coefficients == 2
    assert {
        each.params["count_bound"]
        for each in spec.estimators_of(spec.head_panel)
        if each.name == "preconditioned_glm"
    } == {BOUNDS["visits"][1]}
    assert "the noise of privacy" in reported(file, tmp_path)
