"""Local noisy moments: reports of bounded norm, reference errors, floor, notes, standard errors."""

import numpy as np
import pytest

from dpalgos.local.noisy_moments import isometric, least_noise_scaling
from dpalgos.local.rounds import heavy_tail_level, public_groups
from tests.dpalgos.local.local_problems import BUDGET, estimate, people, without_noise

SHAPES = [(1, 1.0), (2, 0.7), (3, 1.0), (5, 0.6), (5, 3.0), (12, 0.4)]


@pytest.mark.parametrize(("d", "part"), SHAPES)
def test_no_clipped_row_is_longer_than_the_scaled_products_allow(d, part):
    row, rng = part * np.sqrt(d), np.random.default_rng(0)
    gram = least_noise_scaling(d, row, 1.0)
    X = rng.uniform(-1, 1, (4000, d)) * (rng.random((4000, d)) < rng.random((4000, 1)))
    X[:2000] = np.sign(X[:2000])
    X *= np.minimum(1, row / np.maximum(np.linalg.norm(X, axis=1), 1e-9))[:, None]
    assert np.linalg.norm(gram.vectors(X), axis=1).max() <= 1 + 1e-12
    longest = gram.longest_row
    assert np.abs(longest).max() <= 1 + 1e-12
    assert np.linalg.norm(longest) <= row * (1 + 1e-12)
    assert np.linalg.norm(gram.vectors(longest[None])) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(("d", "part"), SHAPES)
def test_scaled_products_are_read_back(d, part):
    X = np.random.default_rng(1).uniform(-0.3, 0.3, (7, d))
    for gram in (least_noise_scaling(d, part * np.sqrt(d), 1.0), isometric(d, 1.0)):
        np.testing.assert_allclose(
            gram.matrices(gram.vectors(X).T), X[:, :, None] * X[:, None, :], atol=1e-12
        )


@pytest.mark.parametrize("mechanism", ["auto", "l2", "privunit", "gaussian"])
@pytest.mark.parametrize("row_bound", [None, 1.5])
def test_without_noise_the_answer_is_least_squares_of_the_clipped_rows(mechanism, row_bound):
    X, y, _ = people(600, 4)
    y = np.clip(y, -2, 2)
    answer = without_noise(
        "ldp_nldp", X, y, mechanism=mechanism, row_bound=row_bound, covariance_eigenvalue_bounds=(0.1, 1.0)
    )
    clipped = X if row_bound is None else X * (row_bound / 2)
    cross = X if mechanism == "gaussian" else clipped
    expected = np.linalg.solve(clipped.T @ clipped, cross.T @ y)
    np.testing.assert_allclose(answer, expected, atol=1e-10)


@pytest.mark.parametrize("mechanism", ["auto", "gaussian"])
def test_standard_errors_are_the_spread_of_the_noise(mechanism):
    from dpalgos.local.ldp_nldp import MomentParams, algorithm
    from dpalgos.local.rounds import first_state
    from dpalgos.release.noise_source import Noise

    X, y, _ = people(20_000, 3)
    params = MomentParams(
        epsilon=3.0, delta=1e-5, covariate_bound=1.0, response_bound=2.0, mechanism=mechanism
    )
    moments = algorithm(params, 3, len(X))
    noise, state = Noise(np.random.default_rng(2).spawn(60)), first_state(3, 60)
    means = [
        part.randomizer.perturb(part.vectors(X, y), noise).mean(axis=0) for part in moments.client(state)
    ]
    answer = moments.server(state, means, len(X))
    spread = answer.coef.std(axis=1)
    np.testing.assert_allclose(answer.standard_error.mean(axis=1), spread, rtol=0.3)


def test_printed_noise_is_the_printed_formula():
    X, y, _ = people(50, 4)
    gram, cross = estimate("ldp_nldp", X, y, calibration="paper", row_bound=1.5).events
    printed = np.sqrt(32 * np.log(2.5 / 1e-5)) / 1.0
    assert gram.noise_multiplier * gram.l2_sensitivity == pytest.approx(printed)
    assert cross.noise_multiplier * cross.l2_sensitivity == pytest.approx(printed)
    assert gram.l2_sensitivity == pytest.approx(np.sqrt(2))
    assert cross.l2_sensitivity == 2


@pytest.mark.parametrize(
    ("order", "n", "paper", "balanced"),
    [(4, 2e4, 5.2, 1.9), (4, 2e5, 9.3, 2.5), (2.4, 2e5, 41, 4.7), (2.4, 2e6, 108, 7.6)],
)
def test_truncation_levels_of_heavy_tails_are_the_reference_ones(order, n, paper, balanced):
    for printed, level in ((True, paper), (False, balanced)):
        found = heavy_tail_level(int(n), 10, 1.0, 1e-5, moment=(order, 1.0), printed=printed)
        assert found == pytest.approx(level, rel=0.03)
    doubled = heavy_tail_level(int(n), 10, 1.0, 1e-5, moment=(order, 2.0**order), printed=False)
    assert doubled == pytest.approx(2 * balanced, rel=0.03)


@pytest.mark.parametrize(("n", "n_rounds"), [(10, 1), (10, 3), (7, 7)])
def test_every_person_is_asked_once(n, n_rounds):
    groups = public_groups(n, n_rounds)
    assert sorted(np.concatenate(groups)) == list(range(n))
    assert [len(group) for group in groups[:-1]] == [n // n_rounds] * (n_rounds - 1)
    for again, group in zip(public_groups(n, n_rounds), groups, strict=True):
        np.testing.assert_array_equal(again, group)


def test_people_in_blocks_get_reports_as_if_at_once(monkeypatch):
    X, y, _ = people(3000, 3)
    at_once = estimate("ldp_nldp", X, y, mechanism="gaussian")
    monkeypatch.setattr("dpalgos.local.rounds._ENTRIES_AT_ONCE", 4096)
    in_blocks = estimate("ldp_nldp", X, y, mechanism="gaussian")
    assert len(in_blocks.events) > len(at_once.events) == 2
    assert in_blocks.certified_epsilon == at_once.certified_epsilon <= BUDGET["epsilon"]
