"""How a file writes numbers, dates and ids: what is declared, the only possible meaning, or a question."""

import numpy as np
import pytest

from data.columns import PLAIN, Declaration, Marks
from data.errors import DataError
from data.tables.declared import count_users, read_declared
from data.tables.schema import table_schema
from tests.builders import declared_column, refused

EUROPE, ENGLISH = Marks(",", "."), Marks("", ",")


def written(folder, *lines):
    path = folder / "table.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read(path, column, marks=PLAIN, missing="drop"):
    declaration = Declaration(columns=(column,), marks=marks, missing=missing, n_rows=None)
    return read_declared(path, declaration).table


def number(name="x", missing=()):
    return declared_column(name, lower=-1e5, upper=1e5, missing=missing)


CODES = [
    (";", ("1,50", "8,40"), "-9,00", PLAIN),
    (";", ("1,5", "8,4"), "9,0", PLAIN),
    (";", ("1,5", "8,4"), "99,9", PLAIN),
    (";", ("1,5", "8,4"), "0,00", PLAIN),
    (";", ("1.5", "8.4"), "-9.00", PLAIN),
    (";", ("1,5", "8,4"), "-9.999,0", EUROPE),
    (";", ("1,5", "8,4"), "9.999", EUROPE),
    (";", ("1,5", "8,4"), "9999", EUROPE),
    (";", ("1,5", "8,4"), "9 999", Marks(",", " ")),
    (",", ("1.5", "8.4"), '"9,999"', ENGLISH),
    ("\t", ("1,5", "8,4"), "-9,0", Marks(",")),
    (";", ("1,5", "8,4"), "n.b.", PLAIN),
]


@pytest.mark.parametrize(("separator", "cells", "code", "marks"), CODES)
def test_a_code_for_missing_is_read_with_the_marks_of_the_file(tmp_path, separator, cells, code, marks):
    path = written(tmp_path, f"x{separator}y", *(f"{cell}{separator}1" for cell in (*cells, code)))
    found = read(path, number(missing=(code.strip('"'),)), marks)["x"]
    np.testing.assert_array_equal(found, [float(cell.replace(",", ".")) for cell in cells])


NO_CELL = [(",", "-9,00", PLAIN), (",", "9 999", PLAIN), (";", "9'999", PLAIN), (";", "-9.999,0", PLAIN)]
NO_CELL += [(";", "9.5", EUROPE), (",", "9,5", ENGLISH), ("\t", "9,0", PLAIN)]


@pytest.mark.parametrize(("separator", "code", "marks"), NO_CELL)
def test_a_code_that_no_cell_could_equal_is_refused_before_a_row_is_read(tmp_path, separator, code, marks):
    path = written(tmp_path, f"x{separator}y", f"neither{separator}1")
    refused(lambda: read(path, number(missing=(code,)), marks), DataError, "missing", "'x'", repr(code))


def test_a_code_counts_among_the_cells_that_leave_two_readings(tmp_path):
    refused(lambda: read(written(tmp_path, "x;y", "950;1"), number(missing=("9.999",))), DataError, "decimal")
    refused(lambda: read(written(tmp_path, "x;y", "1,5;1"), number(missing=("9.5",))), DataError, "decimal")


TEXTS = ["1,2", '"1,5 / 2,5"', "1,10", "0,5", '"1,2,3"', "1,5E3", "12,3456", "none"]


@pytest.mark.parametrize("text", TEXTS)
def test_text_never_decides_what_a_mark_means_in_numbers(tmp_path, text):
    path = written(tmp_path, "income;answers", f"1,200;{text}", "950;none")
    refused(lambda: read(path, number("income")), DataError, "decimal", "thousands")
    refused(lambda: table_schema(path), DataError, "--decimal", "--thousands")
    found = read(path, number("income"), Marks(".", ","))["income"]
    np.testing.assert_array_equal(found, [1200, 950])
    np.testing.assert_array_equal(read(path, number("income"), Marks(","))["income"], [1.2, 950])


@pytest.mark.parametrize("answers", [['"1,2"', '"1,2,3"'], ['"3,5"', "none of these"], ["1.2.3", '"1,234"']])
def test_a_column_of_text_asks_no_question(tmp_path, answers):
    path = written(tmp_path, "x,answers", *(f"{k},{each}" for k, each in enumerate(answers)))
    assert table_schema(path).types == {"x": "whole number", "answers": "text"}


def test_categories_are_compared_as_they_are_written(tmp_path):
    path = written(tmp_path, "x;answers", "1,5;1,2", "2,5;1.2", "3,5;2,3")
    answers = declared_column("answers", categories=("1,2", "1.2", "2,3"))
    np.testing.assert_array_equal(read(path, answers)["answers"], [0, 1, 2])
    other = declared_column("answers", categories=("1.2", "2,3"))
    refused(lambda: read(path, other), DataError, "'answers'", "categories")
    coded = declared_column("answers", categories=("1,2", "1.2"), missing=("2,3",))
    np.testing.assert_array_equal(read(path, coded)["answers"], [0, 1])


HEADERS = [("a,b;c", ";", ["a,b", "c"]), ("a;b,c", ",", ["a;b", "c"]), ("a|b;x", "|", ["a", "b;x"])]


@pytest.mark.parametrize(("header", "separator", "names"), HEADERS)
def test_a_header_with_several_marks_is_read_by_the_declared_one(tmp_path, header, separator, names):
    path = written(tmp_path, header, separator.join("12"))
    assert list(table_schema(path, Marks(separator=separator)).types) == names
    found = read(path, number(names[0]), Marks(separator=separator))
    np.testing.assert_array_equal(found[names[0]], [1.0])


@pytest.mark.parametrize("header", ["a,b;c", "a;b\tc", "a,b\tc", "a|b|c"])
def test_a_separator_that_a_header_leaves_open_is_a_question(tmp_path, header):
    path = written(tmp_path, header, "1;2")
    for call in (lambda: table_schema(path), lambda: read(path, number("a"))):
        refused(call, DataError, "separator", "--separator")


DATES = ["31.12.2020", "12/31/2020", "1/2/20", "2020/12/31", "31DEC2020", "31-Dec-2020", "31 décembre 2020"]


@pytest.mark.parametrize("date", DATES)
def test_a_date_in_any_notation_needs_a_decision(tmp_path, date):
    assert table_schema(written(tmp_path, "day,x", f"{date},1")).dates == ("day",)


@pytest.mark.parametrize("text", ["1.2.3.4", "12-34", "size 12", "route 66/2020"])
def test_other_text_is_no_date(tmp_path, text):
    assert table_schema(written(tmp_path, "day,x", f"{text},1")).dates == ()


@pytest.mark.parametrize("ids", [("10E1", "1E2"), ("1e2", "7"), ("5", "3.0e1")])
def test_ids_with_exponents_are_refused_since_two_users_may_be_one(tmp_path, ids):
    path = written(tmp_path, "who,x", *(f"{each},1" for each in ids))
    hidden = [each for each in ids if len(each) > 1]
    refused(lambda: count_users(path, "who"), DataError, "'who'", "exponents", hidden=hidden)


@pytest.mark.parametrize(("cell", "named"), [(".", "missing"), ("TRUE", "truth value")])
def test_text_in_a_number_column_comes_with_what_it_may_be(tmp_path, cell, named):
    path = written(tmp_path, "x,y", "1,1", f"{cell},1")
    refused(lambda: read(path, number(), missing="refuse"), DataError, "'x'", named)
