"""Weights belong to a question: weighted and unweighted models, means, curves and tables in one plan."""

import numpy as np
import pytest

import tasks.advice.releases
from data.ledger import open_ledger
from tasks.errors import SpecError
from tasks.protocol.plan_file import read_plan
from tasks.protocol.prepare import prepare_plan, reserve_plan
from tasks.release.request import checked_request
from tests.builders import refused
from tests.dpalgos.test_group_tables import PUBLIC, trial
from tests.tasks.analyst_tables import edited, initialized
from tests.tasks.release.test_survival_release import BOUNDS

N = 2000
PLAN = """
[plan]
dataset = "trial"
study = "mine.toml"
epsilon = 8.0
delta = 1e-6

[[question]]
name = "weighted"
formula = "died ~ age"

[[question]]
name = "unweighted"
formula = "died ~ age"
weights = ""

[[question]]
name = "mean"
mean = "age"

[[question]]
name = "curves"
survival = "Surv(time, died) ~ arm"

[[question]]
name = "baseline"
table1 = "arm ~ age"
"""


@pytest.fixture
def file(tmp_path, home, monkeypatch):
    monkeypatch.setattr(tasks.advice.releases, "_OF_TIMES", 2)
    monkeypatch.setattr(tasks.advice.releases, "_TABLES", 2)
    table = trial(N).round(6).assign(w=np.random.default_rng(0).uniform(0.5, 1.5, N).round(3))
    bounds = {**BOUNDS, "w": (0, 2)}
    study = initialized(
        tmp_path, table, bounds=bounds, categories=PUBLIC["levels"], weights="w", response="died"
    )
    study.write_text(study.read_text() + "\n[guesses]\nmean = { w = 1.0, died = 0.5 }\nstd = { w = 0.3 }\n")
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


def test_one_plan_has_weighted_and_unweighted_questions(file, home):
    plan, ledger = read_plan(file), open_ledger(home)
    weights = {name: each.columns.weights for name, each in plan.requests.items()}
    assert weights == {"weighted": "w", "unweighted": None, "mean": None, "curves": None, "baseline": None}
    ledger.open_dataset("trial", 8.0, 1e-6)
    prepared = prepare_plan(plan, ledger.account("trial"))
    reserve_plan(prepared, ledger)
    charges = {each.reserve: each for each in ledger.account("trial").charges}
    assert len(charges) == 5
    assert len({each.question.content for each in charges.values()}) == 1
    rows = {name: each.question.parameters["rows"] for name, each in charges.items()}
    assert [name for name, each in rows.items() if each.get("weights")] == ["plan/weighted"]


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('weights = ""', 'weights = "age"', ("'unweighted'", "weights", "'w'")),
        ('mean = "age"', 'mean = "age"\nweights = "w"', ("weights", "formula")),
        ('weights = ""', 'weights = ""\nestimator = "adassp"', ("'unweighted'",)),
        (
            'formula = "died ~ age"',
            'formula = "died ~ age"\nestimator = "adassp"',
            ("'weighted'", 'weights = ""'),
        ),
    ],
)
def test_weights_that_cannot_be_are_refused_by_question(file, old, new, named):
    edited(file, old, new)
    refused(lambda: read_plan(file), SpecError, *named)


def test_a_release_of_a_regression_says_whether_it_has_weights(file):
    config = file.with_name("release.toml")
    text = '[dataset]\nname = "trial"\nstudy = "mine.toml"\n[columns]\nx = ["age"]\n'
    for columns, fault in (('y = "died"', "columns.weights"), ('y = "died"\nweights = ""', ""), ("", "")):
        config.write_text(text + columns)
        faults = checked_request(config)[2]
        assert [fault for each in faults if fault in each] == [fault] * bool(fault), faults
        assert bool(faults) == bool(fault)
