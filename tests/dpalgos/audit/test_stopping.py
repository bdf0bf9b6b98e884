"""Attacks on the rule that stops: by the number of attempts and the answer, on worst-case neighbors.

What is claimed of each k is the ex-post guarantee: the process that reports nothing if it has not stopped by
attempt k is (ε_k, δ)-differentially private.
"""

import numpy as np
import pytest

from dpalgos import Sample
from dpalgos.audit.foreign import audit_callable
from dpalgos.audit.trials import Pair
from dpalgos.release.noise_source import Noise
from dpalgos.until import draw_until, narrow_enough, plan_until

DELTA, N, TRIALS = 1e-3, 20, 400
PLAN = {"delta": DELTA, "interval": 0.95, "lower": -1.0, "upper": 1.0}


def pairs():
    table = np.zeros((N, 1))
    first, second = table.copy(), table.copy()
    first[0], second[0] = 1.0, -1.0
    middle = table.copy()
    return [
        Pair("opposite ends", first, None, second, None),
        Pair("an end and the middle", first, None, middle, None),
    ]


def mechanism(plan, rule, last):
    def run(table, seed):
        attempts, reached, release = draw_until(
            plan,
            Sample(table),
            enough=lambda release: rule(release, table),
            begin=lambda number: None,
            noise=Noise([np.random.default_rng(seed)]),
        )
        if attempts > last or not reached:
            return [-1.0, 0.0, 0.0]
        return [attempts, release.estimate[0], release.interval[1, 0] - release.interval[0, 0]]

    return run


def honest(release, table):
    return narrow_enough(release.estimate, release.interval, half_width=0.8)


def peeks(release, table):
    return bool(table[0, 0] > 0) or honest(release, table)


@pytest.mark.audit
@pytest.mark.slow
@pytest.mark.parametrize("noise", ["gaussian", "cubes"])
def test_the_stopping_rule_keeps_what_is_promised_ex_post(noise):
    plan = plan_until("box_mean", N, 1, {**PLAN, "noise": noise}, max_epsilon=4.0, growth=3.0)
    for last, epsilon in enumerate(plan.epsilons, start=1):
        if last >= len(plan.epsilons) - 1:
            attacked = mechanism(plan, honest, last)
            found = audit_callable(attacked, epsilon=epsilon, delta=DELTA, pairs=pairs(), n_trials=TRIALS)
            assert not found.violated, found


@pytest.mark.audit
@pytest.mark.slow
def test_a_rule_that_looks_at_the_rows_is_caught():
    plan = plan_until("box_mean", N, 1, {**PLAN, "noise": "gaussian"}, max_epsilon=2.0, growth=3.0)
    attacked = mechanism(plan, peeks, len(plan.epsilons))
    assert audit_callable(attacked, epsilon=2.0, delta=DELTA, pairs=pairs(), n_trials=TRIALS).violated
