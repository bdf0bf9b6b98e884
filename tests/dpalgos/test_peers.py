"""The peers of the literature: each is the algorithm that its paper states, and about as good."""

import numpy as np
import pytest
from scipy.special import expit

from dpalgos.accounting.composition import total_mu
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.comparators.binagg_regression import (
    BinAggRegressionParams,
    grown_boxes,
    sums_in_boxes,
    sums_sensitivity,
)
from dpalgos.comparators.output_perturbation_glm import minimum_sensitivity
from dpalgos.release.noise_source import NoNoise
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from tests.dpalgos.silence import estimated, silent

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
COEF = np.array([0.5, -0.5, 0.5, 0.5])


def regression(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, len(COEF)))
    return X, X @ COEF + rng.standard_normal(n)


def certified(name, X, y=None, **keywords):
    return estimated(name, X, y, **BUDGET, **keywords)


def test_without_noise_clipped_gradient_descent_is_the_papers_loop():
    X, y = regression(300)
    coef = np.zeros(4)
    for _ in range(5):
        gradients = X * (X @ coef - y)[:, None]
        norms = np.linalg.norm(gradients, axis=1)
        assert (norms > 1.5).any()
        gradients[norms > 1.5] *= (1.5 / norms[norms > 1.5])[:, None]
        coef = coef - gradients.mean(axis=0) / 3
    answer = silent("clipped_gradient_descent", X, y, clip_norm=1.5)
    np.testing.assert_allclose(answer, coef, rtol=1e-12)


def test_printed_noise_of_boosting_is_that_for_adding_a_row():
    X, y = regression(50)
    bounds = {"covariate_bound": 5.0, "response_bound": 4.0}
    result = certified("boosted_adassp", X, y, calibration="paper", n_rounds=100, **bounds)
    sigma = np.sqrt(102) / gaussian_mu(1.0, 1e-6)
    assert total_mu(result.events) == pytest.approx(np.sqrt(403) / sigma)


@pytest.mark.parametrize(
    "ends",
    [([-1.0] * 3, [1.0] * 3), ([0.0] * 3, [1.0] * 3), ([-1.0, 0.0, 2.0], [9.0, 5.0, 3.0]), ([-2.0], [7.0])],
)
@pytest.mark.parametrize("n_levels", [1, 2, 5])
def test_no_row_moves_the_sums_in_boxes_by_more_than_their_sensitivity(ends, n_levels):
    """Of rows at corners and middles of boxes, in trees that are halved at random."""
    low, high = (np.array(end) for end in ends)
    rng, d = np.random.default_rng(0), len(low)
    own = {"lower": ends[0], "upper": ends[1], "response_bound": 1.0}
    params = BinAggRegressionParams(epsilon=1.0, delta=1e-6, **own)
    budget = params.split_budget({"boxes": 1.0})
    counts = rng.choice([-1e9, 1e9], (2 ** (n_levels + 1) - 1, 1))
    transcript = Transcript(NoNoise([rng]))
    boxes = grown_boxes(transcript, counts, (low, high), 1.0, budget)
    steps = np.linspace(0, 1, 2**n_levels + 1)
    points = low + (high - low) * rng.choice([*steps, *np.nextafter(steps[1:], 0)], (60, d))
    rows = np.concatenate([points, *(np.array([low, high]),)])
    moved = []
    for row in rows:
        sums = sums_in_boxes(Sample(row[None], np.zeros(1)), params, n_levels)[:, 1:-1, 0]
        moved.append((np.where(boxes.leaf, sums, 0.0) / boxes.reach).ravel())
    moved = np.array(moved)
    largest = np.linalg.norm(moved[:, None] - moved[None], axis=-1).max()
    bound = float(sums_sensitivity(boxes)[0])
    assert largest <= bound * (1 + 1e-9)
    assert largest >= 0.6 * bound


def labeled(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, len(COEF)))
    return X, (rng.random(n) < expit(2 * X @ COEF)).astype(float)


LOGISTIC = {"family": "logistic", "covariate_bound": 2.0}
IN_TURN = {**LOGISTIC, "batches": "in_turn"}


@pytest.mark.parametrize("ridge", [0.01, 0.3])
def test_minima_of_neighbors_are_as_far_apart_as_the_ridge_lets_them(ridge):
    X, y = labeled(40)
    far = np.zeros(len(COEF))
    far[0] = 1e6
    minima = []
    for sign in (1, -1):
        moved_X, moved_y = X.copy(), y.copy()
        moved_X[0], moved_y[0] = sign * far, 1.0
        minima.append(silent("output_perturbation_glm", moved_X, moved_y, ridge=ridge, **LOGISTIC))
    bound = minimum_sensitivity(2.0, ridge, np.array([40.0]))[0]
    assert 0.05 * bound < np.linalg.norm(minima[0] - minima[1]) <= bound


def test_without_noise_dp_sgd_takes_its_batches_in_turn():
    X, y = labeled(50)
    coef = np.zeros(4)
    for step in range(50):
        rows = slice(step % 10, None, 10)
        coef = coef - 0.7 * X[rows].T @ (expit(X[rows] @ coef) - y[rows]) / len(y[rows])
    answer = silent("dp_sgd_glm", X, y, step_size=0.7, **IN_TURN)
    np.testing.assert_allclose(answer, coef, rtol=1e-12)


def test_random_batches_are_the_whole_gradient_on_average():
    X, y = labeled(300)
    coef = np.zeros(4)
    for _ in range(50):
        coef = coef - 0.7 * X.T @ (expit(X @ coef) - y) / 300
    answer = silent("dp_sgd_glm", X, y, step_size=0.7, **LOGISTIC)
    np.testing.assert_allclose(answer, coef, rtol=1e-12)
    answers = estimated(
        "dp_sgd_glm", X, y, replicates=300, epsilon=100.0, delta=1e-6, step_size=0.7, **LOGISTIC
    ).estimate  # fmt: skip
    spread = answers.std(axis=1) / np.sqrt(300)
    assert (np.abs(answers.mean(axis=1) - coef) < 5 * spread + 0.01).all()
    assert (answers.std(axis=1) > 0).all()
