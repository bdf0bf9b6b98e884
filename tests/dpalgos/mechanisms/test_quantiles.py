"""Quantiles on a public range."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest

from dpalgos.tuning.quantiles import exponential_quantiles

RANGE = {"lower": -5.0, "upper": 5.0, "epsilon": 0.5, "label": "quantile"}


def quantiles(transcript, values, **options):
    """Quantiles of a single column, (Q, R)."""
    return exponential_quantiles(transcript, values[:, None], **options)[0]


def log_density(z, values, level, epsilon, lower, upper):
    """Unnormalized log density of the exponential mechanism, from its definition."""
    below = (np.clip(values, lower, upper)[:, None] < np.atleast_1d(z)).sum(axis=0)
    return -(epsilon / 2) * np.abs(below - level * len(values))


def normalizer(values, level, epsilon, lower, upper):
    edges = np.unique(np.concatenate([[lower, upper], np.clip(values, lower, upper)]))
    middles = (edges[1:] + edges[:-1]) / 2
    return (np.diff(edges) * np.exp(log_density(middles, values, level, epsilon, lower, upper))).sum()


def test_the_law_is_the_exponential_mechanism(transcripts):
    """Ties, points outside the range and points on its ends included."""
    values = np.array([-9.0, -5.0, -1.0, -1.0, -1.0, 0.2, 0.7, 0.7, 3.0, 5.0, 8.0])
    n = 20_000
    drawn = quantiles(transcripts.many(n), values, levels=[0.4], **RANGE)[0]
    assert ((drawn > -5) & (drawn < 5)).all()
    jumps = np.unique(np.clip(values, -5, 5))

    def distribution(epsilon):
        total = normalizer(values, 0.4, epsilon, -5, 5)
        edges = np.unique(np.concatenate([[-5, 5], jumps]))
        middles = (edges[1:] + edges[:-1]) / 2
        mass = np.diff(edges) * np.exp(log_density(middles, values, 0.4, epsilon, -5, 5)) / total
        return lambda z: np.interp(z, edges, np.concatenate([[0], np.cumsum(mass)]))

    check = quad(lambda z: np.exp(log_density(z, values, 0.4, 0.5, -5, 5))[0], -5, 5, points=jumps[1:-1])
    assert normalizer(values, 0.4, 0.5, -5, 5) == pytest.approx(check[0], rel=1e-6)
    assert kstest(drawn, distribution(0.5)).pvalue > 1e-3
    for wrong in (2 / 3, 3 / 2):
        assert kstest(drawn, distribution(0.5 / wrong)).pvalue < 1e-9


def test_large_epsilon_gives_the_empirical_quantile(transcripts):
    values = np.random.default_rng(4).uniform(-1, 1, 999)
    near = quantiles(transcripts.seeded(), values, levels=[0.25], lower=-1, upper=1, epsilon=1e3, label="q")
    assert abs((values < near).sum() - 249.75) <= 1
    far = quantiles(transcripts.silent(), values, levels=[0.25], lower=-1, upper=1, epsilon=10.0, label="q")
    assert abs((values < far).sum() - 249.75) <= 2
