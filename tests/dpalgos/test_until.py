"""One answer at the smallest budget that is enough: costs, stopping, refinement, refusals."""

import numpy as np
import pytest
from scipy.stats import chi2

import dpalgos
from dpalgos import InputError, Sample
from dpalgos.accounting.composition import spending
from dpalgos.accounting.events import Relation
from dpalgos.release.hardened_noise import Draws, refining_transcript
from dpalgos.release.noise_source import Noise
from dpalgos.until import draw_until, narrow_enough, plan_until
from tests.dpalgos.silence import estimated

BOX = {"delta": 1e-6, "interval": 0.95, "lower": 0.0, "upper": 1.0}
ROWS = np.random.default_rng(0).uniform(0.2, 0.6, (1000, 2))


@pytest.fixture(scope="module")
def refining():
    return plan_until("box_mean", 1000, 2, {**BOX, "noise": "gaussian"}, max_epsilon=2.0, growth=1.5)


@pytest.fixture(scope="module")
def anew():
    return plan_until("box_mean", 1000, 2, {**BOX, "noise": "cubes"}, max_epsilon=2.0)


def ask(**more):
    given = {"half_width": 0.02, "max_epsilon": 2.0, "rng": np.random.default_rng(1), **BOX, **more}
    return dpalgos.estimate_until("box_mean", ROWS, **given)


def test_budgets_increase_and_the_last_is_the_largest(refining, anew):
    for plan in (refining, anew):
        assert all(np.diff(plan.epsilons) > 0)
        assert 0.99 * 2 <= plan.epsilons[-1] <= 2


def test_refined_attempts_cost_together_what_the_last_alone_would(refining):
    alone = estimated(
        "box_mean", ROWS, epsilon=refining.params.epsilon,
        **{**BOX, "noise": "gaussian"}
    )  # fmt: skip
    for label, refined in (("mean", True), ("score moments", True), ("shares by size", False)):
        spent, once = (
            sum(event.noise_multiplier**-2 for event in events if event.label == label)
            for events in (refining.events, alone.events)
        )
        assert spent == pytest.approx(once) if refined else spent > 1.5 * once


def test_other_attempts_are_all_paid_for(anew):
    assert not anew.refined
    assert anew.cost.rho == pytest.approx(sum(spending(step).rho for step in anew.steps))


def test_refined_noise_is_that_of_one_draw_of_the_whole_precision():
    """Draws of multipliers 4, 3 and 2 leave noise of these, and cost together what 2 alone does."""
    size, draws = 20_000, Draws(refined=frozenset({0}))
    noise, value = Noise([np.random.default_rng(0)]), np.full((size, 1), 7.0)
    precision = 0.0
    for multiplier in (4.0, 3.0, 2.0):
        transcript = refining_transcript(draws, Relation.CENTRAL, noise)
        released = transcript.gaussian(value, l2_sensitivity=0.5, noise_multiplier=multiplier, label="a")
        precision += transcript.events[0].noise_multiplier ** -2
        statistic = np.square((released - 7.0) / (0.5 * multiplier)).sum()
        assert chi2.ppf(1e-9, size) < statistic < chi2.ppf(1 - 1e-9, size)
        assert precision == pytest.approx(multiplier**-2)


def test_the_rule_sees_what_was_released_and_stops_there(refining):
    seen, begun = [], []

    def enough(release):
        seen.append(release)
        return len(seen) == 2

    noise = Noise([np.random.default_rng(0)])
    attempts, reached, release = draw_until(
        refining, Sample(ROWS), enough=enough, begin=begun.append, noise=noise
    )
    assert (attempts, reached, begun) == (2, True, [1, 2])
    assert release is seen[-1]
    assert release.epsilon == refining.epsilons[1]


def test_nothing_of_an_attempt_is_drawn_before_it_is_written_down(refining):
    class Watched(Noise):
        draws = 0

        def normal(self, *shape):
            Watched.draws += 1
            return super().normal(*shape)

    def begin(number):
        if number == 2:
            raise RuntimeError("a crash")
        assert Watched.draws == 0

    noise = Watched([np.random.default_rng(0)])
    with pytest.raises(RuntimeError):
        draw_until(refining, Sample(ROWS), enough=lambda release: False, begin=begin, noise=noise)
    assert Watched.draws == 3


def test_a_narrower_wish_costs_more_and_one_that_cannot_be_had_the_most():
    spent = [ask(half_width=width, noise="gaussian") for width in (0.1, 0.03, 1e-6)]
    assert [found.reached for found in spent] == [True, True, False]
    assert spent[0].certified_epsilon < spent[1].certified_epsilon < spent[2].certified_epsilon <= 2
    half = (spent[1].interval[1] - spent[1].interval[0]) / 2
    assert half.max() <= 0.03


def test_relative_errors_and_missing_intervals():
    estimate, interval = np.array([1.0, 10.0]), np.array([[0.9, 9.0], [1.1, 11.0]])
    assert narrow_enough(estimate, interval, relative_error=0.11)
    assert not narrow_enough(estimate, interval, half_width=0.5)
    interval[0, 0] = np.nan
    assert not narrow_enough(estimate, interval, half_width=1e9)
    assert not narrow_enough(estimate, None, half_width=1e9)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"growth": 1.0}, "growth"),
        ({"growth": 1.0001}, "growth"),
        ({"first_epsilon": 3.0}, "first_epsilon"),
        ({"half_width": None}, "half_width"),
        ({"half_width": -1.0}, "half_width"),
        ({"relative_error": 0.1}, "relative_error"),
        ({"interval": None}, "interval"),
        ({"max_epsilon": -1.0}, "epsilon"),
        ({"rng": 0}, "rng"),
        ({"epsilon": 0.1}, "epsilon must be left out"),
    ],
)
def test_a_wrong_wish_is_refused_by_name(wrong, named):
    with pytest.raises(InputError, match=named):
        ask(**wrong)


def test_an_open_budget_counts_what_was_spent():
    with dpalgos.Budget(epsilon=2.0, delta=1e-6) as budget:
        found = ask(noise="gaussian", growth=2.0)
    assert 0 < budget.spent_epsilon <= found.certified_epsilon * 1.01


def test_replicates_that_would_share_their_noise_are_refused():
    both = Sample(ROWS, n_replicates=2)
    with pytest.raises(InputError, match="replicates must be 1, got a Sample of 2"):
        dpalgos.estimate_until(
            "box_mean", both, half_width=0.1, max_epsilon=1.0, rng=np.random.default_rng(0), **BOX
        )


def test_the_risk_is_that_of_all_attempts_for_the_data_decide_how_many_are_made():
    early, late = ask(half_width=0.2), ask(half_width=0.02)
    assert early.attempts < late.attempts
    assert early.risk == late.risk
