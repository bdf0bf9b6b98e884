"""Columns of types that no question needs, and folders with names that programs leave out."""

import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data.columns import Declaration
from data.errors import DataError
from data.tables.declared import read_declared
from data.tables.reading import opened_table
from data.tables.schema import table_schema
from data.tables.sources import parts_of
from tests.builders import declared_column, load_numbers, refused
from tests.data.ledger.test_content import fingerprint

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


def written(folder, **columns):
    path = folder / "table.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.5, 4.0], **columns}), path)
    return path


@pytest.mark.parametrize("codes", CODES.values(), ids=CODES)
def test_codes_with_leading_zeros_are_codes_in_every_type_of_text(tmp_path, codes):
    found = table_schema(written(tmp_path, zip=codes))
    assert (found.types["zip"], found.codes) == ("whole number", ("zip",))


@pytest.mark.parametrize("name", ODD)
def test_a_column_that_no_question_needs_may_have_any_type(tmp_path, name):
    path = written(tmp_path, **{name: ODD[name]})
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
    found = table_schema(written(tmp_path, month=months))
    assert (found.types["month"], found.dates) == ("text", ("month",))


@pytest.mark.parametrize("name", ["_b.parquet", "_year=07/a.parquet", "_delta_log/a.parquet"])
def test_rows_are_not_left_out_without_a_word(tmp_path, name):
    written(tmp_path)
    (tmp_path / "_SUCCESS").touch()
    assert len(parts_of(tmp_path)) == 1
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"x": [1.0]}), file)
    refused(lambda: parts_of(tmp_path), DataError, name.split("/")[0])
