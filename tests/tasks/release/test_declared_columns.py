"""Releases of columns as a study file declares them: public units, categories, an intercept, and back."""

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from data.errors import DataError
from data.ledger import open_ledger
from dpalgos import InputError
from flows.cli.release import text_of_release
from flows.studies.find_study import find_study
from tasks.errors import SpecError
from tasks.own_table.file_units import AT_CENTERS
from tasks.own_table.row_design import ReleaseColumns, row_design
from tasks.release.record import record_of, write_record
from tasks.release.request import checked_request, read_request
from tasks.release.rows import rows_of
from tasks.report.coefficients import nested_record, text_of
from tasks.run.datasets import analyst_parquet
from tests import builders
from tests.builders import BOUNDS, CATEGORIES, refused
from tests.tasks.analyst_tables import (
    completed,
    drawn_from_a_seed,
    edited,
    init_study,
    initialized,
    release,
    study_of,
)

QUESTIONS = tomllib.loads(Path(__file__).with_name("questions.toml").read_text(encoding="utf-8"))
COLUMNS = ("age", "region", "smoker")
COST = ReleaseColumns(x=COLUMNS, y="cost")


def people(n=4000):
    return builders.people(n).drop(columns="person")


@pytest.fixture
def ledger(home):
    found = open_ledger(home)
    found.open_dataset("mine", 1000.0, 1e-6)
    return found


def asked(folder, ledger, estimator="preconditioned_regression", epsilon=100.0, **keywords):
    config = folder / "mine-release.toml"
    return release(ledger, estimator, folder / "table.csv", config, epsilon=epsilon, delta=1e-7, **keywords)


study = study_of(people, bounds=BOUNDS, categories=CATEGORIES)


def test_a_regression_comes_back_in_the_units_of_the_file(tmp_path, ledger, monkeypatch):
    monkeypatch.setattr("tasks.release.release.draw_release", drawn_from_a_seed)
    study(tmp_path, response="cost")
    answer = asked(tmp_path, ledger, interval=0.95)
    assert list(answer.estimate) == ["age", "region=south", "region=west", "smoker=yes", AT_CENTERS]
    fitted = smf.ols("cost ~ region + smoker + I(age - 60)", people()).fit().params
    at_centers = fitted.to_numpy() @ [1, 1 / 3, 1 / 3, 1 / 2, 0]  # all categories count alike
    exact = [fitted.iloc[-1], *fitted.iloc[1:-1], at_centers]
    # A hundredth of the response's and the covariates' spread.
    np.testing.assert_allclose([*answer.estimate.values()], exact, atol=15.0)
    assert answer.estimate["age"] == pytest.approx(exact[0], abs=0.5)
    for name, value in answer.estimate.items():
        low, high = answer.interval[name]
        assert low is None or low < value < high


def test_a_mean_is_released_within_the_declared_bounds(tmp_path, ledger, monkeypatch):
    monkeypatch.setattr("tasks.release.release.draw_release", drawn_from_a_seed)
    study(tmp_path, response="cost")
    file, config = tmp_path / "table.csv", tmp_path / "mine-release.toml"
    text = '[dataset]\nname = "mine"\nstudy = "mine.toml"\n[columns]\nx = ["age", "cost"]\n'
    config.write_text(text)

    def mean():
        return release(ledger, "box_mean", file, config, epsilon=10.0, delta=1e-7, interval=0.95)

    answer, table = mean(), people()
    for name in ("age", "cost"):
        low, high = answer.interval[name]
        assert low < table[name].mean() < high
        assert abs(answer.estimate[name] - table[name].mean()) < 0.05 * np.ptp(BOUNDS[name])
    config.write_text(text + "[bounds]\nlower = [-9.0, -9.0]\nupper = [9.0, 9.0]\n")
    refused(mean, SpecError, "bounds.lower", "mine.toml")  # they might be in other units


@pytest.mark.parametrize(
    "names", [("pre-post", "1"), ("log(b)", "2019"), ("Q", "x.y"), ("a b", "年齢"), ("C(g)", "0")]
)
def test_a_release_looks_up_names_and_never_runs_them(tmp_path, ledger, monkeypatch, names):
    monkeypatch.setattr("tasks.release.release.draw_release", drawn_from_a_seed)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(0.5, 1, (4000, 4)), columns=[*names, "pre", "post"]).assign(b=1.0)
    table["y"] = 1 + 2 * table[names[0]] + 3 * table[names[1]] + rng.normal(0, 0.01, 4000)
    initialized(tmp_path, table, bounds={"y": (0, 8)}, formula=f"y ~ `{names[0]}` + Q('{names[1]}')")
    answer = asked(tmp_path, ledger)
    assert list(answer.estimate) == ["Intercept", names[0], f"Q('{names[1]}')"]
    np.testing.assert_allclose(list(answer.estimate.values()), [1, 2, 3], atol=0.2)


def test_a_model_of_logarithms_names_them(tmp_path, ledger, monkeypatch):
    monkeypatch.setattr("tasks.release.release.draw_release", drawn_from_a_seed)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.uniform(20, 80, 4000), "size": rng.uniform(1, 9, 4000)})
    table["cost"] = np.exp(0.02 * table["age"] + 0.5 * np.log(table["size"]) + rng.normal(0, 0.1, 4000))
    bounds = {"age": (20, 80), "size": (1, 9), "cost": (0.5, 50)}
    file = initialized(tmp_path, table, bounds=bounds, response="cost")
    for name in ("size", "cost"):
        edited(file, f'name = "{name}"', f'name = "{name}"\ntransform = "log"')
    record = record_of(asked(tmp_path, ledger, interval=0.95))
    assert "log(cost) on age and log(size)" in record["release"]["methods"]
    assert "log(cost)" in text_of([record]).partition("response")[2].splitlines()[0]
    nested = nested_record(record, "log(cost) ~ log(size)")["release"]["answer"]
    assert [each["name"] for each in nested] == ["log(size)", AT_CENTERS]
    refused(lambda: nested_record(record, "cost ~ age"), InputError, "response", "log(cost)")


def test_a_release_says_how_well_the_model_fits(tmp_path, ledger):
    frame = people(40_000)
    study(tmp_path, frame, response="cost")
    new_of = {"-5000": "1000", "10000": "4700", "= 0": "= 20", "120": "100"}
    for old, new in {**new_of, 'outside = "refuse"': 'outside = "clip"'}.items():
        edited(tmp_path / "mine.toml", old, new)
    released = asked(tmp_path, ledger, interval=0.95)
    exact = smf.ols("cost ~ age + region + smoker", frame).fit()
    found = record_of(released)["release"]
    assert found["fit"]["r_squared_low"] < exact.rsquared < found["fit"]["r_squared_high"]
    assert found["fit"]["residual_std"] == pytest.approx(np.sqrt(exact.scale), rel=0.15)
    assert found["binned_fit"] == {}
    write_record(record_of(released), tmp_path / "record")
    edited(tmp_path / "mine-release.toml", "[params]", '[params]\ncoef = "record"')
    edited(tmp_path / "mine-release.toml", "[bounds]", "[bounds]\nresidual_bound = 3700.0")
    binned = asked(tmp_path, ledger, "binned_fit")
    assert not binned.replayed
    np.testing.assert_allclose([*binned.estimate.values()], [*released.estimate.values()])
    bins = record_of(binned)["release"]["binned_fit"]
    assert sum(bins["rows"]) == pytest.approx(len(frame), rel=0.05)
    most = frame.cost[frame.cost > frame.cost.quantile(0.9)].mean()
    assert bins["observed"][-1] == pytest.approx(most, rel=0.15)
    again = record_of(asked(tmp_path, ledger, "binned_fit"))
    assert again["release"]["binned_fit"] == bins  # replayed
    assert "predicted" in text_of_release(again)
    assert "We estimated the calibration of cost" in again["release"]["methods"]
    assert "mean, tenth 10" in text_of([again])


def test_a_calibration_is_of_the_family_of_its_record(tmp_path, ledger):
    study(tmp_path, response="cost")
    write_record(record_of(asked(tmp_path, ledger)), tmp_path / "record")
    edited(tmp_path / "record" / "release.json", '"family": ""', '"family": "logistic"')
    config = tmp_path / "mine-release.toml"
    edited(config, "[params]", '[params]\ncoef = "record"')

    def request():
        return read_request(config, "binned_fit", epsilon=1.0, delta=1e-7)

    assert request().family == "logistic"
    edited(config, "[params]", '[params]\nfamily = "gaussian"')
    refused(request, SpecError, "params.family", "'logistic'", "'gaussian'")


def test_a_row_changes_its_own_row_and_no_other(tmp_path):
    spec, table = find_study(str(study(tmp_path, response="cost"))), people()
    asked = tmp_path / "table.csv", row_design(spec.analyst_table, COST, ""), lambda batch: None
    before = rows_of(*asked, drops=True)
    table.loc[7] = [110.0, "west", "no", 9000.0]
    table.to_csv(tmp_path / "table.csv", index=False)
    after = rows_of(*asked, drops=True)
    changed = (before.X != after.X).any(axis=1) | (before.y != after.y)
    assert np.flatnonzero(changed).tolist() == [7]
    south, west = -0.333 / 0.472, 0.667 / 0.472
    np.testing.assert_allclose(after.X[7], [(110 - 60) / 30, south, west, -1, 1])
    np.testing.assert_allclose(after.y[7], (9000 - 2500) / 3750)


def test_a_row_with_a_gap_becomes_a_row_of_zeros_and_the_number_of_rows_stays(tmp_path):
    table = people()
    table["age"] = table["age"].where(table["age"] <= 75)
    file = study(tmp_path, table, response="cost")
    edited(file, 'missing = "refuse"', 'missing = "drop"')
    declared, gap = find_study(str(file)).analyst_table, table["age"].isna().to_numpy()
    read = rows_of(tmp_path / "table.csv", row_design(declared, COST, ""), lambda batch: None, drops=True)
    assert len(read.X) == len(gap)
    assert not read.X[gap].any()
    assert not read.y[gap].any()
    assert (read.X[~gap, -1] == 1).all()


def test_rows_with_gaps_are_never_dropped_from_a_mean(tmp_path, ledger):
    table = people()
    table.loc[5, "age"] = np.nan
    file = study(tmp_path, table)
    refused(lambda: asked(tmp_path, ledger, "dp_mean"), DataError, "column age;")
    edited(file, 'missing = "refuse"', 'missing = "drop"')
    refused(lambda: asked(tmp_path, ledger, "dp_mean"), DataError, "only regressions")
    assert not ledger.account("mine").charges
    edited(file, "upper = 120", "upper = 120\nimpute = 60.0")
    assert asked(tmp_path, ledger, "dp_mean").estimate


@pytest.mark.parametrize(
    ("estimator", "response"), [("user_level_mean", ""), ("user_level_regression", "cost")]
)
def test_gaps_of_users_are_refused_before_a_row_is_read(tmp_path, ledger, estimator, response):
    file = study(tmp_path, builders.people(4000), user_id="person", response=response)
    config = tmp_path / "mine-release.toml"
    config.write_text(config.read_text().replace('"?"', "4.0"))
    edited(file, 'missing = "refuse"', 'missing = "drop"')
    (tmp_path / "table.csv").unlink()
    refused(lambda: asked(tmp_path, ledger, estimator), SpecError, "data.missing", "impute")
    assert ledger.account("mine").charges == []


def test_a_release_of_few_intervals_is_charged_on_consent_only(tmp_path, ledger, command_line, monkeypatch):
    study(tmp_path, response="cost")
    asked = ("release", "preconditioned_regression", "--data", tmp_path / "table.csv", "--config")
    asked += (tmp_path / "mine-release.toml", "--delta", 1e-7, "--interval", 0.95, "--epsilon")
    status, _, err = command_line(*asked, 2)
    assert (status, "--yes" in err) == (2, True)
    status, _, err = command_line(*asked, 1e-3, "--yes")  # most likely not one interval
    assert (status, "--none-expected" in err) == (2, True)
    assert ledger.account("mine").charges == []
    asked += (2,)
    assert command_line(*asked, "--yes")[0] == 0
    assert len(ledger.account("mine").charges) == 1
    assert command_line(*asked)[0] == 0  # the stored answer costs nothing
    monkeypatch.setattr("tasks.advice.releases.forecast_release", None)  # nobody would read it
    assert command_line(*asked[:-1], 1e-3, "--yes", "--none-expected")[0] == 0


def test_record_table_and_methods_say_each_choice_in_preparing_the_rows(tmp_path, ledger):
    file = study(tmp_path, response="cost")
    text, first = file.read_text(), record_of(asked(tmp_path, ledger, epsilon=30.0))
    for old, new in QUESTIONS["preparations"]:
        file.write_text(text)
        edited(file, old, new)
        records = first, record_of(asked(tmp_path, ledger, epsilon=30.0))
        methods = {record["release"]["methods"].split("All releases")[0] for record in records}
        footnotes = {text_of([record]).split("Differentially private")[1] for record in records}
        assert (len(methods), len(footnotes)) == (2, 2), new
        parameters = [record["release"]["parameters"] for record in records]
        assert (parameters[0] == parameters[1]) == ("a visit" in new)  # which changes no answer


@pytest.mark.parametrize("model", [{"response": "smoker"}, {"formula": "smoker ~ age + region"}])
@pytest.mark.parametrize("levels", [["no", "yes"], ["yes", "no"]])
def test_a_record_says_which_category_of_the_response_is_one(tmp_path, ledger, model, levels):
    edited(study(tmp_path, **model), str(CATEGORIES["smoker"]), str(levels))
    record = record_of(asked(tmp_path, ledger))
    coded = f"The response smoker is coded: 0 is '{levels[0]}' and 1 is '{levels[1]}'."
    assert coded in record["release"]["methods"]
    assert coded in text_of([record])


def test_a_folder_of_files_is_declared_checked_and_released_like_one_file(tmp_path, ledger, monkeypatch):
    monkeypatch.setattr("tasks.release.release.draw_release", drawn_from_a_seed)
    table, folder = people(), tmp_path / "parts"
    folder.mkdir()
    for k, piece in enumerate((table[:1000], table[1000:1000], table[1000:])):
        piece.to_parquet(folder / f"{k}.parquet", index=False)
    (folder / "_SUCCESS").touch()
    init_study("mine", folder, folder=tmp_path, response="cost")
    file = completed(tmp_path / "mine.toml", BOUNDS, CATEGORIES)
    assert "rows = 4000" in file.read_text()
    assert checked_request(tmp_path / "mine-release.toml")[2] == []
    budget = {"epsilon": 100.0, "delta": 1e-7}
    asked = ledger, "preconditioned_regression"
    first = release(*asked, folder, tmp_path / "mine-release.toml", **budget)
    table.to_csv(tmp_path / "table.csv", index=False)
    again = release(*asked, tmp_path / "table.csv", tmp_path / "mine-release.toml", **budget)
    assert again.replayed
    assert again.estimate == first.estimate
    spec = find_study(str(file))
    assert analyst_parquet("mine", spec.analyst_table).n_rows == 4000
    people(10).rename(columns={"age": "years"}).to_parquet(folder / "3.parquet", index=False)
    refused(lambda: analyst_parquet("mine", spec.analyst_table), DataError, "the same columns")


@pytest.mark.parametrize(
    ("missing", "counted"), [("drop", "4,000 rows in the file"), ("refuse", "4,000 rows by")]
)
def test_a_table_of_which_rows_are_dropped_counts_the_rows_in_the_file(tmp_path, ledger, missing, counted):
    table = people()
    table.loc[:99, "age"] = np.nan if missing == "drop" else 50
    file = study(tmp_path, table, response="cost")
    edited(file, 'missing = "refuse"', f'missing = "{missing}"')
    record = record_of(asked(tmp_path, ledger))
    assert counted in record["release"]["methods"]
    assert ("rows in the file" in text_of([record])) == (missing == "drop")


@pytest.mark.parametrize(("cell", "named", "absent"), [(500.0, "777", "-99"), (-500.0, "-99", "777")])
def test_codes_are_asked_about_on_the_side_that_is_exceeded(tmp_path, ledger, cell, named, absent):
    table = people()
    table.loc[5, "age"] = cell
    study(tmp_path, table, response="cost")
    refused(lambda: asked(tmp_path, ledger), DataError, named, "age", hidden=[f" {absent}", f"of {absent}"])


@pytest.mark.parametrize("case", QUESTIONS["refused_by_declarations"], ids=lambda case: case["named"])
def test_a_check_finds_what_every_release_refuses_by_declarations(tmp_path, case):
    table = builders.people(400).assign(w=1.0)
    table.to_csv(tmp_path / "table.csv", index=False)
    init_study("mine", tmp_path / "table.csv", folder=tmp_path, response="cost", **case.get("options", {}))
    file = completed(tmp_path / "mine.toml", BOUNDS, CATEGORIES)
    config = tmp_path / "mine-release.toml"
    assert checked_request(config)[2] == []
    for name, pairs in (("mine.toml", case.get("study", [])), (config.name, case.get("release", []))):
        for old, new in pairs:
            edited(file.with_name(name), old, new)
    (fault,) = checked_request(config)[2]
    assert case["named"] in fault
    budget = {"epsilon": 1.0, "delta": 1e-7}
    refused(lambda: read_request(config, "preconditioned_regression", **budget), SpecError, case["named"])
