"""Sums over random rows: what dominates replacing a row, against integrals and other accountants."""

import numpy as np
import pytest
from scipy.stats import norm

import dpalgos
from dpalgos.accounting.calibration import sampled_noise_multiplier
from dpalgos.accounting.composition import certified_epsilon, spending
from dpalgos.accounting.events import SampledGaussianEvent
from dpalgos.accounting.gaussian_dp import gaussian_epsilon
from dpalgos.accounting.losses import EventCost, pld_epsilon
from dpalgos.audit.distinguishers import log_density
from dpalgos.audit.trials import ReleasedVector
from dpalgos.rows.sample import Sample
from tests.dpalgos.silence import recorded


def sampled(multiplier, rate, count):
    public = {"label": "", "l2_sensitivity": 1.0, "sampling_rate": rate, "count": count}
    return SampledGaussianEvent(noise_multiplier=multiplier, **public)


def test_an_attacker_does_not_know_who_was_drawn_and_no_cost_composes_over_answers():
    release = ReleasedVector(np.zeros((1, 2)), np.ones((1, 2)), (sampled(1.0, 0.1, 1),))
    assert log_density(release) is None
    with pytest.raises(dpalgos.InputError, match="composes over releases"):
        spending([sampled(1.0, 0.01, 10)])


@pytest.mark.parametrize(("multiplier", "rate"), [(0.7, 0.05), (2.0, 0.3), (0.4, 1.0)])
def test_losses_of_one_release_are_those_of_the_pair(multiplier, rate):
    s = 1 / (2 * multiplier)
    x = np.linspace(-12, 12, 200_001)
    first, second = ((1 - rate) * norm.pdf(x) + rate * norm.pdf(x - shift) for shift in (s, -s))
    for epsilon in (0.02, 0.2, 1.0):
        exact = np.maximum(first - np.exp(epsilon) * second, 0).sum() * (x[1] - x[0])
        found = pld_epsilon((EventCost("sampled", multiplier, 1, rate),), exact)
        assert epsilon * (1 - 1e-6) - 1e-6 <= found <= epsilon * 1.1 + 1e-3


@pytest.mark.parametrize(("multiplier", "rate"), [(0.02, 0.5), (0.018, 0.01), (0.005, 0.5), (0.1, 1.0)])
def test_losses_whose_exponentials_overflow_are_counted(multiplier, rate):
    """Of (0.02, 0.5) 360 was certified and is 427: losses beyond 355 counted as that."""
    s = 1 / (2 * multiplier)
    x = np.linspace(-s - 12, s + 12, 100_001)
    with np.errstate(divide="ignore"):
        nobody, drawn = np.log1p(-rate) + norm.logpdf(x), np.log(rate)
        first, second = (np.logaddexp(nobody, drawn + norm.logpdf(x - shift)) for shift in (s, -s))
    loss = first - second

    def delta(epsilon):
        apart = np.exp(first) * -np.expm1(np.minimum(epsilon - loss, 0))
        return apart.sum() * (x[1] - x[0])

    found = pld_epsilon((EventCost("sampled", multiplier, 1, rate),), 1e-6)
    assert delta(found) <= 1e-6 * (1 + 1e-3)
    assert delta(found / 1.02) > 1e-6


def test_drawing_every_row_is_the_gaussian_mechanism():
    for count in (1, 40):
        closed = gaussian_epsilon(1e-6, np.sqrt(count) / 3.0)
        assert certified_epsilon([sampled(3.0, 1.0, count)], 1e-6) == pytest.approx(closed, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize(("rate", "count"), [(0.01, 500), (0.25, 12), (1.0, 5)])
def test_calibration_finds_the_least_noise(epsilon, rate, count):
    multiplier = sampled_noise_multiplier(epsilon, 1e-9, rate, count)
    assert 0.995 * epsilon <= certified_epsilon([sampled(multiplier, rate, count)], 1e-9) <= epsilon


def test_a_tiny_delta_is_not_amplified_but_holds():
    multiplier = sampled_noise_multiplier(1.0, 1e-40, 0.1, 10)
    assert certified_epsilon([sampled(multiplier, 0.1, 10)], 1e-40) <= 1.0


def sgd(X, y, script=None, drawn=()):
    params = {"family": "logistic", "covariate_bound": 2.0, "step_size": 0.3}
    return recorded("dp_sgd_glm", Sample(X, y), params, script, drawn=drawn)[0]


def test_rows_are_drawn_with_the_charged_probability_and_afresh():
    drawn = np.array([each[:, 0] for each in sgd(np.ones((400, 2)), np.ones(400)).drawn])
    rate = 1 / 10
    spread = np.sqrt(rate * (1 - rate))
    assert abs(drawn.mean() - rate) < 5 * spread / np.sqrt(drawn.size)
    assert np.abs(drawn.mean(axis=0) - rate).max() < 5 * spread / np.sqrt(len(drawn))
    assert abs(np.corrcoef(drawn[:-1].ravel(), drawn[1:].ravel())[0, 1]) < 5 / np.sqrt(drawn.size)


def test_a_row_adds_at_most_half_of_what_replacing_it_moves():
    X, y = np.full((5, 2), 1e6), np.zeros(5)
    first, others = sgd(X, y), np.arange(5)[:, None] != 2
    second = sgd(X, y, first.published, [each * others for each in first.drawn])
    moved = [np.linalg.norm(a - b) for a, b in zip(first.values, second.values, strict=True)]
    bound = first.events[0].l2_sensitivity / 2
    assert 0.4 * bound < max(moved) <= bound * (1 + 1e-12)
