"""The combination of a few noisy gradient steps."""

import numpy as np
import pytest

from dpalgos.steps.denoising import combined_steps

D, T, STEP = 5, 6, 0.8


def run(curvature, target, noise_stds, rng, n_replicates=1):
    """Return iterates and gradients of steps from zero."""
    theta, iterates, gradients = np.zeros((D, n_replicates)), [], []
    for std in noise_stds:
        gradient = curvature @ (target[:, None] - theta) + std * rng.standard_normal(theta.shape)
        iterates.append(theta)
        gradients.append(gradient)
        theta = theta + STEP * gradient
    return np.array(iterates), np.array(gradients), np.outer(noise_stds, np.ones(n_replicates))


def test_without_noise_directions_that_steps_resolve_slowly_are_extrapolated():
    curvature, target = np.diag([1.0, 1.1, 0.9, 0.1, 0.1]), np.arange(1.0, 6)
    steps = run(curvature, target, np.full(T, 1e-9), np.random.default_rng(0))
    combined, _ = combined_steps(*steps, STEP)
    last = steps[0][-1] + STEP * steps[1][-1]
    assert np.linalg.norm(combined[:, 0] - target) < 0.02 * np.linalg.norm(last[:, 0] - target)


def test_where_gradients_are_noise_steps_count_by_their_precision():
    """The curvature's uncertainty is next to nothing beside the noise of so short gradients."""
    rng, stds = np.random.default_rng(1), np.array([1.0, 2, 1, 3, 1, 2])
    iterates = rng.standard_normal((T, D, 1))
    combined, _ = combined_steps(iterates, 1e-9 * rng.standard_normal((T, D, 1)), stds[:, None], STEP)
    weights = stds**-2 / (stds**-2).sum()
    np.testing.assert_allclose(combined, np.einsum("t,tjr->jr", weights, iterates), rtol=1e-6)


def test_variance_is_what_noise_leaves():
    """Of 20,000 replicates and 5 coordinates, the standard error is .5 %."""
    steps = run(np.eye(D), np.zeros(D), np.linspace(0.5, 1, T), np.random.default_rng(2), 20_000)
    combined, variance = combined_steps(*steps, STEP)
    assert combined.var() == pytest.approx(variance.mean(), rel=0.03)


@pytest.mark.parametrize("scale", [0.0, 1e-150, 1e100])
def test_answer_is_finite_whatever_the_scale(scale):
    steps = run(np.eye(D), scale * np.ones(D), np.full(T, 1e-3 * scale), np.random.default_rng(3))
    assert all(np.isfinite(part).all() for part in combined_steps(*steps, STEP))
