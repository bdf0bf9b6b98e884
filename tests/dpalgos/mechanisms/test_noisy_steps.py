"""The combination of a few noisy gradient steps."""

import numpy as np
import pytest

from dpalgos.steps.denoising import ReleasedSteps, combined_steps, shrunk_directions

D, T, STEP = 5, 6, 1.0


def released(steps):
    points, gradients, stds = steps
    return ReleasedSteps(points, gradients, stds, stds[-1], points[-1])


def combined(steps, curvature, start_variance):
    return combined_steps(released(steps), curvature, start_variance, entry_variance=1 / 400)


def run(curvature, target, noise_stds, rng, n_replicates=1):
    theta, iterates, gradients = np.zeros((D, n_replicates)), [], []
    for std in noise_stds:
        gradient = curvature @ (target[:, None] - theta) + std * rng.standard_normal(theta.shape)
        iterates.append(theta)
        gradients.append(gradient)
        theta = theta + STEP * gradient
    return np.array(iterates), np.array(gradients), np.outer(noise_stds, np.ones(n_replicates))


def flat(steps, curvature=1.0):
    n_replicates = steps[0].shape[2]
    return np.full((n_replicates, D), curvature), np.zeros(n_replicates)


def test_without_noise_directions_that_steps_resolve_slowly_are_extrapolated():
    curvature, target = np.diag([1.0, 1.1, 0.9, 0.1, 0.1]), np.arange(1.0, 6)
    steps = run(curvature, target, np.full(T, 1e-9), np.random.default_rng(0))
    answer, _ = combined(steps, *flat(steps))
    last = steps[0][-1] + STEP * steps[1][-1]
    assert np.linalg.norm(answer[:, 0] - target) < 0.02 * np.linalg.norm(last[:, 0] - target)


def test_where_gradients_are_noise_steps_count_by_their_precision():
    """The curvature's uncertainty is next to nothing beside the noise of so short gradients."""
    rng, stds = np.random.default_rng(1), np.array([1.0, 2, 1, 3, 1, 2])
    iterates = rng.standard_normal((T, D, 1))
    steps = iterates, 1e-9 * rng.standard_normal((T, D, 1)), stds[:, None]
    answer, _ = combined(steps, *flat(steps))
    weights = stds**-2 / (stds**-2).sum()
    np.testing.assert_allclose(answer, np.einsum("t,tjr->jr", weights, iterates), rtol=1e-6)


def test_variance_is_what_noise_leaves():
    """Of 20,000 replicates and 5 coordinates, the standard error is .5 %; weights follow it."""
    steps = run(np.eye(D), np.zeros(D), np.linspace(0.5, 1, T), np.random.default_rng(2), 20_000)
    answer, variance = combined(steps, *flat(steps))
    assert answer.var() == pytest.approx(variance.mean(), rel=0.06)


@pytest.mark.parametrize("curvature", [0.0, 0.3])
def test_noise_gathers_where_the_curvature_is_small(curvature):
    """Some of the start's noise stays, too."""
    rng, n_replicates, start = np.random.default_rng(4), 20_000, 0.7
    theta, iterates, gradients = start * rng.standard_normal((D, n_replicates)), [], []
    for _ in range(T):
        iterates.append(theta)
        gradients.append(rng.standard_normal(theta.shape) - curvature * theta)
        theta = theta + STEP * gradients[-1]
    steps = np.array(iterates), np.array(gradients), np.ones((T, n_replicates))
    given = np.full((n_replicates, D), curvature), np.full(n_replicates, start**2)
    answer, variance = combined(steps, *given)
    assert answer.var() == pytest.approx(variance.mean(), rel=0.15)  # weights follow the noise a little


def test_every_doubtful_direction_is_shrunk_by_its_own_noise():
    released = np.array([3.0, 3.0, 0.1, 0.1, 2.0, 2.0, 2.0])[:, None]
    variance = np.array([0.1, 4.0, 0.1, 4.0, 0.01, 0.01, 0.01])[:, None]
    curvature = np.array([[0.5, 0.1, 0.5, 0.1, 1.0, 1.0, 1.0]])
    part = shrunk_directions(released, variance, curvature)[:, 0] / released[:, 0]
    signal = ((released - 0)[:4, 0] ** 2 - variance[:4, 0]).mean()
    np.testing.assert_allclose(part[:4], signal / (signal + variance[:4, 0]))
    np.testing.assert_allclose(part[4:], 1 - 0.01 / 12)
    noise = shrunk_directions(0.1 * released, variance, curvature)[:4]
    assert (noise == 0).all()


@pytest.mark.parametrize("scale", [0.0, 1e-150, 1e100])
def test_answer_is_finite_whatever_the_scale(scale):
    steps = run(np.eye(D), scale * np.ones(D), np.full(T, 1e-3 * scale), np.random.default_rng(3))
    assert all(np.isfinite(part).all() for part in combined(steps, *flat(steps)))
