from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from tasks.errors import SpecError
from tasks.file_schema import Number, Strict, read_strictly, sentences


class Column(Strict):
    name: str
    impute: Number | str | None = None


class File(Strict):
    mean: dict[Annotated[str, Field(min_length=1)], Number | tuple[Number, ...]] = Field(default={})
    pair: Number | tuple[Number, Number] = 0.0
    nested: tuple[Number | tuple[Number, ...], ...] = ()
    columns: tuple[Column, ...] = ()


def faults_of(**content: Any) -> list[str]:
    with pytest.raises(ValidationError) as refused:
        File(**content)
    return sentences(refused.value, content)


def test_each_wrong_entry_has_a_sentence():
    faults = faults_of(mean={"age": "a", "cost": [1.0, "b"]}, pair=["c", "d"])
    assert [fault.partition(" ")[0] for fault in faults] == ["mean.age", "mean.cost.1", "pair.0", "pair.1"]


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ('{"mean": {"float": [1.0, "much"]}}', "mean.float.1 must be a number"),
        ('{"columns": [{}]}', "columns.0.name is missing"),
        ("[]", "must be a table of keys"),
        ("{", "Invalid JSON"),
    ],
)
def test_a_file_of_somebody_else_is_refused_by_the_place_of_its_fault(tmp_path, written, named):
    (tmp_path / "a.json").write_text(written)
    with pytest.raises(SpecError) as refused:
        read_strictly(tmp_path / "a.json", File, "a file")
    assert f"must be a file; {named}" in str(refused.value)
