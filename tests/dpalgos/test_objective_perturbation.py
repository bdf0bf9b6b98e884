"""Objective perturbation: its certificate against exact densities, its solver, its utility."""

import numpy as np
import pytest
from scipy.special import expit

import dpalgos
from dpalgos.accounting.gaussian_dp import gaussian_delta
from dpalgos.comparators.objective_perturbation_glm import (
    printed_noise,
    proved_delta,
    tight_noise,
    useful_ridge,
)
from dpalgos.rows.sample import Sample
from tests.dpalgos.silence import estimated, recorded

NAME = "objective_perturbation_glm"


def logistic_problem(n, d, seed=0):
    rng = np.random.default_rng(seed)
    coef = rng.standard_normal(d)
    coef /= np.linalg.norm(coef)
    X = rng.uniform(-1, 1, (n, d))
    return X, (rng.random(n) < expit(X @ coef)).astype(float), coef


def log_density(noise, rows, labels, weights, grid):
    """log p(θ) of the exact minimum in two dimensions, c_x = 1, by the change of variables b = −∇F(θ)."""
    ridge, std = noise.ridge / 4, noise.objective
    first, second = ridge * grid[0], ridge * grid[1]
    hessian = [ridge + 0 * grid[0], 0 * grid[0], ridge + 0 * grid[0]]
    for row, label, weight in zip(rows, labels, weights, strict=True):
        u = row[0] * grid[0] + row[1] * grid[1]
        residual, curvature = weight * (expit(u) - label), weight * expit(u) * expit(-u)
        first, second = first + residual * row[0], second + residual * row[1]
        outer = (row[0] ** 2, row[0] * row[1], row[1] ** 2)
        hessian = [h + curvature * product for h, product in zip(hessian, outer, strict=True)]
    determinant = hessian[0] * hessian[2] - hessian[1] ** 2
    return -(first**2 + second**2) / (2 * std**2) - np.log(2 * np.pi * std**2) + np.log(determinant)


def exact_delta(noise, epsilon, rows, others, labels, common):
    """The hockey-stick divergence of two neighbors that share ``common`` rows (1, 0) of label 1."""
    axes = np.linspace(0, 60, 1501), np.linspace(-25, 25, 801)
    grid = np.meshgrid(*axes, indexing="ij")
    cell = (axes[0][1] - axes[0][0]) * (axes[1][1] - axes[1][0])
    shared = np.array([1.0, 0.0])
    densities = [
        np.exp(log_density(noise, [shared, row], [1.0, label], [common, 1.0], grid))
        for row, label in zip((rows, others), labels, strict=True)
    ]
    assert densities[0].sum() * cell == pytest.approx(1, abs=1e-3)
    return float(np.maximum(densities[0] - np.exp(epsilon) * densities[1], 0).sum() * cell)


@pytest.mark.parametrize("t", [0.3, 0.44, 0.6])
def test_the_certificate_holds_and_is_near_what_neighbors_attain(t):
    """Very many common rows hold θ where both neighbors' residuals are 1: then it is a Gaussian release."""
    epsilon, delta, s = 1.0, 1e-3, np.sqrt(1 - t**2)
    noise = tight_noise(epsilon, delta, one_sided=True)
    exact = exact_delta(noise, epsilon, np.array([t, s]), np.array([t, -s]), (0.0, 0.0), common=1e12)
    assert exact <= proved_delta(epsilon, noise, one_sided=True) <= delta
    if t == 0.44:
        as_gaussian = gaussian_delta(epsilon, 2 * s / noise.objective)
        assert 0.8 * as_gaussian < exact <= as_gaussian


@pytest.mark.parametrize("one_sided", [True, False])
@pytest.mark.parametrize("least_ridge", [0.0, 30.0])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-8), (0.5, 1.25e-5), (2.0, 1e-3), (8.0, 1e-6)])
def test_tight_noise_is_proved_and_cannot_be_less(one_sided, least_ridge, epsilon, delta):
    noise = tight_noise(epsilon, delta, least_ridge, one_sided=one_sided)
    assert noise.ridge >= least_ridge
    assert proved_delta(epsilon, noise, one_sided=one_sided) <= delta
    for field in ("ridge", "objective", "output"):
        less = type(noise)(**{**vars(noise), field: 0.97 * getattr(noise, field)})
        more = proved_delta(epsilon, less, one_sided=one_sided)
        assert more > delta or (field == "output" and more > 0.99 * delta)


@pytest.mark.parametrize("calibration", ["tight", "paper"])
def test_noise_is_as_large_as_said(calibration):
    """θ − E θ is about −H⁻¹ b: its covariance in the Hessian's units gives the standard deviation of b."""
    X, y, _ = logistic_problem(5000, 3)
    keywords = {"family": "logistic", "covariate_bound": 1.5, "epsilon": 1.0, "delta": 1e-5}
    answers = estimated(NAME, X, y, seed=1, replicates=300, calibration=calibration, **keywords).estimate
    noise = tight_noise(1.0, 1e-5, one_sided=True) if calibration == "tight" else printed_noise(1.0, 1e-5)
    rows = X * np.minimum(1, 1.5 / np.linalg.norm(X, axis=1, keepdims=True))
    u = rows @ answers.mean(axis=1)
    ridge = noise.ridge * 0.25 * 1.5**2 / len(y)
    hessian = rows.T @ (rows * (expit(u) * expit(-u))[:, None]) / len(y) + ridge * np.eye(3)
    drawn = hessian @ (answers - answers.mean(axis=1, keepdims=True))
    assert drawn.std() == pytest.approx(noise.objective * 1.5 / len(y), rel=0.07)


def test_noise_covers_how_far_the_solver_may_end_from_the_minimum():
    X, y, _ = logistic_problem(200, 3)
    keywords = {"family": "logistic", "covariate_bound": 1.5, "epsilon": 1.0, "delta": 1e-5}
    transcript, _ = recorded(NAME, Sample(X, y, n_replicates=300), keywords)
    noise = tight_noise(1.0, 1e-5, useful_ridge(1.0, 1e-5, 200, 3), one_sided=True)
    distance = (1.5 / 200**2) / (noise.ridge * 0.25 * 1.5**2 / 200)  # tolerance over strong convexity
    added = transcript.published[0] - transcript.values[0]
    assert added.std() == pytest.approx(noise.output * distance, rel=0.15)


def test_nothing_is_released_if_the_solver_does_not_arrive():
    X, y, _ = logistic_problem(400, 3)
    keywords = {"family": "logistic", "covariate_bound": 2.0, "epsilon": 1.0, "delta": 1e-5}
    with pytest.raises(dpalgos.InputError, match="n_iterations must"):
        estimated(NAME, X, y, n_iterations=1, **keywords)
