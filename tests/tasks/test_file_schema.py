from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from tasks.errors import SpecError
from tasks.file_schema import Number, Strict, read_strictly, sentences


class Column(Strict):
    name: str
    impute: Number | None = None


class File(Strict):
    mean: dict[Annotated[str, Field(min_length=1)], Number] = Field(default={})
    columns: tuple[Column, ...] = ()


def faults_of(undeclared: tuple[str, ...] = (), **content: Any) -> list[str]:
    with pytest.raises(ValidationError) as refused:
        File(**content)
    return sentences(refused.value, undeclared)


def test_each_wrong_entry_has_a_sentence():
    faults = faults_of(mean={"age": "a", "cost": True}, columns=[{"name": "age"}, {"impute": 1.0}], more=1)
    keys = ["mean.age", "mean.cost", "columns.1.name", "more"]
    assert [fault.partition(":")[0] for fault in faults] == keys


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ('{"mean": {"float": "much"}}', "mean.float: "),
        ('{"columns": [{}]}', "columns.0.name: "),
        ("[]", "Input should be an object"),
        ("{", "Invalid JSON"),
    ],
)
def test_a_file_of_somebody_else_is_refused_by_the_place_of_its_fault(tmp_path, written, named):
    (tmp_path / "a.json").write_text(written)
    with pytest.raises(SpecError) as refused:
        read_strictly(tmp_path / "a.json", File, "a file")
    assert f"must be a file; {named}" in str(refused.value)
