"""Survival curves and baseline tables as releases: their records, tables, figures and refusals."""

import numpy as np
import pytest

from dpalgos.formula import survival, table_one
from tasks.errors import SpecError
from tasks.release.methods import methods_of
from tasks.release.record import record_of, write_record
from tasks.report.coefficients import by_group_of, table_of, text_of
from tests.builders import refused
from tests.dpalgos.test_group_tables import FORMULA, PUBLIC, trial
from tests.tasks.analyst_tables import edited, initialized, release
from tests.tasks.release.test_survival_release import BOUNDS, ledger  # noqa: F401

CURVES, ARMS = "Surv(time, died) ~ arm", {"arm": ["placebo", "drug"]}
BUDGET = {"epsilon": 1e4, "delta": 1e-6}
ESTIMATORS = {"survival": "cumulative_counts", "table1": "clipped_mean"}


def released(ledger, folder, kind, formula, frame=None, interval=None, **edits):  # noqa: F811
    frame = trial(1500).round(6) if frame is None else frame
    file = folder / "mine.toml"
    if not file.exists():
        initialized(folder, frame, bounds=BOUNDS, categories=PUBLIC["levels"])
    for old, new in edits.items():
        edited(file, f'{old} = "refuse"', f'{old} = "{new}"')
    config = folder / f"{kind}.toml"
    config.write_text(f'{kind} = "{formula}"\n[dataset]\nname = "trial"\nstudy = "{file.name}"\n')
    return release(ledger, ESTIMATORS[kind], folder / "table.csv", config, interval=interval, **BUDGET)


def test_a_release_of_curves_is_that_of_the_frame(ledger, tmp_path):  # noqa: F811
    frame = trial(1500).round(6)
    record = record_of(released(ledger, tmp_path, "survival", CURVES, frame))
    own = by_group_of(record["release"]).curves()
    plain = survival(CURVES, frame, levels=ARMS, bounds={"time": (0, 5)}, random_state=0, **BUDGET).curves()
    np.testing.assert_allclose(own["survival"], plain["survival"], atol=1e-3)
    np.testing.assert_allclose(own[["ci_low", "ci_high"]], plain[["ci_low", "ci_high"]], atol=1e-3)
    answer = {each["name"]: each for each in record["release"]["answer"]}
    last = plain.iloc[-1]
    assert answer["drug at 5"]["estimate"] == pytest.approx(last["survival"], abs=1e-3)
    assert answer["drug at 5"]["lower"] == pytest.approx(last["ci_low"], abs=1e-3)
    text = text_of([record])
    assert all(word in text for word in ("drug: at risk", "Logrank test", "Restricted mean up to 5"))
    assert "ours" not in methods_of([record])
    assert f"survival curves by group ({CURVES})" in methods_of([record])


def test_a_figure_of_curves_has_the_noisy_numbers_at_risk(ledger, tmp_path, command_line):  # noqa: F811
    record = record_of(released(ledger, tmp_path, "survival", CURVES))
    write_record(record, tmp_path / "curves")
    page = (tmp_path / "curves" / "release.html").read_text()
    assert "numbers at risk" in page
    status, *_ = command_line("figure", tmp_path / "curves", "--format", "svg", "--out", tmp_path / "a.svg")
    assert status == 0
    at_risk = by_group_of(record["release"]).curves()["at_risk"]
    drawn = (tmp_path / "a.svg").read_text()
    assert all(f">{round(each):,}<" in drawn for each in at_risk)
    assert len((tmp_path / "a-figure.csv").read_text().splitlines()) == 1 + len(at_risk)
    means = record_of(released(ledger, tmp_path, "table1", FORMULA))
    write_record(means, tmp_path / "means")
    status, _, err = command_line("figure", tmp_path / "means")
    assert status == 2
    assert "survival curves" in err


def test_a_baseline_table_has_a_row_per_variable_and_a_column_per_arm(ledger, tmp_path):  # noqa: F811
    frame = trial(1500).round(6)
    record = record_of(released(ledger, tmp_path, "table1", FORMULA, frame))
    plain = table_one(FORMULA, frame, random_state=0, **PUBLIC, **BUDGET).frame()
    own = by_group_of(record["release"]).frame()
    np.testing.assert_allclose(own["estimate"], plain["estimate"], rtol=1e-3)
    lines = table_of([record], tmp_path / "table.md").decode().splitlines()
    assert "|  | placebo | drug |" in lines
    first = [line.split("|")[1].strip() for line in lines if line.startswith("| ")]
    assert first == ["", ":--", "n", "age, mean (SD)", "stage, n (%)", "– I", "– II", "– III"]
    assert not any("[" in line for line in lines)
    with_limits = record_of(released(ledger, tmp_path, "table1", FORMULA, frame, interval=0.9))
    assert "Brackets are 90% limits" in text_of([with_limits])
    assert with_limits["release"]["answer"][0]["lower"] is not None
    assert len(ledger.account("trial").charges) == 1  # limits follow from the same release
    assert table_of([record], tmp_path / "table.docx")
    refused(lambda: text_of([record, with_limits]), SpecError, "table of its own")


def test_persons_without_a_value_are_in_no_group(ledger, tmp_path):  # noqa: F811
    frame = trial(1500).round(6)
    frame.loc[::10, "age"] = np.nan
    record = record_of(released(ledger, tmp_path, "table1", FORMULA, frame, missing="drop"))
    sizes = by_group_of(record["release"]).frame().query("variable == 'n'")
    expected = frame.dropna()["arm"].value_counts()
    assert sizes.set_index("group")["estimate"].to_dict() == pytest.approx(expected.to_dict(), abs=2)


def test_a_time_that_is_clipped_is_censored_in_curves(ledger, tmp_path):  # noqa: F811
    frame = trial(1500).round(6)
    late = frame.assign(time=frame["time"] * 1.5)
    record = record_of(released(ledger, tmp_path, "survival", CURVES, late, outside="clip"))
    got = by_group_of(record["release"]).curves()
    plain = survival(CURVES, late, levels=ARMS, bounds={"time": (0, 5)}, random_state=0, **BUDGET).curves()
    np.testing.assert_allclose(got["survival"], plain["survival"], atol=2e-3)
