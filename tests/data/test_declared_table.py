"""Tables as files write them, and checked against what their owner declares of columns, marks and users."""

import tomllib
import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import TypeAdapter

from data.columns import PLAIN, Column, Declaration, Marks
from data.errors import DataError
from data.formats.canonical import composed
from data.store.references import read_table
from data.tables.declared import count_users, read_declared
from data.tables.reading import opened_table
from data.tables.schema import table_schema
from data.tables.sources import parts_of
from data.tables.stored import declared_to_parquet
from dpalgos import spelling
from tasks.study.own_data import read_toml
from tests.builders import checked, declared_column, load_numbers, refused
from tests.data.ledger.test_content import fingerprint

COLUMN = TypeAdapter(Column)
CELLS = tomllib.loads(Path(__file__).with_name("cells.toml").read_text(encoding="utf-8"))
AGE = declared_column("age", lower=0, upper=120)
REGION = declared_column("region", categories=("north", "2", "west"))


def written(folder, *lines):
    path = folder / "table.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def stored(path, columns, missing="refuse", n_rows=3, **facts):
    declaration = Declaration(columns=tuple(columns), missing=missing, n_rows=n_rows, **facts)
    return declared_to_parquet("mine", path, declaration, home=path.parent / "home")


def test_types_are_read_from_csv_and_parquet_alike(tmp_path):
    path = written(tmp_path, "a,b,c,d,e\n1,1.5,x,,true\n2,2,NA,,false")
    types = {"a": "whole number", "b": "number", "c": "text", "d": "empty", "e": "text"}
    assert (table_schema(path).types, table_schema(path).n_rows) == (types, 2)
    columns = {"a": [1, 2], "b": [1.5, 2], "c": ["x", None], "d": [None, None], "e": [True, False]}
    pd.DataFrame(columns).to_parquet(tmp_path / "table.parquet")
    assert table_schema(tmp_path / "table.parquet").types == types


@pytest.mark.parametrize("name", ["\u00b5g", "\u03bcg", "caf\u00e9", "cafe\u0301", "\u2126", "e\u0301\u0323"])
def test_a_header_has_the_one_form_of_its_names_that_formulas_have(tmp_path, name):
    assert composed(name) == spelling.composed(name)
    path = written(tmp_path, f"{name},b", "1,2")
    assert list(table_schema(path).types) == [composed(name), "b"]
    pd.DataFrame({name: [1], "b": [2]}).to_parquet(tmp_path / "table.parquet")
    assert list(table_schema(tmp_path / "table.parquet").types) == [composed(name), "b"]
    assert stored(path, [declared_column(composed(name), upper=9)], n_rows=1).n_rows == 1
    stored(tmp_path / "table.parquet", [declared_column(composed(name), upper=9)], n_rows=1)
    (tmp_path / "study.toml").write_text(f'name = "{name}"\n', encoding="utf-8")
    assert read_toml(tmp_path / "study.toml")[1] == {"name": composed(name)}


def test_two_columns_that_look_the_same_are_refused(tmp_path):
    path = written(tmp_path, "\u00b5g,\u03bcg", "1,2")
    refused(lambda: table_schema(path), DataError, "same name at 1, 2")


def test_missing_cells_are_refused_dropped_and_counted_or_imputed(tmp_path):
    path = written(tmp_path, "region,age\nnorth,1\n,2\nwest,NA")
    refused(lambda: stored(path, [AGE, REGION]), DataError, "column age", "column region;")
    with pytest.raises(DataError, match="every row"):
        stored(written(tmp_path, "region,age\nnorth,\n,1\n,"), [REGION, AGE], "drop")
    path = written(tmp_path, "region,age\nnorth,1\n,2\nwest,NA")
    ref = stored(path, [AGE, REGION], "drop")
    assert (ref.n_rows, [repair.count for repair in ref.repairs]) == (1, [1, 1])
    imputing = [declared_column("age", upper=120, impute=40.0), replace(REGION, impute="west")]
    columns = {"age": [1, 2, 40], "region=2": [0, 0, 0], "region=west": [0, 1, 1], "region": [0, 2, 2]}
    assert read_table(stored(path, imputing)).to_dict("list") == columns


def test_numbers_beyond_their_bounds_become_the_nearer_one_and_are_counted_where_the_owner_says_so(tmp_path):
    path = written(tmp_path, "region,age\nnorth,-3\n 2.0,131\nwest,3")
    ref = stored(path, [REGION, AGE], clip=True)
    columns = {"region=2": [0, 1, 0], "region=west": [0, 0, 1], "region": [0, 1, 2], "age": [0, 120, 3]}
    assert read_table(ref).to_dict("list") == columns
    assert (ref.data_source, ref.n_rows, ref.rows_read) == ("real", 3, 3)
    (moved,) = ref.repairs
    assert (moved.reason, moved.count, moved.what) == ("column age", 2, "value")
    path = written(tmp_path, "region,age\nnorth,old\n2,inf\nwest,3")
    refused(lambda: stored(path, [REGION, AGE], clip=True), DataError, "number column 'age'")


@pytest.mark.parametrize("code", [2, 9, -1])
def test_another_code_than_0_and_1_is_never_clipped_to_them(tmp_path, code):
    path, died = written(tmp_path, f"died,age\n1,3\n{code},131\n0,3"), declared_column("died")
    assert (died.lower, died.upper) == (0, 1)
    said = refused(
        lambda: stored(path, [died, AGE], clip=True), DataError, "'died'", 'categories = ["1", "2"]'
    )
    assert "clip" not in said


def test_a_stored_table_is_reused_for_the_same_content_and_declarations_only(tmp_path):
    path = written(tmp_path, "age\n1\n2\n3")
    first = stored(path, [AGE])
    assert stored(path, [AGE]) == first
    wider = stored(path, [declared_column("age", lower=0, upper=130)])
    assert (wider.path != first.path, wider.source_sha256) == (True, first.source_sha256)
    assert stored(written(tmp_path, "age\n1\n2\n4"), [AGE]).source_sha256 != first.source_sha256


def test_parts_without_rows_are_parts_of_a_folder(tmp_path):
    for k, rows in enumerate(([], [1.0, 2.0], [])):
        pq.write_table(pa.table({"x": pa.array(rows, pa.float64())}), tmp_path / f"part-{k}.parquet")
    assert [n for _, n in checked(tmp_path, ["x"]).partitions] == [2]
    (tmp_path / "part-1.parquet").unlink()
    refused(lambda: checked(tmp_path, ["x"]), DataError, "no rows")


def read(path, column, marks=PLAIN, missing="drop"):
    declaration = Declaration(columns=(column,), marks=marks, missing=missing, n_rows=None)
    return read_declared(path, declaration).table


def number(name="x", missing=()):
    return declared_column(name, lower=-1e5, upper=1e5, missing=missing)


@pytest.mark.parametrize(("separator", "cells", "code", "marks"), CELLS["codes"])
def test_a_code_for_missing_is_read_with_the_marks_of_the_file(tmp_path, separator, cells, code, marks):
    path = written(tmp_path, f"x{separator}y", *(f"{cell}{separator}1" for cell in (*cells, code)))
    found = read(path, number(missing=(code.strip('"'),)), Marks(**marks))["x"]
    np.testing.assert_array_equal(found, [float(cell.replace(",", ".")) for cell in cells])


@pytest.mark.parametrize(("separator", "code", "marks"), CELLS["no_cell"])
def test_a_code_that_no_cell_could_equal_is_refused_before_a_row_is_read(tmp_path, separator, code, marks):
    path = written(tmp_path, f"x{separator}y", f"neither{separator}1")
    column, read_as = number(missing=(code,)), Marks(**marks)
    refused(lambda: read(path, column, read_as), DataError, "missing", "'x'", repr(code))


def test_a_code_counts_among_the_cells_that_leave_two_readings(tmp_path):
    refused(lambda: read(written(tmp_path, "x;y", "950;1"), number(missing=("9.999",))), DataError, "decimal")
    refused(lambda: read(written(tmp_path, "x;y", "1,5;1"), number(missing=("9.5",))), DataError, "decimal")


@pytest.mark.parametrize("text", CELLS["texts"])
def test_text_never_decides_what_a_mark_means_in_numbers(tmp_path, text):
    path = written(tmp_path, "income;answers", f"1,200;{text}", "950;none")
    refused(lambda: read(path, number("income")), DataError, "decimal", "thousands")
    refused(lambda: table_schema(path), DataError, "--decimal", "--thousands")
    found = read(path, number("income"), Marks(".", ","))["income"]
    np.testing.assert_array_equal(found, [1200, 950])
    np.testing.assert_array_equal(read(path, number("income"), Marks(","))["income"], [1.2, 950])


def test_categories_are_compared_as_they_are_written(tmp_path):
    path = written(tmp_path, "x;answers", "1,5;1,2", "2,5;1.2", "3,5;2,3")
    answers = declared_column("answers", categories=("1,2", "1.2", "2,3"))
    np.testing.assert_array_equal(read(path, answers)["answers"], [0, 1, 2])
    other = declared_column("answers", categories=("1.2", "2,3"))
    refused(lambda: read(path, other), DataError, "'answers'", "categories")
    coded = declared_column("answers", categories=("1,2", "1.2"), missing=("2,3",))
    np.testing.assert_array_equal(read(path, coded)["answers"], [0, 1])


@pytest.mark.parametrize(
    ("lines", "read_by"),
    [
        (("a;b", "1,500;2"), {Marks(","): 1.5, Marks(".", ","): 1500.0}),
        (("a,b;a", "1,2;3"), {Marks(separator=","): 1.0, Marks(separator=";"): 3.0}),
    ],
    ids=["of numbers", "between cells"],
)
def test_a_file_that_is_read_by_other_marks_is_stored_anew(tmp_path, lines, read_by):
    path, columns = written(tmp_path, *lines), [declared_column("a", upper=2000)]
    found = {marks: read_table(stored(path, columns, n_rows=1, marks=marks))["a"].item() for marks in read_by}
    assert found == read_by


@pytest.mark.parametrize(("header", "separator", "names"), CELLS["headers"])
def test_a_header_with_several_marks_is_read_by_the_declared_one(tmp_path, header, separator, names):
    path = written(tmp_path, header, separator.join("12"))
    assert list(table_schema(path, Marks(separator=separator)).types) == names
    found = read(path, number(names[0]), Marks(separator=separator))
    np.testing.assert_array_equal(found[names[0]], [1.0])


def test_a_separator_in_quotes_ends_no_line(tmp_path):
    path = written(tmp_path, "name,age,note", '"Smith, John",45,', '"Doe, Jane",46,x')
    np.testing.assert_array_equal(read(path, number("age"))["age"], [45.0, 46.0])


@pytest.mark.parametrize("header", ["a,b;c", "a;b\tc", "a,b\tc", "a|b|c"])
def test_a_separator_that_a_header_leaves_open_is_a_question(tmp_path, header):
    path = written(tmp_path, header, "1;2")
    for call in (lambda: table_schema(path), lambda: read(path, number("a"))):
        refused(call, DataError, "separator", "--separator")


@pytest.mark.parametrize(("text", "is_date"), CELLS["dates"])
def test_a_date_in_any_notation_needs_a_decision(tmp_path, text, is_date):
    assert table_schema(written(tmp_path, "day,x", f"{text},1")).dates == ("day",) * is_date


@pytest.mark.parametrize("ids", [("10E1", "1E2"), ("1e2", "7"), ("5", "3.0e1")])
def test_ids_with_exponents_are_refused_since_two_users_may_be_one(tmp_path, ids):
    path = written(tmp_path, "who,x", *(f"{each},1" for each in ids))
    hidden = [each for each in ids if len(each) > 1]
    refused(lambda: count_users(path, "who"), DataError, "'who'", "exponents", hidden=hidden)


@pytest.mark.parametrize(("cell", "named"), [(".", "missing"), ("TRUE", "truth value")])
def test_text_in_a_number_column_comes_with_what_it_may_be(tmp_path, cell, named):
    path = written(tmp_path, "x,y", "1,1", f"{cell},1")
    refused(lambda: read(path, number(), missing="refuse"), DataError, "'x'", named)


N = 4
ZIPS = ["00501", "7", "10115", "02134"]
CODES = {
    "category": pa.array(ZIPS).dictionary_encode(),
    "view": pa.array(ZIPS, pa.string_view()),
    "large": pa.array(ZIPS, pa.large_string()),
    "binary": pa.array([each.encode() for each in ZIPS], pa.binary()),
    "binary view": pa.array([each.encode() for each in ZIPS], pa.binary_view()),
    "fixed": pa.array([f"{int(each):05d}".encode() for each in ZIPS], pa.binary(5)),
}
ODD = {
    "ids": pa.array([uuid.UUID(int=k).bytes for k in range(N)], pa.uuid()),
    "ranges": pa.array(pd.interval_range(0, N)),
    "images": pa.FixedShapeTensorArray.from_numpy_ndarray(np.ones((N, 2, 2))),
    "tags": pa.array([["a"], [], None, ["b", "c"]]),
    "address": pa.array([{"street": "x"}] * N),
}


def parquet_of(folder, **columns):
    path = folder / "table.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.5, 4.0], **columns}), path)
    return path


@pytest.mark.parametrize("codes", CODES.values(), ids=CODES)
def test_codes_with_leading_zeros_are_codes_in_every_type_of_text(tmp_path, codes):
    found = table_schema(parquet_of(tmp_path, zip=codes))
    assert (found.types["zip"], found.codes) == ("whole number", ("zip",))


@pytest.mark.parametrize("name", ODD)
def test_a_column_that_no_question_needs_may_have_any_type(tmp_path, name):
    path = parquet_of(tmp_path, **{name: ODD[name]})
    column = declared_column("x", lower=0, upper=5)
    declaration = Declaration(columns=(column,), missing="refuse", n_rows=None)
    np.testing.assert_array_equal(read_declared(path, declaration).table["x"], [1, 2, 3.5, 4])
    assert load_numbers(path, ["x"])["x"].tolist() == [1, 2, 3.5, 4]
    assert table_schema(path).types[name] == ("text" if name == "ids" else "nested")
    with opened_table(path) as (_, batches):
        assert fingerprint(pa.Table.from_batches(batches))
    wanted = declared_column(name, categories=("a", "b"))
    asked = Declaration(columns=(wanted,), missing="refuse", n_rows=None)
    refused(lambda: read_declared(path, asked), DataError, repr(name))


def test_a_period_is_a_date_that_needs_a_decision(tmp_path):
    months = pa.array(pd.period_range("2020-01", periods=N, freq="M"))
    found = table_schema(parquet_of(tmp_path, month=months))
    assert (found.types["month"], found.dates) == ("text", ("month",))


@pytest.mark.parametrize("name", ["_b.parquet", "_year=07/a.parquet", "_delta_log/a.parquet"])
def test_rows_are_not_left_out_without_a_word(tmp_path, name):
    parquet_of(tmp_path)
    (tmp_path / "_SUCCESS").touch()
    assert len(parts_of(tmp_path)) == 1
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"x": [1.0]}), file)
    refused(lambda: parts_of(tmp_path), DataError, name.split("/")[0])


def test_line_breaks_in_quoted_cells_of_another_column_are_read_in_any_encoding(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes('x,y,note\n1,2,"caf\xe9\nau lait"\n3,4,tea\n'.encode("latin-1"))
    assert load_numbers(path, ["x"])["x"].tolist() == [1, 3]


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_numbers_in_single_precision_are_what_a_declaration_writes(tmp_path, kind):
    numbers = np.array([0.1, 0.2, 99.9, 0.3] * 3)
    x = declared_column("x", lower=0.1, upper=0.3, missing=("99.9",))
    g = declared_column("g", categories=("0.1", "0.2", "other"), others="other")
    found = []
    for each in (np.float64, kind):
        pd.DataFrame({"x": numbers, "g": numbers}).astype(each).to_parquet(tmp_path / "t.parquet")
        asked = Declaration(columns=(x, g), missing="drop", n_rows=12)
        found.append(read_declared(tmp_path / "t.parquet", asked))
    for name, values in found[0].table.items():
        np.testing.assert_array_equal(found[1].table[name], values)
    assert found[0].is_complete.sum() == 9


@pytest.mark.parametrize(("text", "category"), CELLS["coded"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_code_is_compared_as_it_is_written_but_for_zeros(tmp_path, kind, text, category):
    path = written(tmp_path, "code", "100", f'"{text}"', "200")
    if kind == "parquet":
        table = pa.table({"code": ["100", text, "200"]})
        path = tmp_path / "table.parquet"
        pq.write_table(table, path)
    column = declared_column("code", categories=("100", "200", "rest"), others="rest")
    assert read_table(stored(path, [column]))["code"].tolist()[1] == column.categories.index(category)
    without = declared_column("code", categories=("100", "200"))
    if category == "rest":
        refused(lambda: stored(path, [without]), DataError, "'code'", "categories")


@pytest.mark.parametrize(("code", "other"), [("7", "7.0"), ("07", "7")])
def test_two_codes_of_one_number_are_no_two_categories_and_other_notations_are(code, other):
    coded = {"name": "code", "dtype": "float64", "unit": "", "lower": -np.inf, "upper": np.inf, "source": "x"}
    with pytest.raises(ValueError, match="'code' must have each text once"):
        COLUMN.validate_python({**coded, "categories": (code, other)})
    levels = code, "7E0", "+7"
    assert COLUMN.validate_python({**coded, "categories": levels}).categories == levels
