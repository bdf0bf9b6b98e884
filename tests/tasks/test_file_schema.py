from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from tasks.errors import SpecError
from tasks.file_schema import Number, Strict, read_strictly, sentences, undeclared_keys


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


@pytest.mark.parametrize("name", ["float", "int", "a.b"])
def test_a_fault_names_its_key_and_the_value(name):
    (fault,) = faults_of(mean={name: "much"})
    assert fault.startswith(f"mean.{name}: ")
    assert fault.endswith("got 'much'")


def test_each_wrong_entry_has_a_sentence():
    faults = faults_of(mean={"age": "a", "cost": True}, columns=[{"name": "age"}, {"impute": 1.0}], more=1)
    keys = ["mean.age", "mean.cost", "columns.1.name", "more"]
    assert [fault.partition(":")[0] for fault in faults] == keys


def test_nothing_is_said_of_what_its_owner_has_yet_to_declare():
    content = {"mean": {"age": "?", "cost": "b"}, "columns": [{"name": 1, "impute": "?"}]}
    undeclared = (*undeclared_keys(content),)
    assert undeclared == ("mean.age", "columns.0.impute")
    assert [fault.partition(":")[0] for fault in faults_of(undeclared, **content)] == [
        "mean.cost",
        "columns.0.name",
    ]
    assert [*undeclared_keys({"missing": ["?"], "categories": ["?"]})] == ["categories.0"]


def test_a_long_value_is_cut_off():
    assert len(faults_of(mean={"age": "much " * 100})[0]) < 150


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
