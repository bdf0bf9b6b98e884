"""Tables as they are read, and checked against what their owner declares of columns and users."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data.columns import Declaration
from data.errors import DataError
from data.formats.canonical import MISSING, CanonicalBatch
from data.store.references import read_table
from data.tables.declared import UserIds
from data.tables.schema import table_schema
from data.tables.stored import declared_to_parquet
from tests.builders import checked, declared_column, load_numbers, refused

AGE = declared_column("age", lower=0, upper=120)
REGION = declared_column("region", categories=("north", "2", "west"))


def written(folder, text):
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8")
    return path


def stored(path, columns, missing="refuse", n_rows=3, **facts):
    declaration = Declaration(columns=tuple(columns), missing=missing, n_rows=n_rows, **facts)
    return declared_to_parquet("mine", path, declaration, home=path.parent / "home")


def test_types_are_read_from_csv_and_parquet_alike(tmp_path):
    path = written(tmp_path, "a,b,c,d,e\n1,1.5,x,,true\n2,2,NA,,false\n")
    types = {"a": "whole number", "b": "number", "c": "text", "d": "empty", "e": "text"}
    assert (table_schema(path).types, table_schema(path).n_rows) == (types, 2)
    columns = {"a": [1, 2], "b": [1.5, 2], "c": ["x", None], "d": [None, None], "e": [True, False]}
    pd.DataFrame(columns).to_parquet(tmp_path / "table.parquet")
    assert table_schema(tmp_path / "table.parquet").types == types


def test_categories_become_columns_of_zero_and_one(tmp_path):
    ref = stored(written(tmp_path, "region,age\nnorth,1\n 2.0,2\nwest,3\n"), [REGION, AGE])
    columns = {"region=2": [0, 1, 0], "region=west": [0, 0, 1], "region": [0, 1, 2], "age": [1, 2, 3]}
    assert read_table(ref).to_dict("list") == columns
    assert (ref.data_source, ref.n_rows, ref.rows_read, ref.repairs) == ("real", 3, 3, ())


def test_missing_cells_are_refused_dropped_and_counted_or_imputed(tmp_path):
    path = written(tmp_path, "region,age\nnorth,1\n,2\nwest,NA\n")
    refused(lambda: stored(path, [AGE, REGION]), DataError, "column age", "column region;")
    with pytest.raises(DataError, match="every row"):
        stored(written(tmp_path, "region,age\nnorth,\n,1\n,\n"), [REGION, AGE], "drop")
    path = written(tmp_path, "region,age\nnorth,1\n,2\nwest,NA\n")
    ref = stored(path, [AGE, REGION], "drop")
    assert (ref.n_rows, [repair.count for repair in ref.repairs]) == (1, [1, 1])
    imputing = [declared_column("age", upper=120, impute=40.0), replace(REGION, impute="west")]
    columns = {"age": [1, 2, 40], "region=2": [0, 0, 0], "region=west": [0, 1, 1], "region": [0, 2, 2]}
    assert read_table(stored(path, imputing)).to_dict("list") == columns


@pytest.mark.parametrize("level", [marker for marker in MISSING if marker] + ["NONE", "Nan"])
def test_a_declared_level_is_a_level_whatever_it_spells(tmp_path, level):
    covered = declared_column("covered", categories=("public", level))
    table = pd.DataFrame({"covered": ["public", level, f" {level}"], "age": [1, 2, 3]})
    table.to_csv(tmp_path / "table.csv", index=False)
    table.to_parquet(tmp_path / "table.parquet")
    for name in ("table.csv", "table.parquet"):
        ref = stored(tmp_path / name, [covered, AGE])
        assert read_table(ref)["covered"].to_list() == [0, 1, 1]
    path = written(tmp_path, f"covered,age\npublic,1\n{level},2\n{level},{level}\n")
    assert stored(path, [covered, AGE], "drop").n_rows == 2
    blank = written(tmp_path, f"covered,age\npublic,1\n,2\n{level},3\n")
    assert stored(blank, [covered, AGE], "drop").n_rows == 2


@pytest.mark.parametrize("clip", [False, True])
def test_declared_markers_stand_for_missing_cells(tmp_path, clip):
    path = written(tmp_path, "region,age\nnorth,1\n?,2\nwest,-9.0\nwest,unknown\n")
    age = replace(AGE, missing=("-9", "unknown"))
    ref = stored(path, [replace(REGION, missing=("?", "none")), age], "drop", n_rows=4, clip=clip)
    assert read_table(ref).to_dict("list")["age"] == [1]
    assert [repair.count for repair in ref.repairs] == [1, 2]


def test_numbers_beyond_their_bounds_become_the_nearer_one_and_are_counted_where_the_owner_says_so(tmp_path):
    path = written(tmp_path, "region,age\nnorth,-3\n2,131\nwest,3\n")
    ref = stored(path, [REGION, AGE], clip=True)
    assert read_table(ref)["age"].to_list() == [AGE.lower, AGE.upper, 3]
    (moved,) = ref.repairs
    assert (moved.reason, moved.count, moved.what) == ("column age", 2, "value")
    path = written(tmp_path, "region,age\nnorth,old\n2,inf\nwest,3\n")
    refused(lambda: stored(path, [REGION, AGE], clip=True), DataError, "number column 'age'")


@pytest.mark.parametrize("code", [2, 9, -1])
def test_another_code_than_0_and_1_is_never_clipped_to_them(tmp_path, code):
    path, died = written(tmp_path, f"died,age\n1,3\n{code},131\n0,3\n"), declared_column("died")
    assert (died.lower, died.upper) == (0, 1)
    said = refused(
        lambda: stored(path, [died, AGE], clip=True), DataError, "'died'", 'categories = ["1", "2"]'
    )
    assert "clip" not in said


def test_a_stored_table_is_reused_for_the_same_content_and_declarations_only(tmp_path):
    path = written(tmp_path, "age\n1\n2\n3\n")
    first = stored(path, [AGE])
    assert stored(path, [AGE]) == first
    wider = stored(path, [declared_column("age", lower=0, upper=130)])
    assert (wider.path != first.path, wider.source_sha256) == (True, first.source_sha256)
    assert stored(written(tmp_path, "age\n1\n2\n4\n"), [AGE]).source_sha256 != first.source_sha256


def codes_in_a_release(ids):
    column = UserIds(Path("visits.csv"), "person")
    column.add(CanonicalBatch(pa.RecordBatch.from_pydict({"person": pa.array(ids)})))
    return column.codes()


@pytest.mark.parametrize("id_", ["7.5", "inf", "1e400", "9007199254740992", *MISSING, 2**60, 0.5, np.nan])
def test_what_may_be_two_users_or_none_is_refused(id_):
    rest = ["1", "2"] if isinstance(id_, str) else [1, 2]
    with pytest.raises(DataError):
        codes_in_a_release([id_, *rest])


HEADERS = ['x,"y, or\nz"\n1.5,-2\n.25,3e2\n', '\ufeffx;"y, or\nz"\n1,5;-2\n,25; 3,0e2\n']
HEADERS += ['x;"y, or\nz"\n1.5;-2\n0.25;300\n', 'x\t"y, or\nz"\n1.5\t-2\n0.25\t300\n']


@pytest.mark.parametrize("text", HEADERS)
def test_the_header_says_what_separates_cells(tmp_path, text):
    found = load_numbers(written(tmp_path, text), ["x", "y, or\nz"]).to_dict("list")
    assert found == {"x": [1.5, 0.25], "y, or\nz": [-2.0, 300.0]}


def test_parts_without_rows_are_parts_of_a_folder(tmp_path):
    for k, rows in enumerate(([], [1.0, 2.0], [])):
        pq.write_table(pa.table({"x": pa.array(rows, pa.float64())}), tmp_path / f"part-{k}.parquet")
    assert [n for _, n in checked(tmp_path, ["x"]).partitions] == [2]
    (tmp_path / "part-1.parquet").unlink()
    refused(lambda: checked(tmp_path, ["x"]), DataError, "no rows")
