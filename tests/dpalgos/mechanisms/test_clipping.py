"""Truncation, row clipping and projection."""

import numpy as np
import pytest

from dpalgos.steps.clipping import clip_rows_l2, project_l2_ball, truncate

ROWS = np.array([[3.0, 4.0], [0.3, -0.4], [0.0, 0.0], [-1e100, 1e100], [1e-320, 0.0]])


def test_rows_are_scaled_to_the_bound():
    kept = ROWS.copy()
    clipped = clip_rows_l2(ROWS, 1.0)
    np.testing.assert_array_equal(ROWS, kept)
    assert (np.linalg.norm(clipped, axis=1) <= 1 + 1e-12).all()
    np.testing.assert_array_equal(clipped[[1, 2, 4]], ROWS[[1, 2, 4]])
    assert np.linalg.norm(clipped[0]) == pytest.approx(1)
    assert clipped[0, 1] / clipped[0, 0] == pytest.approx(4 / 3)


def test_truncation_and_projection():
    np.testing.assert_array_equal(truncate(np.array([-3.0, 0.5, 9.0]), 2.0), [-2, 0.5, 2])
    np.testing.assert_allclose(
        project_l2_ball(np.array([[3.0, 0.1], [4.0, 0.1]]), 1.0), [[0.6, 0.1], [0.8, 0.1]]
    )
