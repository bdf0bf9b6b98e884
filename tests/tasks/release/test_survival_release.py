"""Times to an event in release files: declared columns, one unit per person, and a record."""

import numpy as np
import pytest

import tasks.release.release
from data.ledger import Ledger
from dpalgos.formula import phreg
from tasks.errors import SpecError
from tasks.release.record import record_of
from tasks.report.coefficients import nested_record, table_of
from tests.builders import refused
from tests.dpalgos.test_survival import patients
from tests.tasks.analyst_tables import drawn_from_a_seed, edited, initialized, release

N = 1500
FORMULA = "Surv(time, died) ~ arm + age"
BOUNDS = {"time": (0, 5), "died": (0, 1), "age": (40, 80)}


def study_of(folder, table):
    """Return the release file of a completed study, whose formula has a time to an event."""
    file = initialized(folder, table, bounds=BOUNDS, categories={"arm": ["placebo", "drug"]})
    release = f'formula = "{FORMULA}"\n[dataset]\nname = "trial"\nstudy = "{file.name}"\n'
    (folder / "release.toml").write_text(release)
    return folder / "release.toml"


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.setattr(tasks.release.release, "draw_release", drawn_from_a_seed)
    ledger = Ledger(tmp_path / "home")
    ledger.open_dataset("trial", 1e7, 1e-3)
    return ledger


def test_times_outside_their_bounds_are_cut_at_periods_only(ledger, tmp_path):
    """With `outside = "clip"`, an early event and a late entry stay in their periods."""
    frame = patients(N).round(6)
    frame["entered"] = (frame["time"] / 2).round(6)
    bounds = {**BOUNDS, "time": (1, 4), "entered": (0, 2)}
    file = initialized(tmp_path, frame, bounds=bounds, categories={"arm": ["placebo", "drug"]})
    edited(file, 'outside = "refuse"', 'outside = "clip"')
    formula = "Surv(entered, time, died) ~ arm"
    config = tmp_path / "release.toml"
    config.write_text(f'formula = "{formula}"\n[dataset]\nname = "trial"\nstudy = "{file.name}"\n')
    got = release(ledger, "preconditioned_glm", tmp_path / "table.csv", config, epsilon=1e6, delta=1e-6)
    declared = {"bounds": {"time": (1, 4), "entered": (0, 2)}, "levels": {"arm": ["placebo", "drug"]}}
    plain = phreg(formula, frame, **declared, epsilon=1e6, delta=1e-6, random_state=0, interval=None)
    for name, expected in plain.params.items():
        assert got.estimate[name] == pytest.approx(expected, abs=0.02)


def released(ledger, folder, table, estimator="preconditioned_glm"):
    config = study_of(folder, table)
    asked = {"epsilon": 1e4, "delta": 1e-6, "interval": 0.95}
    return release(ledger, estimator, folder / "table.csv", config, **asked)


def test_a_release_has_the_hazard_ratios_of_the_same_frame(ledger, tmp_path):
    frame = patients(N).round(6)
    record = record_of(released(ledger, tmp_path, frame))
    bounds = {"age": (40, 80), "time": (0, 5)}
    plain = phreg(
        FORMULA,
        frame,
        bounds=bounds,
        levels={"arm": ["placebo", "drug"]},
        epsilon=1e4,
        delta=1e-6,
        random_state=0,
    )
    answer = {each["name"]: each["estimate"] for each in record["release"]["answer"]}
    np.testing.assert_allclose([answer[name] for name in plain.params.index], plain.params, atol=0.02)
    assert record["release"]["model"]["n"] == N
    assert record["deployment"]["privacy_loss"]["privacy_unit"] == "Row"
    assert "for each row" in record["release"]["methods"]
    assert "hazard_ratio" in table_of([record], tmp_path / "table.csv").decode()
    nested = nested_record(record, "Surv(time, died) ~ arm")
    assert "arm[T.drug]" in {each["name"] for each in nested["release"]["answer"]}


def test_a_person_without_a_value_stays_one_of_the_number_of_persons(ledger, tmp_path):
    frame = patients(N).round(6)
    frame.loc[::10, "age"] = np.nan
    config = study_of(tmp_path, frame)
    study = tmp_path / "mine.toml"
    study.write_text(study.read_text().replace('missing = "refuse"', 'missing = "drop"'))
    got = release(ledger, "preconditioned_glm", tmp_path / "table.csv", config, epsilon=1e4, delta=1e-6)
    assert got.plan.rows.n_units == N
    assert got.estimate["arm[T.drug]"] == pytest.approx(-0.5, abs=0.25)


@pytest.mark.parametrize(
    ("line", "estimator"), [("formula", "preconditioned_glm"), ("survival", "cumulative_counts")]
)
def test_a_record_says_which_category_is_the_event(ledger, tmp_path, line, estimator):
    frame = patients(N).round(6)
    frame["died"] = np.where(frame["died"] == 1, "yes", "no")
    config = study_of(tmp_path, frame)
    config.write_text(config.read_text().replace("formula =", f"{line} =").replace(" + age", ""))
    study = tmp_path / "mine.toml"
    study.write_text(study.read_text().replace("['?']", '["yes", "no"]'))
    got = release(ledger, estimator, tmp_path / "table.csv", config, epsilon=1e4, delta=1e-6)
    assert "The event died is coded: 0 is 'yes' and 1 is 'no'." in record_of(got)["release"]["methods"]


def test_other_estimators_refuse_a_time(ledger, tmp_path):
    refused(
        lambda: released(ledger, tmp_path, patients(60).round(3), estimator="adassp"),
        SpecError,
        "Surv(time, died)",
        "preconditioned_glm",
    )
