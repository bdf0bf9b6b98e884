"""Local hard thresholding: radius, groups, projection, reference errors; and moments with public rows."""

import numpy as np
import pytest

from dpalgos.local import ldp_iht
from dpalgos.local.rounds import PublicState, public_groups
from tests.dpalgos.local.local_problems import BUDGET, estimate, people, without_noise


def rounds(d=4, n=100, **keywords):
    given = {**BUDGET, "covariate_bound": 1.0, "response_bound": 2.0, "sparsity": 2, **keywords}
    return ldp_iht.algorithm(ldp_iht.LDPIHTParams(**given), d, n)


def state(coef):
    coef = np.asarray(coef, dtype=float)[:, None]
    return PublicState(n_rounds=0, coef=coef, standard_error=np.zeros_like(coef))


def longest(algorithm, coef, seed=0):
    rng, (part,) = np.random.default_rng(seed), algorithm.client(state(coef))
    X = rng.standard_t(1.5, (4000, len(coef))) * 10.0 ** rng.integers(-1, 3, (4000, 1))
    X[:2000] = np.sign(X[:2000]) * 1.0
    X[0] = np.where(np.asarray(coef) >= 0, 1.0, -1.0)
    y = np.where(rng.random(4000) < 0.5, -1.0, 1.0) * 1e3
    y[0] = -1e3
    return np.linalg.norm(part.vectors(X, y), axis=1).max()


@pytest.mark.parametrize(
    ("keywords", "coef", "radius"),
    [
        ({"residual_bound": 50.0}, [0.6, -0.8, 0.0, 0.0], 2 * (1.4 + 2)),
        ({"residual_bound": 50.0}, [0.0] * 4, 2 * 2.0),
        ({"residual_bound": 3.0}, [0.6, -0.8, 0.0, 0.0], 2 * 3.0),
        ({}, [0.6, -0.8, 0.0, 0.0], 2 * 2.0),
        ({"calibration": "paper", "working_sparsity": 4}, [0.5] * 4, 2 * (2.0 + 2.0)),
        ({"calibration": "paper", "working_sparsity": 4}, [0.0] * 4, 2 * (2.0 + 2.0)),
    ],
    ids=str,
)
def test_the_radius_is_the_largest_clipped_gradient(keywords, coef, radius):
    algorithm = rounds(**keywords)
    assert algorithm.radius(state(coef).coef)[0] == pytest.approx(radius)
    largest = longest(algorithm, coef)
    assert largest <= 1 + 1e-12
    if not (keywords.get("calibration") == "paper" and not any(coef)):  # attained at the worst iterate only
        assert largest == pytest.approx(1.0)


@pytest.mark.parametrize("row_bound", [0.5, 1.3])
def test_rows_are_clipped_to_the_ball_too(row_bound):
    assert longest(rounds(row_bound=row_bound), [0.3, 0.3, -0.2, 0.0]) == pytest.approx(1.0)


def test_without_noise_the_iteration_finds_the_coefficients():
    X, y, truth = people(4000, 6)
    np.testing.assert_allclose(
        without_noise("ldp_iht", X, y, sparsity=2, n_rounds=5, residual_bound=9.0), truth, atol=0.06
    )
    rng = np.random.default_rng(3)
    X = np.clip(rng.standard_normal((6000, 4)) @ np.linalg.cholesky(0.2 * np.eye(4) + 0.1), -1, 1)
    y = X @ [0.9, -0.7, 0, 0]
    low, high = np.linalg.eigvalsh(X.T @ X / len(X))[[0, -1]]
    answer = without_noise(
        "ldp_iht_general", X, y, sparsity=2, n_rounds=40, covariance_eigenvalue_bounds=(low, high)
    )
    np.testing.assert_allclose(answer, [0.9, -0.7, 0, 0], atol=0.03)


def test_every_round_asks_other_people_and_epsilon_is_that_of_one_report():
    X, y, _ = people(1003, 3)
    result = estimate("ldp_iht", X, y, sparsity=2, n_rounds=4)
    assert [event.label for event in result.events] == [f"gradient of round {t}" for t in (1, 2, 3, 4)]
    assert len({event.group for event in result.events}) == 4
    assert 0.999 < result.certified_epsilon <= 1.0
    assert [len(group) for group in public_groups(1003, 4)] == [250, 250, 250, 253]


def test_without_noise_public_rows_give_least_squares():
    X, y, _ = people(500, 5)
    y = np.clip(y, -2, 2)
    answer = without_noise("ldp_nldp_public", X, y, public_X=X)
    np.testing.assert_allclose(answer, np.linalg.lstsq(X, y, rcond=None)[0], atol=1e-10)
