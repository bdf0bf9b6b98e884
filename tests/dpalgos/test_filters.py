"""Budgets under adaptive choice, and sums over random rows: exact divergences, by quadrature and integrals.

A tree says what is asked: at a Gaussian answer the next question depends on the part of the line in which the
privacy loss lies, at randomized response on the answer. Each step attains its stated cost.
"""

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

import dpalgos
from data.errors import BudgetExhausted
from data.ledger.charges import Charge, PrivacyCost, Question, TotalBudget
from dpalgos import Budget, InputError
from dpalgos.accounting.budget import concentrated_rho, spending
from dpalgos.accounting.calibration import sampled_noise_multiplier
from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.events import Gaussian
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.accounting.losses import pld_epsilon
from dpalgos.accounting.other_events import Laplace, Proved, SampledGaussian, failure
from dpalgos.audit.distinguishers import log_density
from dpalgos.audit.trials import ReleasedVector
from dpalgos.rows.sample import Sample
from tasks.release.spending import room_in
from tests.dpalgos.silence import recorded

EPSILON, DELTA = 1.0, 1e-6
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
FAR = 9.0
STOP = ("stop",)


def gaussian_event(mu):
    return Gaussian(label="answer", noise_multiplier=1 / mu, sensitivity=1.0)


def event_of(node):
    kind, size, *_ = node
    if kind == "gaussian":
        return gaussian_event(size)
    if kind == "pure":
        return Laplace(label="answer", epsilon=size, sensitivity=1.0)
    return failure(size).once("answer")


def divergence(node, levels):
    """Return the hockey-stick divergence of a tree at each level, e^level being the factor on Q."""
    if node[0] == "stop":
        return np.maximum(0.0, -np.expm1(np.minimum(levels, 0.0)))
    if node[0] == "failure":
        return node[1] + (1 - node[1]) * divergence(node[-1][0], levels)
    if node[0] == "pure":
        epsilon, p = node[1], 1 / (1 + np.exp(-node[1]))
        up, down = node[-1]
        return p * divergence(up, levels - epsilon) + (1 - p) * divergence(down, levels + epsilon)
    _, mu, ends, after = node
    edges = [-np.inf, *ends, np.inf]
    return sum(_piece(mu, *edge, child, levels) for edge, child in zip(pairwise(edges), after, strict=True))


def _piece(mu, low, high, child, levels):
    if child == STOP:  # where the loss exceeds the level: P less e^level Q
        start = np.maximum(low, levels / mu - mu / 2)
        of_p = ndtr(-start) - ndtr(-max(high, -40))
        with np.errstate(over="ignore", invalid="ignore"):
            of_q = np.exp(levels + log_ndtr(-(start + mu))) - np.exp(levels + log_ndtr(-(high + mu)))
        return np.where(start < high, np.maximum(of_p - np.nan_to_num(of_q), 0.0), 0.0)
    low, high = np.clip([low, high], -FAR, FAR)
    edges = np.linspace(low, high, max(2, int(np.ceil(2 * (high - low)))))
    half = np.diff(edges) / 2
    z = (edges[:-1] + half)[:, None] + half[:, None] * NODES
    mass = half[:, None] * WEIGHTS * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    after = divergence(child, (levels[:, None] - (mu * z + mu * mu / 2).ravel()).ravel())
    return after.reshape(len(levels), -1) @ mass.ravel()


def delta_of(tree, epsilon=EPSILON):
    return float(divergence(tree, np.array([epsilon]))[0])


def budget_admits(**options):

    def admits(events):
        budget = Budget(epsilon=EPSILON, delta=DELTA, **options)
        try:
            for event in events:
                with budget.counting([event]):
                    pass
        except InputError:
            return False
        return True

    return admits


def ledger_admits(events):
    budget, charges = TotalBudget("d", EPSILON, DELTA, "2026-01-01"), []
    for event in events:
        cost = PrivacyCost(**vars(spending([event])))
        question = Question("d", "c", "e", {"at": len(charges)}, EPSILON, DELTA)
        new = Charge(question, 1, cost, "2026-01-01")
        try:
            room_in(budget)(charges, new)
        except BudgetExhausted:
            return False
        charges.append(new)
    return True


RULES = {
    "default": budget_admits(),
    "failures set aside": budget_admits(failure_delta=0.9 * DELTA),
    "nothing set aside": budget_admits(failure_delta=0.0),
    "ledger": ledger_admits,
}


def pruned(tree, admits, past=()):
    if tree == STOP or not admits([*past, event_of(tree)]):
        return STOP
    after = tuple(pruned(child, admits, (*past, event_of(tree))) for child in tree[-1])
    return (*tree[:-1], after)


def both_ways(high_is_gaussian):
    """After 60 % of μ²: the rest as a Gaussian answer, or one that fails with nearly all of δ."""
    mu = gaussian_mu(EPSILON, DELTA)
    rest = ("gaussian", np.sqrt(0.4) * mu, (), (STOP,))
    rho = 0.3 * mu**2
    most = 0.999 * (DELTA - gaussian_delta_of_rho(rho))
    fails = ("failure", most, (STOP,))
    return ("gaussian", np.sqrt(0.6) * mu, (2.0,), (fails, rest) if high_is_gaussian else (rest, fails))


def gaussian_delta_of_rho(rho):
    orders = 1 + np.geomspace(1e-3, 1e4, 20_000)
    bounds = (orders - 1) * (orders * rho - EPSILON) - np.log(orders - 1) + orders * np.log1p(-1 / orders)
    return float(np.exp(bounds.min()))


@pytest.mark.parametrize("high_is_gaussian", [True, False], ids=["counterexample", "mirror image"])
@pytest.mark.parametrize("rule", RULES)
def test_a_kind_of_answer_chosen_by_earlier_ones_keeps_delta(rule, high_is_gaussian):
    assert delta_of(pruned(both_ways(high_is_gaussian), RULES[rule])) <= DELTA * (1 + 1e-6)


def random_tree(rng, admits, depth=3, past=()):
    """Return a tree of what a rule admits, which spends much of some total at each step."""
    if depth == 0:
        return STOP
    mu = gaussian_mu(EPSILON, DELTA)
    used_mu = sum(e.noise_multiplier**-2 for e in past if isinstance(e, Gaussian))
    used = spending(past) if past else None
    rho, pure, failed = (used.rho, used.pure_epsilon, used.failure) if used else (0.0, 0.0, 0.0)
    shares = [concentrated_rho(EPSILON, DELTA * part) - rho for part in (0.1, 0.9, 1 - 1e-6)]
    part = 1 - 1e-6 if depth == 1 or rng.random() < 0.4 else rng.uniform(0.3, 0.8)
    amounts = {
        "gaussian": [mu**2 - used_mu, *(2 * share for share in shares)],
        "pure": [(EPSILON - pure) ** 2 if pure < EPSILON else 0.0, *(2 * share for share in shares)],
        "failure": [DELTA - failed, 0.9 * DELTA - failed, 0.1 * DELTA - failed],
    }
    for kind in rng.permutation(list(amounts)):
        for amount in rng.permutation(amounts[kind]):
            if amount <= 1e-3 * (DELTA if kind == "failure" else 1e-3):
                continue
            size = part * amount if kind == "failure" else np.sqrt(part * amount)
            ends = tuple(np.sort(rng.uniform(-2, 5, rng.integers(1, 3)))) if depth > 1 else ()
            event = event_of((str(kind), size))
            if admits([*past, event]):
                n_children = {"gaussian": len(ends) + 1, "pure": 2, "failure": 1}[str(kind)]
                after = tuple(random_tree(rng, admits, depth - 1, (*past, event)) for _ in range(n_children))
                return (str(kind), size, ends, after) if kind == "gaussian" else (str(kind), size, after)
    return STOP


@pytest.mark.parametrize("rule", RULES)
def test_no_tree_of_choices_exceeds_delta(rule):
    rng = np.random.default_rng(7)
    trees = [random_tree(rng, RULES[rule]) for _ in range(80)]
    reached = np.array([delta_of(tree) for tree in trees])
    assert reached.max() <= DELTA * (1 + 1e-6)
    assert reached.max() > 0.9 * DELTA or rule in ("ledger", "nothing set aside")  # the trees do spend


def test_what_a_budget_holds_is_fixed_when_it_is_opened():
    approximate = Proved(label="answer", epsilon=0.1, delta=0.5 * DELTA)
    for options, event, fits in [
        ({}, approximate, False),
        ({"failure_delta": 0.5 * DELTA}, approximate, True),
        ({}, event_of(("pure", 0.1)), True),
    ]:
        assert budget_admits(**options)([gaussian_event(0.05), event]) is fits
    halves = [gaussian_event(np.sqrt(0.5) * gaussian_mu(EPSILON, DELTA))] * 2
    assert not budget_admits()(halves)
    assert budget_admits()([gaussian_event(gaussian_mu(EPSILON, DELTA))])
    assert budget_admits()([Proved(label="answer", epsilon=EPSILON, delta=DELTA)])


def sampled(multiplier, rate, count):
    public = {"label": "", "sensitivity": 1.0, "sampling_rate": rate, "times": count}
    return SampledGaussian(noise_multiplier=multiplier, **public)


def test_an_attacker_does_not_know_who_was_drawn_and_no_cost_composes_over_answers():
    release = ReleasedVector(np.zeros((1, 2)), np.ones((1, 2)), (sampled(1.0, 0.1, 1),))
    assert log_density(release) is None
    with pytest.raises(dpalgos.InputError, match="composes over releases"):
        spending([sampled(1.0, 0.01, 10)])


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

    found = pld_epsilon((SampledGaussian(multiplier, rate),), 1e-6)
    assert delta(found) <= 1e-6 * (1 + 1e-3)
    assert delta(found / 1.02) > 1e-6


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
    others = np.arange(40)[:, None] != 2  # a batch has four of the rows on average
    X, y = np.where(others, 0.0, np.full((40, 2), 1e6)), np.zeros(40)
    first = sgd(X, y)
    second = sgd(X, y, first.published, [each * others for each in first.drawn])
    moved = [np.linalg.norm(a - b) for a, b in zip(first.values, second.values, strict=True)]
    bound = first.record.events[0].sensitivity / 2
    assert 0.4 * bound < max(moved) <= bound * (1 + 1e-12)
