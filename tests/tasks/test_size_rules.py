import math

import pytest

from tasks.size_rules import RuleError, evaluate_all, evaluate_rule, whole

SIZES = {"n": 1000, "d": 20, "s": 5}


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("10/n^1.1", 10 / math.pow(1000, 1.1)),
        ("1/n^2", 1e-6),
        ("4*sqrt(log(n))", 4 * math.sqrt(math.log(1000))),
        ("10 + sqrt(2*log(2*n*d/.01))", 10 + math.sqrt(2 * math.log(2 * 1000 * 20 / 0.01))),
        ("-(s - d)**2", -225),
        ("min(n, 2*d)", 40),
        ("max(exp(0), 1e-3)", 1),
        ("1e-6", 1e-6),
        (" n ", 1000),
        (0.5, 0.5),
    ],
)
def test_arithmetic_in_sizes(rule, value):
    assert evaluate_rule(rule, SIZES) == value


def test_whole_numbers_stay_whole():
    assert isinstance(evaluate_rule("2*s", SIZES), int)
    assert whole("n/3", SIZES, what="d") == 333
    with pytest.raises(RuleError, match=r"d must .*'s/10'"):
        whole("s/10", SIZES, what="d")


WRONG = {
    "": "it is not arithmetic",
    "1/": "it is not arithmetic",
    "n; d": "it is not arithmetic",
    "m": "'m' is not known",
    "__import__('os')": "'__import__' is not known",
    "n.real": "it is not arithmetic",
    "(1).__class__": "it is not arithmetic",
    "[n][0]": "it is not arithmetic",
    "log(n, key=1)": "'log' is not known",
    "lambda: 1": "it is not arithmetic",
    "n if d else s": "it is not arithmetic",
    "n < d": "it is not arithmetic",
    "True": "it is not arithmetic",
    "'a'": "it is not arithmetic",
    "sqrt()": "it is not arithmetic",
    "log(0)": "it is not arithmetic",
    "(-1)^.5": "it is not arithmetic",
    "1/(n - 1000)": "its value is not finite at n = 1000",
    "9^9^9^9": "its value is not finite",
    "1e999": "its value is not finite",
    "(" * 150 + "n" + ")" * 150: "it has more than 200 characters",
}


@pytest.mark.parametrize("rule", WRONG)
def test_all_else_is_refused_in_one_sentence(rule):
    with pytest.raises(RuleError) as refused:
        evaluate_rule(rule, SIZES, what="value_bound")
    assert str(refused.value).startswith("value_bound must be made of numbers, n, d, s,")
    assert str(refused.value).find(WRONG[rule]) > 0
    assert "\n" not in str(refused.value)


def test_a_size_that_is_not_there_is_named():
    with pytest.raises(RuleError, match="'s' has no"):
        evaluate_rule("s", {"n": 10})


def test_only_rules_among_keywords_are_evaluated():
    given = {"sparsity": "2*s", "clip": "private", "bounds": [1.0, 2.0], "k": 3, "flag": True, "size": "n"}
    found = evaluate_all(given, SIZES)
    assert found == {**given, "sparsity": 10, "size": 1000}
