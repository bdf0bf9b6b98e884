"""ε as a risk: posteriors and rates of tests, from the events."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

import dpalgos
from dpalgos.accounting.events import (
    ApproximateEvent,
    DiscreteGaussianEvent,
    FailureEvent,
    GaussianEvent,
    PureEvent,
)
from dpalgos.accounting.gaussian_dp import noise_multiplier
from dpalgos.accounting.risk import risk_of_budget, risk_of_events
from tests.dpalgos.silence import estimated


def test_a_pure_release_multiplies_odds_by_e_to_epsilon():
    risk = risk_of_events([PureEvent(label="a", epsilon=1.0, sensitivity=1.0)], 1e-6)
    for prior, posterior in risk.posteriors.items():
        assert posterior == pytest.approx(prior * math.e / (prior * math.e + 1 - prior), rel=1e-9)
    assert risk.true_positive_rate[0.01] == pytest.approx(0.01 * math.e, rel=1e-4)


def test_gaussian_releases_have_the_exact_rates_and_posteriors_that_hold():
    z, delta = noise_multiplier(1.0, 1e-6), 1e-6
    events = [GaussianEvent(label="a", noise_multiplier=z, l2_sensitivity=1.0)]
    risk, mu = risk_of_events(events, delta), 1 / z
    assert risk.true_positive_rate[0.01] == pytest.approx(ndtr(mu - 2.3263478740), rel=1e-9)
    # The log-likelihood ratio is N(μ²/2, μ²): its share above the stated log-odds is at most δ.
    assert ndtr(-(risk.log_odds - mu**2 / 2) / mu) <= delta
    assert risk.log_odds < 1.5 * (mu**2 / 2 + 4.75 * mu)


def best_test(rate, mu, epsilon):
    """Return the true positive rate at a false one, of a Gaussian answer and a randomized response."""
    truth = 1 / (1 + np.exp(-epsilon))

    def above(threshold, shift, truthful):
        ends = (ndtr((shift - threshold + sign * epsilon) / mu) for sign in (1, -1))
        return truthful * next(ends) + (1 - truthful) * next(ends)

    threshold = brentq(lambda at: above(at, -(mu**2) / 2, 1 - truth) - rate, -20, 20)
    return above(threshold, mu**2 / 2, truth)


@pytest.mark.parametrize(
    "events",
    [
        [DiscreteGaussianEvent(label="a", noise_multiplier=5.0, l2_sensitivity=1.0)],
        [
            PureEvent(label="a", epsilon=0.3, sensitivity=1.0),
            GaussianEvent(label="b", noise_multiplier=5.0, l2_sensitivity=1.0),
            FailureEvent(label="c", delta=1e-7),
        ],
    ],
)
def test_rates_of_mixtures_are_those_that_randomized_response_and_gaussian_noise_reach_or_little_more(events):
    risk = risk_of_events(events, 1e-6)
    part = risk_of_events([GaussianEvent(label="a", noise_multiplier=5.0, l2_sensitivity=1.0)], 1e-6)
    pure = sum(event.epsilon for event in events if isinstance(event, PureEvent))
    for rate, found in risk.true_positive_rate.items():
        reached = best_test(rate, 1 / 5, pure)
        assert reached * (1 - 1e-9) <= found <= 1.1 * reached + 1e-6
    assert part.log_odds <= risk.log_odds < part.log_odds + 0.5


def test_a_bare_budget_bounds_posteriors_but_for_a_chance_of_two_delta():
    risk = risk_of_budget(1.0, 1e-6, "user")
    assert risk.log_odds == pytest.approx(1 + math.log(2), rel=1e-9)
    assert (risk.delta, risk.unit) == (2e-6, "user")


def test_a_release_that_is_proved_at_its_delta_alone_has_the_risk_of_its_budget():
    risk = risk_of_events([ApproximateEvent(label="a", epsilon=0.5, delta=1e-6)], 1e-6)
    assert risk == risk_of_budget(0.5, 1e-6, "row")
    assert "nothing bounds" not in risk.sentence


def test_the_risk_of_random_batches_follows_from_what_the_certificate_follows_from():
    """Rényi bounds alone say more than twice the ε that is certified by distributions."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 3))
    result = estimated(
        "dp_sgd_glm", X, (X[:, 0] > 0) * 1.0, epsilon=0.5, delta=1e-6,
        **dpalgos.get_estimator("dp_sgd_glm").example,
    )  # fmt: skip
    assert result.risk.log_odds < 1.4 * result.certified_epsilon
    assert result.risk.true_positive_rate[0.01] <= 0.01 * math.exp(result.certified_epsilon) + 1e-6
