"""The simulated flock against its own physics, computed a second time pair by pair."""

import numpy as np
import pytest

from data.simulations.flock import EXTENT, FEATURES, FRAMES, PRIVATE_SPACE, REPULSION, simulate

N, SEED = 16, 11  # simulations, of which the first four differ in both labels


@pytest.fixture(scope="module")
def film():
    parts = list(simulate(N * FRAMES, SEED))
    frames = np.concatenate([frames for frames, _ in parts]).reshape(-1, 200, 12)
    return frames.astype(np.float64), np.concatenate([labels for _, labels in parts])


def column(frames, name):
    return frames[..., FEATURES.index(name)]


def test_counts_and_directions_against_pairs_of_boids(film):
    for frame in film[0][[3, 70, 150]]:
        away = frame[:, None, :2] - frame[None, :, :2]
        away -= EXTENT * np.rint(away / EXTENT)
        distance = np.hypot(away[..., 0], away[..., 1])
        np.fill_diagonal(distance, np.inf)
        close = distance < PRIVATE_SPACE
        np.testing.assert_array_equal(column(frame, "nS"), close.sum(axis=1))
        push = (REPULSION * away / np.where(close, distance, np.inf)[..., None] ** 3).sum(axis=1)
        np.testing.assert_allclose(frame[:, 6:8], push, rtol=2e-3, atol=2e-3)

        for boid in range(0, 200, 17):
            n = int(column(frame, "nAC")[boid])
            near = np.argsort(distance[boid])[:n]
            if n == 0:
                assert not frame[boid, [4, 5, 8, 9]].any()
                continue
            heading = frame[near, 2:4].sum(axis=0)
            np.testing.assert_allclose(frame[boid, 4:6], heading / np.linalg.norm(heading), atol=1e-3)
            center, toward = frame[boid, 8:10], -away[boid, near].mean(axis=0)
            assert abs(center[0] * toward[1] - center[1] * toward[0]) <= 2e-3 * np.linalg.norm(toward)
            assert center @ toward >= -1e-3


def test_a_simulation_depends_on_the_seed_and_its_number_alone():
    def frames(n, seed):
        return np.concatenate([part for part, _ in simulate(n * FRAMES, seed)])

    many = frames(5, 1)
    np.testing.assert_array_equal(many[: 2 * FRAMES], frames(2, 1))
    assert not np.array_equal(many[: 2 * FRAMES], frames(2, 2))
