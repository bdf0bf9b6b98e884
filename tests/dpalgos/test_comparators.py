"""The peers of the literature: each is the algorithm that its paper states, and what it proves holds."""

from functools import partial

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

import dpalgos
from dpalgos.accounting.composition import certified_epsilon, total_mu
from dpalgos.accounting.gaussian_dp import gaussian_delta, gaussian_mu
from dpalgos.api import build_params
from dpalgos.comparators.objective_perturbation_glm import (
    printed_noise,
    proved_delta,
    tight_noise,
    useful_ridge,
)
from dpalgos.comparators.output_perturbation_glm import minimum_sensitivity
from dpalgos.comparators.tukey_em import Boxes, distance, log_gaps
from dpalgos.rows.products import clip_rows_l2
from dpalgos.rows.sample import Sample
from tests.dpalgos.silence import estimated, recorded, silent

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
COEF = np.array([0.5, -0.5, 0.5, 0.5])


def regression(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, len(COEF)))
    return X, X @ COEF + rng.standard_normal(n)


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
    result = estimated("boosted_adassp", X, y, calibration="paper", n_rounds=100, **bounds, **BUDGET)
    sigma = np.sqrt(102) / gaussian_mu(1.0, 1e-6)
    assert total_mu(result.events) == pytest.approx(np.sqrt(403) / sigma)


def labeled(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, len(COEF)))
    return X, (rng.random(n) < expit(2 * X @ COEF)).astype(float)


LOGISTIC = {"family": "logistic", "covariate_bound": 2.0}


@pytest.mark.parametrize("ridge", [0.01, 0.3])
def test_minima_of_neighbors_are_as_far_apart_as_the_ridge_lets_them(ridge):
    X, y = labeled(40)
    far, minima = 1e6 * np.eye(len(COEF))[0], []
    for row in (far, -far):
        X[0], y[0] = row, 1.0
        minima.append(silent("output_perturbation_glm", X, y, ridge=ridge, **LOGISTIC))
    bound = minimum_sensitivity(2.0, ridge, np.array([40.0]))[0]
    assert 0.05 * bound < np.linalg.norm(minima[0] - minima[1]) <= bound


def test_without_noise_dp_sgd_takes_its_batches_in_turn():
    X, y = labeled(50)
    coef = np.zeros(4)
    for step in range(50):
        rows = slice(step % 10, None, 10)
        coef = coef - 0.7 * X[rows].T @ (expit(X[rows] @ coef) - y[rows]) / len(y[rows])
    answer = silent("dp_sgd_glm", X, y, step_size=0.7, batches="in_turn", **LOGISTIC)
    np.testing.assert_allclose(answer, coef, rtol=1e-12)


def depths(models, points):
    below = (models[:, None] <= points[None]).sum(axis=0)
    above = (models[:, None] >= points[None]).sum(axis=0)
    return np.minimum(below, above).min(axis=1)


def log_density(models, points, t, epsilon):
    """log of the density on a grid, −∞ where depth is less than t."""
    found = depths(models, points).astype(float)
    weights = np.where(found >= t, np.exp(epsilon * (found - t)), 0.0)
    with np.errstate(divide="ignore"):
        return np.log(weights / weights.sum())


def rows_of(models):
    """Rows whose parts have these models: d rows each, dealt in turn."""
    m, d = models.shape
    return np.tile(np.eye(d), (m, 1, 1)).swapaxes(0, 1).reshape(-1, d), models.T.ravel()


@pytest.mark.parametrize("m", [7, 12])
def test_boxes_hold_the_points_of_their_depth(m):
    rng = np.random.default_rng(0)
    models, points = rng.standard_normal((m, 3)), rng.standard_normal((4000, 3)) / 2
    boxes, found = Boxes.of(models), depths(models, points)
    assert set(found) >= {0, 1, 2, 3}
    for tau in range(1, (m + 1) // 2 + 1):
        inside = ((boxes.lower[:, tau - 1] <= points) & (points <= boxes.upper[:, tau - 1])).all(axis=1)
        np.testing.assert_array_equal(inside, found >= tau)


@pytest.mark.parametrize("calibration", ["tight", "paper"])
def test_a_replaced_model_moves_the_distance_by_at_most_one(calibration):
    rng, moved = np.random.default_rng(0), set()
    keywords = {"epsilon": 8.0, "delta": 1e-3, "calibration": calibration}
    params = build_params(dpalgos.get_estimator("tukey_em"), keywords)
    for trial in range(300):
        models = rng.standard_t(2, (40, 1 + trial % 2)) if trial % 3 else rng.integers(0, 4, (40, 1)) * 1.0
        other = models.copy()
        other[rng.integers(40)] = rng.choice([-1e9, 0.0, 1e9]) + rng.standard_t(1)
        first, second = (distance(Boxes.of(each), params) for each in (models, other))
        assert abs(first - second) <= 1
        moved.add((first, first - second))
    assert max(first for first, _ in moved) >= 2
    assert {change for _, change in moved} == {-1, 0, 1}


def test_gaps_are_those_of_the_header():
    """G_k = e^ε₀ e^(ε₀t) V_(t−1−k) / Z_k, term by term. The bound below holds without e^ε₀, too."""
    boxes, epsilon = Boxes.of(np.random.default_rng(2).standard_normal((21, 2))), 0.7
    volumes, t = np.exp(boxes.log_volumes), boxes.t
    for k, gap in enumerate(log_gaps(boxes, epsilon)):
        shifted = dict(enumerate(volumes[k:], start=1))  # V_(τ+k) by τ
        gains = {tau: np.exp(epsilon * tau) - np.exp(epsilon * (tau - 1)) for tau in shifted if tau > t}
        total = np.exp(epsilon * t) * shifted[t] + sum(gain * shifted[tau] for tau, gain in gains.items())
        assert gap == pytest.approx(np.log(np.exp(epsilon * (t + 1)) * volumes[t - 2 - k] / total))


def test_the_eigenvalue_that_a_sketch_relies_on_is_that_of_both_neighbors():
    """At the largest released eigenvalue that δ allows, the neighbor's matrix is above the floor, too."""
    X, y = regression(60)
    settings = {"covariate_bound": 1.0, "response_bound": 2.0, "epsilon": 20.0, "delta": 1e-6}
    X = clip_rows_l2(X, 1.0)
    first = recorded("hessian_mixing", Sample(X, y), settings)[0]
    events = {event.label: event for release in first.releases for event in release.events}
    smallest, sketch = events["smallest eigenvalue"], events["sketch"]
    std = smallest.noise_multiplier * smallest.sensitivity
    true, moved = float(np.linalg.eigvalsh(X.T @ X)[0]), float(smallest.sensitivity)
    script = [np.full((1, 1), true - norm.ppf(0.01 * 1e-6) * std), *first.published[1:]]
    made = recorded("hessian_mixing", Sample(X, y), settings, script)[0]
    sketched = [release.value for release in made.releases if release.events[0].label == "sketch"]
    assert float(np.linalg.eigvalsh(sketched[0]).min()) - moved >= sketch.ridge * (1 - 1e-9)


def test_the_gap_bounds_what_a_neighbor_tells():
    """P(S) ≤ e^(2ε₀) P'(S) + G_0 for the worst set S, by sums over a fine grid; G_k for k neighbors on."""
    rng, epsilon, m = np.random.default_rng(1), 1.2, 17
    points = np.linspace(-4, 4, 20_001)[:, None]
    t, largest = m // 4, 0.0
    for _ in range(100):
        models = rng.standard_normal((m, 1)) * rng.choice([0.3, 1.0])
        bound = np.exp(log_gaps(Boxes.of(models), epsilon))
        for k in range(len(bound)):
            if k:
                models[rng.integers(m)] = rng.uniform(-3, 3)
            other = models.copy()
            other[rng.integers(m)] = rng.uniform(-3.5, 3.5)
            first, second = (np.exp(log_density(each, points, t, epsilon)) for each in (models, other))
            worst = np.maximum(first - np.exp(2 * epsilon) * second, 0).sum()
            assert worst <= bound[k] * 1.001 + 1e-9
            largest = max(largest, worst / bound[k])
    assert largest > 0.01


def test_points_are_drawn_by_their_depth():
    m, epsilon, n = 40, 30.0, 4000
    models = np.sort(np.random.default_rng(0).standard_normal((m, 1)), axis=0)
    X, y = rows_of(models)
    drawn = estimated("tukey_em", X, y, seed=1, replicates=n, epsilon=epsilon, delta=0.1).estimate
    drawn = drawn[:, drawn[0] != 0]  # the check lets most through
    assert drawn.shape[1] > 0.9 * n
    found = depths(models, drawn.T)
    lengths = np.diff(models[:, 0])
    by_depth = np.zeros(21)
    by_depth[1:20], by_depth[20] = lengths[:19] + lengths[:19:-1], lengths[19]
    law = by_depth * np.exp(epsilon / 4 * (np.arange(21) - 20.0)) * (np.arange(21) >= m // 4)
    law /= law.sum()
    observed = np.bincount(found, minlength=21) / len(found)
    assert np.abs(observed - law).max() < 5 * np.sqrt(0.25 / len(found))


def test_whether_to_go_on_is_decided_by_noise():
    X, y = regression(2000)
    shares = []
    for epsilon in np.linspace(0.4, 0.6, 17):
        answers = estimated("tukey_em", X, y, replicates=50, epsilon=epsilon, delta=1e-6).estimate
        shares.append(answers.any(axis=0).mean())
    assert shares[0] == 0
    assert shares[-1] == 1
    assert any(0.05 < share < 0.95 for share in shares)


def test_too_few_models_are_not_let_through():
    spend, answer = recorded("tukey_em", Sample(*regression(50)), BUDGET)
    np.testing.assert_array_equal(answer, 0)
    np.testing.assert_array_equal(spend.published[1], 0)  # nor seen by whoever sees all releases
    assert certified_epsilon(spend.record.events, 1e-6) == pytest.approx(1.0)


NAME = "objective_perturbation_glm"
ASKED = {"family": "logistic", "covariate_bound": 1.5, "epsilon": 1.0, "delta": 1e-5}


def log_density_of_minimum(noise, rows, labels, weights, grid):
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
    law = partial(log_density_of_minimum, noise, weights=[common, 1.0], grid=grid)
    pair = zip((rows, others), labels, strict=True)
    densities = [np.exp(law([shared, row], [1.0, label])) for row, label in pair]
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
    X, y = labeled(5000)
    answers = estimated(NAME, X, y, seed=1, replicates=300, calibration=calibration, **ASKED).estimate
    noise = tight_noise(1.0, 1e-5, one_sided=True) if calibration == "tight" else printed_noise(1.0, 1e-5)
    rows = X * np.minimum(1, 1.5 / np.linalg.norm(X, axis=1, keepdims=True))
    u = rows @ answers.mean(axis=1)
    ridge = noise.ridge * 0.25 * 1.5**2 / len(y)
    hessian = rows.T @ (rows * (expit(u) * expit(-u))[:, None]) / len(y) + ridge * np.eye(len(COEF))
    drawn = hessian @ (answers - answers.mean(axis=1, keepdims=True))
    assert drawn.std() == pytest.approx(noise.objective * 1.5 / len(y), rel=0.07)


def test_noise_covers_how_far_the_solver_may_end_from_the_minimum():
    spend, _ = recorded(NAME, Sample(*labeled(200), n_replicates=300), ASKED)
    noise = tight_noise(1.0, 1e-5, useful_ridge(1.0, 1e-5, 200, len(COEF)), one_sided=True)
    distance = (1.5 / 200**2) / (noise.ridge * 0.25 * 1.5**2 / 200)  # tolerance over strong convexity
    added = spend.published[0] - spend.values[0]
    assert added.std() == pytest.approx(noise.output * distance, rel=0.15)


def test_replicates_of_other_sizes_draw_what_they_draw_alone():
    """TukeyEM drew as many numbers for each replicate as for the longest one."""
    X, y = regression(4000)
    mask = np.arange(4000)[:, None] < [700, 4000]
    keywords = {"epsilon": 20.0, "delta": 0.01}
    batch = dpalgos.estimate(
        "tukey_em", X, y, row_mask=mask, replicates=2, rng=np.random.default_rng(5), **keywords
    )
    for r, rng in enumerate(np.random.default_rng(5).spawn(2)):
        alone = dpalgos.estimate("tukey_em", X[mask[:, r]], y[mask[:, r]], rng=rng, **keywords)
        assert alone.estimate.any()
        np.testing.assert_array_equal(batch.estimate[:, r], alone.estimate)
