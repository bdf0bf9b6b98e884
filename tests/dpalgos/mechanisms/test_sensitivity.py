"""Each lemma is attained by its witness; what released shares of large rows say of a clipped mean."""

import numpy as np
import pytest
import scipy.stats

from dpalgos.mechanisms.for_intervals.tails import LEVELS, Tail, Unseen
from dpalgos.mechanisms.sensitivity import ball_mean, box, count, histogram, interval, outer_product

D, N = 4, 10
WIDTHS = np.array([0.5, 1.0, 2.0, 4.0])
AXES = 3 * np.eye(D)


def in_ball(rng, radius=3.0):
    z = rng.standard_normal(D)
    return z * radius * min(1, rng.exponential()) / np.linalg.norm(z)


CASES = {  # what a row adds to a sum, its lemma, a row at random, the rows that attain it
    "ball": (lambda z: z, ball_mean(3.0, N), in_ball, (AXES[0], -AXES[0])),
    "count": (lambda z: z, count(D) / N, lambda rng: rng.integers(0, 2, D), (np.ones(D), np.zeros(D))),
    "histogram": (
        np.eye(5).__getitem__,
        histogram(2, N),
        lambda rng: rng.integers(0, 5, 2),
        ([0, 1], [2, 0]),
    ),
    "outer product": (lambda z: np.outer(z, z), outer_product(3.0, N), in_ball, AXES[:2]),
    "squares": (np.square, outer_product(3.0, N, D), in_ball, AXES[:2]),
    "square": (np.square, outer_product(3.0, N, 1), lambda rng: rng.uniform(-3, 3, 1), ([3.0], [0.0])),
    "interval": (lambda z: z, interval(2.5, N), lambda rng: rng.uniform(-1, 1.5, 1), ([-1.0], [1.5])),
    "box": (lambda z: z, box(WIDTHS, N), lambda rng: rng.uniform(0, WIDTHS), (WIDTHS, 0 * WIDTHS)),
}


@pytest.mark.parametrize("name", CASES)
def test_random_neighbors_never_exceed_a_lemma_and_its_witness_attains_it(name):
    part, lemma, row, witness = CASES[name]
    rng = np.random.default_rng(0)

    def moved(one, other):
        return np.linalg.norm(np.subtract(part(np.asarray(one)), part(np.asarray(other)))) / N

    assert max(moved(row(rng), row(rng)) for _ in range(1000)) <= lemma * (1 + 1e-12)
    assert moved(*witness) == pytest.approx(float(lemma))


@pytest.mark.parametrize(
    "lemma", [ball_mean, outer_product, interval, lambda r, n: box(np.outer(WIDTHS, r), n)]
)
def test_lemmas_take_a_size_per_replicate(lemma):
    radius, n = np.array([1.0, 2.0]), np.array([10.0, 20.0])
    single = [float(np.squeeze(lemma(r, m))) for r, m in zip(radius, n, strict=True)]
    assert lemma(radius, n) == pytest.approx(single)


@pytest.mark.parametrize("scale", [0.3, 0.35, 0.4, 0.45])
def test_the_bound_holds_for_normal_sizes_and_grows_with_the_noise_of_the_shares(scale):
    above = 2 * scipy.stats.norm.sf(np.array(LEVELS) / scale)[:, None]
    sizes = np.abs(np.random.default_rng(0).normal(0, scale, 10**6))
    true = np.maximum(sizes - 1, 0).mean()
    bounds = [Tail(above=above, std=np.full_like(above, std)).excess()[0] for std in (1e-5, 1e-4, 1e-3, 3e-3)]
    assert true < bounds[0]
    assert (np.diff(bounds) > 0).all()


def test_outliers_that_the_noise_hides_count():
    above = 2 * scipy.stats.norm.sf(np.array(LEVELS) / 0.3)[:, None]
    tail = Tail(above=above, std=np.full_like(above, 1e-3))
    assert tail.excess(unseen=Unseen(near=0.0, far=100.0)) > 2 * tail.excess()
