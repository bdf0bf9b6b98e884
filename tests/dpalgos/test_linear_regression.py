"""Linear regressions: limits, printed budgets, and what scaling, few rows and far columns do to answers."""

import numpy as np
import pytest

from dpalgos.accounting.composition import total_mu
from dpalgos.accounting.gaussian_dp import gaussian_epsilon
from tests.dpalgos.silence import estimated

NAME = "preconditioned_regression"
BOUNDS = {"covariate_bound": 1.5, "response_bound": 1.0, "coef_bound": 0.8}
GRADIENT = {**BOUNDS, "n_iterations": 12, "step_size": 0.7}


def problem(n=500, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ np.linspace(1, -1, d) + rng.standard_normal(n)


def test_ols_replicates_on_ill_conditioned_subsets():
    X, y = problem(60, 3)
    X[:30, 2] = X[:30, 1]  # the first replicate cannot tell two columns apart
    mask = np.column_stack([np.arange(60) < 30, np.arange(60) >= 20])
    both = estimated("ols", X, y, replicates=2, row_mask=mask).estimate
    alone = [np.linalg.lstsq(X[rows], y[rows])[0] for rows in mask.T]
    np.testing.assert_allclose(both.T, alone, rtol=1e-9, atol=1e-12)


def test_printed_noise_proves_what_the_digest_says():
    X, y = problem()
    keywords = {**GRADIENT, **dict.fromkeys(BOUNDS, 1.0), "n_iterations": 50}
    result = estimated("dp_linear_regression", X, y, epsilon=0.5, delta=1e-5, calibration="paper", **keywords)
    # By composition alone, with the printed sensitivity 4(R + C c_x)c_x: the digest's .0347.
    printed = 50 * np.sqrt(2 * np.log(2 * 50 / 1e-5)) / 0.5
    assert gaussian_epsilon(1e-5, np.sqrt(50) / printed) == pytest.approx(0.0347, abs=2e-4)
    assert result.certified_epsilon <= 0.00985  # the digest rounds to .0098
    assert result.certified_epsilon == pytest.approx(gaussian_epsilon(1e-5, total_mu(result.events)))


@pytest.mark.parametrize(("epsilon", "certified"), [(0.5, 0.419), (1.0, 0.893), (2.0, 1.92)])
def test_adassp_as_printed(epsilon, certified):
    # Digest 6.4: the true ε under replace-one of noise made for adding or removing a row.
    asked = {"epsilon": epsilon, "delta": 1e-5, "covariate_bound": 1.0, "response_bound": 1.0}
    result = estimated("adassp", *problem(), calibration="paper", **asked)
    assert result.certified_epsilon == pytest.approx(certified, abs=2e-3)


def answers(X, y, seed=9, delta=1e-6, **asked):
    return estimated(NAME, X, y, seed=seed, delta=delta, **asked)


def unequal_scales(rng):
    X = rng.standard_normal((20_000, 4)) * [2.0, 1.0, 0.5, 0.3]
    X[:, 3] += 0.95 * X[:, 1]
    return X, X @ [0.3, 0.5, -1.0, 0.5] + rng.standard_normal(len(X)), 0.01


def rare_category(rng):
    """In a unit far too small it costs no more than it could explain."""
    X = np.column_stack([100.0 * (rng.random(20_000) < 0.02), rng.standard_normal((20_000, 4))])
    return X, X[:, 1:] @ [1.0, -0.3, 0.4, -0.5] + rng.standard_normal(len(X)), 0.04


def skewed(rng):
    """Clipped moments understate the curvature, and steps have to be shorter."""
    X = np.exp(1.2 * rng.standard_normal((2000, 6))) / 2
    return X, X @ np.linspace(1, -1, 6) + rng.standard_normal(2000), 0.05


def no_signal(rng):
    """An estimate is hardly worse than a constant."""
    X = rng.standard_normal((8192, 33))
    y = 0.02 * X[:, 0] + rng.standard_normal(8192)
    return X, y, 2 * (1 - np.var(y - X @ np.linalg.lstsq(X, y)[0]) / y.var())


LAWS = [(unequal_scales, 1.0, 1e-6), (rare_category, 0.5, 1e-8), (skewed, 1.0, 1e-7), (no_signal, 0.5, 1e-8)]


@pytest.mark.parametrize(("rows", "epsilon", "delta"), LAWS)
def test_predictions_are_hardly_worse_than_those_of_least_squares(rows, epsilon, delta):
    """In mean squared error of predictions, over the response's variance."""
    X, y, most = rows(np.random.default_rng(1))
    X = np.column_stack([X, np.ones(len(X))])
    found = answers(X, y, 10, delta, epsilon=epsilon, replicates=20, intercept=True).estimate
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    assert ((X @ (found - best[:, None])) ** 2).mean() / y.var() < most


@pytest.mark.parametrize(("epsilon", "most"), [(0.1, 1.2), (0.5, 0.9)])
def test_an_answer_about_very_few_rows_is_near_zero(epsilon, most):
    """They are clipped at public levels, for counts would be noise."""
    rng, d, n = np.random.default_rng(4), 6, 100
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    X = rng.standard_normal((n, d)) @ rotation * np.sqrt(np.arange(1, d + 1))
    beta = np.full(d, 1 / d)
    y = X @ beta + rng.standard_normal(n)
    found = answers(X, y, epsilon=epsilon, delta=n**-2.0, replicates=200)
    assert ((X @ (found.estimate - beta[:, None])) ** 2).mean() < most * ((X @ beta) ** 2).mean()
    assert {event.label for event in found.events} == {"second moments", "preconditioned score"}


@pytest.mark.parametrize("unit", [1e-2, 30.0, 1e6])
def test_a_response_in_another_unit_has_the_same_answer_in_that_unit(unit):
    rng = np.random.default_rng(8)
    X, coef = rng.standard_normal((3000, 4)), np.array([1.0, -0.5, 0.3, 0.0])
    y, errors = X @ coef + rng.standard_normal(3000), []
    for scale in (1.0, unit):
        found = answers(X, scale * y, epsilon=1.0, replicates=40)
        assert "responses far from their center" in {event.label for event in found.events}
        errors.append(np.linalg.norm(found.estimate / scale - coef[:, None], axis=0).mean())
    assert errors[1] < 1.6 * errors[0] < 0.3


def test_of_few_rows_no_noise_of_the_search_for_centers_leads_far_away():
    rng = np.random.default_rng(7)
    X = np.column_stack([rng.standard_normal((1000, 8)), np.ones(1000)])
    y = X[:, :8] @ np.linspace(0.5, -0.5, 8) + rng.standard_normal(1000)
    found = answers(X, y, 8, epsilon=0.9, replicates=400, intercept=True).estimate
    assert ((y[:, None] - X @ found) ** 2).mean(axis=0).max() < 1.5 * y.var()


def test_intervals_and_the_explained_part_do_not_move_with_the_origin():
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.standard_normal((100_000, 3)).clip(-3, 3), np.ones(100_000)])
    coef = np.array([1.0, -0.5, 0.3, 0.2])
    y, keywords = X @ coef + rng.standard_normal(100_000), {"epsilon": 10.0, "interval": 0.95}
    far_rows = X + np.array([4.0, -20.0, 0.0, 0.0]), y + 30
    near, far = (answers(*rows, 6, intercept=True, **keywords) for rows in ((X, y), far_rows))
    widths = [np.diff(each.interval, axis=0)[0] for each in (near, far)]
    np.testing.assert_allclose(widths[1][:3], widths[0][:3], rtol=0.2)
    low, high = far.interval
    assert ((low[:3] < coef[:3]) & (coef[:3] < high[:3])).all()
    fits = [near.goodness(3, [3, 3, 3, 1, 6]), far.goodness(3, [7, 23, 3, 1, 36])]
    assert fits[0]["residual_std"] == pytest.approx(1, rel=0.05)
    assert "fit_note" in fits[1]  # its bounds are too wide
    for of_no_bounds in (near.goodness(3), near.goodness(None, [3, 3, 3, 1, 6])):
        assert "intercept, and public bounds" in of_no_bounds["fit_note"]
        assert of_no_bounds != fits[1]


def test_columns_of_few_rows_that_are_far_from_their_units_have_no_slopes():
    """Slopes of columns that are 10,000 units long moved predictions by thousands of units."""
    rng = np.random.default_rng(5)
    X = np.column_stack([1e4 * (1 + 0.1 * rng.standard_normal((800, 4))), np.ones(800)])
    y = 1e-3 * (X[:, 0] - 1e4) + 0.5 * rng.standard_normal(800)
    found = answers(X, y, epsilon=0.5, delta=1e-6, replicates=20, intercept=True)
    assert (found.estimate[:-1] == 0).all()
    assert found.diagnostics["rows_beyond_thresholds"].all()
    assert np.abs(found.estimate[-1] - y.mean()).mean() < 0.5


def test_rows_of_high_leverage_count_in_full_at_a_large_budget():
    """They were shortened to 5 √d at any ε: the estimate then was one of weighted least squares."""
    rng = np.random.default_rng(6)
    X = np.column_stack([np.clip(rng.standard_t(2, (5000, 4)), -50, 50), np.ones(5000)])
    y = X[:, 0] + rng.standard_normal(5000)
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    found = answers(X, y, epsilon=1000.0, delta=1e-8, replicates=4, intercept=True).estimate
    own_error = 5 / 5000 * (y - X @ best).var()
    assert ((X @ (found - best[:, None])) ** 2).mean() < 0.03 * own_error


def test_columns_in_wrong_units_leave_the_intercept_alone():
    """The noise of their means moved the center of the response by up to twenty of its units."""
    rng = np.random.default_rng(9)
    units = 10.0 ** np.array([3, -3, 0, 3, 3, -3, 0, 3])
    Z = rng.standard_normal((640, 8)) + 10
    X = np.column_stack([Z * units, np.ones(640)])
    y = 0.5 * Z[:, 0] - 5 + rng.standard_normal(640)
    found = answers(X, y, epsilon=1.0, delta=1e-6, replicates=20, intercept=True).estimate
    assert np.abs(X @ found - y[:, None]).mean() < 2 * np.abs(y).mean()
