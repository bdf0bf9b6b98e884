"""Seeded draws follow their laws, replicate by replicate."""

import numpy as np
import pytest
from scipy.stats import gumbel_r, kstest, laplace, norm, uniform

from dpalgos.release.noise_source import Noise

LAWS = {"normal": norm, "laplace": laplace, "uniform": uniform, "gumbel": gumbel_r}


@pytest.mark.parametrize("kind", LAWS)
def test_draws_follow_their_law_in_every_replicate(kind):
    draws = getattr(Noise(np.random.default_rng(0).spawn(2)), kind)(20_000)
    assert draws.shape == (20_000, 2)
    assert all(kstest(own, LAWS[kind].cdf).pvalue > 1e-4 for own in draws.T)
    assert abs(np.corrcoef(draws.T)[0, 1]) < 0.04  # 5.6 standard errors


def test_laplace_draws_are_those_of_the_generator_but_for_rounding():
    (rng,) = np.random.default_rng(1).spawn(1)
    drawn = Noise([rng]).laplace(5000)[:, 0]
    (rng,) = np.random.default_rng(1).spawn(1)
    np.testing.assert_allclose(drawn, rng.laplace(size=5000), atol=1e-9)


def test_the_least_uniform_draw_is_no_infinite_noise():
    class Zeros:
        def random(self, out):
            out[:] = 0.0

    drawn = Noise([Zeros()]).laplace(3)
    assert np.isfinite(drawn).all()
    assert (drawn < -36).all()


def test_no_draw_is_used_twice():
    """Whatever the kinds and sizes of requests, in turn, across blocks, and of some replicates."""
    noise = Noise(np.random.default_rng(2).spawn(3))
    sizes = (1, 5, 127, 1, 2, 128, 300, 1, 40, 127)
    used = {kind: [] for kind in LAWS}
    for size in sizes:
        for kind, draws in used.items():
            draws.append(getattr(noise, kind)(size))
        for chosen in (slice(0, 2), slice(1, 3), slice(0, 2)):
            part = noise.select(chosen)
            used["uniform"] += [part.uniform(size).T.reshape(-1, 1), part.uniform(size).T.reshape(-1, 1)]
    for draws in used.values():
        flat = np.concatenate([each.ravel() for each in draws])
        assert len(np.unique(flat)) == len(flat)
    first = np.concatenate([draws.ravel() for draws in used["normal"]])
    bits = noise.select(slice(0, 3)).normal(200).ravel()
    assert not np.isin(bits, first).any()
