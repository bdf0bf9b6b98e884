"""Gradient descent and phased fits over users: excess risks, schemes, losses, parallel groups."""

import numpy as np
import pytest
from scipy.optimize import check_grad

import dpalgos
from dpalgos.accounting.composition import spending
from dpalgos.rows.sample import Sample
from dpalgos.user_level.first_order import LINEAR_LOSSES
from tests.dpalgos.silence import estimated

D, TRUTH = 8, np.r_[np.full(4, 0.4), np.zeros(4)]
BOUND = np.sqrt(8) * (1.8 * np.sqrt(8) + 1)
SETTINGS = {"loss": "squared", "gradient_bound": BOUND, "radius": 1.0, "epsilon": 1.0, "delta": 1e-6}


def radius(n, m):
    s = np.log(n / 0.01)
    return float(np.sqrt(1 + 0.58**2) * np.sqrt((D + 2 * np.sqrt(D * s) + 2 * s) / m))


def linear(n, m, replicates, seed=0, d=D):
    """The digest's problem: signs, noise uniform on [−1, 1]."""
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], (n * m, d))
    y = X @ TRUTH[:d] + rng.uniform(-1, 1, n * m)
    return Sample(X, y, user_ids=np.repeat(np.arange(n), m), n_replicates=replicates)


def fitted(name, sample, **keywords):
    return estimated(name, sample, seed=1, replicates=sample.n_replicates, **{**SETTINGS, **keywords})


def excess(result):
    return float((((result.estimate - TRUTH[:, None]) ** 2).sum(axis=0) / 2).mean())


def test_more_rows_per_user_cost_less_and_clipping_does_not_profit():
    risks = {}
    for m in (5, 40):
        sample = linear(4000, m, 4)
        for kind in ("winsorized", "clipped"):
            settings = {"concentration_radius": radius(4000, m), "aggregation": kind, "n_iterations": 4}
            settings |= {"epsilon": 4.0, "step_size": 0.8}
            risks[m, kind] = excess(fitted("user_level_regression", sample, **settings))
    assert risks[40, "winsorized"] < risks[5, "winsorized"] / 3
    assert risks[40, "winsorized"] < risks[40, "clipped"] / 3
    assert 0.3 < risks[40, "clipped"] / risks[5, "clipped"] < 3


def test_phases_are_of_different_users_and_do_not_add_up():
    sample = linear(400, 2, 1)
    settings = {"concentration_radius": 1.0, "step_size": 1.0, "range_failure": 1.0, "n_iterations": 3}
    result = fitted("user_level_phased_erm", sample, n_phases=3, **settings)
    assert {event.group for event in result.events} == {0, 1, 2}
    assert 0.99 < result.certified_epsilon <= 1.0
    one = [event for event in result.events if event.group == 0]
    assert spending(result.events).rho == pytest.approx(spending(one).rho)


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
        for z in rng.normal(0, 2, 10):
            error = check_grad(
                lambda t, y=y: float(loss.value(t, np.full(1, y))[0]),
                lambda t, y=y: loss.slope(t, np.full(1, y)),
                np.full(1, z),
            )
            assert error < 1e-5
        z = np.linspace(-5, 5, 4001)
        second = np.diff(loss.slope(z, np.full_like(z, y))) / np.diff(z)
        assert np.abs(second).max() <= loss.curvature * (1 + 1e-9)
        assert (second >= -1e-9).all() or name == "welsch"  # which is not convex
