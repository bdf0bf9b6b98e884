"""Studies and files as they are read: sizes that are rules, and all faults with their keys."""

import math
from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from flows.studies.find_study import STUDIES, find_study
from tasks.errors import SpecError
from tasks.file_schema import Number, Strict, read_strictly, sentences
from tasks.size_rules import RuleError, evaluate_all, evaluate_rule

HOUSING = (STUDIES / "housing.toml").read_text()
EPSILON = "epsilon = [0.5, 0.2, 1.0, 2.0]"
DELTA = 'delta = ["1/n^2", "10/n^1.1"]'


def load(tmp_path, old="", new="", name="mine.toml"):
    assert old in HOUSING
    (tmp_path / name).write_text(HOUSING.replace(old, new, 1))
    return find_study(str(tmp_path / name))


def test_all_faults_of_a_file_are_told_at_once(tmp_path):
    with pytest.raises(SpecError) as refused:
        load(tmp_path, f"{EPSILON}\n{DELTA}", 'epsilon = ["0.5"]\ndelta = [2]\nlevels = 3')
    for key, value in (("grid.epsilon.0", "'0.5'"), ("grid.delta.0", "2"), ("grid.levels", "")):
        assert f") {key}" in str(refused.value)
        assert value in str(refused.value)


def test_smoke_keeps_the_ends_and_one_budget():
    study = find_study("housing")
    blocks = study.blocks("smoke", replicates=3, seed=0)
    assert {block.replicates.n for block in blocks} == {100, 20600}
    assert {cell.epsilon for block in blocks for cell in block.cells} == {None, 0.5}
    assert {cell.delta_rule for block in blocks for cell in block.cells} == {"", "1/n^2"}
    whole = study.blocks("paper", replicates=3, seed=0)
    assert {cell.estimator for block in blocks for cell in block.cells} == {e.name for e in study.estimators}
    keys = [cell.key for block in whole for cell in block.cells]
    assert len(set(keys)) == len(keys)


SIZES = {"n": 1000, "d": 20, "s": 5}


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("10/n^1.1", 10 / math.pow(1000, 1.1)),
        ("1/n^2", 1e-6),
        ("4*sqrt(log(n))", 4 * math.sqrt(math.log(1000))),
        ("10 + sqrt(2*log(2*n*d/.01))", 10 + math.sqrt(2 * math.log(2 * 1000 * 20 / 0.01))),
        ("-(s - d)**2", -225),
        ("min(n, 2*d)", 40),
        ("max(exp(0), 1e-3)", 1),
        ("1e-6", 1e-6),
        (" n ", 1000),
        (0.5, 0.5),
    ],
)
def test_arithmetic_in_sizes(rule, value):
    assert evaluate_rule(rule, SIZES) == value


def test_a_size_that_is_not_there_is_named():
    with pytest.raises(RuleError, match="'s' has no"):
        evaluate_rule("s", {"n": 10})


def test_only_rules_among_keywords_are_evaluated():
    given = {"sparsity": "2*s", "clip": "private", "bounds": [1.0, 2.0], "k": 3, "flag": True, "size": "n"}
    found = evaluate_all(given, SIZES)
    assert found == {**given, "sparsity": 10, "size": 1000}


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
