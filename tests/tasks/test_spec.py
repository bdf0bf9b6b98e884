import hashlib
import math

import pytest

from flows.studies.find_study import STUDIES, find_study, study_names
from tasks.errors import SpecError
from tasks.problems.sources.simulated_rows import SimulatedRows
from tasks.size_rules import delta_at
from tasks.study.study_file import load_study
from tests.tasks.blocks import refused_study

HOUSING = (STUDIES / "housing.toml").read_text()
EPSILON = "epsilon = [0.5, 0.2, 1.0, 2.0]"
DELTA = 'delta = ["1/n^2", "10/n^1.1"]'
SIZES = "n = [100, 200, 500, 1000, 2000, 5000, 10000, 20000, 20600]"
ADASSP = 'name = "adassp"'


def load(tmp_path, old="", new="", name="mine.toml"):
    assert old in HOUSING
    (tmp_path / name).write_text(HOUSING.replace(old, new, 1))
    return find_study(str(tmp_path / name))


WRONG = {
    "epsilon zero": (EPSILON, "epsilon = [0]", "epsilon must be a positive finite number, got 0"),
    "epsilon infinite": (EPSILON, "epsilon = [inf]", "epsilon must be a positive finite number, got inf"),
    "epsilon text": (EPSILON, 'epsilon = ["0.5"]', "grid.epsilon.0: "),
    "epsilon truth": (EPSILON, "epsilon = [true]", "grid.epsilon.0: "),
    "epsilon no list": (EPSILON, "epsilon = 0.5", "grid.epsilon: "),
    "epsilon twice": (EPSILON, "epsilon = [0.5, 0.5]", "each entry must be there once, got 0.5 twice"),
    "delta one": (DELTA, "delta = [1]", "delta must be a number above 0 and below 1, got 1"),
    "delta rule above one": (DELTA, 'delta = ["200/n"]', "got '200/n', which is 2 at n = 100"),
    "delta nonsense": (DELTA, 'delta = ["small"]', "delta must be made of numbers, n, d, s,"),
    "n too large": (SIZES, "n = [20000, 50000]", "must be at most the 20,640 rows of housing, got 50000"),
    "n of 191 digits": (SIZES, f"n = [{'9' * 191}]", "grid.n.0: "),
    "n zero": (SIZES, "n = [0, 20000]", "grid.n.0: "),
    "n text": (SIZES, 'n = ["many"]', "grid.n.0: "),
    "n empty": (SIZES, "n = []", "grid.n: "),
    "unknown key": ("question =", "qestion =", "question: "),
    "another key": ("question =", "color = 1\nquestion =", "color: "),
    "near key": ("[grid]", "[grid]\nepsilons = [1.0]", "grid.epsilons: "),
    "unknown estimator": (ADASSP, 'name = "adasp"', "got 'adasp'; did you mean 'adassp'?"),
    "wrong keyword": (
        f'{ADASSP}\ncalibrations = ["tight", "paper"]\nparams = {{ covariate_bound',
        f'{ADASSP}\ncalibrations = ["tight"]\nparams = {{ covariate_bond',
        "keyword must be a known name, got 'covariate_bond'",
    ),
    "wrong bound": (
        f'{ADASSP}\ncalibrations = ["tight", "paper"]\nparams = {{ covariate_bound = 3.0',
        f'{ADASSP}\ncalibrations = ["tight"]\nparams = {{ covariate_bound = -3.0',
        "covariate_bound must be a positive finite number, got -3.0",
    ),
    "delta of its own": (
        f'{ADASSP}\ncalibrations = ["tight", "paper"]\nparams = {{ covariate_bound',
        f'{ADASSP}\ncalibrations = ["tight"]\nparams = {{ delta = 0.4, covariate_bound',
        "params.delta must be left out, got 0.4; the study's grid",
    ),
    "wrong calibration": (
        'calibrations = ["tight", "paper"]',
        'calibrations = ["loose"]',
        ".calibrations.0: ",
    ),
    "no calibration": (f'{ADASSP}\ncalibrations = ["tight", "paper"]', ADASSP, "adassp is private and needs"),
    "calibrated zero": ('name = "zero"', 'name = "zero"\ncalibrations = ["tight"]', "zero is not private"),
    "form": ('form = "residual-clipped"', 'form = "a:b"', "form must be letters, digits, blanks and hyphens"),
    "another task": ('name = "zero"', 'name = "sample_mean"', "got 'sample_mean', which is for mean"),
    "estimator twice": ('name = "ols"', 'name = "zero"', "must differ in name or form, got 'zero' twice"),
    "unknown dataset": ('dataset = "housing"', 'dataset = "housng"', "did you mean 'housing'?"),
    "unknown column": ('"total_rooms"', '"total_room"', "did you mean 'total_rooms'?"),
    "column twice": ('"total_rooms"', '"households"', "covariates: each entry must be there once"),
    "response again": ('"total_rooms"', '"median_house_value"', "covariates must not hold the response"),
    "degrees": (
        'kind = "subsamples"',
        'kind = "grid_users"\ndegrees = true\nleast_rows = 5',
        "degrees: ",
    ),
    "units": ('units = "public"', 'units = "privat"', "units: "),
    "kind": ('kind = "subsamples"', 'kind = "sample"', "panels.0.problem: "),
    "no kind": ('kind = "subsamples"\n', "", "panels.0.problem: "),
    "key of a problem": (
        'kind = "subsamples"',
        'kind = "subsamples"\ncovariate = 1',
        "covariate: ",
    ),
    "panel twice": ('name = "paper"', 'name = "public"', "panels must differ in name, got 'public' twice"),
    "panel name": ('name = "paper"', 'name = "a:b"', "panels.1.name: a panel's name must be lower-case"),
    "rule of a keyword": (
        "response_bound = 2.0",
        'response_bound = "4*sqrt(lg(n))"',
        "response_bound must be made of",
    ),
    "no grid": (f"[grid]\n{SIZES}\n{EPSILON}\n{DELTA}\n", "", "panels (public) needs a grid"),
    "no replicates": ("smoke = 3", "smoke = 0", "replicates.smoke: "),
    "replicates without end": ("smoke = 3", "smoke = 100_001", "replicates.smoke: "),
    "a profile less": ("smoke = 3\n", "", "replicates.smoke is missing; add e.g. smoke = 3"),
    "a profile more": ("smoke = 3", "smoke = 3\nlong = 9", "replicates.long"),
    "headline size": ("n = 20000\n", "n = 777\n", "headline.n must be one of the study's (100, 200"),
    "headline epsilon": ("epsilon = 0.5\n", "epsilon = 0.7\n", "headline.epsilon must be one of the study's"),
    "headline delta": ('\ndelta = "1/n^2"\n', '\ndelta = "1/n"\n', "headline.delta must be one of the"),
    "headline delta of the paper": (
        'paper_delta = "10/n^1.1"\n',
        'paper_delta = "1/n"\n',
        "headline.paper_delta must be one of the study's",
    ),
    "headline panel": ('panel = "public"', 'panel = "raw"', "headline.panel must be one of the study's"),
    "not TOML": ("[grid]", "[grid", "mine.toml is not a TOML file"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_with_its_key(tmp_path, case):
    old, new, sentence = WRONG[case]
    refused = refused_study(tmp_path, HOUSING, old, new)
    assert sentence in refused
    assert "pydantic" not in refused


def test_all_faults_of_a_file_are_told_at_once(tmp_path):
    with pytest.raises(SpecError) as refused:
        load(tmp_path, f"{EPSILON}\n{DELTA}", 'epsilon = ["0.5"]\ndelta = [2]\nlevels = 3')
    for key, value in (("grid.epsilon.0", "'0.5'"), ("grid.delta.0", "2"), ("grid.levels", "")):
        assert f") {key}" in str(refused.value)
        assert value in str(refused.value)


def test_an_unreadable_file_is_one_sentence(tmp_path):
    with pytest.raises(SpecError, match=r"nowhere\.toml cannot be read"):
        load_study(tmp_path / "nowhere.toml")
    (tmp_path / "a.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match="not UTF-8"):
        load_study(tmp_path / "a.toml")
    (tmp_path / "b.toml").write_text("")
    with pytest.raises(SpecError, match="title: "):
        load_study(tmp_path / "b.toml")


@pytest.mark.parametrize("name", ["my study.toml", "Ünö.toml", "1.toml"])
def test_a_name_that_cannot_be_a_folder_is_refused(tmp_path, name):
    with pytest.raises(SpecError, match="rename the file"):
        load(tmp_path, name=name)


def test_a_name_cannot_lead_out_of_the_reports(tmp_path):
    with pytest.raises(SpecError, match="lower-case letters"):
        load(tmp_path, "title =", 'name = "../elsewhere"\ntitle =')


def test_an_unknown_study_names_the_nearest():
    with pytest.raises(SpecError, match="did you mean 'housing'"):
        find_study("housng")
    with pytest.raises(SpecError, match=r"choose one of: .*housing"):
        find_study("xyz")


def test_the_name_of_ones_own_study_without_its_ending_is_understood_in_the_refusal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hous.toml").write_text("")
    with pytest.raises(SpecError, match=r"did you mean 'hous\.toml'\?"):
        find_study("hous")


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
