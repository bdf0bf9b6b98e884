"""Studies and files as they are read: sizes that are rules, and all faults with their keys."""

import math

import pytest

from flows.studies.find_study import find_study
from tasks.size_rules import evaluate_all, evaluate_rule


def test_smoke_keeps_the_ends_and_one_budget():
    study = find_study("housing")
    blocks = study.blocks("smoke", replicates=3, seed=0)
    assert {block.replicates.n for block in blocks} == {100, 20600}
    assert {cell.epsilon for block in blocks for cell in block.cells} == {None, 0.5}
    assert {cell.delta_rule for block in blocks for cell in block.cells} == {"", "1/n^2"}
    whole = study.blocks("paper", replicates=3, seed=0)
    assert {cell.estimator for block in blocks for cell in block.cells} == {e.name for e in study.estimators}
    keys = [cell.key for block in whole for cell in block.cells]
    assert len(set(keys)) == len(keys)


SIZES = {"n": 1000, "d": 20, "s": 5}

RULES = {"10/n^1.1": 10 / math.pow(1000, 1.1), "1/n^2": 1e-6, "4*sqrt(log(n))": 4 * math.sqrt(math.log(1000))}
RULES |= {
    "10 + sqrt(2*log(2*n*d/.01))": 10 + math.sqrt(2 * math.log(2 * 1000 * 20 / 0.01)),
    "-(s - d)**2": -225,
}
RULES |= {"min(n, 2*d)": 40, "max(exp(0), 1e-3)": 1, "1e-6": 1e-6, " n ": 1000, 0.5: 0.5}


@pytest.mark.parametrize("rule", RULES)
def test_arithmetic_in_sizes(rule):
    assert evaluate_rule(rule, SIZES) == RULES[rule]


def test_only_rules_among_keywords_are_evaluated():
    given = {"sparsity": "2*s", "clip": "private", "bounds": [1.0, 2.0], "k": 3, "flag": True, "size": "n"}
    found = evaluate_all(given, SIZES)
    assert found == {**given, "sparsity": 10, "size": 1000}
