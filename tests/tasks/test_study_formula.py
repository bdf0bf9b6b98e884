"""Formulas in study and release files: which columns they come to, and what is refused."""

import math

import numpy as np
import pytest

from tasks.own_table.analyst_table import AnalystColumn, AnalystTable, DerivedColumn
from tasks.own_table.formula import expand_formula

TABLE = AnalystTable(
    path="people.csv",
    rows=100,
    privacy_unit="a row",
    columns=(
        AnalystColumn(name="age", lower=18, upper=90, source="law"),
        AnalystColumn(name="region", categories=("north", "south", "west"), source="map"),
        AnalystColumn(name="cost", lower=1, upper=5000, source="tariff"),
        AnalystColumn(name="weight", lower=1, upper=5000, transform="log", source="tariff"),
    ),
)


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
