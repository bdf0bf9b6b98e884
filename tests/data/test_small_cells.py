"""Cells whose meaning a person must decide: dates, ids with exponents, marks of other programs."""

import pytest

from data.columns import Declaration
from data.errors import DataError
from data.tables.declared import count_users, read_declared
from data.tables.schema import table_schema
from tests.builders import declared_column, refused

DATES = ["31.12.2020", "12/31/2020", "1/2/20", "2020/12/31", "31DEC2020", "31-Dec-2020", "31 décembre 2020"]


def written(folder, *lines):
    path = folder / "table.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("date", DATES)
def test_a_date_in_any_notation_needs_a_decision(tmp_path, date):
    assert table_schema(written(tmp_path, "day,x", f"{date},1")).dates == ("day",)


@pytest.mark.parametrize("text", ["1.2.3.4", "12-34", "size 12", "route 66/2020"])
def test_other_text_is_no_date(tmp_path, text):
    assert table_schema(written(tmp_path, "day,x", f"{text},1")).dates == ()


@pytest.mark.parametrize("ids", [("10E1", "1E2"), ("1e2", "7"), ("5", "3.0e1")])
def test_ids_with_exponents_are_refused_since_two_users_may_be_one(tmp_path, ids):
    path = written(tmp_path, "who,x", *(f"{each},1" for each in ids))
    refused(
        lambda: count_users(path, "who"),
        DataError,
        "'who'",
        "exponents",
        hidden=[each for each in ids if len(each) > 1],
    )


@pytest.mark.parametrize(("cell", "named"), [(".", "missing"), ("TRUE", "truth value")])
def test_text_in_a_number_column_comes_with_what_it_may_be(tmp_path, cell, named):
    column = declared_column("x", lower=0, upper=5)
    declaration = Declaration(columns=(column,), missing="refuse", n_rows=None)
    path = written(tmp_path, "x,y", "1,1", f"{cell},1")
    refused(lambda: read_declared(path, declaration), DataError, "'x'", named)
