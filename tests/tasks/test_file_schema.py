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


@pytest.mark.parametrize(
    "name", ["float", "int", "str", "tuple[constrained-float, ...]", "constrained-str", "a.b"]
)
def test_a_name_that_pydantic_may_give_to_a_type_stays(name):
    assert faults_of(mean={name: "much"}) == [f"mean.{name} must be a number, got 'much'"]
    assert faults_of(mean={name: [1.0, "much"]}) == [f"mean.{name}.1 must be a number, got 'much'"]


def test_a_truth_value_is_no_number():
    assert faults_of(mean={"age": [40.0, True]}) == ["mean.age.1 must be a number, got True"]


def test_an_entry_of_several_types_has_one_sentence():
    assert faults_of(columns=[{"name": "age", "impute": [1]}]) == [
        "columns.0.impute must be a number, got [1]"
    ]


def test_each_wrong_entry_has_a_sentence():
    faults = faults_of(mean={"age": "a", "cost": [1.0, "b"]}, pair=["c", "d"])
    assert [fault.partition(" ")[0] for fault in faults] == ["mean.age", "mean.cost.1", "pair.0", "pair.1"]


def test_a_missing_key_is_named():
    assert faults_of(columns=[{"name": "age"}, {"impute": 1.0}]) == ["columns.1.name is missing; add it"]
    assert faults_of(pair=[1.0]) == ["pair.1 is missing; add it"]


def test_an_unknown_key_is_named():
    assert faults_of(columns=[{"name": "age", "float": 1.0}]) == ["columns.0.float is not a known key"]


def test_a_wrong_name_of_a_key_is_a_fault_of_its_table():
    (fault,) = faults_of(mean={"": 1.0})
    assert fault.startswith("mean ")
    assert fault.endswith("got ''")


def test_entries_of_nested_lists_are_numbered():
    assert faults_of(nested=[1.0, [2.0, "x"]]) == ["nested.1.1 must be a number, got 'x'"]


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
