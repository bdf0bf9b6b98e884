"""TukeyEM: depths are depths, the bounds of its proof hold, and what it draws has its law."""

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.composition import certified_epsilon
from dpalgos.api import build_params
from dpalgos.comparators.tukey_em import Boxes, distance, log_gaps
from dpalgos.rows.sample import Sample
from tests.dpalgos.silence import estimated, recorded

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
COEF = np.array([0.5, -0.5, 0.5, 0.5])


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


@pytest.mark.parametrize("n_spare", [0, 1, 5])
def test_far_models_count_down_to_where_a_box_opens(n_spare):
    m = 80
    n_far = m // 4 - 1 - n_spare
    models = np.concatenate([np.linspace(-1, 1, m - 2 * n_far), *([[-1e90, 1e90]] * n_far)])[:, None]
    params = build_params(dpalgos.get_estimator("tukey_em"), {"epsilon": 8.0, "delta": 1e-6})
    assert distance(Boxes.of(models), params) == n_spare


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


def regression(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, len(COEF)))
    return X, X @ COEF + rng.standard_normal(n)


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
    transcript, answer = recorded("tukey_em", Sample(*regression(50)), BUDGET)
    np.testing.assert_array_equal(answer, 0)
    np.testing.assert_array_equal(transcript.published[1], 0)  # nor seen by whoever sees all releases
    assert certified_epsilon(transcript.events, 1e-6) == pytest.approx(1.0)
