"""Studies as they are read: sizes that are rules, and the columns that a formula comes to."""

import math

import numpy as np
import pytest

from flows.studies.find_study import find_study
from tasks.own_table.analyst_table import AnalystColumn, AnalystTable, DerivedColumn
from tasks.own_table.formula import expand_formula
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
RULES |= {"10 + sqrt(2*log(2*n*d/.01))": 10 + math.sqrt(2 * math.log(2 * 1000 * 20 / 0.01))}
RULES |= {"-(s - d)**2": -225, "min(n, 2*d)": 40, "max(exp(0), 1e-3)": 1, "1e-6": 1e-6, " n ": 1000, 0.5: 0.5}


@pytest.mark.parametrize("rule", RULES)
def test_arithmetic_in_sizes(rule):
    assert evaluate_rule(rule, SIZES) == RULES[rule]


def test_only_rules_among_keywords_are_evaluated():
    given = {"sparsity": "2*s", "clip": "private", "bounds": [1.0, 2.0], "k": 3, "flag": True, "size": "n"}
    found = evaluate_all(given, SIZES)
    assert found == {**given, "sparsity": 10, "size": 1000}


COLUMNS = (
    AnalystColumn(name="age", lower=18, upper=90, source="law"),
    AnalystColumn(name="region", categories=("north", "south", "west"), source="map"),
    AnalystColumn(name="cost", lower=1, upper=5000, source="tariff"),
    AnalystColumn(name="weight", lower=1, upper=5000, transform="log", source="tariff"),
)
TABLE = AnalystTable(path="people.csv", rows=100, privacy_unit="a row", columns=COLUMNS)


def test_a_formula_comes_to_columns_that_are_fitted_and_to_a_response():
    table, design = expand_formula("cost ~ age + C(region) + age:region", TABLE)
    assert design.response_column == "cost"
    names = ["C(region)[T.south]", "C(region)[T.west]", "age", "age:region[T.south]", "age:region[T.west]"]
    assert [name.removeprefix("~ ") for name in design.covariates] == names
    derived = {column.name: column for column in table.columns if isinstance(column, DerivedColumn)}
    assert tuple(derived) == design.covariates
    assert derived["~ age"].uses == ("age", "region")
    logs, design = expand_formula("log(cost) ~ age", table)
    assert logs.columns[:4] == TABLE.columns
    assert design.response_column == "~ log(cost)"
    response = logs.columns[-1]
    assert (response.lower, response.upper) == pytest.approx((0, math.log(5000)))


def test_the_values_of_a_formula_are_those_of_its_design():
    table, design = expand_formula("log(cost) ~ age + C(region)", TABLE)
    rows = {"age": np.array([20.0, 60]), "region": np.array(["west", "north"]), "cost": np.array([3.0, 7])}
    values = table.columns[-1].derived.values(rows)
    np.testing.assert_allclose(values["~ log(cost)"], np.log([3, 7]))
    fitted = np.column_stack([values[name] for name in design.covariates] + [np.ones(2)])
    np.testing.assert_allclose(fitted, design.matrix(rows))


def test_the_reference_of_a_category_is_the_formulas():
    _, design = expand_formula("cost ~ C(region, Treatment('west'))", TABLE)
    assert design.references == {"region": "west"}
    assert design.covariates[0] == "~ C(region, Treatment('west'))[T.north]"
