"""The combination of a few noisy gradient steps."""

import numpy as np
import pytest

from dpalgos.steps.denoising import ReleasedSteps, combined_steps

D, T = 5, 6


@pytest.mark.parametrize("curvature", [0.0, 0.3])
def test_noise_gathers_where_the_curvature_is_small(curvature):
    """Some of the start's noise stays, too."""
    rng, n_replicates, start = np.random.default_rng(4), 20_000, 0.7
    theta, iterates, gradients = start * rng.standard_normal((D, n_replicates)), [], []
    for _ in range(T):
        iterates.append(theta)
        gradients.append(rng.standard_normal(theta.shape) - curvature * theta)
        theta = theta + gradients[-1]
    steps = np.array(iterates), np.array(gradients), np.ones((T, n_replicates))
    given = np.full((n_replicates, D), curvature), np.full(n_replicates, start**2)
    points, released, stds = steps
    released = ReleasedSteps(points, released, stds, stds[-1], points[-1])
    answer, variance = combined_steps(released, *given, entry_variance=1 / 400)
    assert answer.var() == pytest.approx(variance.mean(), rel=0.15)  # weights follow the noise a little
