import hashlib
import math

import pytest

from flows.studies.find_study import STUDIES, find_study, study_names
from tasks.errors import SpecError
from tasks.problems.sources.simulated_rows import SimulatedRows
from tasks.size_rules import delta_at
from tasks.study.study_file import load_study

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


def test_a_number_for_delta_is_taken(tmp_path):
    (tmp_path / "mine.toml").write_text(
        HOUSING.replace(DELTA, "delta = [1e-6]")
        .replace('delta = "1/n^2"', "delta = 1e-6")
        .replace('paper_delta = "10/n^1.1"', "")
    )
    assert find_study(str(tmp_path / "mine.toml")).grid.delta == ("1e-06",)


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


@pytest.mark.parametrize("name", study_names())
def test_smoke_draws_no_large_data_set(name):
    study = find_study(name)
    sizes = [
        panel.problem.cost(n).n_bytes
        for panel in study.panels_at("smoke")
        if isinstance(panel.problem, SimulatedRows)
        for n in study.grid_at(panel, "smoke").n
    ]
    assert max(sizes, default=0) <= 300e6


def test_a_list_of_estimators_stands_once_for_several_panels(tmp_path):
    named = HOUSING.replace("[[estimators]]", '[lists]\nown = [{ name = "ols" }]\n\n[[estimators]]', 1)
    panel = '[[panels]]\nname = "again"\nestimators = ["own", { name = "zero" }]\n'
    problem = HOUSING[
        HOUSING.index("[panels.problem]") : HOUSING.index("[[panels]]", HOUSING.index("[panels.problem]"))
    ]
    (tmp_path / "mine.toml").write_text(named + "\n" + panel + problem)
    spec = load_study(tmp_path / "mine.toml")
    (again,) = (each for each in spec.panels if each.name == "again")
    assert [item.name for item in spec.estimators_of(again)] == ["ols", "zero"]
    (tmp_path / "other.toml").write_text(
        named.replace('own = [{ name = "ols" }]', 'own = "mine.toml"') + panel + problem
    )
    other = load_study(tmp_path / "other.toml")
    assert other.estimators_of(other.panels[-1]) == spec.estimators_of(again)
    assert other.sha256 != hashlib.sha256((tmp_path / "other.toml").read_bytes()).hexdigest()
    (tmp_path / "mine.toml").write_text(named + "\n" + panel.replace('"own"', '"others"') + problem)
    with pytest.raises(SpecError, match="'others'"):
        load_study(tmp_path / "mine.toml")
