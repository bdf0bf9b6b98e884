"""Randomizers: unbiased, of the stated variance, e^ε apart exactly."""

import numpy as np
import pytest
from scipy.special import expit, ndtr
from scipy.stats import beta, binomtest, kstest, norm

from dpalgos.local.randomizers import (
    CapRandomizer,
    HalfSpaceRandomizer,
)
from dpalgos.release.noise_source import Noise
from tests.builders import refused

PURE = [HalfSpaceRandomizer, CapRandomizer]
pure = pytest.mark.parametrize("kind", PURE)


def noise(seed=0, n_replicates=1):
    return Noise(np.random.default_rng(seed).spawn(n_replicates))


def vector(p, norm=0.78):
    z = np.zeros(p)
    z[0], z[min(1, p - 1)] = 0.6, -0.5
    return z * norm / np.linalg.norm(z)


def draw(randomizer, z, n, seed=0):
    source, block = noise(seed), max(1, 2_000_000 // len(z))
    for start in range(0, n, block):
        m = min(block, n - start)
        yield randomizer.perturb(np.broadcast_to(z[None, :, None], (m, len(z), 1)), source)[:, :, 0]


@pytest.mark.parametrize("length", [1e-30, 1.5719e-162, 1e-200, 5e-324])
@pytest.mark.parametrize("p", [1, 40])
def test_the_region_of_a_vector_whose_squares_underflow_is_as_likely_as_any_other(p, length):
    """At ε = 8 a device's reports of x = 1.57e-162 and of x = -1 were 9.4 apart: v was .707 long."""
    z = np.full((400, p), length / np.sqrt(p))
    z[:, 0] = length
    cap = CapRandomizer(epsilon=40.0, radius=10.0, size=p)  # its reports point along ±v, further than t
    direction = z[0] / z[0].max() if length > 1e-60 else np.eye(p)[0]  # shorter ones count as zero
    direction /= np.linalg.norm(direction)
    reports = cap.perturb(z[:, :, None], noise())[:, :, 0]
    further = np.abs(reports @ direction) >= cap.threshold * cap.radius / cap.mean * (1 - 1e-4)
    assert further.mean() > 0.9


@pure
@pytest.mark.parametrize("p", [1, 2, 5, 20])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_reports_are_unbiased_and_vary_as_the_formula_says(kind, p, epsilon):
    n = 60_000
    z = vector(p)
    randomizer = kind(epsilon=epsilon, radius=1.0, size=p)
    total, squares = np.zeros(p), []
    for reports in draw(randomizer, z, n):
        total += reports.sum(axis=0)
        squares.append(((reports - z) ** 2).sum(axis=1))
    squared = np.concatenate(squares)
    assert np.abs(total / n - z).max() < 4.5 * np.sqrt(randomizer.variance(0.78) / p * 1.3 / n)
    margin = 5 * squared.std() / np.sqrt(n) + 1e-9
    assert squared.mean() == pytest.approx(randomizer.variance(0.78), abs=margin)
    assert randomizer.noise_std**2 * p == pytest.approx(randomizer.variance(0.0))


def component_law(randomizer):
    """Return the distribution function of a report's component along a vector of norm r, over that scale."""
    if isinstance(randomizer, HalfSpaceRandomizer):
        odds, base = randomizer.epsilon, 0.5

        def above(x):  # of the first entry of a point of the unit sphere
            return 0.5 - np.sign(x) / 2 * beta.cdf(x**2, 0.5, (randomizer.size - 1) / 2)
    else:
        base = ndtr(-randomizer.threshold)
        odds = randomizer.epsilon + np.log(base) - np.log1p(-base)

        def above(x):
            return ndtr(-x)

    def distribution(x):
        inside = np.maximum(1 - above(x) / base, 0)
        outside = np.minimum(above(-x) / (1 - base), 1)  # both laws are symmetric
        return expit(odds) * inside + expit(-odds) * outside

    return distribution


@pytest.mark.parametrize("epsilon", [0.5, 1.5, 4.0, 20.0, 60.0])
@pure
def test_a_report_is_exactly_e_to_the_epsilon_likelier_in_the_region_of_its_vector(kind, epsilon):
    """Against the closed form, at a level that sound draws fail by chance less than once in 10¹¹ runs."""
    randomizer, z, n = kind(epsilon=epsilon, radius=2.0, size=3), np.array([1.2, -1.6, 0.0]), 150_000
    reports = np.concatenate(list(draw(randomizer, z, n)))
    scale = randomizer.scale if isinstance(randomizer, HalfSpaceRandomizer) else 2.0 / randomizer.mean
    law, along = component_law(randomizer), reports @ z / 2 / scale
    assert kstest(along, law).pvalue > 1e-11
    threshold = getattr(randomizer, "threshold", 0.0)
    assert binomtest(int((along > threshold).sum()), n, 1 - float(law(threshold))).pvalue > 1e-11


@pytest.mark.parametrize("epsilon", [2.0, 20.0])
@pure
def test_within_the_region_reports_know_nothing_of_the_vector(kind, epsilon):
    randomizer, z = kind(epsilon=epsilon, radius=1.0, size=4), vector(4, norm=1.0)
    reports = np.concatenate(list(draw(randomizer, z, 20_000)))
    across = np.array([0.5, 0.6, 0.0, 0.0]) / np.hypot(0.5, 0.6)
    other = np.array([0.0, 0.0, 1.0, 0.0])
    for inside in (True, False):
        chosen = reports[(reports @ z > randomizer.event("").threshold) == inside]
        angles = np.arctan2(chosen @ across, chosen @ other) / (2 * np.pi) + 0.5
        assert not len(chosen) or kstest(angles, "uniform").pvalue > 1e-11


@pytest.mark.parametrize("size", [2, 30])
@pytest.mark.parametrize("epsilon", [1.0, 6.0, 15.0])
def test_the_threshold_of_a_cap_is_that_of_the_shortest_reports(epsilon, size):
    """Against the closed form at all thresholds, by its own quadrature."""

    def second_moment(t):
        upper = norm.sf(t)
        mean = norm.pdf(t) * np.expm1(epsilon) / (np.exp(epsilon) * upper + 1 - upper)
        return (size + t * mean) / mean**2

    randomizer = CapRandomizer(epsilon=epsilon, radius=1.0, size=size)
    assert second_moment(randomizer.threshold) == pytest.approx(randomizer.second_moment)
    assert randomizer.second_moment <= min(map(second_moment, np.linspace(0, 8, 801))) * (1 + 1e-6)


@pure
def test_vectors_that_were_not_clipped_are_refused(kind):
    randomizer = kind(epsilon=1.0, radius=1.0, size=3)
    refused(lambda: randomizer.perturb(np.full((1, 3, 1), np.nan), noise()), ValueError, "clip them first")
    one_of_two = np.array([[0.8] * 3, [0.1] * 3])[..., None]
    for wrong in (one_of_two, np.full((2, 3, 1), 0.5774), np.zeros((2, 4, 1))):
        refused(lambda wrong=wrong: randomizer.perturb(wrong, noise()), ValueError, "vectors must")
