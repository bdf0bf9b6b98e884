"""Means: what printed ones prove, and the noise of those in boxes."""

import subprocess
import sys

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.gaussian_dp import noise_multiplier
from dpalgos.central.box_mean import column_groups
from dpalgos.central.public_axes_mean import PublicAxes
from tests.dpalgos.silence import estimated


def certify(name, epsilon, delta, **keywords):
    X = np.random.default_rng(0).standard_normal((200, 30))
    return estimated(name, X, epsilon=epsilon, delta=delta, **keywords).certified_epsilon


def test_the_printed_private_mean_proves_more_than_asked_and_that_of_karwa_and_vadhan_is_pure():
    for epsilon, proved in ((0.5, 0.5198), (1.0, 1.1099)):
        certified = certify("dp_mean", epsilon, 1e-5, value_bound=1.0, calibration="paper")
        assert certified == pytest.approx(proved, abs=2e-4)
    keywords = {"mean_bound": 10.0, "std_bounds": (1.0, 1.0), "calibration": "paper"}
    assert certify("karwa_vadhan_mean", 0.5, 1e-12, **keywords) <= 0.5 * (1 + 1e-9)
    assert certify("karwa_vadhan_mean", 0.5, 1e-5, **keywords) < 0.5


def test_integers_in_a_cube_are_those_of_the_operating_system():
    """Whatever else is seeded, two processes draw other integers for one and the same half-width."""
    draw = """
import random, numpy
from dpalgos.release import noise_source
random.seed(0), numpy.random.seed(0)
noise_source.laplace_sampler = lambda scale: lambda index: [10**6] * len(index)
print(noise_source.box_sampler(1.0, 1)([0] * 8))
"""
    one, other = (subprocess.check_output([sys.executable, "-c", draw]) for _ in range(2))
    assert one != other


def variance(events, widths):
    """The sum of the variances that the noise of the answer has, times n²."""
    if hasattr(events[0], "noise_multiplier"):
        return (events[0].noise_multiplier * widths.sum()) ** 2
    groups, total = [group.columns for group in column_groups(tuple(widths))], 0.0
    assert np.array_equal(np.sort(np.concatenate(groups)), np.arange(len(widths)))
    for event, group in zip(events, groups, strict=True):
        k = len(group)
        total += (k + 1) * (k + 2) / 3 * (widths[group] ** 2).sum() / event.epsilon**2
    return total


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 2.0, 10.0])
@pytest.mark.parametrize("d", [1, 2, 5, 60, 400])
def test_others_add_no_less_noise_within_the_same_box(epsilon, d):
    rng = np.random.default_rng(d)
    for widths in (np.ones(d), rng.uniform(0.1, 10, d), np.exp(3 * rng.standard_normal(d))):
        keywords = {"epsilon": epsilon, "delta": 1e-9, "lower": -widths / 2, "upper": widths / 2}
        result = dpalgos.estimate("box_mean", np.zeros((1, d)), rng=rng, **keywords)
        assert 0.99 * epsilon <= result.certified_epsilon <= epsilon
        evenly = 2 * d**2 * (widths**2).sum() / epsilon**2
        at_best = 2 * (widths ** (2 / 3)).sum() ** 3 / epsilon**2
        together = (d + 1) * (d + 2) / 3 * (widths**2).sum() / epsilon**2
        gaussian = (widths.sum() * noise_multiplier(epsilon, 1e-9)) ** 2
        assert variance(result.events, widths) <= min(evenly, at_best, together, gaussian) * (1 + 1e-9)


def test_axes_of_public_groups_that_differ_by_noise_alone_count_as_noise():
    rng, groups = np.random.default_rng(0), np.repeat(np.arange(150), 2)
    raw = rng.standard_normal((300, 40))
    noise = PublicAxes(raw, groups).spectrum
    shifted = PublicAxes(raw + 3 * rng.standard_normal((150, 1))[groups], groups).spectrum
    means = raw.reshape(150, 2, 40).mean(axis=1)
    largest = np.linalg.svd(means - means.mean(axis=0), compute_uv=False)[0] ** 2 / 150
    assert noise.variances.max() < 0.1 * largest
    assert shifted.variances[0] > 100 * noise.variances.max()
