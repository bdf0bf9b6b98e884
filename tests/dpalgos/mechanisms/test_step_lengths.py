"""How long steps are, by the curvature that released gradients show."""

import numpy as np
import pytest

from dpalgos.mechanisms.preconditioned.step_lengths import StepLengths

D, R = 8, 4000


def taken(curvature, std, clipped_share=0.0, n_steps=6, start=1.0):
    """Take steps towards 0 by gradients of a flat curvature; return what is known, and the last gradient."""
    rng, theta, known = np.random.default_rng(0), np.full((D, R), start), StepLengths(R)
    share, stds = np.full(R, clipped_share), np.full(R, std)
    gradient = -curvature * theta + std * rng.standard_normal((D, R))
    for _ in range(n_steps - 1):
        length, last = known.safe(0.8 * known.full(gradient, stds)), gradient
        theta = theta + length * last
        gradient = -curvature * theta + std * rng.standard_normal((D, R))
        known.moved(length * last, length, last - gradient, np.array([stds, stds]), share)
    return known, gradient


@pytest.mark.parametrize("curvature", [0.4, 1.5, 3.0])
def test_steps_are_about_as_long_as_the_curvature_that_gradients_show(curvature):
    known, gradient = taken(curvature, 1e-9, clipped_share=0.7)
    gained = (known.full(gradient, np.zeros(R)) - 1) / (1 / curvature - 1)
    assert 0.5 < gained.mean() < 1


def test_steps_are_longer_only_as_far_as_rows_are_clipped_and_gradients_are_no_noise():
    known, gradient = taken(0.4, 1e-9, clipped_share=0.1)
    np.testing.assert_allclose(known.full(gradient, np.zeros(R)), 1 / 0.9)
    noise = np.sqrt((gradient**2).mean(axis=0))
    np.testing.assert_allclose(known.full(gradient, noise), 1)


def test_noise_of_moves_does_not_look_like_curvature():
    """A move holds the noise of its own gradient: as it is, the curvature would seem to be 1/.8 larger."""
    known, gradient = taken(1.0, 1.0, start=0.0)
    assert (1 / known.full(gradient, np.zeros(R))).mean() == pytest.approx(1, abs=0.1)


def test_no_step_is_longer_than_the_last_move_proves():
    known, _ = taken(6.0, 1e-9, n_steps=2)
    np.testing.assert_allclose(known.safe(np.ones(R)), 1 / 6, rtol=1e-6)
