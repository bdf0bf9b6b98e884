"""Times to an event: cells, follow-up, curves, the logrank test and hazard ratios."""

import tomllib
import tracemalloc
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.duration.hazard_regression import PHReg
from statsmodels.duration.survfunc import SurvfuncRight, survdiff
from threadpoolctl import threadpool_limits

import dpalgos
from dpalgos.accounting.events import Relation
from dpalgos.api import run_estimator
from dpalgos.audit.trials import RecordingSpend
from dpalgos.central.cumulative_counts import (
    Chains,
    CumulativeCounts,
    coded,
    farthest_rows,
    part_weights,
    strategy,
)
from dpalgos.central.preconditioned.follow_up import FollowUp
from dpalgos.central.preconditioned.life_table import LifeTable, life_table
from dpalgos.central.preconditioned.steps import Steps, Whitening
from dpalgos.core.record import Noisy
from dpalgos.core.rows import Block, Rows
from dpalgos.formula import phreg, survival, tables
from dpalgos.formula.columns import CategoryColumn, NumberColumn
from dpalgos.formula.design import design_of
from dpalgos.formula.group_table import group_numbers, noise_std_of, released_curves
from dpalgos.formula.person_rows import person_sample
from dpalgos.formula.time_to_event import declared_times
from dpalgos.models.families.poisson import SingleEvents
from dpalgos.release.noise_source import Noise
from dpalgos.rows.follow_up import FollowUpOfRows, products_of
from dpalgos.rows.sample import Sample
from dpalgos.survival.curves import SurvivalCurves
from dpalgos.survival.periods import (
    LEAST_EXPOSURE,
    cell_rows,
    followed_rows,
    rounded_to_cuts,
    until_first_event,
)
from tests.builders import refused

pytestmark = pytest.mark.filterwarnings("ignore::dpalgos.PrivacyWarning")  # of a large epsilon
CUTS = np.array([0.0, 1.0, 2.0, 4.0])
BUDGET = {"delta": 1e-6, "random_state": 0}


def patients(n=2000, seed=0, effect=-0.5):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"arm": rng.choice(["placebo", "drug"], n), "age": rng.uniform(40, 80, n)})
    hazard = 0.2 * np.exp(effect * (frame["arm"] == "drug") + 0.02 * (frame["age"] - 60))
    event, censored = rng.exponential(size=n) / hazard, np.minimum(rng.uniform(1, 8, n), 5.0)
    return frame.assign(time=np.minimum(event, censored), died=(event <= censored).astype(int))


ARMS = {"arm": ["placebo", "drug"]}


@pytest.mark.parametrize(
    ("start", "stop", "event", "rows"),
    [
        (0, 1.5, True, (0, 1.5, 1)),
        (0, 1.0, True, (0, 1, 1)),  # at a cut point
        (0, 1.0, False, (0, 1, 0)),
        (0, 0.0, True, (0, LEAST_EXPOSURE, 1)),
        (0, 9.0, True, (0, 3, 0)),  # censored at the longest
        (0, 4.0, True, (0, 3, 1)),
        (1.5, 3.0, True, (1.5, 2.5, 1)),
        (5.0, 9.0, True, (3 - LEAST_EXPOSURE, 3, 0)),
        (1.0, 1.5, False, (1, 1.5, 0)),
    ],
)
def test_a_person_is_followed_from_one_place_to_another(start, stop, event, rows):
    got = _followed([start], [stop], [event], [0], first=False)
    np.testing.assert_allclose([got.begin[0], got.end[0], got.response[0]], rows)


TIMES = st.floats(-1, 10, allow_nan=False)


@given(st.lists(st.tuples(TIMES, TIMES, st.booleans()), min_size=1, max_size=20))
def test_every_person_has_a_row_within_the_periods_whoever_else_is_there(people):
    start, stop, event = (np.array(each) for each in zip(*people, strict=True))
    got = _followed(start, stop, event, np.arange(len(people)), first=False)
    np.testing.assert_array_equal(got.person, np.arange(len(people)))
    assert (got.begin >= 0).all()
    assert (got.end <= len(CUTS) - 1).all()
    assert (got.end - got.begin >= LEAST_EXPOSURE / 2).all()
    alone = _followed(start[:1], stop[:1], event[:1], [0], first=False)
    for name in ("begin", "end", "response", "share"):
        np.testing.assert_array_equal(getattr(got, name)[:1], getattr(alone, name))
    rows = cell_rows(stop, event, np.zeros(len(stop), dtype=int), 1, CUTS).reshape(-1, 2, 10)
    is_known = rounded_to_cuts(stop, CUTS) >= CUTS[0]
    np.testing.assert_array_equal(rows[..., :4].sum(axis=(1, 2)), is_known)
    assert not ((got.response > 0) & ~is_known).any()  # an event before the first cut point
    assert np.hypot(rows[..., 4:7], rows[..., 7:]).max() <= 0.5


def test_a_curve_begins_with_those_who_are_followed_to_the_first_cut_point():
    frame, options = patients(), {"bounds": {}, "levels": ARMS, "epsilon": 1e6, **BUDGET}
    late = survival("Surv(time, died) ~ arm", frame, periods=[1, 2, 4], **options).curves()
    from_start = survival("Surv(time, died) ~ arm", frame, periods=[0, 1, 2, 4], **options).curves()
    pairs = late.merge(from_start, on=["group", "time"])
    np.testing.assert_allclose(
        pairs.query("time > 1")["events_x"], pairs.query("time > 1")["events_y"], atol=0.1
    )
    np.testing.assert_allclose(pairs["at_risk_x"], pairs["at_risk_y"], atol=0.1)


def test_periods_of_long_times_have_different_names():
    frame = patients().assign(time=lambda rows: 1e7 + rows["time"])
    cuts = [1e7, 1e7 + 1, 1e7 + 2, 1e7 + 4]
    found = phreg("Surv(time, died) ~ arm", frame, periods=cuts, levels=ARMS, epsilon=1e6, **BUDGET)
    assert found.time.labels == ("(10000000, 10000001]", "(10000001, 10000002]", "(10000002, 10000004]")
    hazards = found.baseline()["hazard"]
    assert hazards[1] / hazards[0] == pytest.approx(np.exp(0.06), abs=0.15)
    curves = survival("Surv(time, died) ~ 1", frame, periods=cuts, epsilon=1e6, **BUDGET)
    assert [row["name"] for row in curves.rows()] == ["at 10000001", "at 10000002", "at 10000004"]
    declared = {"time": NumberColumn(1e7, 1e7 + 4, periods=tuple(cuts)), "died": CategoryColumn((0, 1))}
    terms = group_numbers("survival", "Surv(time, died) ~ 1", declared).terms
    assert terms == ("at 10000001", "at 10000002", "at 10000004")


def vectors_of_rows(params, n_columns, n_rows=145):
    """What a row adds, for rows in each cell with parts beyond both limits, or within, and in no cell."""
    cells, parts = Chains(params.chain, params.with_times).layout(n_columns)
    rng, rows = np.random.default_rng(0), [np.zeros(n_columns)]
    for cell, pair in zip(cells, parts.T, strict=True):
        for values in ((-9.0, 9.0), (-0.5, 0.0), (0.5, 0.5), (0.0, 0.5), rng.uniform(-0.5, 0.5, 2)):
            row = rng.uniform(-3, 0, n_columns)
            row[pair[pair >= 0]] = np.array(values)[pair >= 0]
            row[cell] = 1.0
            rows.append(row)
    for row in rng.permutation(rows)[:n_rows]:
        spend = RecordingSpend(Noise([np.random.default_rng(0)]))
        run_estimator(dpalgos.get_estimator("cumulative_counts"), Sample(row[None]), params, spend)
        yield spend.releases[0].value[:, 0]


@pytest.mark.parametrize(
    ("chain", "n_columns", "with_times"),
    [
        *((3, 12, False), (10, 40, False), (12, 5, False), (33, 66, False), (4, 7, True), (4, 10, True)),
        *((4, 21, True), (17, 98, True), (12, 30, True), (33, 194, True)),
    ],
)
def test_no_pair_of_rows_is_farther_apart_than_the_sensitivity(chain, n_columns, with_times):
    params = CumulativeCounts(chain=chain, with_times=with_times, epsilon=1.0, delta=1e-6)
    chains = Chains(chain, with_times)
    vectors = np.array(list(vectors_of_rows(params, n_columns)))
    distances = np.linalg.norm(vectors[:, None] - vectors[None], axis=-1)
    one, other, largest = farthest_rows(chains, n_columns)
    assert distances.max() <= largest * (1 + 1e-9)
    attained = np.linalg.norm(np.subtract(*coded(np.array([one, other]), chains)))
    assert attained == pytest.approx(largest)
    squares = (strategy(chain) ** 2).sum(axis=0)
    if n_columns >= 2 * chains.width:
        part = part_weights(chain)[0] ** 2 / 2 if with_times else 0.0
        assert largest == pytest.approx(np.sqrt(2 * squares[0] + part))
    if chain > 9:  # a square root of cumulative sums
        root = strategy(chain)
        np.testing.assert_allclose(root @ root, np.tril(np.ones((chain, chain))), atol=1e-12)


def released(frame, formula="Surv(time, died) ~ arm", **options):
    levels = ARMS if "arm" in formula else None
    return survival(formula, frame, **{"levels": levels, "epsilon": 1.0, **BUDGET, **options})


def test_a_large_epsilon_gives_the_curves_and_the_tests_of_statsmodels():
    frame = patients(4000, effect=-0.15)
    cuts = np.linspace(0, 5, 101)
    found = released(frame, periods=cuts, epsilon=1e6)
    table = found.curves()
    for arm, own in frame.groupby("arm"):
        exact = SurvfuncRight(own["time"], own["died"])
        at = np.searchsorted(exact.surv_times, cuts, side="right") - 1
        curve = np.where(at >= 0, exact.surv_prob[at], 1.0)
        std = np.where(at >= 0, exact.surv_prob_se[at], 0.0)
        got = table[table["group"] == arm]
        np.testing.assert_allclose(got["survival"], curve, atol=2e-3)
        inner = curve < 0.97
        np.testing.assert_allclose((got["ci_high"] - got["ci_low"])[inner], 3.92 * std[inner], rtol=0.06)
        assert got["at_risk"].iloc[0] == pytest.approx(len(own), abs=0.1)
    chi2, pvalue = survdiff(frame["time"], frame["died"], frame["arm"])
    test = found.logrank()
    assert test.statistic == pytest.approx(chi2, rel=0.02)
    assert np.log(test.pvalue) == pytest.approx(np.log(pvalue), rel=0.05)
    model = PHReg(frame["time"], frame["arm"] == "drug", status=frame["died"]).fit()
    ratio = found.hazard_ratios().iloc[0]
    assert ratio["group"] == "drug"
    assert np.log(ratio["hazard_ratio"]) == pytest.approx(model.params[0], abs=0.1 * model.bse[0])
    half = np.log(ratio["ci_high"] / ratio["ci_low"]) / 2
    assert half == pytest.approx(1.96 * model.bse[0], rel=0.05)
    areas = [np.trapezoid(each["survival"], each["time"]) for _, each in table.groupby("group", sort=False)]
    np.testing.assert_allclose(found.restricted_means(5.0)["mean"], areas, rtol=1e-4)
    assert set(found.restricted_means(5.0)["until"]) == {5.0}


def simulated(n, epsilon, n_periods, seeds, hazards=(0.2, 0.2)):
    """Return curves of exponential times, without reading a frame."""
    cuts, chain = np.linspace(0, 4, n_periods + 1), n_periods + 1
    for seed in seeds:
        rng = np.random.default_rng(seed)
        group = rng.integers(0, 2, n)
        event, censored = rng.exponential(size=n) / np.array(hazards)[group], rng.uniform(1, 6, n)
        rows = cell_rows(np.minimum(event, censored), event <= censored, group, 2, cuts)
        options = {"epsilon": epsilon, "delta": 1e-6, "chain": chain, "with_times": True, "rng": rng}
        result = dpalgos.estimate("cumulative_counts", rows, **options)
        yield released_curves(result.estimate, noise_std_of(result.events), tuple(cuts), (0, 1))


@pytest.mark.parametrize("hazards", [(0.1, 0.3), (0.8, 0.3), (1.5, 0.5)])
def test_limits_cover_with_wide_periods_and_next_to_no_noise(hazards):
    rates, cuts = np.array(hazards), np.linspace(0, 4, 4)
    misses = np.zeros(3)
    for found in simulated(200_000, 20.0, 3, range(8), hazards):
        curves = found.curves()
        truth = np.exp(-np.outer(rates, cuts)).ravel()
        seen = curves["ci_low"].notna().to_numpy() & (curves["time"] > 0).to_numpy()
        misses[0] += ((curves["ci_low"] > truth) | (curves["ci_high"] < truth))[seen].mean()
        means = found.restricted_means()
        exact = -np.expm1(-rates * found.shown_until) / rates
        within = means["ci_low"].le(exact) & means["ci_high"].ge(exact)
        misses[1] += 1 - within.mean() * means["difference_low"].le(exact[1] - exact[0])[1]
        ratio = found.hazard_ratios().iloc[0]
        misses[2] += not ratio["ci_low"] < rates[1] / rates[0] < ratio["ci_high"]
    assert (misses <= 1).all()


@pytest.mark.parametrize(("n", "epsilon", "n_periods"), [(1000, 1.0, 8), (1000, 3.0, 20)])
def test_pointwise_limits_cover_and_the_logrank_test_keeps_its_size(n, epsilon, n_periods):
    covered, rejected, means, ratios = [], [], [], []
    times = np.linspace(0, 4, n_periods + 1)[1:]
    for curves in simulated(n, epsilon, n_periods, range(200)):
        table = curves.curves().query("time > 0")
        truth = np.exp(-0.2 * np.tile(times, 2))
        covered.append(
            ((table["ci_low"] <= truth) & (truth <= table["ci_high"])).where(table["ci_low"].notna())
        )
        rejected.append(curves.logrank().pvalue < 0.05)
        ratio = curves.hazard_ratios().iloc[0]
        ratios.append(ratio["ci_low"] <= 1 <= ratio["ci_high"])
        mean = curves.restricted_means(2.0)
        means.append(mean["difference_low"][1] <= 0 <= mean["difference_high"][1])
    assert np.nanmean(np.array(covered, dtype=float)) > 0.94
    assert np.nanmean(np.array(covered, dtype=float), axis=0).min() > 0.89  # of 200
    assert 0.01 < np.mean(rejected) < 0.1
    assert np.mean(means) > 0.9
    assert np.mean(ratios) > 0.9


def test_a_restricted_mean_counts_the_time_before_the_first_cut_point():
    time = np.random.default_rng(0).exponential(3, 20_000)
    frame = {"time": np.minimum(time, 6), "died": (time <= 6) * 1}
    curves = survival("Surv(time, died) ~ 1", frame, periods=[1, 2, 3, 4], epsilon=1e6, **BUDGET)
    expected = np.minimum(time[time >= 1], 4).mean()
    assert curves.restricted_means(4)["mean"].iloc[0] == pytest.approx(expected, rel=0.02)


def weekly_exits(rng, n):
    """No difference of arms; a quarter of one arm leaves in the first week of four years."""
    arm, exits = rng.integers(0, 2, n), np.full(n, 4.0)
    early = (arm == 1) & (rng.random(n) < 0.25)
    exits[early] = rng.uniform(0, 0.02, early.sum())
    return rng.exponential(1 / 0.3, n), exits, arm


def dropout_by_arm(rng, n):
    arm = rng.integers(0, 2, n)
    exits = rng.exponential(1 / np.where(arm == 1, 0.1, 0.8))
    return rng.exponential(1 / 0.3, n), np.minimum(exits, 4.0), arm


def whole_years(rng, n):
    return rng.exponential(1 / 0.3, n), rng.integers(1, 5, n).astype(float), rng.integers(0, 2, n)


@pytest.mark.parametrize("draw", [weekly_exits, dropout_by_arm, whole_years])
@pytest.mark.parametrize("n", [3000, 10_000])
def test_nothing_depends_on_when_in_a_period_persons_leave(draw, n):
    found = []
    for seed in range(60):
        event, exits, arm = draw(np.random.default_rng(seed), n)
        frame = {"time": np.minimum(event, exits), "died": (event <= exits) * 1, "arm": arm}
        options = {"periods": range(5), "levels": {"arm": [0, 1]}, "epsilon": 1.0, "delta": 1e-6}
        curves = survival("Surv(time, died) ~ arm", frame, random_state=seed, **options)
        table, ratio = curves.curves().query("time > 0").dropna(), curves.hazard_ratios().iloc[0]
        means, until = curves.restricted_means(), curves.shown_until
        truth, area = np.exp(-0.3 * table["time"]), -np.expm1(-0.3 * until) / 0.3
        found.append(
            (
                curves.logrank().pvalue < 0.05,
                ratio["ci_low"] <= 1 <= ratio["ci_high"],
                ((table["ci_low"] <= truth) & (truth <= table["ci_high"])).mean(),
                ((means["ci_low"] <= area) & (area <= means["ci_high"])).mean(),
            )
        )
    rejected, *covered = np.mean(found, axis=0)
    assert rejected <= 0.15  # of 60
    assert min(covered) >= 0.87


@pytest.mark.parametrize("convert", [np.float64, np.float32])
def test_a_time_is_a_cut_point_if_it_differs_by_rounding(convert):
    times = np.concatenate([np.arange(1, 11) * 0.1, np.linspace(0, 1, 11)[1:]]).astype(convert)
    frame = {"time": np.repeat(times, 50), "died": np.ones(1000, dtype=int)}
    for cuts in (np.linspace(0, 1, 11), np.arange(11) * 0.1, np.arange(11) / 10):
        options = {"periods": cuts, "epsilon": 1e6, "delta": 1e-6, "random_state": 0}
        events = survival("Surv(time, died) ~ 1", frame, **options).curves()["events"]
        np.testing.assert_allclose(events[1:], 100, atol=0.1)
        own = followed_rows(np.zeros(1000), frame["time"], frame["died"] == 1, np.arange(1000), cuts)
        assert set(np.bincount(np.ceil(own.end[own.response > 0]).astype(int) - 1)) == {100}


def test_an_event_of_whole_years_happened_in_the_year_before():
    rng = np.random.default_rng(0)
    arm = rng.integers(0, 2, 40_000)
    event, exits = rng.exponential(1 / np.where(arm == 1, 0.4, 0.2)), rng.integers(2, 9, len(arm))
    time = np.minimum(np.ceil(event), exits)
    frame = {"time": time, "died": (np.ceil(event) <= exits) * 1, "arm": arm}
    options = {"levels": {"arm": [0, 1]}, "periods": [0, 2, 4, 6, 8], "epsilon": 1e5, "delta": 1e-6}
    options |= {"random_state": 0}
    ratios = survival("Surv(time, died) ~ arm", frame, resolution=1, **options).hazard_ratios()
    assert np.log(ratios["hazard_ratio"][0]) == pytest.approx(np.log(2), abs=0.05)
    fit = phreg("Surv(time, died) ~ arm", frame, resolution=1, **options)
    assert fit.params["arm[T.1]"] == pytest.approx(np.log(2), abs=0.05)
    assert fit.design.declaration["columns"]["time"]["resolution"] == 1
    default = survival(
        "Surv(time, died) ~ arm", frame, resolution=3, **{**options, "periods": None}, bounds={"time": (0, 8)}
    )
    assert default.periods == (0, 3, 6, 9)
    refused(
        lambda: survival("Surv(time, died) ~ arm", frame, resolution=3, **options),
        dpalgos.InputError,
        "periods",
        "resolution = 3",
    )


@pytest.mark.parametrize("cuts", [range(6), range(4), [0, 2, 5]])
@pytest.mark.parametrize("unit", [{}, {"resolution": 1}])
def test_persons_at_risk_are_those_followed_to_a_cut_point_or_beyond(cuts, unit):
    rng, cuts = np.random.default_rng(0), np.array(cuts)
    time = np.ceil(rng.exponential(3, 3000)).clip(1, 5)
    frame = {"time": time, "died": (rng.random(3000) < 0.6) * 1}
    options = {"periods": cuts, "epsilon": 1e6, **BUDGET, **unit}
    table = survival("Surv(time, died) ~ 1", frame, **options).curves()
    np.testing.assert_allclose(table["at_risk"], (time >= cuts[:, None]).sum(axis=1), atol=0.1)


def test_those_at_cut_points_add_little_noise_if_times_are_not_cut_points():
    errors, cuts = [], np.linspace(0, 8, 17)
    for seed in range(12):
        time = np.random.default_rng(seed).exponential(5, 3000)
        frame = {"time": time, "died": np.ones(3000, dtype=int)}
        options = {"periods": cuts, "epsilon": 1.0, "delta": 1e-6, "random_state": seed}
        table = survival("Surv(time, died) ~ 1", frame, **options).curves()
        errors.append(table["at_risk"] - (time >= cuts[:, None]).sum(axis=1))
    assert np.sqrt(np.mean(np.square(errors))) < 23.5  # 26 without shrinkage


def test_a_record_without_those_at_the_ends_of_periods_is_read():
    """Version 4.0 released one column of parts."""
    released = np.arange(1.0, 11.0)
    found = released_curves(released, 1e-3, (0, 1, 2), ("all",))
    np.testing.assert_array_equal(found.sums, [[[4, 5], [9, 10]]])
    assert not found.ends.any()


@pytest.mark.parametrize("shape", [0.4, 3.0])
def test_a_hazard_that_falls_or_rises_within_a_period_is_no_difference_of_arms(shape):
    found = []
    for seed in range(5):
        rng, n = np.random.default_rng(seed), 100_000
        arm = rng.integers(0, 2, n)
        event = (rng.exponential(size=n) / 0.6) ** (1 / shape)
        exits = np.where((arm == 0) & (rng.random(n) < 0.6), rng.uniform(0, 1, n), 2.0)
        frame = {"time": np.minimum(event, exits), "died": (event <= exits) * 1, "arm": arm}
        options = {"periods": [0, 1, 2], "levels": {"arm": [0, 1]}, "epsilon": 1e3, "delta": 1e-6}
        curves = survival("Surv(time, died) ~ arm", frame, random_state=seed, **options)
        log_ratio, low, high = curves.log_hazard_ratios()[:, 0]
        found.append(log_ratio / ((high - low) / (2 * 1.96)))
    assert abs(np.mean(found)) < 2.5


def thin(seed, n, n_periods=16, epsilon=1.0):
    """Return curves of two hazards, with nobody at risk in the end, and the truth at each cut point."""
    rng = np.random.default_rng(seed)
    arm = rng.integers(0, 2, n)
    event, exits = rng.exponential(1 / np.where(arm == 1, 0.3, 0.2)), rng.uniform(2, 7, n)
    frame = {"time": np.minimum(event, exits), "died": (event <= exits) * 1, "arm": arm}
    options = {"periods": np.linspace(0, 8, n_periods + 1), "levels": {"arm": [0, 1]}, "epsilon": epsilon}
    curves = survival("Surv(time, died) ~ arm", frame, delta=1e-6, random_state=seed, **options)
    table = curves.curves().query("time > 0")
    return table, np.exp(-np.where(table["group"] == 1, 0.3, 0.2) * table["time"])


def test_an_upper_limit_is_not_that_of_a_thin_last_period():
    table, _ = thin(1, 3000, epsilon=3.0)
    early = table["time"] <= 4
    upper, lower = table["ci_high"] - table["survival"], table["survival"] - table["ci_low"]
    assert upper[early].max() < 0.06
    assert upper[early].mean() < 1.5 * lower[early].mean()


def test_limits_hold_where_noise_decides_that_a_cut_point_is_shown():
    runs = [thin(seed, 2500, 20, epsilon=0.5) for seed in range(100)]
    inside = np.array(
        [
            ((table["ci_low"] <= truth) & (truth <= table["ci_high"])).where(table["survival"].notna())
            for table, truth in runs
        ],
        dtype=float,
    )
    rarely = np.isfinite(inside).mean(axis=0) < 0.5
    assert np.isfinite(inside[:, rarely]).sum() >= 30
    assert np.nanmean(inside[:, rarely]) > 0.91


def test_a_period_without_events_widens_the_lower_limit():
    """Of twelve persons at risk, none has the event: a hazard of a fifth would not be rare."""
    curves = SurvivalCurves(
        counts=np.array([[[10.0, 0, 0], [0, 18, 12]]]),
        sums=np.array([[[0.0, 0], [0, -9]]]),
        ends=np.zeros((1, 2, 2)),
        noise=1e-6 * np.eye(3),
        noise_of_sums=1e-3 * np.ones(2),
        periods=(0, 1, 2),
    )
    table = curves.curves()
    low, high = table["ci_low"].diff().iloc[2], table["ci_high"].diff().iloc[2]
    assert table["survival"].iloc[2] == pytest.approx(table["survival"].iloc[1])
    assert low < -0.015
    assert high == pytest.approx(0, abs=1e-3)


def test_a_group_that_is_not_shown_takes_nothing_from_the_others():
    frame = patients(3000)
    few = frame[:25].assign(arm="rare")
    options = {"levels": {"arm": ["placebo", "drug", "rare"]}, "periods": [0, 1, 2, 3, 4, 5]}
    found = released(pd.concat([frame, few]), **options)
    assert found.curves().query("group == 'rare' and time > 0")["survival"].isna().all()
    assert found.shown_until == 5
    test, ratios, means = found.logrank(), found.hazard_ratios(), found.restricted_means()
    assert (test.df_num, test.pvalue < 1e-3) == (1, True)
    assert ratios["hazard_ratio"].notna().tolist() == [True, False]
    assert means["mean"].notna().tolist() == [True, True, False]
    assert means["difference"].notna().tolist() == [False, True, False]
    swapped = {**options, "levels": {"arm": ["rare", "placebo", "drug"]}}
    assert released(pd.concat([frame, few]), **swapped).logrank().pvalue < 1e-3


def test_curves_are_monotone_and_hidden_where_few_are_at_risk():
    for curves in simulated(200, 0.5, 12, range(20)):
        for _, own in curves.curves().groupby("group"):
            shown = own["survival"].dropna()
            assert shown.between(0, 1).all()
            for column in ("survival", "ci_low", "ci_high"):
                assert (own[column].dropna().diff().dropna() <= 1e-12).all()
            assert own["ci_low"].dropna().between(0, 1).all()
            assert own["survival"].iloc[len(shown) :].isna().all()
    nobody = SurvivalCurves(
        counts=np.zeros((2, 2, 3)),
        sums=np.zeros((2, 2, 2)),
        ends=np.zeros((2, 2, 2)),
        noise=np.eye(3),
        noise_of_sums=np.ones(2),
        periods=(0, 1, 2),
        groups=(0, 1),
    )
    assert np.isnan(nobody.logrank().pvalue)


def test_one_curve_without_groups_and_codes_of_an_event():
    frame = patients(500).assign(status=lambda each: np.where(each["died"] == 1, "dead", "alive"))
    plain = released(frame, "Surv(time, died) ~ 1", bounds={"time": (0, 5)})
    words = survival(
        "Surv(time, status) ~ 1",
        frame,
        bounds={"time": (0, 5)},
        levels={"status": ["alive", "dead"]},
        epsilon=1.0,
        **BUDGET,
    )
    pd.testing.assert_frame_equal(plain.curves(), words.curves())
    assert plain.periods == tuple(np.linspace(0, 5, 17))
    assert plain.certified_epsilon <= 1.0
    with pytest.raises(dpalgos.InputError, match="two groups"):
        plain.logrank()


def fitted(frame, **options):
    asked = {"bounds": {"age": (40, 80)}, "levels": ARMS, "periods": [0, 1, 2, 3, 5], "epsilon": 3.0}
    return phreg("Surv(time, died) ~ arm + age", frame, **{**asked, **BUDGET, **options})


def test_hazard_ratios_are_those_of_cox_regression_at_a_large_epsilon():
    frame = patients(8000)
    result = fitted(frame, epsilon=1e6, random_state=1)
    covariates = np.column_stack([frame["arm"] == "drug", frame["age"]])
    cox = sm.PHReg(frame["time"], covariates, frame["died"]).fit()
    table = result.table().set_index("term").loc[["arm[T.drug]", "age"]]
    np.testing.assert_allclose(table["estimate"], cox.params, atol=0.15 * cox.bse.max())
    np.testing.assert_allclose(table["hazard_ratio"], np.exp(table["estimate"]))
    ratios = result.table().set_index("term")["hazard_ratio"]
    assert set(ratios.index[ratios.isna()]) == {"Intercept", "baseline slope"}
    assert "baseline terms" in str(result.summary())
    for nested in (
        result.submodel(["arm"]),
        result.submodel("Surv(time, died) ~ arm"),
        result.submodel("arm"),
    ):
        assert nested.params["arm[T.drug]"] == pytest.approx(cox.params[0], abs=0.05)
        assert set(nested.terms) == {*result.design.terms} - {"age"}
    refused(lambda: result.submodel("Surv(age, died) ~ arm"), dpalgos.InputError, "response")
    hazard = result.baseline().set_index("period")["hazard"] * np.exp(60 * table.loc["age", "estimate"])
    np.testing.assert_allclose(hazard, 0.2, rtol=0.15)
    assert result.t_test("arm[T.drug] = 0").pvalue < 1e-6
    assert "hazard_ratio" in result.submodel(["arm"]).coefficients().columns()


def test_survival_at_covariates_has_limits_that_contain_the_truth():
    at = {"arm": ["placebo", "drug"], "age": [50.0, 70.0]}
    hazards = 0.2 * np.exp(np.array([0.0, -0.5]) + 0.02 * np.array([-10.0, 10.0]))
    truth = np.exp(-np.outer(hazards, [1, 2, 3, 5])).ravel()
    covered = []
    for seed in range(12):
        found = fitted(patients(4000, seed), random_state=seed).survival(at)
        given = found["ci_low"].notna()  # the intercept has no interval in a few of a hundred runs
        assert (found["ci_low"] <= found["survival"])[given].all()
        assert (found["survival"] <= found["ci_high"])[given].all()
        covered.extend(((found["ci_low"] <= truth) & (truth <= found["ci_high"]))[given])
    assert len(covered) >= 80
    assert np.mean(covered) > 0.85
    assert list(found["time"]) == [1, 2, 3, 5] * 2


@pytest.mark.parametrize("unit", [365.25, 0.1])
def test_survival_at_covariates_does_not_depend_on_the_unit_of_times(unit):
    frame, at = patients(4000), {"arm": ["placebo", "drug"], "age": [50.0, 70.0]}
    years = fitted(frame, random_state=0)
    other = fitted(
        frame.assign(time=unit * frame["time"]),
        periods=[unit * cut for cut in (0, 1, 2, 3, 5)],
        random_state=0,
    )
    columns = ["survival", "ci_low", "ci_high"]
    np.testing.assert_allclose(other.survival(at)[columns], years.survival(at)[columns], rtol=1e-6)


@pytest.mark.parametrize("n_rows", [1, 500])
def test_a_fit_takes_less_memory_than_ten_times_its_columns(n_rows):
    """Also if a few persons have many rows: no array has all pairs of the rows of a person."""
    rng, n = np.random.default_rng(0), 40_000
    person = np.repeat(np.arange(n), np.where(np.arange(n) < 20, n_rows, 1))[:n]
    start = np.arange(n) - np.searchsorted(person, person)
    frame = {f"x{j}": rng.uniform(-1, 1, n) for j in range(5)}
    frame |= {"start": start / 500 * 5, "stop": (start + 1) / 500 * 5, "id": person}
    frame["died"] = (rng.random(n) < 0.3) * (np.append(person[1:], -1) != person)
    bounds = {f"x{j}": (-1, 1) for j in range(5)} | {"start": (0, 5), "stop": (0, 5)}
    options = {"bounds": bounds, "user": "id", "epsilon": 1.0, **BUDGET}
    formula = "Surv(start, stop, died) ~ x0 + x1 + x2 + x3 + x4"
    phreg(formula, {name: each[:3000] for name, each in frame.items()}, **options)  # what it imports
    tracemalloc.start()
    phreg(formula, frame, **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * sum(each.nbytes for each in frame.values())


def test_slopes_of_too_few_persons_are_exactly_zero():
    fit = fitted(patients(200), epsilon=0.3, periods=[0, 5])
    assert (fit.params[["arm[T.drug]", "age"]] == 0).all()


def trial_of_two_arms(seed, n=3000):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"arm": rng.integers(0, 2, n), "z": rng.normal(0, 1, n).clip(-2, 2)})
    frame["w"] = rng.integers(0, 2, n) - 0.5
    hazard = 0.25 * np.exp(frame @ [-0.5, 0.4, 0.3])
    event, exits = rng.exponential(size=n) / hazard, np.minimum(rng.uniform(2, 6, n), 5.0)
    return frame.assign(time=np.minimum(event, exits), died=(event <= exits) * 1)


def test_a_hazard_regression_of_few_persons_has_narrow_intervals_that_cover():
    options = {"levels": {"arm": [0, 1]}, "bounds": {"time": (0, 5)}, "epsilon": 1.0, "delta": 1e-6}
    bounds = {"bounds": {"time": (0, 5), "z": (-2, 2), "w": (-0.5, 0.5)}}
    half, covered, counts = [], [], []
    for seed in range(100):
        frame = trial_of_two_arms(seed)
        fit = phreg("Surv(time, died) ~ arm + z + w", frame, **{**options, **bounds}, random_state=seed)
        low, high = fit.conf_int().loc[["arm[T.1]", "z", "w"]].to_numpy().T
        half.append((high - low)[0] / 2)
        covered.append((low <= [-0.5, 0.4, 0.3]) & (high >= [-0.5, 0.4, 0.3]))
        if seed < 20:
            ratio = survival("Surv(time, died) ~ arm", frame, **options, random_state=seed).hazard_ratios()
            counts.append(np.log(ratio["ci_high"] / ratio["ci_low"])[0] / 2)
    assert np.isfinite(half).all()
    assert np.mean(half) < 1.5 * np.mean(counts)
    assert np.mean(covered) > 0.9


@pytest.mark.parametrize(("epsilon", "n_periods", "n_columns"), [(1.0, 12, 1), (30.0, 16, 2)])
def test_the_default_number_of_periods_follows_from_persons_and_budget(epsilon, n_periods, n_columns):
    options = {"levels": {"arm": [0, 1]}, "bounds": {"time": (0, 5)}, "delta": 1e-6, "random_state": 0}
    fit = phreg("Surv(time, died) ~ arm", trial_of_two_arms(0, 4000), epsilon=epsilon, **options)
    assert len(fit.time.labels) == n_periods
    assert len(fit.time.time_columns) == n_columns
    assert set(np.round(np.diff(fit.time.periods), 12)) != {5 / n_periods}  # early periods are shorter
    whole = phreg(
        "Surv(time, died) ~ arm", trial_of_two_arms(0, 4000), resolution=1, epsilon=epsilon, **options
    )
    assert whole.time.periods == (0, 1, 2, 3, 4, 5)


def in_rows(frame, width):
    """Return rows of follow-up of at most a width for each person, in random order."""
    parts = []
    for k in range(int(np.ceil(frame["time"].max() / width))):
        own = frame[frame["time"] > k * width]
        end = np.minimum(own["time"], (k + 1) * width)
        happened = own["died"] * (end == own["time"])
        parts.append(own.assign(start=k * width, time=end, died=happened.astype(int)))
    return pd.concat(parts).sample(frac=1, random_state=0)


def cut_in_three(frame):
    """Return the same follow-up with each person's row cut at two random times."""
    cuts = np.sort(np.random.default_rng(0).uniform(0, 1, (2, len(frame))), axis=0)
    edges = [np.zeros(len(frame)), *(cuts * frame["time"].to_numpy()), frame["time"].to_numpy()]
    parts = [
        frame.assign(start=edges[k], time=edges[k + 1], died=frame["died"] if k == 2 else 0) for k in range(3)
    ]
    return pd.concat(parts)


@pytest.mark.parametrize(("width", "epsilon"), [(0.25, 1e6), (1.0, 1e6), (1.7, 1e6), (0, 1.0), (0, 1e4)])
def test_a_person_with_several_rows_is_one_unit(width, epsilon):
    """Persons whose follow-up is in several rows are the same persons, also beyond the last cut point."""
    frame = patients(3000).assign(person=np.arange(3000))
    split = in_rows(frame, width) if width else cut_in_three(frame)
    options = {"bounds": {"age": (40, 80), "start": (0, 5)}, "levels": ARMS, "epsilon": epsilon}
    formula, periods = "Surv(start, time, died) ~ arm + age", [0, 1, 2, 4]
    found = phreg(formula, split, user="person", periods=periods, **options, **BUDGET)
    narrow = {**options, "bounds": {"age": (40, 80), "start": (0, 0.5)}}
    same = phreg(formula, split, user="person", periods=periods, **narrow, **BUDGET)
    np.testing.assert_array_equal(found.params, same.params)
    whole = fitted(frame, epsilon=epsilon, periods=periods)
    assert found.about.n == whole.about.n == 3000
    np.testing.assert_allclose(found.params, whole.params, atol=1e-6 if width else 1e-4)
    if epsilon > 1:
        last = found.survival({"arm": ["drug"], "age": [60]})["survival"].iloc[-1]
        assert last == pytest.approx(0.5, abs=0.1)


def _of_rows(rows, codes, periods, *, all_events=False, **columns):
    declared = {
        "start": NumberColumn(0, 2),
        "stop": NumberColumn(0, 2, periods=periods),
        "died": CategoryColumn((0, 1)),
        **columns,
    }
    design = design_of("Surv(start, stop, died) ~ z", declared)
    design = replace(design, survival=replace(design.survival, all_events=all_events))
    arrays = {name: np.asarray(each) for name, each in rows.items()}
    return design, person_sample(design, arrays, codes)


def test_a_row_keeps_its_covariates_over_its_follow_up():
    rows = {
        "start": [0, 0.25, 1.0, 0.0],
        "stop": [0.25, 1.0, 1.5, 2.0],
        "died": [0, 0, 1, 0],
        "z": [1.0, 0, 0.5, -1],
    }
    design, found = _of_rows(rows, np.array([0, 0, 0, 1]), (0, 1, 2), z=NumberColumn(-1, 1))
    np.testing.assert_array_equal(found["user_ids"], [0, 0, 0, 1])
    np.testing.assert_allclose(found["follow_up"].begin, rows["start"])
    np.testing.assert_allclose(found["follow_up"].end, rows["stop"])
    np.testing.assert_allclose(found["row_shares"], [1 / 6, 1 / 2, 1 / 3, 1])
    np.testing.assert_array_equal(found["y"], [0, 0, 1, 0])
    expected = design.matrix(design.survival.at({"z": np.array(rows["z"])}, np.zeros((4, 1))))
    expected[:, 0] += np.log(np.array([0.25, 0.75, 0.5, 2]) / 2)
    np.testing.assert_allclose(found["X"], expected, atol=1e-12)


def _released_table(rows, codes, periods=(0, 1, 2), **options):
    """The life table of all events of rows without noise, as a sum over persons."""
    rows, z = {"z": np.zeros(len(codes)), **rows}, NumberColumn(-1, 1)
    _, found = _of_rows(rows, codes, periods, all_events=True, z=z)
    sample = Sample(**{**found, **options}).in_units(None, 1.0 if options else None)
    query = life_table(Rows.of_sample(sample), sample.follow_up)
    n = int(sample.n_users.min())
    return n * query.value, n * float(query.sensitivity)


def test_integrals_over_time_are_sums_over_periods():
    rng, K = np.random.default_rng(0), 5
    parts, functions = rng.dirichlet(np.ones(K)), rng.normal(size=(K, 2))
    begin = np.array([0.0, 1.5, 2.0, 4.9])
    end = np.array([5.0, 1.6, 4.0, 4.9])  # the last one is left out
    own = FollowUpOfRows.of_lengths(begin, end, parts, np.zeros((2, 3)))
    own = replace(own, functions=functions, weights=parts)
    inside = np.clip(end[:, None] - np.arange(K), 0, 1) - np.clip(begin[:, None] - np.arange(K), 0, 1)
    inside = inside * parts
    np.testing.assert_allclose(own.exposure, inside.sum(axis=1), atol=1e-15)
    inside[:3] /= inside[:3].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(own.means, inside @ functions)
    for of_row, mean, spread in zip(inside[:3], own.means, own.spreads, strict=False):
        np.testing.assert_allclose(spread, np.cov(functions.T, aweights=of_row, ddof=0).ravel(), atol=1e-14)
        np.testing.assert_allclose(mean, of_row @ functions)
    assert not own.means[3].any()
    assert not own.spreads[3].any()
    np.testing.assert_array_equal(own.groups, np.unique(own.groups, return_inverse=True)[1])
    vectors, columns = rng.normal(size=(4, 3)), rng.normal(size=(2, 3))
    found = own.typical_lengths(vectors, columns)
    assert found.shape[1] > 1
    for group, lengths in enumerate(found.T):
        there = own.groups == group
        squares = ((vectors[:, None] + functions[there] @ columns) ** 2).sum(axis=2)
        np.testing.assert_allclose(lengths**2, squares @ parts[there] / parts[there].sum())


@pytest.mark.parametrize("predictor", [-1e4, -740.0, -700.0, 1e4])
def test_means_over_time_are_numbers_at_any_hazard(predictor):
    own = FollowUpOfRows.of_lengths(np.zeros(2), np.array([0.5, 2.0]), np.full(2, 0.5), np.zeros((1, 1)))
    own = replace(own, functions=np.array([[-1.0], [1.0]]))
    block = Block(np.zeros((2, 1)), None, rows=slice(0, 2), units=np.arange(2), follow_up=own)
    with np.errstate(all="raise", under="ignore"):
        predictors, response = np.full(2, predictor), np.array([1.0, 0])
        found = FollowUp(2, SingleEvents().mean, 1.0).stopped(block, predictors, np.zeros(1), response)
        assert (np.abs(found.means) <= 1 + 1e-12).all()
        assert (np.abs(found.spreads) <= 1 + 1e-12).all()


@pytest.mark.parametrize("limit", [0.4, 9.0, np.inf])
def test_scores_over_time_are_sums_over_periods(limit):
    """A row that spans periods adds what a row for each period adds, by a sum over these."""
    rng, K, n = np.random.default_rng(1), 6, 40
    begin, end = np.sort(rng.uniform(0, K, (2, n)), axis=0)
    functions, slopes = rng.normal(size=(K, 2)), np.array([0.5, -0.8])
    response = np.where(rng.random(n) < 0.5, 1 + rng.choice([0, 0.7], n), 0.0)
    response = np.minimum(response, 1) if limit == np.inf else response
    predictor = rng.normal(size=n)
    lengths = rng.dirichlet(np.ones(K))

    factors = rng.uniform(size=(n, K))

    def added(begin, end, predictor, response, person):
        own = FollowUpOfRows.of_lengths(begin, end, lengths, np.zeros((2, 1)))
        own = replace(own, functions=functions, parts=lengths[::-1])
        rows = slice(0, len(begin))
        block = Block(np.zeros((len(begin), 1)), response, rows=rows, units=person, follow_up=own)
        predictor = predictor + np.log(own.exposure)
        found = FollowUp(n, np.exp, limit).stopped(block, predictor, slopes, response)
        parts = []
        for one in (found, found.shortened(lambda: factors[person][:, : own.groups[-1] + 1])):
            squares = one.information[:, :1] * (one.spreads + products_of(one.means))
            parts += [one.residual, one.information, squares]
        return np.array([np.bincount(person, each, n) for each in np.column_stack(parts).T])

    cuts = [[b, *range(int(b) + 1, int(np.ceil(e))), e] for b, e in zip(begin, end, strict=True)]
    person = np.repeat(np.arange(n), [len(each) - 1 for each in cuts])
    begins, ends = np.concatenate([each[:-1] for each in cuts]), np.concatenate([each[1:] for each in cuts])
    responses = np.where(ends == end[person], response[person], 0.0)
    divided = added(begins, ends, predictor[person], responses, person)
    np.testing.assert_allclose(added(begin, end, predictor, response, np.arange(n)), divided, atol=1e-12)
    density = lengths[::-1] * np.exp(functions @ slopes)
    hazards = (np.minimum(ends, np.floor(begins) + 1) - begins) * density[np.floor(begins).astype(int)]
    hazards = np.bincount(person, hazards * np.exp(predictor[person]), n)
    if limit == np.inf:
        np.testing.assert_allclose(divided[0], response - hazards)
    alone = response == 0
    np.testing.assert_allclose(divided[0][alone], -np.minimum(hazards, limit)[alone])


def test_the_life_table_counts_events_and_times_at_risk():
    rows = {"start": [0, 0.5, 0.0], "stop": [0.5, 1.5, 2.0], "died": [0, 1, 0]}
    value, _ = _released_table(rows, np.array([0, 0, 1]))
    table = LifeTable.of(Noisy(value, np.asarray(0.0)), 1, np.ones(2))
    np.testing.assert_allclose(table.events, [0, 1])
    np.testing.assert_allclose(table.at_risk, [2, 1.5])
    np.testing.assert_allclose(LifeTable.of_note(table.as_note, np.ones(2)).at_risk, [2, 1.5])


def test_a_person_moves_the_life_table_by_its_sensitivity_at_most():
    """Persons with any rows, overlapping ones among them; two attain the bound."""
    rng, moves = np.random.default_rng(0), []
    both = [
        ({"start": [0.0], "stop": [2.0], "died": [1]}, 1),
        ({"start": [0.0], "stop": [0.0], "died": [1]}, 1),
        ({"start": [0.0] * 3, "stop": [2.0] * 3, "died": [0, 1, 1]}, 3),
    ]
    for _ in range(60):
        m = int(rng.integers(1, 6))
        start = rng.choice([0.0, 0.5, 1.0, 1.7], m)
        stop = start + rng.choice([0.0, 0.2, 1.0, 1.5], m)
        both.append(({"start": start, "stop": stop, "died": rng.integers(0, 2, m)}, m))
    values = []
    for rows, m in both:
        joined = {name: [*np.ravel(each), 1.0 if name == "stop" else 0] for name, each in rows.items()}
        value, bound = _released_table(joined, np.append(np.zeros(m, dtype=int), 1))
        values.append(value)
    moves = [np.linalg.norm(one - other) / bound for one in values for other in values]
    assert max(moves) == pytest.approx(1, abs=1e-5)
    assert max(moves) <= 1 + 1e-12


def test_operational_time_is_even_in_the_pooled_hazard():
    events, lengths = np.array([30.0, 10, 10]), np.array([1.0, 2, 1])
    table = LifeTable(events=events, at_risk=np.array([100.0, 50, 25]), lengths=lengths, std=0.0)
    np.testing.assert_allclose(table.hazards, events / table.at_risk, rtol=0.02)
    np.testing.assert_allclose(table.parts.sum(), 1)
    assert (np.diff(table.times[:, 0]) > 0).all()
    assert table.late == 1
    np.testing.assert_allclose(table.weights, events / events.sum(), rtol=0.02)
    at_risk = np.array([100.0, -50, 25])
    noisy = LifeTable(events=np.array([30.0, -9, 2]), at_risk=at_risk, lengths=lengths, std=20.0)
    assert (noisy.hazards > 0).all()
    assert noisy.is_visible.tolist() == [False, False, False]


_LENGTHS = np.diff(6 * (np.arange(17) / 16) ** 2)
_AT_RISK = np.array(
    [4000, 3950, 3870, 3760, 3610, 3450, 3250, 3050, 2830, 2500, 1970, 1500, 1080, 710, 400, 120.0]
)


def _noisy_hazards(log_hazard, std, n_runs=200):
    """The logarithms of used hazards per unit of time, (runs, K), with noise of ``std`` events."""
    rng, K = np.random.default_rng(0), len(_LENGTHS)
    found = [
        LifeTable(
            events=_AT_RISK * _LENGTHS * np.exp(log_hazard) + std * rng.normal(size=K),
            at_risk=_AT_RISK + std * np.sqrt(K) * rng.normal(size=K),
            lengths=_LENGTHS,
            std=std,
        ).hazards
        for _ in range(n_runs)
    ]
    return np.log(found / _LENGTHS)


@pytest.mark.parametrize("slope", [0.0, 0.8])
def test_noise_of_a_life_table_leaves_hazards_that_are_even_or_rise(slope):
    """Periods differ in length: a period is not drawn to the hazard of an average period."""
    log_hazard = -1.6 + slope * np.linspace(-1, 1, 16)
    found = _noisy_hazards(log_hazard, 40.0)
    weight = _AT_RISK * _LENGTHS * np.exp(log_hazard)
    off = (found - log_hazard).mean(axis=0) @ weight / weight.sum()
    assert abs(off) < 0.05
    assert np.abs((found - log_hazard).mean(axis=0)[4:13]).max() < 0.12
    assert np.sqrt(((found - log_hazard) ** 2).mean(axis=0))[4:12].max() < 0.17


def test_coordinates_along_the_baseline_hazard_are_shorter_and_say_the_same():
    rng, d, n_effects = np.random.default_rng(0), 5, 2
    rows = np.column_stack([rng.normal(size=(400, d - 1)) @ rng.normal(size=(d - 1, d - 1)), np.ones(400)])
    Z = np.column_stack([rows, np.ones(400)])
    white = Whitening.of(Noisy(Z.T @ Z / 400, np.asarray(1e-9)), np.eye(d + 1), d - 1)
    theta = rng.normal(size=d)
    state = Steps(SingleEvents(), white, theta, np.zeros(()), clip=0.5, threshold=3.0)
    after = state.shortened(n_effects, 0.6)
    np.testing.assert_allclose(after.white.matrix @ after.theta, white.matrix @ theta)
    np.testing.assert_allclose(after.white.mean_row @ after.theta, white.mean_row @ theta)
    np.testing.assert_allclose(after.white.size, n_effects + 0.36 * (d - n_effects))
    np.testing.assert_allclose(after.threshold, 3.0 * np.sqrt(after.white.size / d))
    variances, short = np.linalg.eigh(
        np.cov((rows @ after.white.matrix).T, bias=True) + np.outer(*2 * [after.white.mean_row])
    )
    np.testing.assert_allclose(variances, [0.36] * (d - n_effects) + [1] * n_effects, atol=1e-4)
    np.testing.assert_allclose(after.white.matrix[:n_effects] @ short[:, : d - n_effects], 0, atol=1e-6)
    curvature = (
        after.white.scale
        @ after.white.normal_curvature(SingleEvents(), after.theta, 0.0, 0.5)
        @ after.white.scale
    )
    whole = white.normal_curvature(SingleEvents(), theta, 0.0, 0.5)
    moved = np.linalg.solve(white.matrix, after.white.matrix)
    np.testing.assert_allclose(curvature, moved.T @ whole @ moved)


def test_hazards_that_stand_out_of_noise_are_kept():
    log_hazard = -1.6 + np.where(np.arange(16) % 2, 0.7, -0.7)
    np.testing.assert_allclose(_noisy_hazards(log_hazard, 1e-3, 1)[0], log_hazard, atol=0.01)
    kept = (_noisy_hazards(log_hazard, 10.0).mean(axis=0) - log_hazard)[4:12]
    assert np.abs(kept).max() < 0.25


def test_a_treatment_that_starts_in_follow_up_and_does_nothing_has_ratio_one():
    rng, n = np.random.default_rng(0), 6000
    begins, event, censored = rng.uniform(0, 3, n), rng.exponential(5, n), rng.uniform(2, 6, n)
    end, happened = np.minimum(event, censored), (event <= censored).astype(int)
    treated = end > begins
    before = {"id": range(n), "start": 0.0, "stop": np.minimum(begins, end), "died": happened * ~treated}
    after = {"id": range(n), "start": begins, "stop": end, "died": happened}
    frame = pd.concat([pd.DataFrame(before).assign(x=0), pd.DataFrame(after).assign(x=1)[treated]])
    bounds = {"start": (0, 6), "stop": (0, 6), "x": (0, 1)}
    found = phreg("Surv(start, stop, died) ~ x", frame, bounds=bounds, epsilon=1, user="id", **BUDGET)
    low, high = found.conf_int().loc["x"]
    assert low < 0 < high < 0.5


@pytest.mark.parametrize("right", ["z0 + z1 + g", "z0 * g + bs(z1, df=5)"])
def test_rows_of_a_person_depend_on_no_other_person_bit_by_bit(right):
    """Rounding of what a period adds to the columns once passed on the first person's values."""
    levels = tuple("abcdefghijkl")
    declared = {name: NumberColumn(-3, 3) for name in ("z0", "z1")} | {"g": CategoryColumn(levels)}
    declared |= {"time": NumberColumn(0, 5), "died": CategoryColumn((0, 1))}
    design, found = design_of(f"Surv(time, died) ~ {right}", declared), []

    def persons(n, seed):
        rng = np.random.default_rng(seed)
        frame = {name: rng.uniform(-3, 3, n) for name in ("z0", "z1")}
        frame |= {"time": rng.uniform(0.1, 5, n), "died": rng.integers(2, size=n)}
        return frame | {"g": rng.choice(levels, n).astype(object)}

    same = persons(60, 1)
    for n_others, n_threads in [(0, 1), (1, 2), (3, 3), (31, 2), (4097, 3)]:
        others = persons(n_others, n_others)
        rows = {name: np.concatenate([others[name], each]) for name, each in same.items()}
        with threadpool_limits(n_threads):
            made = person_sample(design, rows, np.arange(n_others + 60))
            added = np.append(0, made["follow_up"].time_columns[0])
            found.append(made["X"][made["user_ids"] >= n_others] + added)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def _followed(start, stop, event, codes, *, first=True):
    start, stop, event, codes = map(np.asarray, (start, stop, event, codes))
    kept = np.arange(len(stop))
    if first:
        kept, stop, event = until_first_event(start, stop, event, codes, CUTS)
    found = followed_rows(start[kept], stop, event, codes[kept], CUTS)
    return replace(found, row=kept[found.row])


def test_rows_outside_the_periods_take_no_place():
    start, stop = np.array([0.0, 6.0, 7.0, 8.0]), np.array([0.5, 7.0, 8.0, 9.0])
    found = _followed(start, stop, np.zeros(4, dtype=bool), np.array([0, 0, 1, 1]))
    assert found.person.tolist() == [0, 1]
    np.testing.assert_allclose(found.end - found.begin, [0.5, LEAST_EXPOSURE])  # only outside: the minimum
    assert found.row.tolist() == [0, 2]


def test_follow_up_ends_at_the_first_event_unless_all_count():
    start, stop = np.array([0.0, 1.0, 2.0, 0.0]), np.array([1.0, 2.0, 3.0, 3.0])
    event, codes = np.array([False, True, True, False]), np.array([0, 0, 0, 0])
    found = _followed(start, stop, event, codes)
    assert sorted(found.row.tolist()) == [0, 1, 3]
    assert (found.response >= 1).sum() == 1
    assert (found.end - found.begin).sum() == pytest.approx(4)  # the overlapping row ends at 2, too
    found = _followed(start, stop, event, codes, first=False)
    assert (found.response >= 1).sum() == 2


@given(st.lists(st.tuples(TIMES, TIMES, st.booleans(), st.integers(0, 3)), min_size=1, max_size=20))
def test_rows_of_a_person_have_shares_that_sum_to_one_whoever_else_is_there(people):
    people = sorted(people, key=lambda each: each[3])
    start, stop, event, codes = (np.array(each) for each in zip(*people, strict=True))
    codes = np.unique(codes, return_inverse=True)[1]
    found = _followed(start, stop, event, codes)
    assert np.bincount(found.person, minlength=codes.max() + 1).min() >= 1
    assert np.bincount(found.person, found.response >= 1).max(initial=0) <= 1
    np.testing.assert_allclose(np.bincount(found.person, found.share), 1)
    first = codes == 0
    alone = _followed(start[first], stop[first], event[first], codes[first])
    for name in ("begin", "end", "response", "share"):
        np.testing.assert_array_equal(getattr(found, name)[found.person == 0], getattr(alone, name))


@pytest.mark.parametrize("epsilon", [1.0, 1e4])
def test_recurrent_events_count_once_or_all(epsilon):
    rng, n = np.random.default_rng(1), 4000
    x, end, rows = rng.uniform(-1, 1, n), rng.uniform(2, 6, n), []
    now, live = np.zeros(n), np.arange(n)
    while len(live):
        stop = np.minimum(now[live] + rng.exponential(2 * np.exp(-0.5 * x[live])), end[live])
        happened = stop < end[live]
        rows.append(
            pd.DataFrame({"id": live, "start": now[live], "stop": stop, "ev": happened * 1, "x": x[live]})
        )
        now[live], live = stop, live[happened]
    frame, bounds = pd.concat(rows), {"start": (0, 6), "stop": (0, 6), "x": (-1, 1)}
    for events in ("first", "all"):
        found = phreg(
            "Surv(start, stop, ev) ~ x",
            frame,
            bounds=bounds,
            periods=[0, 3, 6],
            epsilon=epsilon,
            user="id",
            events=events,
            **BUDGET,
        )
        low, high = found.conf_int().loc["x"]
        assert low < 0.5 < high
        assert high - low < 0.4
    refused(
        lambda: phreg("Surv(start, stop, ev) ~ x", frame, bounds=bounds, epsilon=1, events="any", **BUDGET),
        dpalgos.InputError,
        "events must be",
    )


def test_all_events_of_rows_without_persons_may_have_a_resolution():
    """A row has one event at most, whose time is a multiple of the resolution."""
    frame = patients(3000, effect=-1.0).assign(time=lambda each: np.ceil(each["time"]))
    options = {"levels": ARMS, "periods": [0, 1, 2, 3, 5], "resolution": 1.0, "epsilon": 1e4, **BUDGET}
    alone = phreg("Surv(time, died) ~ arm", frame, events="all", **options)
    named = frame.assign(person=np.arange(3000))
    by_person = phreg("Surv(time, died) ~ arm", named, events="all", user="person", **options)
    np.testing.assert_allclose(alone.params, by_person.params)
    assert alone.params["arm[T.drug]"] == pytest.approx(-1.0, abs=0.2)


def test_a_row_that_is_left_out_adds_nothing_to_its_person_nor_to_others():
    """Rows without a value, at any place in the follow-up, as if they were not there."""
    frame = in_rows(patients(3000).assign(person=np.arange(3000)), 1.0)
    is_complete = np.random.default_rng(0).random(len(frame)) > 0.4
    bounds = {"start": (0, 5), "time": (0, 5), "age": (40, 80)}
    design = design_of(
        "Surv(start, time, died) ~ arm + age",
        declared_times("Surv(start, time, died) ~ arm + age", None, None, {"bounds": bounds, "levels": ARMS}),
    )
    found = []
    for rows, used in [(frame, is_complete), (frame[is_complete], None)]:
        columns = {name: rows[name].to_numpy() for name in design.uses}
        codes = np.unique(rows["person"], return_inverse=True)[1]
        sample = Sample(**person_sample(design, columns, codes, is_complete=used))
        settings = design.survival.settings({"intercept": True, "offset_bounds": design.offset_bounds})
        found.append(
            dpalgos.estimate(
                "preconditioned_glm",
                sample,
                epsilon=1e6,
                delta=1e-6,
                rng=np.random.default_rng(0),
                **settings,
            ).estimate
        )
    np.testing.assert_allclose(*found, atol=0.02)


def test_events_within_units_of_time_have_the_score_of_an_interval():
    rng, n = np.random.default_rng(3), 20_000
    arm = rng.integers(0, 2, n)
    event, end = np.ceil(rng.exponential(1 / np.where(arm, 0.45, 0.25))), rng.integers(1, 7, n)
    frame = pd.DataFrame({"arm": arm, "time": np.minimum(event, end), "died": (event <= end) * 1})
    options = {"bounds": {"time": (0, 6), "arm": (0, 1)}, "resolution": 1.0, "epsilon": 1e4}
    low, high = phreg("Surv(time, died) ~ arm", frame, **options, **BUDGET).conf_int().loc["arm"]
    assert low < np.log(1.8) < high
    assert high - low < 0.1


def test_cells_that_are_streamed_give_the_same_curves(monkeypatch):
    frame, levels, periods = patients(2000), {"arm": ["placebo", "drug"]}, [0, 1, 2, 5]
    options = {"levels": levels, "periods": periods, "epsilon": 1.0, **BUDGET}
    curves = survival("Surv(time, died) ~ arm", frame, **options).curves()
    monkeypatch.setattr(tables, "_NUMBERS_AT_ONCE", 64)
    pd.testing.assert_frame_equal(survival("Surv(time, died) ~ arm", frame, **options).curves(), curves)


def _cox(frame, columns, entry=None):
    fit = PHReg(
        frame["time"].to_numpy(),
        frame[columns].to_numpy(float),
        status=frame["died"].to_numpy(),
        entry=None if entry is None else frame[entry].to_numpy(),
        ties="efron",
    ).fit()
    return fit.params, fit.bse


def _weibull(shape, n=4000, seed=0, rate=0.3, effect=0.8, longest=6.0):
    rng = np.random.default_rng(seed)
    x, arm = rng.normal(size=n).clip(-3, 3), rng.integers(0, 2, n)
    event = (rng.exponential(1, n) * np.exp(-effect * x + 0.4 * arm) / rate) ** (1 / shape)
    end = np.minimum(rng.uniform(1, 8, n), longest)
    return pd.DataFrame({"x": x, "arm": arm, "time": np.minimum(event, end), "died": (event <= end) * 1})


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.0])
def test_without_noise_a_hazard_ratio_is_that_of_cox_regression_for_any_baseline(shape):
    """Also with strong covariates, which change who is at risk."""
    frame = _weibull(shape)
    options = {"bounds": {"x": (-3, 3), "arm": (0, 1), "time": (0, 6)}, "epsilon": 1e6, **BUDGET}
    found = phreg("Surv(time, died) ~ x + arm", frame, **options).params[["x", "arm"]]
    expected, error = _cox(frame, ["x", "arm"])
    np.testing.assert_allclose((found - expected) / error, 0, atol=0.3)


def test_a_hazard_that_is_not_proportional_gives_a_caution():
    cautions, wider = [], []
    for seed, late in product(range(4), (1 / 1.5, 3.0)):
        rng, n = np.random.default_rng(seed), 6000
        arm, spent = rng.integers(0, 2, n), rng.exponential(1, n)
        early = 0.4 * np.where(arm == 1, 3.0, 1.0)
        after = 0.4 * np.where(arm == 1, late, 1.0)
        event = np.where(spent < early, spent / early, 1 + (spent - early) / after)
        end = rng.uniform(3, 6, n)
        frame = {"arm": arm, "time": np.minimum(event, end), "died": (event <= end) * 1}
        options = {"bounds": {"time": (0, 6), "arm": (0, 1)}, "epsilon": 1.0, "delta": 1e-6}
        result = phreg("Surv(time, died) ~ arm", frame, random_state=seed, **options)
        cautions.append(any("proportional" in each for each in result.cautions))
        wider.append(result.model.released.late_effect > 0)
    assert cautions == [True, False] * 4
    assert wider == cautions


@pytest.mark.slow
def test_intervals_cover_the_stated_target_if_hazards_are_not_proportional():
    """The target is the equation's solution at the same hazard limit, on many persons without noise."""

    def persons(n, seed):
        rng = np.random.default_rng(seed)
        x, arm, spent = rng.uniform(-1, 1, n), rng.integers(0, 2, n), rng.exponential(1, n)
        early, after = (0.4 * np.where(arm == 1, ratio, 1) * np.exp(0.3 * x) for ratio in (3, 1 / 1.5))
        event = np.where(spent < early, spent / early, 1 + (spent - early) / after)
        end = rng.uniform(3, 6, n)
        return {"x": x, "arm": arm, "time": np.minimum(event, end), "died": (event <= end) * 1}

    formula, terms = "Surv(time, died) ~ x + arm", ["x", "arm"]
    cuts = 6 * np.linspace(0, 1, 13) ** 2  # the periods by which 4,000 persons are followed
    options = {"bounds": {"x": (-1, 1), "arm": (0, 1)}, "periods": cuts.tolist(), "delta": 1e-6}
    far = [
        phreg(formula, persons(100_000, seed), epsilon=1e6, random_state=0, hazard_limit=1.25, **options)
        for seed in range(1000, 1004)
    ]
    target = np.mean([fit.params[terms] for fit in far], axis=0)
    covered = []
    for seed in range(100):
        fit = phreg(formula, persons(4000, seed), epsilon=1.0, random_state=seed, **options)
        low, high = fit.conf_int().loc[terms].to_numpy().T
        covered.append((low <= target) & (target <= high))
    assert (np.mean(covered, axis=0) >= 0.88).all(), np.mean(covered, axis=0)


def test_events_in_a_small_part_of_one_period_give_a_caution():
    rng = np.random.default_rng(0)
    time = np.where(rng.random(3000) < 0.5, rng.uniform(2.5, 2.6, 3000), 5.0)
    frame = {"arm": rng.integers(0, 2, 3000), "time": time, "died": (time < 5) * 1}
    options = {"bounds": {"time": (0, 5), "arm": (0, 1)}, "epsilon": 1.0, **BUDGET}
    wide, narrow = (
        phreg("Surv(time, died) ~ arm", frame, periods=cuts, **options)
        for cuts in ([0, 1, 2, 3, 4, 5], [0, 2.5, 2.52, 2.54, 2.56, 2.58, 2.6, 5])
    )
    assert any("(2, 3]" in each for each in wide.cautions)
    assert not any("one period" in each for each in narrow.cautions)


def test_a_hazard_limit_is_a_setting_of_first_events():
    frame = patients(500)
    default, far = (fitted(frame, epsilon=100.0, **more) for more in ({}, {"hazard_limit": 4.0}))
    assert not np.allclose(default.params, far.params)
    for options in ({"hazard_limit": 0.0}, {"hazard_limit": 1e6}, {"hazard_limit": 4.0, "events": "all"}):
        refused(lambda options=options: fitted(frame, **options), dpalgos.InputError, "hazard_limit")


def test_a_baseline_hazard_is_that_of_its_period_and_hidden_without_events():
    """A reference period without events does not hide the others."""
    rng, n = np.random.default_rng(0), 20_000
    x = rng.uniform(-1, 1, n)
    spent = rng.exponential(1, n) * np.exp(-0.5 * x)
    event = 1 + spent / 0.5  # no event in the first year
    event = np.where(event > 2, event + 1, event)  # nor in the third one
    frame = {"x": x, "time": np.minimum(event, 5), "died": (event <= 5) * 1}
    options = {"bounds": {"x": (-1, 1)}, "periods": [0, 1, 2, 3, 4, 5], "epsilon": 3.0, **BUDGET}
    found = phreg("Surv(time, died) ~ x", frame, **options).baseline()
    assert found["hazard"].isna().tolist() == [True, False, True, False, False]
    assert (found["ci_low"].dropna() < 0.5).all()
    assert (found["ci_high"].dropna() > 0.5).all()


def test_neighbors_who_differ_in_one_person_are_protected_as_one_unit():
    frame = patients(600).assign(person=np.arange(600))
    curves = {"levels": ARMS, "bounds": {"time": (0, 5)}, "epsilon": 1.0, **BUDGET}
    for unit, options in (("row", {}), ("user", {"user": "person"})):
        result = fitted(frame, epsilon=1.0, **options)
        assert result.about.n == 600
        assert result.certified_epsilon <= 1.0
        found = survival("Surv(time, died) ~ arm", frame, **curves, **options)
        for each in (result, found):
            assert {event.relation.unit_of_privacy for event in each.events} == {unit}
            assert ("row is taken as a person" in each.promise) == (unit == "row")


@pytest.mark.parametrize(
    ("factor", "words"), [(365.25, "beyond the last"), (1 / 365.25, "first period"), (1.0, "")]
)
def test_times_in_another_unit_than_cut_points_give_a_caution(factor, words, recwarn):
    frame = patients(3000).assign(time=lambda each: factor * each["time"])
    options = {"levels": ARMS, "periods": [0, 1, 2, 3, 4, 5], "epsilon": 1.0, "delta": 1e-6}
    curves = survival("Surv(time, died) ~ arm", frame, random_state=0, **options)
    assert [words in each for each in curves.cautions] == [True] * bool(words)
    told = [str(each.message) for each in recwarn if each.category is dpalgos.AccuracyWarning]
    assert told == curves.cautions


def test_a_budget_of_users_refuses_rows_and_curves_refuse_a_person_with_two():
    frame = patients(300).assign(person=np.arange(300))
    budget = dpalgos.Budget(epsilon=5, delta=1e-5, relation=Relation.USER)
    curves = {"levels": ARMS, "bounds": {"time": (0, 5)}, "epsilon": 1.0, "delta": 1e-6}
    formula = "Surv(time, died) ~ arm"
    refused(lambda: survival(formula, frame, budget=budget, **curves), dpalgos.InputError, "protects a user")
    refused(lambda: phreg(formula, frame, budget=budget, **curves), dpalgos.InputError, "protects a user")
    survival(formula, frame, budget=budget, user="person", **curves)
    twice = frame.assign(person=[77_777, *[77_777], *range(298)])
    error = refused(
        lambda: survival(formula, twice, user="person", **curves), dpalgos.InputError, "user must"
    )
    assert "77" not in str(error)


FORMULAS = tomllib.loads(Path(__file__).with_name("formulas.toml").read_text())
REFUSED = [(*row, {"periods": [0, 1, 5]}) for row in FORMULAS["no_time"]]
REFUSED += [(*row, {}) for row in FORMULAS["no_time_of_equal_periods"]]


@pytest.mark.parametrize(("words", "formula", "options", "periods"), REFUSED)
def test_what_is_no_time_to_an_event_is_refused(words, formula, options, periods):
    asked = {"bounds": {"age": (40, 80)}, "levels": ARMS, "epsilon": 1.0, **periods, **options}
    refused(lambda: phreg(formula, patients(100), **asked, **BUDGET), dpalgos.InputError, words)


def test_a_hazard_regression_predicts_curves_of_given_persons_alone():
    frame, result = patients(100), fitted(patients(500))
    refused(lambda: result.predict(frame), dpalgos.InputError, "survival")
    refused(lambda: result.survival(at=frame[:0]), dpalgos.InputError, "at must")
    refused(lambda: result.submodel(None), dpalgos.InputError, "terms")


@pytest.mark.parametrize("n_events", [0, 1, 5])
def test_with_few_events_the_lower_limit_is_near_and_no_budget_widens_it(n_events):
    """The limit is relative to H, which is next to 0: without events, it was 0.008 for a curve at 1."""
    rng, n = np.random.default_rng(3), 2000
    died = np.isin(np.arange(n), rng.choice(n, n_events, replace=False))
    frame = pd.DataFrame({"t": rng.uniform(0, 8, n).clip(0, 5), "died": died.astype(int)})
    ask = {"bounds": {"t": (0, 5)}, "delta": 1e-6, "random_state": 1}
    curves = {eps: survival("Surv(t, died) ~ 1", frame, epsilon=eps, **ask).frame() for eps in (1.0, 1e6)}
    low = {eps: each.ci_low.to_numpy() for eps, each in curves.items()}
    assert (low[1e6] >= low[1.0]).all()
    at_risk = curves[1e6].at_risk.to_numpy()
    assert (1 - low[1e6] <= 8 * (1 + n_events) / at_risk).all()


def test_limits_are_numbers_where_nobody_is_left():
    """The logarithm of the lower limit overflowed if all persons of a large table leave early."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"t": rng.uniform(0, 1, 9000), "died": 0})
    with np.errstate(all="raise"):
        curve = survival("Surv(t, died) ~ 1", frame, epsilon=1, bounds={"t": (0, 5)}, delta=1e-6).frame()
    assert curve.ci_low.dropna().between(0, 1).all()
