"""Local reports: printed noise, levels and radii, and what they come to without noise."""

import numpy as np
import pytest

import dpalgos
from dpalgos.local import ldp_iht, rounds
from dpalgos.local.noisy_moments import GramReport, isometric, least_noise_scaling
from tests.dpalgos.silence import silent

BUDGET = {"epsilon": 1.0, "delta": 1e-5}


def people(n, d, seed=0, coef=(0.5, 0.5)):
    """Covariates uniform on {±1}^d, noise uniform on ±1."""
    rng = np.random.default_rng(seed)
    truth = np.zeros(d)
    truth[: len(coef)] = coef
    X = rng.integers(0, 2, (n, d)) * 2.0 - 1
    return X, X @ truth + rng.uniform(-1, 1, n), truth


def estimate(name, X, y, seed=1, **keywords):
    given = {**BUDGET, "covariate_bound": 1.0, "response_bound": 2.0, **keywords}
    return dpalgos.estimate(name, X, y, rng=np.random.default_rng(seed), **given)


def without_noise(name, X, y, **keywords):
    return silent(name, X, y, **{**BUDGET, "covariate_bound": 1.0, "response_bound": 2.0, **keywords})


@pytest.mark.parametrize("mechanism", ["auto", "l2", "privunit", "gaussian"])
@pytest.mark.parametrize("row_bound", [None, 1.5])
def test_without_noise_the_answer_is_least_squares_of_the_clipped_rows(mechanism, row_bound):
    X, y, _ = people(600, 4)
    y = np.clip(y, -2, 2)
    asked = {"mechanism": mechanism, "row_bound": row_bound, "covariance_eigenvalue_bounds": (0.1, 1.0)}
    answer = without_noise("ldp_nldp", X, y, **asked)
    clipped = X if row_bound is None else X * (row_bound / 2)
    cross = X if mechanism == "gaussian" else clipped
    expected = np.linalg.solve(clipped.T @ clipped, cross.T @ y)
    np.testing.assert_allclose(answer, expected, atol=1e-10)


def test_printed_noise_is_the_printed_formula():
    X, y, _ = people(50, 4)
    gram, cross = estimate("ldp_nldp", X, y, calibration="paper", row_bound=1.5).events
    printed = np.sqrt(32 * np.log(2.5 / 1e-5)) / 1.0
    assert gram.noise_multiplier * gram.sensitivity == pytest.approx(printed)
    assert cross.noise_multiplier * cross.sensitivity == pytest.approx(printed)
    assert gram.sensitivity == pytest.approx(np.sqrt(2))
    assert cross.sensitivity == 2


TAILS = [(4, 2e4, 5.2, 1.9), (4, 2e5, 9.3, 2.5), (2.4, 2e5, 41, 4.7), (2.4, 2e6, 108, 7.6)]


@pytest.mark.parametrize(("order", "n", "paper", "balanced"), TAILS)
def test_truncation_levels_of_heavy_tails_are_the_reference_ones(order, n, paper, balanced):
    for printed, level in ((True, paper), (False, balanced)):
        found = rounds.heavy_tail_level(int(n), 10, 1.0, 1e-5, moment=(order, 1.0), printed=printed)
        assert found == pytest.approx(level, rel=0.03)
    doubled = rounds.heavy_tail_level(int(n), 10, 1.0, 1e-5, moment=(order, 2.0**order), printed=False)
    assert doubled == pytest.approx(2 * balanced, rel=0.03)


BOUNDS = {**BUDGET, "covariate_bound": 1.0, "response_bound": 2.0}


def gradients(sparsity=2, **keywords):
    return ldp_iht.LDPIHT(**{**BOUNDS, "sparsity": sparsity, **keywords})


def column(coef):
    return np.asarray(coef, dtype=float)[:, None]


def longest(algorithm, coef, seed=0):
    rng, part = np.random.default_rng(seed), algorithm.report_at(column(coef), BOUNDS["response_bound"])
    X = rng.standard_t(1.5, (4000, len(coef))) * 10.0 ** rng.integers(-1, 3, (4000, 1))
    X[:2000] = np.sign(X[:2000]) * 1.0
    X[0] = np.where(np.asarray(coef) >= 0, 1.0, -1.0)
    y = np.where(rng.random(4000) < 0.5, -1.0, 1.0) * 1e3
    y[0] = -1e3
    return np.linalg.norm(part.vectors(X, y), axis=1).max()


SLOPED, PAPER = [0.6, -0.8, 0.0, 0.0], {"calibration": "paper", "working_sparsity": 4}
RADII = [({"residual_bound": 50.0}, SLOPED, 2 * (1.4 + 2)), ({"residual_bound": 50.0}, [0.0] * 4, 2 * 2.0)]
RADII += [({"residual_bound": 3.0}, SLOPED, 2 * 3.0), ({}, SLOPED, 2 * 2.0)]
RADII += [(PAPER, [0.5] * 4, 2 * (2.0 + 2.0)), (PAPER, [0.0] * 4, 2 * (2.0 + 2.0))]


@pytest.mark.parametrize(("keywords", "coef", "radius"), RADII, ids=str)
def test_the_radius_is_the_largest_clipped_gradient(keywords, coef, radius):
    algorithm = gradients(**keywords)
    assert algorithm.radius(column(coef), BOUNDS["response_bound"])[0] == pytest.approx(radius)
    largest = longest(algorithm, coef)
    assert largest <= 1 + 1e-12
    if not (keywords.get("calibration") == "paper" and not any(coef)):  # attained at the worst iterate only
        assert largest == pytest.approx(1.0)


def test_without_noise_the_iteration_finds_the_coefficients():
    X, y, truth = people(4000, 6)
    answer = without_noise("ldp_iht", X, y, sparsity=2, n_rounds=5, residual_bound=9.0)
    np.testing.assert_allclose(answer, truth, atol=0.06)
    rng = np.random.default_rng(3)
    X = np.clip(rng.standard_normal((6000, 4)) @ np.linalg.cholesky(0.2 * np.eye(4) + 0.1), -1, 1)
    y = X @ [0.9, -0.7, 0, 0]
    bounds = tuple(np.linalg.eigvalsh(X.T @ X / len(X))[[0, -1]])
    asked = {"sparsity": 2, "n_rounds": 40, "covariance_eigenvalue_bounds": bounds}
    answer = without_noise("ldp_iht_general", X, y, **asked)
    np.testing.assert_allclose(answer, [0.9, -0.7, 0, 0], atol=0.03)


def test_without_noise_public_rows_give_least_squares():
    X, y, _ = people(500, 5)
    y = np.clip(y, -2, 2)
    answer = without_noise("ldp_nldp_public", X, y, public_X=X)
    np.testing.assert_allclose(answer, np.linalg.lstsq(X, y, rcond=None)[0], atol=1e-10)


REPORTS = [isometric(4, 1.5), least_noise_scaling(4, 1.5, 1.0), least_noise_scaling(3, 2.0, 0.9)]
REPORTS += [GramReport(n_features=4, row_bound=1.5, covariate_bound=0.8, center=0.1, weight=1.0)]


@pytest.mark.parametrize("report", REPORTS)
def test_a_clipped_row_attains_the_norm_of_its_report_and_none_exceeds_it(report):
    """A larger bound would be safe, and would add noise for nothing."""
    rng, d = np.random.default_rng(0), report.n_features
    rows = np.clip(rng.standard_normal((4000, d)), -report.covariate_bound, report.covariate_bound)
    extreme = np.tri(d) * report.covariate_bound  # one entry at its bound, two, …
    rest = np.sqrt(np.maximum(report.row_bound**2 - (extreme**2).sum(axis=1), 0))
    grown = extreme.copy()
    for k in range(d - 1):
        grown[k, k + 1] = min(rest[k], report.covariate_bound)
    rows = np.concatenate([rows, extreme, grown, np.zeros((1, d))])
    rows *= np.minimum(1, report.row_bound / np.maximum(np.linalg.norm(rows, axis=1), 1e-9))[:, None]
    norms = np.linalg.norm(report.vectors(rows), axis=1)
    assert 1 - 1e-9 < norms.max() < 1 + 1e-9
