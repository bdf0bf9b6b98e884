"""The baseline table of a paper: its numbers, its ball, its limits, and what is hidden."""

import numpy as np
import pandas as pd
import pytest

import dpalgos
from dpalgos.answers.baseline import BaselineTable, Variable
from dpalgos.formula import table_one
from dpalgos.formula.columns import CategoryColumn, NumberColumn
from dpalgos.formula.group_table import group_numbers, numbers_of_declaration
from tests.builders import refused
from tests.dpalgos.test_survival import ARMS, BUDGET, FORMULAS, patients

pytestmark = pytest.mark.filterwarnings("ignore::dpalgos.PrivacyWarning")  # of a large epsilon
FORMULA = "arm ~ age + stage"
PUBLIC = {"bounds": {"age": (40, 80)}, "levels": {**ARMS, "stage": ["I", "II", "III"]}}


def trial(n=2000, seed=0):
    frame = patients(n, seed)
    return frame.assign(stage=np.random.default_rng(seed).choice(["I", "II", "III"], n, p=[0.6, 0.3, 0.1]))


def test_a_large_epsilon_gives_sizes_means_deviations_and_shares():
    frame = trial()
    found = table_one(FORMULA, frame, epsilon=1e6, **PUBLIC, **BUDGET).frame()
    by_variable = found.set_index(["variable", "level", "group"])
    for arm, own in frame.groupby("arm"):
        assert by_variable.loc[("n", "", arm), "estimate"] == pytest.approx(len(own), abs=0.1)
        age = by_variable.loc[("age", "", arm)]
        assert age["estimate"] == pytest.approx(own["age"].mean(), abs=0.01)
        assert age["sd"] == pytest.approx(own["age"].std(ddof=0), abs=0.01)
        for level, share in own["stage"].value_counts(normalize=True).items():
            row = by_variable.loc[("stage", level, arm)]
            assert row["estimate"] == pytest.approx(share, abs=1e-4)
            assert row["n"] == pytest.approx((own["stage"] == level).sum(), abs=0.3)
    assert found["ci_low"].isna().all()


@pytest.mark.parametrize("formula", [FORMULA, "arm ~ age", "arm ~ stage", "stage ~ arm + age"])
def test_every_person_lies_within_the_ball_and_some_at_its_edge(formula):
    declared = {"age": NumberColumn(40, 80)}
    declared |= {name: CategoryColumn(tuple(levels)) for name, levels in PUBLIC["levels"].items()}
    numbers = group_numbers("table1", formula, declared)
    ends = pd.DataFrame(
        [(arm, age, stage) for arm in ARMS["arm"] for age in (40, 60, 80) for stage in ("I", "II", "III")],
        columns=["arm", "age", "stage"],
    )
    center, radius = (numbers.keywords[name] for name in ("center", "clip_norm"))
    distances = np.linalg.norm(numbers.matrix(ends) - np.array(center), axis=1)
    assert distances.max() == pytest.approx(radius)
    again = numbers_of_declaration(numbers.declaration)
    assert again.described == numbers.described


def test_limits_cover_the_means_and_shares_of_the_population():
    covered = []
    for seed in range(60):
        asked = {**PUBLIC, **BUDGET, "random_state": seed, "epsilon": 1.0, "interval": 0.95}
        table = table_one(FORMULA, trial(1500, seed), **asked).frame()
        truth = (
            table["level"].map({"I": 0.6, "II": 0.3, "III": 0.1}).where(table["variable"] == "stage", 60.0)
        )
        inside = (table["ci_low"] <= truth) & (truth <= table["ci_high"])
        covered.append(inside[table["variable"] != "n"])
    assert np.mean(covered) > 0.93
    assert np.mean(covered, axis=0).min() > 0.84  # of 60


def test_a_group_that_is_too_small_for_the_noise_is_hidden():
    sums = np.array([[30.0, 1.0, 1.0], [2000.0, 100.0, 5.0]])
    variable = Variable("age", (), 40.0, 80.0)
    table = BaselineTable(
        sums=sums, noise_std=10.0, variables=(variable,), groups=("a", "b"), level=0.95
    ).frame()
    hidden = table[(table["group"] == "a") & (table["variable"] == "age")]
    assert hidden[["estimate", "sd", "ci_low", "ci_high"]].isna().all(axis=None)
    assert table[table["group"] == "b"].drop(columns=["n", "sd"]).notna().all(axis=None)


@pytest.mark.parametrize("name", ["q, age", "n", "stage=I"])
def test_two_numbers_of_one_name_are_refused_by_the_declaration(name):
    declared = {"arm": CategoryColumn(("p", "p, q")), "stage": CategoryColumn(("I", "II"))}
    declared |= {"age": NumberColumn(40, 80), name: NumberColumn(0, 1)}
    formula = f"arm ~ age + stage + `{name}`"
    refused(lambda: group_numbers("table1", formula, declared), dpalgos.InputError, name, "rename")


@pytest.mark.parametrize("levels", [(0, 1), (False, True), ("", "yes")])
def test_a_row_is_called_like_its_level_also_if_that_is_zero(levels):
    codes = np.arange(400) % 2
    frame = pd.DataFrame({"arm": np.array(["a", "b"])[codes], "ill": np.array(levels, dtype=object)[codes]})
    declared = {"arm": ["a", "b"], "ill": levels}
    table = table_one("arm ~ ill", frame, levels=declared, epsilon=1e4, **BUDGET)
    names = [row["name"] for row in table.rows()]
    assert names[:3] == ["n, a", f"ill={levels[0]}, a", f"ill={levels[1]}, a"]


@pytest.mark.parametrize(("formula", "words"), FORMULAS["no_baseline_table"].items())
def test_what_is_no_baseline_table_is_refused(formula, words):
    refused(lambda: table_one(formula, trial(50), epsilon=1.0, **PUBLIC, **BUDGET), dpalgos.InputError, words)
