"""What an analyst declares of columns: codes for missing cells, and keys that do not exist."""

import pytest

from data.errors import DataError
from data.tables.declared import read_declared
from tasks.own_table.analyst_table import AnalystTable

AGE = {"name": "age", "lower": 0, "upper": 120, "source": "a codebook"}
KIND = {"name": "kind", "categories": ["9", "10"], "source": "a codebook"}
SEX = {"name": "sex", "levels": {"f": ["F", "09.0"], "m": ["M"]}, "source": "a codebook"}
TABLE = {"path": "table.csv", "rows": 100, "privacy_unit": "a person"}


def codes(*columns, **table):
    made = AnalystTable.model_validate({**TABLE, "columns": list(columns), **table})
    return [each.missing for each in made.columns], made


def test_codes_of_all_columns_are_declared_once():
    found, table = codes(AGE, KIND, SEX, missing_codes=["9", "99"])
    assert found == [("9", "99"), ("99",), ("99",)]
    own = [{**each, "missing": list(one)} for each, one in zip((AGE, KIND, SEX), found, strict=True)]
    assert codes(*own)[1].model_dump() == table.model_dump()  # the same question
    assert codes({**AGE, "missing": []}, KIND, missing_codes=["-9"])[0] == [(), ("-9",)]
    assert codes({**AGE, "missing": ["?"]}, missing_codes=["-9"])[0] == [("?",)]


@pytest.mark.parametrize(("cells", "code"), [("1,999,2,999.0", "999"), ("a,unknown,b,unknown", "unknown")])
def test_a_code_of_all_columns_is_no_user(tmp_path, cells, code):
    (tmp_path / "table.csv").write_text("id,age\n" + "".join(f"{id_},30\n" for id_ in cells.split(",")))
    table = codes(AGE, missing_codes=[code], rows=None, user_id="id", users=3)[1]
    with pytest.raises(DataError, match="rows without an id") as caught:
        read_declared(tmp_path / "table.csv", table.declaration(table.columns))
    assert code not in str(caught.value)


def test_a_code_of_all_columns_is_no_weight(tmp_path):
    (tmp_path / "table.csv").write_text("w,age\n1,30\n999,40\n2.5,50\n-9.0,60\n")
    table = codes(AGE, missing_codes=["999", "-9"], missing="drop", rows=4, weights="w", max_weight=3)[1]
    found = read_declared(tmp_path / "table.csv", table.declaration(table.columns)).table
    assert (found["age"].tolist(), found["w"].tolist()) == ([30, 50], [1, 2.5])
