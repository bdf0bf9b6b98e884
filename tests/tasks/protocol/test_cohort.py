"""A cohort: a table of persons and a table of their visits, under one budget."""

from pathlib import Path

import numpy as np
import pytest

import flows.protocol
import tasks.advice.releases
import tasks.release.release
from data.errors import DataError
from data.ledger import Ledger, open_ledger
from dpalgos import Budget, InputError
from dpalgos.accounting.events import Relation
from dpalgos.formula import ols, survival, table_one
from tasks.protocol.plan_file import read_plan
from tasks.protocol.prepare import check_reservable, prepare_plan, reserve_plan
from tests.builders import refused
from tests.dpalgos.test_group_tables import PUBLIC, trial
from tests.tasks.analyst_tables import drawn_from_a_seed, edited, initialized, release
from tests.tasks.protocol.test_plans import in_process
from tests.tasks.release.test_survival_release import BOUNDS

N = 3000
PERSONS = (Path(__file__).with_name("survival_plan.toml").read_text()).replace("12.0", "8.0")
VISITS = """
[plan]
dataset = "trial"
study = "visits.toml"
epsilon = 4.0
delta = 1e-6

[[question]]
name = "pressure"
formula = "pressure ~ arm + age"
"""


def cohort(n=N, seed=0):
    """Return persons with an id, and one to three visits of each."""
    rng = np.random.default_rng(seed)
    persons = trial(n).round(6).assign(person=np.arange(n))
    visits = persons[["person", "arm", "age"]].loc[np.repeat(np.arange(n), rng.integers(1, 4, n))]
    noise = rng.normal(0, 5, n)[visits["person"]] + rng.normal(0, 5, len(visits))
    pressure = 130 + 0.2 * (visits["age"] - 60) - 4 * (visits["arm"] == "drug") + noise
    return persons, visits.assign(pressure=pressure.clip(90, 180).round(3))


@pytest.fixture
def files(tmp_path, home, monkeypatch):
    monkeypatch.setattr(tasks.advice.releases, "_OF_TIMES", 3)
    monkeypatch.setattr(tasks.advice.releases, "_TABLES", 3)
    monkeypatch.setattr(tasks.release.release, "draw_release", drawn_from_a_seed)
    monkeypatch.setattr(flows.protocol, "release_question", in_process)
    persons, visits = cohort()
    public = {"categories": PUBLIC["levels"], "user_id": "person"}
    plans = []
    for name, table, bounds in (
        ("mine", persons, BOUNDS),
        ("visits", visits, {"age": (40, 80), "pressure": (90, 180)}),
    ):
        (tmp_path / name).mkdir()
        study = initialized(tmp_path / name, table, bounds=bounds, name=name, **public)
        if name == "mine":
            edited(study, "upper = 5", "upper = 5\nperiods = [0, 1, 2.5, 5]")
            guesses = (
                "\n[guesses]\nshares = { arm = [0.5, 0.5] }\nmean = { died = 0.5 }\nstd = { age = 12.0 }\n"
            )
            study.write_text(study.read_text() + guesses)
        plans.append(tmp_path / name / "plan.toml")
        plans[-1].write_text({"mine": PERSONS, "visits": VISITS}[name])
    return plans


def test_persons_and_visits_share_one_budget(files, home):
    ledger = open_ledger(home)
    ledger.open_dataset("trial", 12.0, 2e-6, "person")
    for file in files:
        prepared = prepare_plan(read_plan(file), ledger.account("trial"))
        assert prepared.split.refusal == ""
        check_reservable(prepared, ledger.account("trial"))
        reserve_plan(prepared, ledger)
        flows.protocol.protocol.fn(str(file), str(file.parent / "out"))
    charges = ledger.account("trial").charges
    assert len(charges) == 4
    assert len({each.question.content for each in charges}) == 2
    assert {each.cost.unit for each in charges} == {"user by person"}
    assert {each.cost.facts["risk"]["unit"] for each in charges} == {"user"}
    assert ledger.verify().ok


ASKED = {
    "group_sums": 'table1 = "arm ~ age"\n',
    "preconditioned_regression": 'formula = "pressure ~ arm + age"\n',
    "preconditioned_glm": 'formula = "sick ~ age"\n',
}


@pytest.mark.parametrize("estimator", ASKED)
def test_declared_persons_without_a_row_count_as_zeros(tmp_path, monkeypatch, estimator):
    """The number of persons with a visit stays private: the cohort's number is declared."""
    monkeypatch.setattr(tasks.release.release, "draw_release", drawn_from_a_seed)
    _, visits = cohort()
    visits = visits[visits["person"] >= 400].assign(sick=lambda table: (table["pressure"] > 135).astype(int))
    outside = {"age": (45, 75), "pressure": (100, 170), "sick": (0, 1)}  # some values are clipped
    public = {"bounds": outside, "categories": PUBLIC["levels"], "user_id": "person", "name": "visits"}
    ledger, found = Ledger(tmp_path / "home"), []
    ledger.open_dataset("trial", 1e7, 1e-3)
    for n_persons in (N - 400, N):
        (folder := tmp_path / str(n_persons)).mkdir()
        study = initialized(folder, visits, **public)
        edited(study, f"users = {N - 400}", f"users = {n_persons}")
        edited(study, 'outside = "refuse"', 'outside = "clip"')
        family = 'family = "logistic"\n' * (estimator == "preconditioned_glm")
        columns = f'[dataset]\nname = "trial"\nstudy = "{study.name}"\n[columns]\nuser_id = "person"\n'
        config = folder / "release.toml"
        config.write_text(f"{ASKED[estimator]}{columns}[params]\n{family}")
        asked = {"epsilon": 1e4, "delta": 1e-6, "interval": None if "sums" in estimator else 0.95}
        found.append(release(ledger, estimator, folder / "table.csv", config, **asked))
    assert [each.plan.n_units for each in found] == [N - 400, N]
    few, every = (np.array(list(each.estimate.values())) for each in found)
    np.testing.assert_allclose(every, few, rtol=0.05, atol=2.0 if "sums" in estimator else 0.02)


def test_a_mean_of_fewer_persons_than_declared_and_more_persons_are_refused(tmp_path):
    _, visits = cohort(600)
    public = {"bounds": {"age": (40, 80), "pressure": (90, 180)}, "categories": PUBLIC["levels"]}
    study = initialized(tmp_path, visits, user_id="person", **public)
    ledger = Ledger(tmp_path / "home")
    ledger.open_dataset("trial", 1e7, 1e-3)
    for users, question in ((601, '[columns]\nx = ["age"]\n'), (599, 'formula = "pressure ~ age"\n')):
        edited(study, "users = 600", f"users = {users}")
        is_mean = users == 601
        config = tmp_path / "release.toml"
        head = f'[dataset]\nname = "trial"\nstudy = "{study.name}"\n[columns]\nuser_id = "person"\n'
        config.write_text(head + 'x = ["age"]\n[params]\n' if is_mean else f"{question}{head}[params]\n")
        kind = "dp_mean" if is_mean else "preconditioned_regression"
        arguments = ledger, kind, tmp_path / "table.csv", config
        refused(lambda: release(*arguments, epsilon=1.0, delta=1e-6), DataError, "number of users")  # noqa: B023
        edited(study, f"users = {users}", "users = 600")


def test_another_unit_is_refused_before_anything_is_forecast(files, home, command_line, monkeypatch):
    open_ledger(home).open_dataset("trial", 12.0, 2e-6, "patient")
    monkeypatch.setattr(tasks.advice.releases, "synthetic_tables", None)
    status, _, err = command_line("protocol", "check", files[1])
    assert status == 2
    assert "protects each user by patient since it was opened" in err
    assert "protects each user by person" in err
    config = files[1].with_name("release.toml")
    config.write_text(
        'formula = "pressure ~ arm"\n[dataset]\nname = "trial"\nstudy = "visits.toml"\n'
        '[columns]\nuser_id = "person"\n'
    )
    status, _, err = command_line("check", config)
    assert (status, "user_id = 'patient'" in err) == (2, True)


def test_a_table_of_rows_is_told_to_declare_its_persons(files, home, command_line):
    command_line("ledger", "open", "trial", "--epsilon", 12, "--delta", 2e-6, "--unit", "person")
    study = files[1].with_name("visits.toml")
    edited(study, 'user_id = "person"', "")
    edited(study, "users = 3000", "rows = 3000")
    status, _, err = command_line("protocol", "check", files[1])
    assert status == 2
    assert "declare user_id = 'person' in the study file, also if each person has one row" in err


def test_a_budget_of_users_in_python_is_one_of_persons_and_visits():
    persons, visits = cohort(600)
    budget = Budget(epsilon=2.0, delta=1e-6, relation=Relation.USER)
    each = {"epsilon": 0.5, "delta": 1e-7, "budget": budget, "levels": PUBLIC["levels"]}
    times = {"time": (0, 5), "died": (0, 1)}
    survival("Surv(time, died) ~ arm", persons, user="person", bounds=times, **each)
    table_one("arm ~ age", persons, user="person", bounds={"age": (40, 80)}, **each)
    bounds = {"age": (40, 80), "pressure": (90, 180)}
    ols("pressure ~ arm + age", visits, user="person", bounds=bounds, **each)
    assert 0.5 < budget.spent_epsilon < 1.5
    refused(lambda: ols("pressure ~ arm + age", visits, bounds=bounds, **each), InputError, "protects a user")
