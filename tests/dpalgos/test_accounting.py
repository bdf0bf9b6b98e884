"""Accounting: calibration and composition, exact for Gaussian releases; ε as a risk; rates of bounds."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

import dpalgos
from dpalgos.accounting.budget import Spending, concentrated_rho, spending
from dpalgos.accounting.composition import budget_shares, certified_epsilon, common_relation, exact_mu
from dpalgos.accounting.events import DiscreteGaussian, Gaussian, Relation
from dpalgos.accounting.gaussian_dp import gaussian_delta, noise_multiplier
from dpalgos.accounting.losses import pld_epsilon
from dpalgos.accounting.other_events import Laplace, Proved, RandomReport, failure
from dpalgos.accounting.risk import risk_of_budget, risk_of_events
from dpalgos.accounting.shared_budget import filter_epsilon
from dpalgos.errors import InputError
from tests.builders import refused
from tests.dpalgos.silence import estimated

DELTA = 1e-5


def gaussian(z, count=1, relation=Relation.CENTRAL):
    return Gaussian(label="g", noise_multiplier=z, sensitivity=1.0, times=count, relation=relation)


def test_failures_have_no_share_of_a_budget():
    events = [gaussian(10.0, count=3), failure(1e-9)]
    events.append(dataclasses.replace(gaussian(10.0), label="b"))
    assert budget_shares(events, DELTA) == pytest.approx({"g": 0.75, "b": 0.25})
    assert budget_shares([], DELTA) == {}


def test_a_delta_near_one_is_refused_and_any_below_is_accounted_for():
    """Beyond .9 the least ρ of a plan lay at an order that certificates do not look at."""
    for epsilon in (1e-5, 0.5, 50.0):
        rho = concentrated_rho(epsilon, 0.9)
        planned = Laplace(label="", epsilon=(2 * rho) ** 0.5, sensitivity=1.0)
        assert certified_epsilon([planned], 0.9) <= epsilon
        with pytest.raises(InputError, match=r"delta must .*got 0\.95"):
            concentrated_rho(epsilon, 0.95)


def test_calibration_against_dp_accounting_on_a_grid():
    from dp_accounting.pld.accountant import get_smallest_gaussian_noise
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    for epsilon in np.geomspace(0.01, 10, 6):
        for delta in np.geomspace(1e-12, 0.1, 6):
            theirs = get_smallest_gaussian_noise(DifferentialPrivacyParameters(epsilon, delta), 1, 1.0)
            ours = noise_multiplier(epsilon, delta)
            assert ours == pytest.approx(theirs, rel=1e-6)
            assert gaussian_delta(epsilon, 1 / ours) <= delta


def test_a_scale_changes_noise_and_leaves_what_has_none():
    noise = [gaussian(2.0), Laplace(label="", epsilon=0.4, sensitivity=1.0)]
    halved = [event.scaled(0.5) for event in noise]
    assert (halved[0].noise_multiplier, halved[1].epsilon) == (1.0, 0.8)
    report = RandomReport(label="", epsilon=0.4, sensitivity=1.0, radius=1.0, size=3, threshold=0.5)
    others = [report, Proved(0.4, delta=1e-6), failure(1e-6)]
    assert all(event.scaled(0.5) is event for event in others)


def test_only_gaussian_noise_about_everyone_has_an_exact_trade_off_curve():
    assert exact_mu([gaussian(2.0, count=3), gaussian(4.0)]) == pytest.approx((3 / 4 + 1 / 16) ** 0.5)
    discrete = DiscreteGaussian(label="", noise_multiplier=2.0, sensitivity=1.0)
    for other in (dataclasses.replace(gaussian(2.0), group=0), discrete, failure(1e-9)):
        assert exact_mu([gaussian(2.0), other]) is None


def test_different_relations_do_not_compose():
    mixture = [gaussian(10.0), gaussian(10.0, relation=Relation.USER)]
    refused(lambda: certified_epsilon(mixture, DELTA), InputError, "got replace-one row and replace-one user")
    assert common_relation([gaussian(1.0)]) is Relation.CENTRAL
    assert common_relation([]) is None


def test_pure_releases_of_large_budgets_cost_about_their_sum():
    pure = (Proved(30.0, times=3), Proved(7.0))
    for costs in (pure, (Gaussian(1e4), *pure)):
        assert 97 * (1 - 1e-9) <= pld_epsilon(costs, 1e-12) <= 97 * (1 + 3e-4)


def test_adaptive_calls_are_summed_and_not_composed_as_one():
    """Exact composition of other than Gaussian releases needs all of them fixed beforehand."""
    calls = [[Laplace(label=name, epsilon=0.3, sensitivity=1.0, count=20)] for name in "ab"]
    together = filter_epsilon(calls, DELTA, 0.0)
    assert together == pytest.approx((spending(calls[0]) + spending(calls[1])).epsilon(DELTA))
    assert together > certified_epsilon([*calls[0], *calls[1]], DELTA) * 1.01
    assert filter_epsilon(calls[:1], DELTA, 0.0) == certified_epsilon(calls[0], DELTA)


def test_the_failures_of_two_spendings_add_up():
    one, two = Spending(rho=0.1, failure=3e-6), Spending(rho=0.2, failure=2e-6)
    assert (one + two).failure == pytest.approx(5e-6)
    assert (one + two).epsilon(4e-6) == np.inf
    assert (one + two).epsilon(1e-5, 4e-6) == np.inf
    assert (one + two).epsilon(1e-5, 6e-6) == Spending(rho=0.3 + 4e-17).epsilon(1e-5 - 6e-6)


def test_a_pure_release_multiplies_odds_by_e_to_epsilon():
    risk = risk_of_events([Laplace(label="a", epsilon=1.0, sensitivity=1.0)], 1e-6)
    for prior, posterior in risk.posteriors.items():
        assert posterior == pytest.approx(prior * math.e / (prior * math.e + 1 - prior), rel=1e-9)
    assert risk.true_positive_rate[0.01] == pytest.approx(0.01 * math.e, rel=1e-4)


def test_gaussian_releases_have_the_exact_rates_and_posteriors_that_hold():
    z, delta = noise_multiplier(1.0, 1e-6), 1e-6
    risk, mu = risk_of_events([gaussian(z)], delta), 1 / z
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


MIXTURE = Laplace(label="a", epsilon=0.3, sensitivity=1.0), failure(1e-7)


@pytest.mark.parametrize("others", [None, MIXTURE])
def test_rates_of_mixtures_are_those_that_randomized_response_and_gaussian_noise_reach_or_little_more(others):
    discrete = DiscreteGaussian(label="a", noise_multiplier=5.0, sensitivity=1.0)
    risk = risk_of_events([*others, gaussian(5.0)] if others else [discrete], 1e-6)
    part, pure = risk_of_events([gaussian(5.0)], 1e-6), others[0].epsilon if others else 0.0
    for rate, found in risk.true_positive_rate.items():
        reached = best_test(rate, 1 / 5, pure)
        assert reached * (1 - 1e-9) <= found <= 1.1 * reached + 1e-6
    assert part.log_odds <= risk.log_odds < part.log_odds + 0.5


@pytest.mark.parametrize("epsilon", [4.0, 8.0, 9.0, 10.0, 11.0, 12.0, 20.0])
def test_a_risk_below_one_is_never_written_as_certainty(epsilon):
    risk = risk_of_events([Laplace(label="a", epsilon=epsilon, sensitivity=1.0)], 1e-6)
    assert max(risk.posteriors.values()) < 1
    assert "100%" not in risk.sentence


def test_a_bare_budget_and_a_release_that_is_proved_at_its_delta_alone_have_the_same_risk():
    risk = risk_of_budget(1.0, 1e-6, "user")
    assert risk.log_odds == pytest.approx(1 + math.log(2), rel=1e-9)
    assert (risk.delta, risk.unit) == (2e-6, "user")  # a bound but for a chance of two δ
    risk = risk_of_events([Proved(label="a", epsilon=0.5, delta=1e-6)], 1e-6)
    assert risk == risk_of_budget(0.5, 1e-6, "row")
    assert "nothing bounds" not in risk.sentence


def test_the_risk_of_random_batches_follows_from_what_the_certificate_follows_from():
    """Rényi bounds alone say more than twice the ε that is certified by distributions."""
    X = np.random.default_rng(0).uniform(-1, 1, (3000, 3))
    asked = {**dpalgos.get_estimator("dp_sgd_glm").example, "epsilon": 0.5, "delta": 1e-6}
    result = estimated("dp_sgd_glm", X, (X[:, 0] > 0) * 1.0, **asked)
    assert result.risk.log_odds < 1.4 * result.certified_epsilon
    assert result.risk.true_positive_rate[0.01] <= 0.01 * math.exp(result.certified_epsilon) + 1e-6
