"""Means within public bounds: the noise has its law, and is never more than others add in that box."""

import subprocess
import sys

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.gaussian_dp import noise_multiplier
from dpalgos.central.box_mean import column_groups
from dpalgos.release.hardened_noise import SecureTranscript, box_sampler


@pytest.mark.parametrize(("scale", "size"), [(0.7, 1), (1.5, 2), (300.0, 3)])
def test_hardened_noise_in_a_cube_has_its_law(scale, size):
    SecureTranscript()  # switches the samplers on
    n, sampler = 1500, box_sampler(scale, size)
    largest = np.array([max(map(abs, sampler([0] * size))) for _ in range(n)])
    values = np.arange(60 * int(scale + 1))
    on_surface = (2.0 * values + 1) ** size - np.maximum(2.0 * values - 1, 0) ** size
    law = on_surface * np.exp(-values / scale)
    law /= law.sum()
    bins = np.unique(np.searchsorted(law.cumsum(), np.linspace(0, 1, 11)[1:-1]))
    expected = np.diff(np.concatenate([[0.0], law.cumsum()[bins], [1.0]]))
    observed = np.diff(np.concatenate([[0], (largest[:, None] <= bins).sum(axis=0), [n]])) / n
    assert np.abs(observed - expected).max() < 6.5 * np.sqrt(0.25 / n)


def test_integers_in_a_cube_are_those_of_the_operating_system():
    """Whatever else is seeded, two processes draw other integers for one and the same half-width."""
    draw = """
import random, numpy
from dpalgos.release import hardened_noise
random.seed(0), numpy.random.seed(0)
hardened_noise.laplace_sampler = lambda scale: lambda index: [10**6] * len(index)
print(hardened_noise.box_sampler(1.0, 1)([0] * 8))
"""
    runs = [
        subprocess.run([sys.executable, "-c", draw], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert runs[0].stdout != runs[1].stdout


def variance(events, widths):
    """The sum of the variances that the noise of the answer has, times n²."""
    if hasattr(events[0], "noise_multiplier"):
        return (events[0].noise_multiplier * widths.sum()) ** 2
    groups = column_groups(tuple(widths))
    assert np.array_equal(
        np.sort(np.concatenate([group.columns for group in groups])), np.arange(len(widths))
    )
    return sum(
        (k + 1) * (k + 2) / 3 * (widths[group.columns] ** 2).sum() / event.epsilon**2
        for event, group in zip(events, groups, strict=True)
        for k in [len(group.columns)]
    )


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
