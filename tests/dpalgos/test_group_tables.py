"""The baseline table of a paper: its numbers, its ball, its limits, and what is hidden."""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest

import dpalgos
from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.events import Relation
from dpalgos.central.cumulative_counts import strategy
from dpalgos.central.group_sums import MISSING, N_CELLS, cell_edges, table_sensitivity
from dpalgos.formula import survival, table_one
from dpalgos.formula.columns import CategoryColumn, NumberColumn
from dpalgos.formula.group_table import group_numbers, numbers_of_declaration
from tests.builders import refused
from tests.dpalgos.test_survival import ARMS, BUDGET, FORMULAS, patients

pytestmark = pytest.mark.filterwarnings("ignore::dpalgos.PrivacyWarning")  # of a large epsilon
FORMULA = "arm ~ age + stage"
NO_NOISE = {"epsilon": 1e6, "delta": 1e-6}
PUBLIC = {"bounds": {"age": (40, 80)}, "levels": {**ARMS, "stage": ["I", "II", "III"]}}


def trial(n=2000, seed=0):
    frame = patients(n, seed)
    return frame.assign(stage=np.random.default_rng(seed).choice(["I", "II", "III"], n, p=[0.6, 0.3, 0.1]))


def by_statistic(table):
    return table.set_index(["variable", "level", "group", "statistic"])


def test_a_large_epsilon_gives_sizes_means_deviations_quartiles_and_shares():
    frame = trial()
    found = by_statistic(table_one(FORMULA, frame, epsilon=1e6, **PUBLIC, **BUDGET).frame())
    for arm, own in frame.groupby("arm"):
        assert found.loc[("n", "", arm, "size"), "estimate"] == pytest.approx(len(own), abs=0.1)
        age = found.loc[("age", "", arm)]["estimate"]
        assert age["mean"] == pytest.approx(own["age"].mean(), abs=0.01)
        assert age["standard deviation"] == pytest.approx(own["age"].std(ddof=0), abs=0.05)
        cell = 40 / 127
        for statistic, p in (("lower quartile", 0.25), ("median", 0.5), ("upper quartile", 0.75)):
            assert age[statistic] == pytest.approx(own["age"].quantile(p), abs=cell)
        for level, share in own["stage"].value_counts(normalize=True).items():
            row = found.loc[("stage", level, arm, "share")]
            assert row["estimate"] == pytest.approx(share, abs=1e-4)
            assert row["n"] == pytest.approx((own["stage"] == level).sum(), abs=0.3)
    assert found["ci_low"].notna().all()


def test_quartiles_of_whole_numbers_are_whole_numbers():
    frame = trial(3000)
    frame["age"] = frame["age"].clip(40, 80).round()
    options = {"interval": 0.95, "epsilon": 5.0, **PUBLIC, **BUDGET}
    rounded = table_one(FORMULA, frame, resolution={"age": 1}, **options).frame()
    plain = table_one(FORMULA, frame, **options).frame()
    is_quartile = rounded["statistic"].str.contains("quartile|median")
    numbers = ["estimate", "ci_low", "ci_high"]
    found, exact = (each.loc[is_quartile, numbers].to_numpy() for each in (rounded, plain))
    assert (found == found.round()).all()
    assert not (exact == exact.round()).all()
    assert (found[:, 1] <= exact[:, 1] + 1e-4).all()
    assert (found[:, 2] >= exact[:, 2] - 1e-4).all()
    assert (abs(found - exact) <= 1).all()
    for arm, own in frame.groupby("arm"):
        of_arm = found[(rounded.loc[is_quartile, "group"] == arm).to_numpy(), 0]
        assert abs(of_arm - own["age"].quantile([0.25, 0.5, 0.75])).max() <= 1
    assert rounded[~is_quartile].equals(plain[~is_quartile])


def declared_trial(**facts):
    declared = {"age": NumberColumn(40, 80, **facts)}
    return declared | {name: CategoryColumn(tuple(levels)) for name, levels in PUBLIC["levels"].items()}


@pytest.mark.parametrize("formula", [FORMULA, "arm ~ age", "arm ~ stage", "stage ~ arm + age"])
def test_a_table_is_read_again_from_its_declaration(formula):
    for facts in ({}, {"impute": 50.0}, {"may_lack": True}):
        numbers = group_numbers("table1", formula, declared_trial(**facts))
        again = numbers_of_declaration(json.loads(json.dumps(numbers.declaration)))
        assert again.described == numbers.described
        assert again.keywords == numbers.keywords


def test_the_order_of_variables_changes_what_is_shown_first_and_nothing_else():
    terms = "age + stage", "stage + age"
    one, other = (group_numbers("table1", f"arm ~ {each}", declared_trial()) for each in terms)
    assert one.described == other.described
    assert one.keywords == other.keywords
    rows = trial(50)
    np.testing.assert_array_equal(one.matrix(rows), other.matrix(rows))
    sums = np.arange(float(len(one.released_names)))
    tables = [by_statistic(each.result(sums, 1e-3, 50, None).frame()) for each in (one, other)]
    pd.testing.assert_frame_equal(tables[0], tables[1].loc[tables[0].index])


def skewed(rng, n):
    return np.exp(rng.normal(6, 1, n))


def half_zeros(rng, n):
    return np.where(rng.random(n) < 0.6, 0, rng.gamma(1.5, 20, n))


SHAPES = {
    "skewed, wide bounds": (skewed, 0, 20_000),
    "skewed": (skewed, 0, 4000),
    "half zeros": (half_zeros, 0, 200),
    "half zeros, wide bounds": (half_zeros, 0, 2000),
    "narrow in wide bounds": (lambda rng, n: rng.normal(60, 9, n), 0, 500),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_quartiles_and_means_are_covered_and_no_deviation_is_far_off(shape):
    draw, low, high = SHAPES[shape]
    many = np.clip(draw(np.random.default_rng(9), 400_000), low, high)
    truth = {"mean": many.mean(), "standard deviation": many.std()}
    truth |= {"lower quartile": np.quantile(many, 0.25), "median": np.median(many)}
    truth |= {"upper quartile": np.quantile(many, 0.75)}
    public = {"bounds": {"x": (low, high)}, "levels": ARMS, **BUDGET, "epsilon": 1.0, "interval": 0.95}
    covered = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"x": draw(rng, 1500), "arm": rng.choice(ARMS["arm"], 1500)})
        own = table_one("arm ~ x", frame, **{**public, "random_state": seed}).frame()
        own = own[own["variable"] == "x"].assign(truth=lambda table: table["statistic"].map(truth))
        shown = own["estimate"].notna()
        assert shown.groupby(own["statistic"]).sum().drop(["mean", "standard deviation"]).eq(2).all()
        inside = (own["ci_low"] <= own["truth"]) & (own["truth"] <= own["ci_high"])
        covered.append(inside.where(shown))
        ratio = (own["estimate"] / own["truth"])[shown & (own["statistic"] == "standard deviation")]
        assert ratio.between(0.5, 2).all()
    rates = pd.concat(covered, axis=1).astype(float).groupby(own["statistic"]).mean().mean(axis=1)
    assert rates.min() > 0.88  # of 80 intervals, where 0.95 is meant


def test_zeros_and_ones_are_shown_as_a_share_without_quartiles():
    frame = trial(4000).assign(ill=lambda table: (table["age"] > 65).astype(int))
    public = {"bounds": {"ill": (0, 1)}, "levels": ARMS, **BUDGET, "epsilon": 1.0, "interval": 0.95}
    found = by_statistic(table_one("arm ~ ill", frame, **public).frame()).loc["ill"]
    assert found.xs("mean", level="statistic")["n"].notna().all()
    assert found.drop("mean", level="statistic")["estimate"].isna().all()


def test_persons_with_several_rows_count_once():
    frame = trial(300)
    repeated = pd.concat([frame.assign(id=range(300))] * 3 + [frame.assign(id=range(300))[:100]] * 5)
    asked = {**PUBLIC, **BUDGET, "epsilon": 1e5}
    one = table_one(FORMULA, frame, **asked)
    of_persons = table_one(FORMULA, repeated, user="id", **asked)
    np.testing.assert_allclose(of_persons.sums, one.sums, atol=0.1)
    assert "each row" in one.promise
    assert "each user" in of_persons.promise


def test_a_budget_of_users_refuses_a_table_of_rows():
    budget = dpalgos.Budget(epsilon=2.0, delta=1e-5, relation=Relation.USER)
    asked = {**PUBLIC, "epsilon": 1.0, "delta": 1e-6, "budget": budget}
    with pytest.raises(dpalgos.InputError, match="user"):
        table_one(FORMULA, trial(50), **asked)


def test_a_group_that_is_too_small_for_the_noise_is_hidden():
    numbers = group_numbers("table1", "arm ~ age", declared_trial())
    sums = np.zeros((2, 131))
    sums[:, [0, 2, 60]] = [[30.0, 10.0, 20.0], [2000.0, 900.0, 1100.0]]
    table = numbers.result(sums.ravel(), 10.0, 2030, 0.95).frame()
    small = (table["group"] == ARMS["arm"][0]) & (table["variable"] == "age")
    assert table.loc[small, ["estimate", "n", "ci_low", "ci_high"]].isna().all(axis=None)
    kept = table[(table["group"] == ARMS["arm"][1]) & (table["statistic"] != "standard deviation")]
    assert kept.drop(columns="n").notna().all(axis=None)


def test_a_mark_of_a_clipped_cell_counts_at_the_ends_alone():
    X = np.column_stack([np.ones(300), np.repeat([-1.0, 0.5, 1.0], 100)])
    sample = dpalgos.Sample(X, moved=np.ones((300, 2), dtype=np.int8))
    found = dpalgos.estimate("group_sums", sample, rng=np.random.default_rng(0), levels=(1, 0), **NO_NOISE)
    assert found.estimate[-1] == pytest.approx(200, abs=0.1)


def stays(seed, n=6000):
    rng = np.random.default_rng([seed, 5])
    return pd.DataFrame({"arm": rng.choice(ARMS["arm"], n), "stay": rng.exponential(5, n)})


@pytest.mark.parametrize("epsilon", [1.0, 1e6])
def test_a_number_with_values_outside_its_bounds_has_no_mean(epsilon):
    ask = {"levels": ARMS, **BUDGET, "epsilon": epsilon}
    with pytest.warns(dpalgos.AccuracyWarning, match="stay"):
        table = table_one("arm ~ stay", stays(0), bounds={"stay": (0, 9.5)}, **ask).frame()
    found = table[table["variable"] == "stay"].set_index("statistic")
    assert found.loc[["mean", "standard deviation"], ["estimate", "ci_low"]].isna().all(axis=None)
    median = found.loc["median"]
    assert ((median.ci_low < 5 * np.log(2)) & (5 * np.log(2) < median.ci_high)).all()
    wide = table_one("arm ~ stay", stays(0), bounds={"stay": (0, 100)}, **ask)
    assert wide.cautions == []
    means = wide.frame().set_index("statistic").loc["mean"]
    assert ((means.ci_low < 5) & (means.ci_high > 5)).all()
    assert (means.ci_high - means.ci_low < 5).all()


def test_a_mean_that_noise_decides_is_blank():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"arm": rng.choice(ARMS["arm"], 500), "cost": rng.gamma(2, 400, 500)})
    ask = {"bounds": {"cost": (0, 100_000)}, "levels": ARMS, **BUDGET}
    for epsilon, shown in ((0.3, False), (1e4, True)):
        means = (
            table_one("arm ~ cost", frame, epsilon=epsilon, **ask).frame().set_index("statistic").loc["mean"]
        )
        assert means.estimate.notna().all() == shown


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


def encoded_row(row, levels):
    """What a row adds to the released sums, next to no noise: those of many equal rows, through A."""
    asked = {"levels": levels, "epsilon": 1e6, "delta": 0.1}
    found = dpalgos.estimate("group_sums", [row] * 1000, rng=np.random.default_rng(0), **asked)
    sums, start = found.estimate.reshape(levels[0], -1) / 1000, 1
    for n_levels in levels[1:]:
        start += max(n_levels, 1)
        if n_levels <= 0:
            cells = slice(start, start + N_CELLS)
            sums[:, cells] = sums[:, cells] @ strategy(N_CELLS).T
            start += 1 + N_CELLS - n_levels
    return sums.ravel()


LEVELS = [(2, 3, 0), (1, 0), (1, 2), (1, 1), (3, 0), (2, 1, 1), (1, 1, 0)]
LEVELS += [(1, 2, 2), (1, 3, 1, 2)]  # categories decide the distance
LEVELS += [(1, -1), (3, -1), (2, 2, -1), (1, -1, 0)]  # numbers that may lack cells


@pytest.mark.parametrize("levels", LEVELS)
def test_two_rows_are_as_far_apart_as_the_lemma_says_and_no_farther(levels):
    """Over all codes, codes that are none, missing cells, and numbers at ends of cells and far outside."""
    numbers = [-1e9, -1.0, -0.99, 0.0, cell_edges()[124], 1.0, MISSING, 1e9]
    ends = [range(each + 2) if each > 0 else numbers for each in levels]
    encoded = np.array([encoded_row(row, levels) for row in product(*ends)])
    squares = (encoded**2).sum(axis=1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2 * encoded @ encoded.T, 0))
    assert distances.max() == pytest.approx(float(table_sensitivity(levels)), rel=1e-3)


def with_gaps(frame, seed=0):
    """Return rows that lack a fifth of ages and a tenth of stages, in all forms of a missing cell."""
    rng, n = np.random.default_rng(seed), len(frame)
    gaps = np.array([None, np.nan, pd.NA], dtype=object)[rng.integers(3, size=(2, n))]
    lacks = rng.random((2, n)) < [[0.2], [0.1]]
    age, stage = (
        np.where(lack, gap, frame[name].astype(object))
        for lack, gap, name in zip(lacks, gaps, ("age", "stage"), strict=True)
    )
    return frame.assign(age=age, stage=stage)


IMPUTE = {"age": 60, "stage": "I"}


def test_missing_cells_are_counted_by_group_and_other_statistics_are_of_persons_with_a_value():
    frame = with_gaps(trial(3000))
    found = by_statistic(table_one(FORMULA, frame, epsilon=1e6, impute=IMPUTE, **PUBLIC, **BUDGET).frame())
    for arm, own in frame.groupby("arm"):
        assert found.loc[("n", "", arm, "size"), "estimate"] == pytest.approx(len(own), abs=0.1)
        for name in ("age", "stage"):
            row = found.loc[(name, "", arm, "missing")]
            assert row["n"] == pytest.approx(own[name].isna().sum(), abs=0.1)
            assert row["estimate"] == pytest.approx(own[name].isna().mean(), abs=1e-4)
        age, ages = found.loc[("age", "", arm)]["estimate"], own["age"].dropna().astype(float)
        assert age["mean"] == pytest.approx(ages.mean(), abs=0.01)
        assert age["standard deviation"] == pytest.approx(ages.std(ddof=0), abs=0.05)
        assert age["median"] == pytest.approx(ages.median(), abs=40 / 127)
        for level, share in own["stage"].dropna().value_counts(normalize=True).items():
            row = found.loc[("stage", level, arm, "share")]
            assert row["estimate"] == pytest.approx(share, abs=1e-4)
            assert row["n"] == pytest.approx((own["stage"] == level).sum(), abs=0.3)


def test_limits_of_missing_shares_and_of_persons_with_a_value_are_covered():
    ages = trial(100_000)["age"]
    truths = {("age", "missing"): 0.2, ("stage", "missing"): 0.1, ("age", "mean"): ages.mean()}
    truths |= {("age", "median"): ages.median()}
    covered = []
    for seed in range(60):
        asked = {**PUBLIC, **BUDGET, "random_state": seed, "epsilon": 0.5, "interval": 0.95}
        table = table_one(FORMULA, with_gaps(trial(1500, seed), seed), impute=IMPUTE, **asked).frame()
        own = table.set_index(["variable", "statistic"])
        truth = own.index.map(truths).to_numpy(dtype=float)
        is_covered = (own["ci_low"] <= truth) & (truth <= own["ci_high"])
        covered.append(is_covered[~np.isnan(truth)])
    rates = pd.concat(covered).groupby(level=[0, 1]).mean()
    assert set(rates.index) == set(truths)
    assert rates.min() > 0.89  # of 120 intervals, where 0.95 is meant


def test_a_group_imputes_and_a_missing_cell_that_is_not_declared_is_refused():
    frame = trial(400)
    lacks = frame.assign(arm=np.where(np.arange(400) % 4, frame["arm"], None))
    first = ARMS["arm"][0]
    table = table_one("arm ~ age", lacks, impute={"arm": first}, epsilon=1e5, **PUBLIC, **BUDGET)
    size = table.frame().query("variable == 'n'").set_index("group")["estimate"]
    assert size[first] == pytest.approx((lacks["arm"].fillna(first) == first).sum(), abs=1)
    assert not table.frame()["statistic"].eq("missing").any()
    asked = {"epsilon": 1.0, **PUBLIC, **BUDGET}
    refused(lambda: table_one(FORMULA, with_gaps(frame), **asked), dpalgos.InputError, "impute={'age': 60}")


def test_shares_are_covered():
    covered = []
    for seed in range(60):
        asked = {**PUBLIC, **BUDGET, "random_state": seed, "epsilon": 0.3, "interval": 0.95}
        own = table_one("arm ~ stage", trial(1500, seed), **asked).frame()
        own = own[own["statistic"] == "share"]
        truth = own["level"].map({"I": 0.6, "II": 0.3, "III": 0.1})
        covered.append(own["ci_low"].le(truth) & own["ci_high"].ge(truth))
    assert np.mean(covered) > 0.92


def test_curves_and_a_baseline_table_are_composed_in_one_budget():
    """A person is in both: together they cost more than one of them and less than the sum of their ε."""
    frame, budget = trial(300), dpalgos.Budget(epsilon=1.5, delta=1e-5)
    about = {"epsilon": 0.9, "delta": 1e-6, "budget": budget}
    curves = survival("Surv(time, died) ~ arm", frame, bounds={"time": (0, 5)}, levels=ARMS, **about)
    table = table_one(FORMULA, frame, **PUBLIC, **about)
    both = certified_epsilon((*curves.events, *table.events), 1e-5)
    assert max(certified_epsilon(each.events, 1e-5) for each in (curves, table)) < both
    assert both <= budget.spent_epsilon <= 1.5
    refused(lambda: table_one(FORMULA, frame, **PUBLIC, **about), dpalgos.InputError, "budget")
