"""What a record of a release says of the columns that were declared."""

from tasks.problems.analyst_table import AnalystColumn
from tasks.release.record import _declared


def column(**declared):
    return AnalystColumn(name="age", source="a census", **declared)


def test_units_and_constants_for_blank_cells_are_told_next_to_bounds():
    assert _declared(column(lower=0, upper=120)) == "0 to 120, center 60 and scale 30"
    own = column(lower=0, upper=120, center=45, scale=15, impute=40)
    assert _declared(own) == "0 to 120, center 45 and scale 15; blank cells are 40"
    log = column(lower=1, upper=1000, transform="log", center=3, scale=1)
    assert _declared(log) == "1 to 1000, center 3 and scale 1 of the logarithm"
    assert _declared(column(categories=("no", "yes"))) == "no, yes"
