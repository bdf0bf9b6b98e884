"""Randomizers: unbiased, of the stated variance, e^ε apart exactly, and as safe when drawn for real."""

import secrets

import numpy as np
import pytest
from scipy.special import expit, ndtr
from scipy.stats import beta, binomtest, kstest, norm

from dpalgos.accounting.gaussian_dp import noise_multiplier
from dpalgos.local.randomizers import (
    CapRandomizer,
    GaussianReport,
    HalfSpaceRandomizer,
    secret_normals,
    secret_uniforms,
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


def reports_of(randomizer, z, n, drawn):
    """Return reports of one vector, drawn as a device does or as research does."""
    if drawn == "device":
        return randomizer.exact(np.broadcast_to(z, (n, len(z))))
    return np.concatenate(list(draw(randomizer, z, n)))


@pytest.mark.parametrize("length", [1e-30, 1.5719e-162, 1e-200, 5e-324])
@pytest.mark.parametrize("p", [1, 40])
def test_the_region_of_a_vector_whose_squares_underflow_is_as_likely_as_any_other(p, length):
    """At ε = 8 a device's reports of x = 1.57e-162 and of x = -1 were 9.4 apart: v was .707 long."""
    z = np.full((400, p), length / np.sqrt(p))
    z[:, 0] = length
    cap = CapRandomizer(epsilon=40.0, radius=10.0, size=p)  # its reports point along ±v, further than t
    direction = z[0] / z[0].max() if length > 1e-60 else np.eye(p)[0]  # shorter ones count as zero
    direction /= np.linalg.norm(direction)
    for reports in (cap.perturb(z[:, :, None], noise())[:, :, 0], cap.exact(z)):
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


@pytest.mark.parametrize("drawn", ["device", "research"])
@pytest.mark.parametrize("epsilon", [0.5, 1.5, 4.0, 20.0, 60.0])
@pure
def test_a_report_is_exactly_e_to_the_epsilon_likelier_in_the_region_of_its_vector(kind, epsilon, drawn):
    """Against the closed form, at a level that sound draws fail by chance less than once in 10¹¹ runs."""
    randomizer, z, n = kind(epsilon=epsilon, radius=2.0, size=3), np.array([1.2, -1.6, 0.0]), 150_000
    reports = reports_of(randomizer, z, n, drawn)
    scale = randomizer.scale if isinstance(randomizer, HalfSpaceRandomizer) else 2.0 / randomizer.mean
    law, along = component_law(randomizer), reports @ z / 2 / scale
    assert kstest(along, law).pvalue > 1e-11
    threshold = getattr(randomizer, "threshold", 0.0)
    assert binomtest(int((along > threshold).sum()), n, 1 - float(law(threshold))).pvalue > 1e-11


@pure
@pytest.mark.parametrize("epsilon", [50.0, 300.0])
def test_a_device_never_rules_a_report_out(kind, epsilon, monkeypatch):
    """A coin whose probability is below its resolution still shows: at 0, ε would be infinite."""
    monkeypatch.setattr(secrets, "token_bytes", bytes)  # the smallest random number there is
    randomizer, z = kind(epsilon=epsilon, radius=1.0, size=1), np.ones((1, 1))
    reports = randomizer.exact(np.concatenate([z, -z]))
    assert reports[0, 0] != reports[1, 0]
    assert (np.sign(reports) == [[-1], [1]]).all()


@pytest.mark.parametrize("drawn", ["device", "research"])
@pytest.mark.parametrize("epsilon", [2.0, 20.0])
@pure
def test_within_the_region_reports_know_nothing_of_the_vector(kind, epsilon, drawn):
    randomizer, z = kind(epsilon=epsilon, radius=1.0, size=4), vector(4, norm=1.0)
    reports = reports_of(randomizer, z, 20_000, drawn)
    across = np.array([0.5, 0.6, 0.0, 0.0]) / np.hypot(0.5, 0.6)
    other = np.array([0.0, 0.0, 1.0, 0.0])
    for inside in (True, False):
        chosen = reports[(reports @ z > randomizer.event("").threshold) == inside]
        angles = np.arctan2(chosen @ across, chosen @ other) / (2 * np.pi) + 0.5
        assert not len(chosen) or kstest(angles, "uniform").pvalue > 1e-11


@pure
def test_the_floats_that_a_device_can_send_do_not_depend_on_the_vector(kind, monkeypatch):
    """Fixed random bits: whatever the vector, a report is one of the few that the bits allow."""
    randomizer = kind(epsilon=2.0, radius=1.0, size=6)
    vectors = np.random.default_rng(4).standard_normal((60, 6))
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    sent = []
    for vector_ in vectors:
        replay = np.random.default_rng(5)
        monkeypatch.setattr(secrets, "token_bytes", replay.bytes)
        sent.append(tuple(np.abs(randomizer.exact(vector_[None])[0])))
    assert len(set(sent)) <= (1 if kind is HalfSpaceRandomizer else 10)


def test_uniform_numbers_of_a_device_have_the_exact_law_at_every_exponent():
    uniforms = secret_uniforms(200_000)
    assert kstest(uniforms, "uniform").pvalue > 1e-11
    exponents = -np.frexp(uniforms)[1]
    for k in range(12):
        assert binomtest(int((exponents == k).sum()), len(uniforms), 0.5 ** (k + 1)).pvalue > 1e-11
    assert kstest(secret_normals(1000, 100).ravel(), "norm").pvalue > 1e-11


@pytest.mark.parametrize("epsilon", [10.0, 30.0, 50.0])
def test_a_device_can_send_a_report_far_from_every_vector(epsilon, monkeypatch):
    """With 52 random bits, normal numbers ended at 8.2. A cap that begins there had reports of its own."""
    randomizer, along = CapRandomizer(epsilon=epsilon, radius=1.0, size=3), np.eye(1, 3)
    rng = np.random.default_rng(0)

    def rare(n):
        """Return words of which half are 0: many numbers are below 2⁻⁵³."""
        return (
            rng.integers(2**64, size=n // 8, dtype=np.uint64) * rng.integers(2, size=n // 8, dtype=np.uint64)
        ).tobytes()

    monkeypatch.setattr(secrets, "token_bytes", rare)
    reports = randomizer.exact(np.repeat(along, 50, axis=0)) * randomizer.mean
    assert np.abs(reports).max() > 9


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


def test_the_reports_of_rare_caps_lie_on_a_public_grid():
    randomizer = CapRandomizer(epsilon=20.0, radius=1.0, size=6)
    reports = randomizer.exact(np.broadcast_to(vector(6), (500, 6))) * randomizer.mean * 2**16
    np.testing.assert_allclose(reports, np.rint(reports), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", [*PURE, GaussianReport])
def test_an_honest_report_is_not_longer_than_a_server_allows(kind):
    gaussian = {"noise_multiplier": noise_multiplier(2.0, 1e-6), "l2_sensitivity": 2.0}
    randomizer = kind(**(gaussian if kind is GaussianReport else {"epsilon": 2.0}), radius=1.0, size=6)
    for drawn in ("research", *(["device"] if kind in PURE else [])):
        reports = reports_of(randomizer, vector(6, norm=1.0), 100_000, drawn)
        assert np.linalg.norm(reports, axis=1).max() <= randomizer.largest_norm


@pure
def test_vectors_that_were_not_clipped_are_refused(kind):
    randomizer = kind(epsilon=1.0, radius=1.0, size=3)
    refused(lambda: randomizer.exact(np.full((1, 3), np.nan)), ValueError, "clip them first")
    for wrong in (np.full((2, 3, 1), 0.8), np.full((2, 3, 1), 0.5774), np.zeros((2, 4, 1))):
        refused(lambda wrong=wrong: randomizer.perturb(wrong, noise()), ValueError, "vectors must")
