"""Randomizers: unbiased, of the stated variance, e^ε apart exactly, and as safe when drawn for real."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, ndtr
from scipy.stats import binomtest, kstest

from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.gaussian_dp import noise_multiplier
from dpalgos.local.randomizers import (
    CapRandomizer,
    GaussianReport,
    HalfSpaceRandomizer,
    _directions,
    _secret_direction,
    pure_randomizer,
)
from dpalgos.release.noise_source import Noise, NoNoise

PURE = [HalfSpaceRandomizer, CapRandomizer]
pure = pytest.mark.parametrize("kind", PURE)


def noise(seed=0, n_replicates=1):
    return Noise(np.random.default_rng(seed).spawn(n_replicates))


def vector(p, norm=0.78):
    z = np.zeros(p)
    z[0], z[min(1, p - 1)] = 0.6, -0.5
    return z * norm / np.linalg.norm(z)


def draw(randomizer, z, n, seed=0):
    """Yield n reports of z in blocks of bounded size."""
    source, block = noise(seed), max(1, 2_000_000 // len(z))
    for start in range(0, n, block):
        m = min(block, n - start)
        yield randomizer.perturb(np.broadcast_to(z[None, :, None], (m, len(z), 1)), source)[:, :, 0]


@pytest.mark.parametrize(
    ("p", "scales"),
    [
        (1, (4.0830, 2.1640, 1.1048)),
        (2, (6.4135, 3.3991, 1.7354)),
        (5, (10.888, 5.7705, 2.9461)),
        (20, (22.601, 11.978, 6.1155)),
        (100, (51.045, 27.053, 13.812)),
    ],
)
def test_the_norm_of_a_half_space_report_is_the_reference_one(p, scales):
    for epsilon, scale in zip((0.5, 1, 3), scales, strict=True):
        for radius in (1.0, 2.5):
            found = HalfSpaceRandomizer(epsilon=epsilon, radius=radius, size=p)
            assert found.scale == pytest.approx(radius * scale, rel=1e-4)
            reports = np.concatenate(list(draw(found, radius * vector(p), 50)))
            np.testing.assert_allclose(np.linalg.norm(reports, axis=1), found.scale, rtol=1e-12)


def _unbiased_with_the_stated_variance(kind, p, epsilon, n):
    z = vector(p)
    randomizer = kind(epsilon=epsilon, radius=1.0, size=p)
    total, squares = np.zeros(p), []
    for reports in draw(randomizer, z, n):
        total += reports.sum(axis=0)
        squares.append(((reports - z) ** 2).sum(axis=1))
    squared = np.concatenate(squares)
    assert np.abs(total / n - z).max() < 4.5 * np.sqrt(randomizer.variance(0.78) / p * 1.3 / n)
    assert squared.mean() == pytest.approx(
        randomizer.variance(0.78), abs=5 * squared.std() / np.sqrt(n) + 1e-9
    )
    assert randomizer.noise_std**2 * p == pytest.approx(randomizer.variance(0.0))


@pytest.mark.parametrize("length", [1e-30, 1.5719e-162, 1e-200, 5e-324])
@pytest.mark.parametrize("p", [1, 40])
def test_the_region_of_a_vector_whose_squares_underflow_is_as_likely_as_any_other(p, length):
    """At ε = 8 a device's reports of x = 1.57e-162 and of x = -1 were 9.4 apart: v was .707 long."""
    z = np.full((1, p, 1), length / np.sqrt(p))
    z[0, 0] = length
    assert np.linalg.norm(_directions(z, 1.0, noise())[0, :, 0]) == pytest.approx(1.0, rel=1e-12)
    cap = CapRandomizer(epsilon=8.0, radius=10.0, size=p)
    assert np.linalg.norm(_secret_direction(z[0, :, 0], cap)) == pytest.approx(1.0, rel=1e-12)


@pure
@pytest.mark.parametrize("p", [1, 2, 5, 20])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_reports_are_unbiased_and_vary_as_the_formula_says(kind, p, epsilon):
    _unbiased_with_the_stated_variance(kind, p, epsilon, 60_000)


@pytest.mark.slow
@pure
@pytest.mark.parametrize("p", [5, 20, 50, 100])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0, 8.0])
def test_a_million_reports_are_unbiased(kind, p, epsilon):
    _unbiased_with_the_stated_variance(kind, p, epsilon, 1_000_000)


def log_odds(randomizer, z, n=40_000, seed=1):
    """Return the share of reports in z's region, and what it is for reports that know nothing of z."""
    region = randomizer.event("report").threshold
    inside = np.concatenate(
        [reports @ (z / np.linalg.norm(z)) > region for reports in draw(randomizer, z, n, seed)]
    )
    unknowing = 0.5 if isinstance(randomizer, HalfSpaceRandomizer) else float(ndtr(-randomizer.threshold))
    return inside, unknowing


@pure
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_the_density_is_e_to_the_epsilon_higher_in_the_region(kind, epsilon):
    """A vector on the sphere: its own region against any other's is e^ε, no more and no less."""
    randomizer = kind(epsilon=epsilon, radius=1.0, size=5)
    inside, base = log_odds(randomizer, vector(5, norm=1.0))
    probability = float(expit(epsilon + np.log(base / (1 - base))))
    assert (probability / base) / ((1 - probability) / (1 - base)) == pytest.approx(
        np.exp(epsilon), rel=1e-12
    )
    assert binomtest(int(inside.sum()), len(inside), probability).pvalue > 1e-4
    for wrong in (epsilon / 2, 2 * epsilon):  # the test tells a wrong ε
        other = float(expit(wrong + np.log(base / (1 - base))))
        assert binomtest(int(inside.sum()), len(inside), other).pvalue < 1e-6


@pure
def test_within_the_region_reports_know_nothing_of_the_vector(kind):
    randomizer, z = kind(epsilon=2.0, radius=1.0, size=4), vector(4, norm=1.0)
    reports = np.concatenate(list(draw(randomizer, z, 20_000)))
    across = np.array([0.5, 0.6, 0.0, 0.0]) / np.hypot(0.5, 0.6)
    other = np.array([0.0, 0.0, 1.0, 0.0])
    for inside in (True, False):
        chosen = reports[(reports @ z > randomizer.event("").threshold) == inside]
        angles = np.arctan2(chosen @ across, chosen @ other) / (2 * np.pi) + 0.5
        assert kstest(angles, "uniform").pvalue > 1e-4


@pure
def test_zero_is_reported_symmetrically(kind):
    randomizer = kind(epsilon=3.0, radius=1.0, size=3)
    reports = np.concatenate(list(draw(randomizer, np.zeros(3), 40_000)))
    for axis in range(3):
        assert binomtest(int((reports[:, axis] > 0).sum()), len(reports), 0.5).pvalue > 1e-4


def test_one_dimension_is_randomised_response():
    randomizer = HalfSpaceRandomizer(epsilon=1.0, radius=2.0, size=1)
    reports = np.concatenate(list(draw(randomizer, np.array([2.0]), 30_000)))
    size = 2.0 * (np.e + 1) / (np.e - 1)
    np.testing.assert_allclose(np.abs(reports), size)
    assert binomtest(int((reports > 0).sum()), len(reports), float(expit(1.0))).pvalue > 1e-4


def test_caps_cost_less_the_larger_epsilon_is():
    def ratio(epsilon):
        half, cap = (kind(epsilon=epsilon, radius=1.0, size=50) for kind in PURE)
        return cap.variance(1.0) / half.variance(1.0)

    ratios = [ratio(epsilon) for epsilon in (2.0, 3.0, 4.0, 8.0)]
    assert all(r <= 1 for r in ratios)
    assert ratios[-1] <= 0.15
    assert ratios == sorted(ratios, reverse=True)


@pytest.mark.parametrize(("epsilon", "p"), [(0.5, 2), (1.0, 5), (4.0, 50), (8.0, 1)])
def test_the_better_of_the_two_is_taken_unless_one_is_named(epsilon, p):
    half, cap = (kind(epsilon=epsilon, radius=3.0, size=p) for kind in PURE)
    best = pure_randomizer(epsilon, 3.0, p)
    assert best.variance(3.0) == min(half.variance(3.0), cap.variance(3.0))
    assert isinstance(pure_randomizer(epsilon, 3.0, p, "l2"), HalfSpaceRandomizer)
    assert isinstance(pure_randomizer(epsilon, 3.0, p, "privunit"), CapRandomizer)


def test_the_threshold_is_the_best_one():
    best = CapRandomizer(epsilon=3.0, radius=1.0, size=30)
    for moved in (-0.05, 0.05):
        other = CapRandomizer(epsilon=3.0, radius=1.0, size=30)
        object.__setattr__(other, "threshold", best.threshold + moved)
        assert other.variance(1.0) >= best.variance(1.0)


@pure
def test_a_report_costs_epsilon(kind):
    event = kind(epsilon=1.5, radius=2.0, size=7).event("report")
    assert certified_epsilon([event], 1e-9) == pytest.approx(1.5, rel=1e-6)
    assert certified_epsilon([event], 1e-9) <= 1.5


def test_groups_of_people_do_not_add_up():
    report, weak = (HalfSpaceRandomizer(epsilon=e, radius=1.0, size=3).event("report") for e in (1.0, 0.3))

    def certified(*events):
        return certified_epsilon([replace(event, group=group) for event, group in events], 1e-6)

    alone = certified((report, 0))
    assert certified(*((report, group) for group in range(9))) == alone
    assert certified((weak, 0), (report, 1)) == alone
    assert certified((report, 0), (report, 0), (weak, 1)) == pytest.approx(2.0, rel=1e-3)


def test_gaussian_reports_have_the_declared_noise():
    z = noise_multiplier(1.0, 1e-5)
    randomizer = GaussianReport(noise_multiplier=z, l2_sensitivity=2.0, radius=1.0, size=20)
    reports = np.concatenate(list(draw(randomizer, vector(20), 20_000)))
    assert randomizer.noise_std == pytest.approx(2 * 3.7306, rel=1e-4)
    assert (reports - vector(20)).std() == pytest.approx(2 * z, rel=0.01)
    assert certified_epsilon([randomizer.event("report")], 1e-5) == pytest.approx(1.0, rel=1e-6)


def every():
    z = noise_multiplier(2.0, 1e-6)
    return [
        HalfSpaceRandomizer(epsilon=2.0, radius=1.0, size=6),
        CapRandomizer(epsilon=2.0, radius=1.0, size=6),
        GaussianReport(noise_multiplier=z, l2_sensitivity=2.0, radius=1.0, size=6),
    ]


@pytest.mark.parametrize("randomizer", every()[:2], ids=lambda r: type(r).__name__)
def test_what_a_device_draws_follows_the_same_law(randomizer):
    z = vector(6, norm=0.9)
    real = np.stack([randomizer.exact(z) for _ in range(1500)])
    research = np.concatenate(list(draw(randomizer, z, 40_000)))
    for direction in (z / 0.9, np.eye(6)[3]):
        seen, expected = real @ direction, research @ direction
        spread = expected.std()
        assert abs(seen.mean() - expected.mean()) < 7 * spread / np.sqrt(len(seen))
        assert seen.std() == pytest.approx(spread, rel=0.12)
        for level in (-1.0, 0.0, 1.0):
            share = float((expected > level * spread).mean())
            assert binomtest(int((seen > level * spread).sum()), len(seen), share).pvalue > 1e-11
    assert np.linalg.norm(real, axis=1).max() <= randomizer.largest_norm


@pytest.mark.parametrize("randomizer", every()[:2], ids=lambda r: type(r).__name__)
def test_the_floats_that_a_device_can_send_do_not_depend_on_the_vector(randomizer, monkeypatch):
    """Fixed random bits: whatever the vector, a report is one of the few that the bits allow."""
    import dpalgos.local.randomizers as module

    drawn = np.random.default_rng(3).standard_normal((4096, 6))
    monkeypatch.setattr(module, "_secret_normals", lambda m, p: drawn[:m].copy())
    if isinstance(randomizer, HalfSpaceRandomizer):
        unit = drawn[0] * (randomizer.scale / np.linalg.norm(drawn[0]))
        allowed = {tuple(unit), tuple(-unit)}
    else:
        allowed = {tuple(row) for row in drawn * (randomizer.radius / randomizer.mean)}
    rng = np.random.default_rng(4)
    for _ in range(60):
        z = rng.standard_normal(6)
        assert tuple(randomizer.exact(z / np.linalg.norm(z) * rng.random())) in allowed


@pytest.mark.parametrize("randomizer", every(), ids=lambda r: type(r).__name__)
def test_an_honest_report_is_not_longer_than_a_server_allows(randomizer):
    longest = max(np.linalg.norm(r, axis=1).max() for r in draw(randomizer, vector(6, norm=1.0), 100_000))
    assert longest <= randomizer.largest_norm


@pure
def test_vectors_that_were_not_clipped_are_refused(kind):
    randomizer = kind(epsilon=1.0, radius=1.0, size=3)
    with pytest.raises(
        ValueError, match="vectors must have an ℓ2 norm of at most radius = 1; clip them first"
    ):
        randomizer.perturb(np.full((2, 3, 1), 0.8), noise())
    with pytest.raises(ValueError, match="clip them first"):
        randomizer.exact(np.full(3, np.nan))
    with pytest.raises(ValueError, match="vectors must have 3 entries"):
        randomizer.perturb(np.zeros((2, 4, 1)), noise())


@pure
def test_without_noise_a_report_is_the_vector(kind):
    randomizer = kind(epsilon=1.0, radius=1.0, size=3)
    z = vector(3)[None, :, None]
    reports = randomizer.perturb(z, NoNoise([np.random.default_rng(0)] * 2))
    np.testing.assert_array_equal(reports, np.repeat(z, 2, axis=2))


@pure
def test_a_batch_of_replicates_equals_single_runs(kind):
    randomizer = kind(epsilon=1.0, radius=1.0, size=3)
    z = np.random.default_rng(5).uniform(-0.5, 0.5, (200, 3, 1))
    batch = randomizer.perturb(z, noise(6, 4))
    for r, rng in enumerate(np.random.default_rng(6).spawn(4)):
        np.testing.assert_allclose(batch[:, :, [r]], randomizer.perturb(z, Noise([rng])), rtol=1e-12)
