"""Winsorized means, the rotation and the ball: bias, norms, sensitivities."""

import numpy as np
import pytest

from dpalgos.audit.trials import BatchNoise
from dpalgos.mechanisms import winsorized_mean as winsorized
from dpalgos.mechanisms.sensitivity import ball_mean
from dpalgos.release.transcript import Transcript
from dpalgos.steps.clipping import mean_in_ball

HALF = {"epsilon": 0.5, "label": "mean"}


def by_column(transcript, values, tau, window, bound=100.0):
    window = window.times(np.full(len(values), tau))
    return winsorized.winsorized_means_by_column(transcript, values, bound=bound, window=window, **HALF).mean


def test_the_printed_window_cuts_off_values_that_straddle_an_edge():
    """Half of the values at s, half at 2τ + s: a bias of about τ/4, none with fine bins."""
    values, rng = np.repeat([[0.05], [2.05]], 500, axis=0), np.random.default_rng(0)
    windows, many = (winsorized.PRINTED_WINDOW, winsorized.FINE_WINDOW), Transcript(BatchNoise(rng, 400))
    printed, fine = (by_column(many, [values] * 400, 1.0, window)[0] - 1.05 for window in windows)
    assert np.abs(printed).mean() == pytest.approx(0.24, abs=0.02)  # towards whichever bin was chosen
    assert abs(fine.mean()) < 0.003


@pytest.mark.parametrize("d", [1, 2, 3, 8, 33])
def test_the_rotation_keeps_norms_and_comes_back(d):
    rotation, rng = winsorized.HadamardRotation(d, 3), np.random.default_rng(d)
    X = rng.normal(size=(7, d))
    rotated = rotation.rotate(X)
    assert rotated.shape == (7, rotation.size)
    assert rotation.size in (d, 1 << (d - 1).bit_length())
    np.testing.assert_allclose(np.linalg.norm(rotated, axis=1), np.linalg.norm(X, axis=1))
    np.testing.assert_allclose(rotation.rotate_back(rotated.T), X.T, atol=1e-12)


def test_ball_means_equal_those_of_clipped_vectors_and_move_by_at_most_their_sensitivity():
    rng = np.random.default_rng(4)
    X, centers, radius = 3 * rng.standard_t(2, (6, 4)), rng.normal(size=(4, 3)), np.array([0.5, 2.0, 50.0])
    means = mean_in_ball([X] * 3, centers, radius)
    for r in range(3):
        offsets = X - centers[:, r]
        offsets *= np.minimum(1, radius[r] / np.linalg.norm(offsets, axis=1))[:, None]
        np.testing.assert_allclose(means[:, r], centers[:, r] + offsets.mean(axis=0))
    other = X.copy()
    other[0] = 1e6
    X[0] = -1e6
    one, two = (mean_in_ball([rows] * 3, centers, radius) for rows in (X, other))
    moved = np.linalg.norm(one - two, axis=0)
    bound = ball_mean(radius, np.full(3, 6.0))
    assert (moved <= bound * (1 + 1e-9)).all()
    assert (moved >= 0.999 * bound).all()
