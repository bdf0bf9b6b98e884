import math

import pytest

from flows.studies.find_study import STUDIES, find_study
from tasks.errors import SpecError
from tasks.size_rules import delta_at

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


def test_delta_is_a_number_or_a_rule():
    assert delta_at("10/n^1.1", 1000) == 10 / math.pow(1000, 1.1)
    assert delta_at("1/n^2", 100) == 1e-4
    assert delta_at("1/n", 100) == 0.01
    assert delta_at("1e-6", 5) == 1e-6


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
