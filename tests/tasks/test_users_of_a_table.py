"""An analyst's tables in which several rows may belong to one person: whole users are protected."""

import numpy as np
import pandas as pd
import pytest

from data.dataset import Declaration, DeclaredColumn
from data.ledger import open_ledger
from data.store.references import UserTableRef
from data.tables import reading
from data.tables.declared import count_users, read_declared
from flows.studies.find_study import find_study
from tasks.own_table.file_units import AT_CENTERS
from tasks.release.request import checked_request
from tests.builders import visits
from tests.tasks.analyst_tables import computed, edited, release, study_of

study = study_of(visits, bounds={"dose": (-2, 2), "weight": (-2, 2), "effect": (-4, 4)}, user_id="patient")


def full_answer(file, folder):
    spec, table, results = computed(file, folder, replicates=3)
    rows = pd.read_parquet(results.path)
    return spec, table, rows[rows["metric"] == "l2_error"]


def test_init_asks_who_a_user_is_and_writes_no_id(tmp_path):
    file = study(tmp_path, response="effect")
    spec = find_study(str(file))
    table = spec.analyst_table
    assert (table.user_id, table.users, table.units) == ("patient", 60, (60, "users"))
    assert max(spec.grid.n) == 54
    assert spec.head_panel.problem.covariates == ("dose", "weight")
    assert "p001" not in file.read_text()
    release = checked_request(tmp_path / "mine-release.toml")[0]
    assert (release.columns.user_id, release.columns.x) == ("patient", ())


@pytest.mark.parametrize("response", ["", "effect"])
def test_users_are_drawn_with_all_their_rows_and_count_once(tmp_path, home, response):
    file = study(tmp_path, response=response)
    edited(file, "n = [9, 15, 54]", "n = [60]")
    edited(file, "n = 54", "n = 60")
    _, table, rows = full_answer(file, tmp_path)
    assert isinstance(table, UserTableRef)
    assert (table.n_users, table.n_units) == (60, 60)
    # All users: the non-private answer is that of all, though those of many visits hold most of the rows.
    error = rows[rows["estimator"] == ("ols" if response else "sample_mean")]["value"]
    assert (error < 1e-9).all()
    assert set(rows[rows["estimator"] == "zero"]["value"] > 0.1) == {True}
    private = rows[rows["privacy_model"] == "user"]
    assert set(private["status"]) <= {"ok", "refused"}
    assert set(private[private["form"].str.contains("clipped")]["status"]) == {"ok"}


def test_the_answer_in_which_users_count_once_is_the_mean_of_their_means(tmp_path, home):
    file = study(tmp_path)
    spec, table, _ = full_answer(file, tmp_path)
    problem = spec.head_panel.problem
    path = tmp_path / "design.parquet"
    path.write_bytes(problem.prepare(table))
    prepared = problem.load(path)
    frame = visits()
    expected = frame.groupby("patient")[["dose", "weight", "effect"]].mean().mean()
    scale = [1.0, 1.0, 2.0]
    np.testing.assert_allclose(problem.full_answer(prepared).coef, expected / scale, atol=1e-12)
    assert (np.diff(prepared.groups) >= 0).all()


@pytest.mark.parametrize("ids", [lambda ids: ids, lambda ids: ids.str[1:].astype(int)])
def test_a_user_of_several_pieces_of_a_file_is_one_user(tmp_path, monkeypatch, home, ids):
    monkeypatch.setattr(reading, "BATCH_ROWS", 7)
    table = visits()
    table.assign(patient=ids(table["patient"])).to_parquet(tmp_path / "table.parquet")
    assert count_users(tmp_path / "table.parquet", "patient") == 60
    about = {"columns": (DeclaredColumn(name="dose", lower=-2, upper=2),), "missing": "refuse"}
    declaration = Declaration(n_rows=len(table), user_id="patient", n_users=60, **about)
    read = read_declared(tmp_path / "table.parquet", declaration)
    assert len(set(zip(read.table["patient"], table["patient"], strict=True))) == 60


def test_a_release_of_users_takes_the_settings_that_the_study_measured(tmp_path, home):
    study(tmp_path, response="effect")
    ledger = open_ledger(home)
    ledger.open_dataset("mine", 100.0, 1e-6)
    files = tmp_path / "table.csv", tmp_path / "mine-release.toml"
    asked = {"epsilon": 10.0, "delta": 1e-7, "interval": 0.95}
    answer = release(ledger, "user_level_regression", *files, **asked)
    assert list(answer.estimate) == ["dose", "weight", AT_CENTERS]
    asked = ledger.account("mine").charges[0].question.parameters["settings"]
    assert asked["gradient_bound"] == pytest.approx(3**0.5 / 2)
    assert (asked["aggregation"], asked["step_size"]) == ("clipped", pytest.approx(2 / 3))
