"""Two whitenings: the second decides where the first saw noise."""

import numpy as np
import pytest

from dpalgos.mechanisms.preconditioned.whitening import WholeRows, clipped_second_moments, private_whitening
from dpalgos.mechanisms.sensitivity import outer_product
from dpalgos.release.noise_source import Noise
from dpalgos.release.transcript import Transcript
from dpalgos.rows.sample import Sample
from dpalgos.steps.moments import svec, unsvec

N, SCALES = 20_000, np.array([1.0, 0.5, 0.02])


@pytest.fixture(scope="module")
def whitenings():
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    X = rng.standard_normal((N, 3)) * SCALES @ turn
    transcript = Transcript(Noise([np.random.default_rng(1), np.random.default_rng(2)]))
    sample = Sample(X, X @ np.ones(3), n_replicates=2)
    level = np.full(2, 4.0)

    def rows(group):
        return np.column_stack([group.X, group.y])

    first = private_whitening(
        transcript, sample, WholeRows(sample.grouped(rows)), level, noise_multiplier=10.0
    )
    sums = clipped_second_moments(sample.grouped(lambda group: group.X), level, first.matrix)
    std = 10 * outer_product(level, sample.n_rows)
    released = svec(sums / N) + std * rng.standard_normal((6, 2))
    second = first.refined(unsvec(released, 3), std)
    return X.T @ X / N, first, second


def spectra(moments, whitening):
    return np.linalg.eigvalsh(np.swapaxes(whitening.matrix, 1, 2) @ moments @ whitening.matrix)


def test_the_second_makes_white_what_the_first_left_below_its_floor(whitenings):
    moments, first, second = whitenings
    assert (spectra(moments, first)[:, 0] < 0.1).all()
    assert (spectra(moments, second)[:, 0] > 3 * spectra(moments, first)[:, 0]).all()
    np.testing.assert_allclose(spectra(moments, second)[:, 1:], 1, atol=0.1)


def test_directions_are_orthonormal_and_say_which_are_known(whitenings):
    _, *both = whitenings
    for whitening in both:
        gram = np.swapaxes(whitening.directions, 1, 2) @ whitening.directions
        np.testing.assert_allclose(gram, np.broadcast_to(np.eye(3), gram.shape), atol=1e-8)
        assert ((whitening.curvature >= 0) & (whitening.curvature <= 1)).all()
    assert both[0].unresolved.tolist() == [1.0, 1.0]
