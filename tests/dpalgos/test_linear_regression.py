import numpy as np
import pytest
import statsmodels.api as sm

import dpalgos
from dpalgos.accounting.budget import SplitBudget
from dpalgos.accounting.composition import total_mu
from dpalgos.accounting.gaussian_dp import gaussian_epsilon
from dpalgos.mechanisms.preconditioned.column_counts import MEDIANS
from dpalgos.mechanisms.preconditioned.origin import DISTANCE, MEANS, private_origin
from dpalgos.release.noise_source import Noise
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.steps.denoising import signal_share
from tests.dpalgos.silence import estimated, silent

BOUNDS = {"covariate_bound": 1.5, "response_bound": 1.0, "coef_bound": 0.8}
GRADIENT = {**BOUNDS, "n_iterations": 12, "step_size": 0.7}


def problem(n=500, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ np.linspace(1, -1, d) + rng.standard_normal(n)


@pytest.mark.parametrize("collinear", [False, True])
def test_ols_equals_statsmodels(collinear):
    X, y = problem()
    if collinear:
        X = np.column_stack([X, X[:, 0] + 1e-3 * np.sin(np.arange(len(X)))])
    ours = estimated("ols", X, y).estimate
    theirs = sm.OLS(y, X).fit().params
    assert np.max(np.abs(ours - theirs) / np.abs(theirs)) <= 1e-9


def test_ols_replicates_on_ill_conditioned_subsets():
    X, y = problem(60, 3)
    X[:30, 2] = X[:30, 1]  # the first replicate cannot tell two columns apart
    mask = np.column_stack([np.arange(60) < 30, np.arange(60) >= 20])
    both = estimated("ols", X, y, replicates=2, row_mask=mask).estimate
    for replicate in range(2):
        rows = mask[:, replicate]
        np.testing.assert_allclose(
            both[:, replicate], np.linalg.lstsq(X[rows], y[rows])[0], rtol=1e-9, atol=1e-12
        )


@pytest.mark.parametrize("residual_bound", [None, 0.6])
def test_without_noise_it_is_projected_gradient_descent(residual_bound):
    X, y = problem()
    budget = {"epsilon": 1.0, "delta": 1e-5}
    ours = silent("dp_linear_regression", X, y, **budget, **GRADIENT, residual_bound=residual_bound)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    clipped = X * np.minimum(1, 1.5 / norms)
    coef = np.zeros(4)
    for _ in range(12):
        if residual_bound is None:
            residual = clipped @ coef - np.clip(y, -1, 1)
        else:
            residual = np.clip(clipped @ coef - y, -residual_bound, residual_bound)
        coef = coef - 0.7 * clipped.T @ residual / len(y)
        coef *= min(1, 0.8 / np.linalg.norm(coef))
    np.testing.assert_allclose(ours, coef, rtol=1e-12, atol=1e-12)


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


def test_preconditioned_regression_survives_bad_scaling():
    rng = np.random.default_rng(0)
    n = 20_000
    X = rng.standard_normal((n, 4)) @ np.diag([2.0, 1.0, 0.5, 1.0])
    X[:, 3] = 0.95 * X[:, 1] + 0.3 * X[:, 3]
    coef = np.array([0.3, 0.5, -1.0, 0.5])
    y = X @ coef + rng.standard_normal(n)
    asked = {"epsilon": 1.0, "delta": 1e-6}
    answers = [estimated("preconditioned_regression", X, y, seed=s, **asked).estimate for s in range(10)]
    assert np.mean([np.linalg.norm(each - coef) for each in answers]) < 0.25 * np.linalg.norm(coef)


def few_rows(n, epsilon, **keywords):
    rng, d = np.random.default_rng(4), 6
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    X = rng.standard_normal((n, d)) @ rotation * np.sqrt(np.arange(1, d + 1))
    beta = np.full(d, 1 / d)
    keywords |= {"epsilon": epsilon, "delta": n**-2.0, "rng": rng, "replicates": 200}
    y = X @ beta + rng.standard_normal(n)
    found = dpalgos.estimate("preconditioned_regression", X, y, **keywords)
    return ((X @ (found.estimate - beta[:, None])) ** 2).mean() / ((X @ beta) ** 2).mean(), found


def test_an_answer_about_very_few_rows_is_near_zero():
    assert few_rows(100, 0.1)[0] < 0.99


def test_few_rows_are_clipped_at_public_levels_for_counts_would_be_noise():
    error, found = few_rows(100, 0.5)
    assert error < 0.9
    assert {event.label for event in found.events} == {"second moments", "preconditioned score"}
    assert "rows above a level" in {event.label for event in few_rows(1000, 0.5)[1].events}
    noise = np.random.default_rng(0).standard_normal((500, 4))
    np.testing.assert_allclose(signal_share(noise, np.ones(4)), 0.5, atol=0.05)


@pytest.mark.parametrize("unit", [1e-2, 30.0, 1e6])
def test_a_response_in_another_unit_has_the_same_answer_in_that_unit(unit):
    rng = np.random.default_rng(8)
    X = rng.standard_normal((3000, 4))
    y = X @ np.array([1.0, -0.5, 0.3, 0.0]) + rng.standard_normal(3000)
    ask = {"epsilon": 1.0, "delta": 1e-6, "replicates": 40}
    errors = {}
    for scale in (1.0, unit):
        found = estimated("preconditioned_regression", X, scale * y, seed=9, **ask)
        assert "values by power of two" in {event.label for event in found.events}
        errors[scale] = np.linalg.norm(found.estimate / scale - [[1.0], [-0.5], [0.3], [0.0]], axis=0).mean()
    assert errors[unit] < 1.6 * errors[1.0] < 0.3


@pytest.mark.parametrize("scale", [10.0, 4.0, 0.25, 0.1])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_column_needs_no_unit_but_bounds(scale, intercept):
    rng = np.random.default_rng(8)
    X = np.column_stack([rng.standard_normal((20_000, 2)), rng.random(20_000) < 0.1, np.ones(20_000)])
    coef = np.array([1.0, -0.5, 0.3, 0.2])
    y = X @ coef + rng.standard_normal(20_000)
    asked, errors = {"replicates": 20, "epsilon": 1.0, "delta": 1e-8, "intercept": intercept}, []
    for rows in (X, X * [scale, 1, 1, 1]):
        found = estimated("preconditioned_regression", rows, y, seed=9, **asked).estimate
        errors.append(np.mean((rows @ found - (X @ coef)[:, None]) ** 2))
    assert errors[1] < 2.5 * errors[0] < 0.01


def test_columns_of_rare_groups_cost_little():
    rng, n = np.random.default_rng(10), 5500
    X = np.column_stack([rng.standard_normal((n, 3)), np.ones(n)])
    y = X @ [0.3, -0.2, 0.1, 0.2] + rng.standard_normal(n)
    rare = np.where(rng.random((n, 2)) < [0.002, 0.01], 1.0, -1.0)
    for epsilon in (1.0, 3.0):
        asked, errors = {"replicates": 40, "epsilon": epsilon, "delta": 1e-7, "intercept": True}, []
        for rows in (X, np.column_stack([rare, X])):
            found = estimated("preconditioned_regression", rows, y, seed=11, **asked).estimate
            errors.append(np.mean((rows @ found - (X @ [0.3, -0.2, 0.1, 0.2])[:, None]) ** 2))
        assert errors[1] < 4 * errors[0] < 0.04, errors


def shifted_errors(n, d, epsilon, shifts):
    """Errors of predictions in standard deviations of the noise, with columns or the response moved."""
    rng = np.random.default_rng(3)
    X, coef = rng.standard_normal((n, d)), np.linspace(1, -1, d)
    y = X @ coef + rng.standard_normal(n)
    asked, errors = {"epsilon": epsilon, "delta": 1e-6, "intercept": True, "replicates": 40}, []
    for column, response in shifts:
        rows = np.column_stack([X + column, np.ones(n)])
        found = estimated("preconditioned_regression", rows, y + response, seed=4, **asked).estimate
        errors.append(np.mean((rows @ found - (X @ coef + response)[:, None]) ** 2))
    return np.array(errors)


def test_with_an_intercept_the_origin_of_the_response_does_not_matter():
    c = 2 * np.array([0, 3, -3, 20, -20])
    for n, epsilon in ((2500, 0.5), (6000, 1.0)):
        errors = shifted_errors(n, 4, epsilon, [(0, each) for each in c])
        assert (errors[1:] < 1.2 * errors[0]).all()


def test_with_an_intercept_the_origin_of_the_columns_does_not_matter():
    errors = shifted_errors(6000, 4, 0.5, [(0, 0), (3, 0), (-3, 0), (20, 0), (-20, 0), (20, -40)])
    assert (errors[1:] < 1.2 * errors[0]).all()


def test_of_few_rows_the_origin_of_the_columns_matters_little():
    errors = shifted_errors(1100, 8, 0.75, [(0, 0), (3, 0), (-3, 0), (20, 0), (-20, 0), (20, -40)])
    assert (errors[1:] < 1.6 * errors[0]).all()


@pytest.mark.parametrize("others", [{MEANS: 1 - 1e-6}, {DISTANCE: 0.1, MEANS: 0.9 - 1e-6}])
def test_a_center_that_the_noise_of_the_search_led_far_away_is_dropped(others):
    rng = np.random.default_rng(11)
    X = np.column_stack([rng.standard_normal((1000, 4)) + 3, np.ones(1000)])
    sample = Sample(X, rng.standard_normal(1000) - 2)
    budget = SplitBudget(epsilon=1.0, delta=1e-6, shares={MEDIANS: 1e-6, **others})
    for seed in range(40):
        transcript = Transcript(Noise([np.random.default_rng(seed)]))
        assert np.abs(private_origin(transcript, sample, budget, {MEDIANS: 1}).centers).max() < 10


def test_of_few_rows_centers_stay_where_a_column_is_in_a_wrong_unit():
    rng = np.random.default_rng(13)
    X = np.column_stack([30 * rng.standard_normal(1000), rng.standard_normal((1000, 4)), np.ones(1000)])
    sample = Sample(X, rng.standard_normal(1000))
    budget = SplitBudget(epsilon=1.0, delta=1e-6, shares={MEDIANS: 0.1, DISTANCE: 0.1, MEANS: 0.8})
    for seed in range(10):
        transcript = Transcript(Noise([np.random.default_rng(seed)]))
        assert not private_origin(transcript, sample, budget, {MEDIANS: 1}).centers.any()


def test_of_few_rows_no_noise_of_the_search_for_centers_leads_far_away():
    rng = np.random.default_rng(7)
    X = np.column_stack([rng.standard_normal((1000, 8)), np.ones(1000)])
    y = X[:, :8] @ np.linspace(0.5, -0.5, 8) + rng.standard_normal(1000)
    keywords = {"epsilon": 0.9, "delta": 1e-6, "replicates": 400, "rng": np.random.default_rng(8)}
    found = dpalgos.estimate("preconditioned_regression", X, y, intercept=True, **keywords).estimate
    assert ((y[:, None] - X @ found) ** 2).mean(axis=0).max() < 1.5 * y.var()


def heavy_rows(n, column):
    rng = np.random.default_rng(9)
    X = np.column_stack([column(rng), rng.standard_normal((n, 4)), np.ones(n)])
    return X, X[:, 1:5] @ np.array([1.0, -0.3, 0.4, -0.5]) + rng.standard_normal(n)


def excess_of(X, y, **keywords):
    keywords = {"delta": 1e-8, "replicates": 20, "rng": np.random.default_rng(10), **keywords}
    found = dpalgos.estimate("preconditioned_regression", X, y, intercept=True, **keywords).estimate
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    return ((X @ (found - best[:, None])) ** 2).mean() / y.var()


def test_a_rare_category_in_a_unit_far_too_small_costs_no_more_than_it_could_explain():
    X, y = heavy_rows(20_000, lambda rng: 100.0 * (rng.random(20_000) < 0.02))
    assert excess_of(X, y, epsilon=0.5) < 0.03


def test_steps_are_shorter_where_clipped_moments_understate_the_curvature():
    rng = np.random.default_rng(1)
    X = np.column_stack([np.exp(1.2 * rng.standard_normal((2000, 6))) / 2, np.ones(2000)])
    y = X[:, :6] @ np.linspace(1, -1, 6) + rng.standard_normal(2000)
    assert excess_of(X, y, epsilon=1.0, delta=1e-7) < 0.05


def test_intervals_and_the_explained_part_do_not_move_with_the_origin():
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.standard_normal((100_000, 3)).clip(-3, 3), np.ones(100_000)])
    coef = np.array([1.0, -0.5, 0.3, 0.2])
    y = X @ coef + rng.standard_normal(100_000)
    moved = X + np.array([4.0, -20.0, 0.0, 0.0])
    keywords = {"epsilon": 10.0, "delta": 1e-6, "interval": 0.95, "intercept": True}
    near, far = (
        dpalgos.estimate("preconditioned_regression", rows, z, rng=np.random.default_rng(6), **keywords)
        for rows, z in ((X, y), (moved, y + 30))
    )
    widths = [np.diff(each.interval, axis=0)[0] for each in (near, far)]
    np.testing.assert_allclose(widths[1][:3], widths[0][:3], rtol=0.2)
    low, high = far.interval
    assert (low[:3] < coef[:3]).all()
    assert (coef[:3] < high[:3]).all()
    fits = [near.goodness(3, [3, 3, 3, 1, 6]), far.goodness(3, [7, 23, 3, 1, 36])]
    assert fits[0]["residual_std"] == pytest.approx(1, rel=0.05)
    assert "fit_note" in fits[1]  # its bounds are too wide
    assert "fit_note" in near.goodness(3)  # no bounds


def test_an_answer_about_columns_without_signal_is_hardly_worse_than_a_constant():
    rng = np.random.default_rng(14)
    X = np.column_stack([rng.standard_normal((8192, 33)), np.ones(8192)])
    y = 0.02 * X[:, 0] + rng.standard_normal(8192)
    explained = (y.var() - (y - X @ np.linalg.lstsq(X, y)[0]).var()) / y.var()
    assert excess_of(X, y, epsilon=0.5) < 1.5 * explained
