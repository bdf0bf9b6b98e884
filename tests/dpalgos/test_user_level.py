"""Means, regressions and choices over users: errors, users of unequal size, what m buys, schemes."""

from bisect import bisect_left

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.gaussian_dp import gaussian_delta
from dpalgos.api import build_params
from dpalgos.core.persons import sums_of_units
from dpalgos.core.rows import Rows
from dpalgos.mechanisms.private_range import miss_probability
from dpalgos.rows.sample import Sample
from dpalgos.user_level.aggregation import BinSelection
from dpalgos.user_level.first_order import LINEAR_LOSSES, UserObjective
from dpalgos.user_level.user_level_selection import UserLevelSelection, mean_losses
from tests.contract.moves import largest_moves
from tests.dpalgos.silence import estimated, recorded

SETTINGS = {"epsilon": 1.0, "delta": 1e-6}


def mean_of(X, user_ids, seed=0, **keywords):
    keywords = {**SETTINGS, "value_bound": 10.0, **keywords}
    return estimated("user_level_mean", X, user_ids=user_ids, seed=seed, **keywords)


OF_USERS = {"value_bound": 5.0, "concentration_radius": 0.5, "range_failure": 1.0, **SETTINGS}


def released(X, user_ids, settings, script=None, seed=0):
    return recorded("user_level_mean", Sample(X, user_ids=user_ids), settings, script, seed=seed)[0]


def test_replacing_a_user_by_one_with_another_number_of_rows_is_covered():
    """Sensitivities are per user, whatever the number of rows."""
    rng = np.random.default_rng(3)
    for seed in range(20):
        X, ids = 3 * rng.standard_t(2, (30, 3)), np.arange(30) % 6
        first = released(X, ids, OF_USERS, seed=seed)
        other_ids = np.r_[ids[ids != 2], np.full(50, 2)]
        other_X = np.r_[X[ids != 2], 10 * rng.standard_t(2, (50, 3))]
        second = released(other_X, other_ids, OF_USERS, first.published)
        assert max(largest_moves(first, second).values()) <= 1 + 1e-9


@pytest.mark.parametrize("aggregation", ["winsorized", "clipped"])
def test_what_an_interval_of_one_column_releases_is_covered(aggregation):
    """Sensitivities are attained by a user, and never exceeded; together the releases cost what was asked."""
    settings = {**OF_USERS, "aggregation": aggregation, "interval": 0.95}
    rng, ids = np.random.default_rng(4), np.arange(30) % 6
    for seed in range(20):
        X = 3 * rng.standard_t(2, (30, 1))
        first = released(X, ids, settings, seed=seed)
        other = np.where(ids[:, None] == 2, 10 * rng.standard_t(2, (30, 1)), X)
        assert max(largest_moves(first, released(other, ids, settings, first.published)).values()) <= 1 + 1e-9
    first = released(np.zeros((2, 1)), [0, 0], settings)
    estimator = dpalgos.get_estimator("user_level_mean")
    found = estimator.witnesses(build_params(estimator, settings), 1)
    single = [(X, other) for X, _, other, _ in found.values() if len(X) == 1]
    runs = [[released(rows, [0], settings, first.published) for rows in pair] for pair in single]
    for label in ("mean", "score moments")[: 1 if aggregation == "winsorized" else 2]:
        assert max(largest_moves(*each)[label] for each in runs) == pytest.approx(1)
    assert 0.98 * SETTINGS["epsilon"] < certified_epsilon(first.record.events, SETTINGS["delta"])
    assert certified_epsilon(first.record.events, SETTINGS["delta"]) <= SETTINGS["epsilon"]


def users_with_extreme_rows(rng, n_rows_of_first, d=8):
    """Return the rows of eight users; only the number of rows of the first one changes between calls."""
    others = rng.standard_normal((30, d)) * 10.0 ** rng.integers(-17, 18, (30, d))
    first = rng.standard_normal((n_rows_of_first, d))
    ids = np.r_[np.zeros(n_rows_of_first, dtype=int), 1 + np.arange(30) % 7]
    return np.r_[first, others], np.ones(len(ids)), ids


@pytest.mark.parametrize("name", sorted(LINEAR_LOSSES))
def test_what_is_computed_for_a_user_depends_on_no_other_user_bit_by_bit(name):
    """BLAS sums the last rows of a matrix in another order: one user's number of rows moved other users."""
    loss = LINEAR_LOSSES[name]
    for seed in range(60):
        coef = np.random.default_rng(seed).standard_normal((8, 1))
        parts = []
        for n_rows in (2, 3, 40):
            X, y, ids = users_with_extreme_rows(np.random.default_rng(seed), n_rows)
            users = Rows.of_sample(Sample(X, y, user_ids=ids).in_units())
            objective = UserObjective(rows=users, loss=loss, radius=1.0)
            settings = {"candidates": (tuple(coef[:, 0]), (0.0,) * 8), "loss": name, "loss_bound": 1e20}
            params = UserLevelSelection(**SETTINGS, **settings, concentration_radius=1.0)
            means = sums_of_units(users, lambda block: (block.weight, block.X), 8)
            made = [means, objective.gradients(coef), mean_losses(users, params)]
            parts.append(np.concatenate(made, axis=1)[1:])
        for other in parts[1:]:
            np.testing.assert_array_equal(parts[0], other)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_a_loss_that_is_not_a_number_is_the_largest():
    users = Rows.of_sample(Sample(np.full((1, 2), 1e60), np.ones(1), user_ids=[0]).in_units())
    settings = {"candidates": ((1e30, -1e30), (0.0, 0.0)), "loss": "squared", "loss_bound": 4.0}
    params = UserLevelSelection(**SETTINGS, **settings, concentration_radius=1.0)
    object.__setattr__(params, "candidates", ((1e250, -1e250), (0.0, 0.0)))  # refused by the class
    np.testing.assert_array_equal(mean_losses(users, params), [[4.0, 0.5]])


@pytest.mark.parametrize("m", [2, 20])
def test_group_privacy_of_printed_noise_adds_up_to_the_delta_of_a_user(m):
    """m rows at (ε/m, δ') each are (ε, δ' Σ e^(iε/m)); each row moves the mean by 2B/(nm)."""
    settings = {**OF_USERS, "aggregation": "group_privacy", "calibration": "paper", "samples_per_user": m}
    made = released(np.zeros((60, 3)), np.arange(60) % 30, settings)
    (event,) = [event for release in made.releases for event in release.events]
    epsilon, of_a_row = SETTINGS["epsilon"] / m, event.noise_multiplier * m
    delta = gaussian_delta(epsilon, 1 / of_a_row)
    assert delta * sum(np.exp(i * epsilon) for i in range(m)) <= SETTINGS["delta"]
    assert event.sensitivity == pytest.approx(2 * np.sqrt(3) * OF_USERS["value_bound"] / 30)


def test_rows_of_a_user_are_put_together_in_whatever_order_they_come():
    sample = Sample(np.arange(6.0)[:, None], user_ids=np.array([0, 2, 1, 2, 0, 1]))
    assert sample.means_of_users().X[:, 0].tolist() == [2.0, 3.5, 2.0]


def test_rows_beyond_the_most_that_count_are_left_out_whatever_they_hold():
    """A refusal would tell how many rows some user has; and another user must not decide which ones count."""
    ids = np.repeat(np.arange(4), [7, 1, 9, 2])
    X, at_most = np.arange(len(ids), dtype=float)[:, None], {**OF_USERS, "samples_per_user": 3}

    def kept_of(chosen_rows):
        sample = Sample(X[chosen_rows], user_ids=ids[chosen_rows])
        users = build_params(dpalgos.get_estimator("user_level_mean"), at_most).with_units(sample)
        np.testing.assert_allclose(np.bincount(users.units.codes, users.units.weights), 1)
        return np.bincount(users.units.codes).tolist(), users.X[:, 0].tolist()

    sizes, rows = kept_of(slice(None))
    assert sizes == [3, 1, 3, 2]
    assert rows[4:7] != [8, 9, 10]  # not those that happen to stand first
    assert kept_of(slice(5, None))[1][-5:] == rows[-5:]
    settings = {"concentration_radius": 1.0, "range_failure": 1}
    answers = [mean_of(X / 10, ids, samples_per_user=m, **settings).estimate for m in (1, 9)]
    assert answers[0] != answers[1]


D, TRUTH = 8, np.r_[np.full(4, 0.4), np.zeros(4)]
BOUND = np.sqrt(8) * (1.8 * np.sqrt(8) + 1)
REGRESSION = {"loss": "squared", "gradient_bound": BOUND, "radius": 1.0, **SETTINGS}


def test_a_number_of_candidates_means_the_columns():
    selection = dpalgos.get_estimator("user_level_selection")
    settings = {**selection.example, "epsilon": 1.0, "delta": 1e-5, "candidates": 3}
    np.testing.assert_array_equal(build_params(selection, settings).candidates, np.eye(3))


@pytest.mark.parametrize("n_iterations", [1, 40])
def test_users_must_suffice_for_all_ranges_of_a_run_together(n_iterations):
    steps = {"n_iterations": n_iterations, "step_size": 0.1}
    settings = {**REGRESSION, "concentration_radius": 1.0, **steps}
    params = build_params(dpalgos.get_estimator("user_level_regression"), settings)

    def is_refused(n):
        try:
            params.plan(n, D)
        except dpalgos.InputError:
            return True
        return False

    n = bisect_left(range(1, 10**6), True, key=lambda n: not is_refused(n)) + 1
    (ranges,) = (slot for slot in params.plan(n, D).values() if isinstance(slot, BinSelection))
    missed = ranges.count * n_iterations * miss_probability(n, ranges.n_bins, ranges.epsilon)
    assert 0.9 * params.range_failure < missed <= params.range_failure


def linear(n, m, replicates, seed=0, d=D):
    """The digest's problem: signs, noise uniform on [−1, 1]."""
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], (n * m, d))
    y = X @ TRUTH[:d] + rng.uniform(-1, 1, n * m)
    return Sample(X, y, user_ids=np.repeat(np.arange(n), m), n_replicates=replicates)


def fitted(name, sample, **keywords):
    return estimated(name, sample, seed=1, replicates=sample.n_replicates, **{**REGRESSION, **keywords})


def test_printed_phases_stop_before_they_run_out_of_users():
    settings = {"concentration_radius": 0.3, "step_size": 1.0, "schedule": "halving", "epsilon": 8.0}
    result = fitted("user_level_phased_erm", linear(6000, 2, 1), n_iterations=2, **settings)
    assert len({event.group for event in result.events}) >= 2
    with pytest.raises(dpalgos.InputError, match="from 10 users: about"):
        fitted("user_level_phased_erm", linear(20, 2, 1), **settings)


@pytest.mark.parametrize("name", LINEAR_LOSSES)
def test_slopes_are_derivatives_and_curvatures_bound_the_second_ones(name):
    loss, rng = LINEAR_LOSSES[name], np.random.default_rng(3)
    for y in (0.0, 1.0):
        z = rng.normal(0, 2, 10)
        slope = (loss.value(z + 1e-6, y) - loss.value(z - 1e-6, y)) / 2e-6
        np.testing.assert_allclose(loss.slope(z, y), slope, atol=1e-5)
        z = np.linspace(-5, 5, 4001)
        second = np.diff(loss.slope(z, y)) / np.diff(z)
        assert np.abs(second).max() <= loss.curvature * (1 + 1e-9)
        assert (second >= -1e-9).all()
