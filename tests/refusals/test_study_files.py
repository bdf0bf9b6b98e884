"""Study files that are refused, by the key and its value: a wrong line is one row of a table."""

from pathlib import Path

import pytest

from data.errors import DataError
from flows.cli.options import use_plugins
from flows.studies.find_study import STUDIES, find_study
from tasks.errors import SpecError
from tasks.own_table.analyst_table import AnalystColumn, AnalystTable
from tasks.own_table.formula import expand_formula
from tasks.size_rules import RuleError, evaluate_rule, whole
from tasks.study.study_file import load_study
from tests.builders import people, refusals, refused, visits, words
from tests.tasks.analyst_tables import advice_of, computed, edited, initialized
from tests.tasks.blocks import STEPS, made_problem

EPSILON, DELTA = "epsilon = [0.5, 0.2, 1.0, 2.0]", 'delta = ["1/n^2", "10/n^1.1"]'
SIZES = "n = [100, 200, 500, 1000, 2000, 5000, 10000, 20000, 20600]"
CALIBRATED = 'name = "adassp"\ncalibrations = ["tight", "paper"]'
# The study, a line of it, what stands in its place, and what the sentence names
FILES = [
    ('housing', EPSILON, 'epsilon = [0]', ('epsilon', '0')),
    ('housing', EPSILON, 'epsilon = [inf]', ('epsilon', 'inf')),
    ('housing', EPSILON, 'epsilon = ["0.5"]', ('grid.epsilon.0', "'0.5'")),
    ('housing', EPSILON, 'epsilon = [true]', ('grid.epsilon.0', 'True')),
    ('housing', EPSILON, 'epsilon = 0.5', ('grid.epsilon', '0.5')),
    ('housing', EPSILON, 'epsilon = [0.5, 0.5]', '0.5 twice'),
    ('housing', DELTA, 'delta = [1]', ('delta', '1')),
    ('housing', DELTA, 'delta = ["200/n"]', ("'200/n'", 'n = 100')),
    ('housing', DELTA, 'delta = ["small"]', ('delta', "'small'")),
    ('housing', SIZES, 'n = [20000, 50000]', ('20,640', '50000')),
    ('housing', SIZES, f"n = [{'9' * 191}]", ('grid.n.0', '999')),
    ('housing', SIZES, 'n = [0, 20000]', ('grid.n.0', '0')),
    ('housing', SIZES, 'n = ["many"]', ('grid.n.0', "'many'")),
    ('housing', SIZES, 'n = []', 'grid.n'),
    ('housing', 'question =', 'qestion =', 'question'),
    ('housing', 'question =', 'color = 1\nquestion =', 'color'),
    ('housing', '[grid]', '[grid]\nepsilons = [1.0]', 'grid.epsilons'),
    ('housing', 'name = "adassp"', 'name = "adasp"', ("'adasp'", "'adassp'")),
    ('housing', CALIBRATED + '\nparams = { covariate_bound', 'name = "adassp"\ncalibrations = ["tight"]\nparams = { covariate_bond', ('keyword', "'covariate_bond'")),
    ('housing', CALIBRATED + '\nparams = { covariate_bound = 3.0', 'name = "adassp"\ncalibrations = ["tight"]\nparams = { covariate_bound = -3.0', ('covariate_bound', '-3.0')),
    ('housing', CALIBRATED + '\nparams = { covariate_bound', 'name = "adassp"\ncalibrations = ["tight"]\nparams = { delta = 0.4, covariate_bound', ('params.delta', '0.4')),
    ('housing', 'calibrations = ["tight", "paper"]', 'calibrations = ["loose"]', ('estimators.2.calibrations.0', "'loose'")),
    ('housing', CALIBRATED, 'name = "adassp"', ('adassp', 'calibrations')),
    ('housing', 'name = "zero"', 'name = "zero"\ncalibrations = ["tight"]', 'zero'),
    ('housing', 'form = "residual-clipped"', 'form = "a:b"', 'form'),
    ('housing', 'name = "zero"', 'name = "sample_mean"', ("'sample_mean'", 'mean')),
    ('housing', 'name = "ols"', 'name = "zero"', "'zero' twice"),
    ('housing', 'dataset = "housing"', 'dataset = "housng"', "'housing'"),
    ('housing', '"total_rooms"', '"total_room"', "'total_rooms'"),
    ('housing', '"total_rooms"', '"households"', 'covariates'),
    ('housing', '"total_rooms"', '"median_house_value"', 'covariates'),
    ('housing', 'kind = "subsamples"', 'kind = "grid_users"\ndegrees = true\nleast_rows = 5', ('panels.0.problem.grid_users.degrees', 'True')),
    ('housing', 'units = "public"', 'units = "privat"', 'panels.0.problem.subsamples.units'),
    ('housing', 'kind = "subsamples"', 'kind = "sample"', 'panels.0.problem'),
    ('housing', 'kind = "subsamples"\n', '', 'panels.0.problem'),
    ('housing', 'kind = "subsamples"', 'kind = "subsamples"\ncovariate = 1', ('panels.0.problem.subsamples.covariate', '1')),
    ('housing', 'name = "paper"', 'name = "public"', ('panels', "'public' twice")),
    ('housing', 'name = "paper"', 'name = "a:b"', ('panels.1.name', "'a:b'")),
    ('housing', 'response_bound = 2.0', 'response_bound = "4*sqrt(lg(n))"', 'response_bound'),
    ('housing', f"[grid]\n{SIZES}\n{EPSILON}\n{DELTA}\n", '', 'panels (public)'),
    *[('housing', 'smoke = 3', f'smoke = {n}', ('replicates.smoke', n)) for n in ('0', '100001')],
    ('housing', 'smoke = 3\n', '', 'replicates.smoke'),
    ('housing', 'smoke = 3', 'smoke = 3\nlong = 9', 'replicates'),
    ('housing', 'n = 20000\n', 'n = 777\n', 'headline.n'),
    ('housing', 'epsilon = 0.5\n', 'epsilon = 0.7\n', 'headline.epsilon'),
    ('housing', '\ndelta = "1/n^2"\n', '\ndelta = "1/n"\n', 'headline.delta'),
    ('housing', 'paper_delta = "10/n^1.1"\n', 'paper_delta = "1/n"\n', 'headline.paper_delta'),
    ('housing', 'panel = "public"', 'panel = "raw"', 'headline.panel'),
    ('housing', '[grid]', '[grid', 'mine.toml'),
    ('mean_comparison', 'd = "2*n"', 'd = "2*m"', 'd must'),
    ('mean_comparison', 'd = "2*n"', 'd = "n/100000"', 'd must'),
    ('mean_comparison', 's = 20', 's = "3*n"', ('s must', 's = 6000', 'd = 4000', 'n = 2000')),
    ('mean_comparison', 'model = "gaussian_mean"', 'model = "gauss"', 'model'),
    ('mean_comparison', 'model = "gaussian_mean"', 'model = "uniform_regression"', ('model', "'uniform_regression'")),
    ('mean_comparison', 'settings = { sparsity', 'settings = { sparse', 'settings'),
    ('mean_comparison', 's = 20, settings', 'settings', "'s' has no value here"),
    ('tracing_attack', 'task = "tracing"', 'task = "mean"', 'tracing'),
    ('tracing_attack', 'name = "ols"', 'name = "sample_mean"', 'estimators'),
    ('tracing_attack', 'attack = "logistic"', 'attack = "mean"', "'prior_logistic'"),
    *[('swarm', 's = 100\nepsilon', new, 'headline.s') for new in ('s = 99\nepsilon', 'epsilon')],
    ('swarm', 'task = "glm"', 'task = "mean"', ('task', "'mean'")),
    ('swarm', 'units = "public"', 'units = "odd"', ('units', "'odd'")),
    ('swarm', 'n = [12008]', 'n = [12008, 24016]', ('grid.n', '24016')),
    ('swarm', 'dataset = "swarm"', 'dataset = "housing"', 'covariates'),
    ('swarm', 'mean = [0.33, 0.21, 0.13]', 'mean = [0.33]', 'printed.mean'),
    ('swarm', 'covariate_bound = 3.0', 'covariate_bond = 3.0', 'covariate_bond'),
    *[('steps', 'steps = 4, ', new, 'headline.steps') for new in ('', 'steps = 3, ')],
    ('steps', 'steps = [1, 4, 2]', 'steps = []', "'T' has no value here"),
    ('steps', 'steps = [1, 4, 2]', 'steps = [1, 1]', '1 twice'),
    ('steps', 'n = [400]', 'n = [400, 800]', 'grid.n'),
]  # fmt: skip


@pytest.mark.parametrize(("study", "old", "new", "named"), FILES)
def test_a_wrong_line_of_a_study_is_refused_by_its_key(tmp_path, study, old, new, named):
    text = (STEPS if study == "steps" else STUDIES / f"{study}.toml").read_text()
    (tmp_path / "mine.toml").write_text(text)
    edited(tmp_path / "mine.toml", old, new)
    refused(lambda: find_study(str(tmp_path / "mine.toml")), ValueError, *words(named))


BOUNDS = {"age": (0, 120), "dose": (-2, 2), "cost": (-5000, 10000)}
VISITS = visits()[["patient", "dose"]]
CATEGORIES = {"region": ["north", "south", "west"], "smoker": ["no", "yes"]}
GUESSES = "\n[guesses]\nsource = 'common knowledge'\n"
CLIPPED = 'name = "user_level_mean"\nform = "clipped per user"\nabout = "Users\' means are clipped to the public bound."\ncalibrations = ["tight"]\nparams = {'


@pytest.fixture
def study(tmp_path, home):
    """A function that completes the study of a made-up table, and changes a line of it."""

    def made(old="", new="", table=None, **options):
        table = people(60).drop(columns="person") if table is None else table
        return edited(initialized(tmp_path, table, bounds=BOUNDS, categories=CATEGORIES, **options), old, new)

    return made


# A line of the study of a table, what stands in its place, what the sentence names
OF_USERS = [
    ("users = 60 ", "users = 1 ", ("data.users", "1")),
    ("users = 60 ", "#", ("user_id", "'patient' and None")),
    ("users = 60", "users = 61", "data.users = 61"),  # which the table alone shows
    ('user_id = "patient"', "#", ("user_id", "'' and 60")),
    ('user_id = "patient"', 'user_id = "dose"', "columns"),
    ('name = "dose"', 'name = "Intercept"', "'Intercept'"),
    ("n = [9, 15, 54]", "n = [9, 54, 100]", ("grid.n", "60 users", "100")),
    (CLIPPED, 'name = "dp_mean"\ncalibrations = ["tight"]\nparams = { value_bound = 1.0 } #', "'dp_mean'"),
]
IDS = {
    "without an id": lambda ids: ids.where(ids != "p007"),
    "mixes numbers with text": lambda ids: ids.where(ids != "p007", "17"),
    "fractions": lambda ids: ids.str[1:].astype(float) + 0.5,
    "2^53": lambda ids: "9" + ids.str[1:] + "0" * 16,
}
OF_GUESSES = [
    ("mean = { agee = 3.0 }", "'agee'"),
    ("mean = { age = 130.0 }", ("guesses.mean of 'age'", "130")),
    ("shares = { region = [0.5, 0.5] }", ("3 categories", "2")),
    ("correlation = 1.0", "guesses.correlation"),
    ('mean = { smoker = "known" }', ("guesses.mean.smoker", "'known'")),
    ("mean = { age = [40.0, true] }", ("guesses.mean.age", "True")),
    ("correlation = true", ("guesses.correlation", "True")),
    *[(f"shares = {{ {each} = -1 }}", (f"guesses.shares.{each}", "-1")) for each in ("smoker", "region")],
    ("explaned = 0.5", ("guesses.explaned", "0.5")),
]


@pytest.mark.parametrize(("old", "new", "named"), OF_USERS)
def test_a_wrong_declaration_of_users_is_refused_by_its_key(study, tmp_path, old, new, named):
    file = study(old, new, VISITS, user_id="patient")
    use = (lambda: computed(file, tmp_path)) if new == "users = 61" else lambda: find_study(file)
    refused(use, (DataError, SpecError), *words(named))


@pytest.mark.parametrize("named", IDS)
def test_missing_or_mixed_ids_are_refused_without_showing_one(study, tmp_path, named):
    file = study(table=VISITS, user_id="patient")
    VISITS.assign(patient=IDS[named](VISITS["patient"])).to_csv(tmp_path / "table.csv", index=False)
    said = refused(lambda: computed(file, tmp_path), DataError, named)
    assert "p00" not in said.split("table.csv")[1]


@pytest.mark.parametrize(("text", "named"), OF_GUESSES)
def test_a_wrong_guess_is_refused_by_its_key(study, text, named):
    file = study(response="cost")
    refused(lambda: advice_of(file, GUESSES + text + "\n"), SpecError, *words(named))


LOWER = {"age": 18, "cost": 0, "weight": 0}
COLUMNS = [AnalystColumn(name=name, lower=low, upper=90, source="law") for name, low in LOWER.items()]
TABLE = AnalystTable(path="people.csv", rows=100, privacy_unit="a row", columns=tuple(COLUMNS))
HOUSES = {"dataset": "housing", "units": "public"}
REGRESSION = made_problem(
    "held_out_regression", response="median_house_value", covariates=("population",), **HOUSES
)
SIMULATED = made_problem("user_simulation", users="2*n", samples=25, d=3)
MAP = made_problem("grid_users", covariates=("median_house_value",), degrees=1.0, least_rows=5, **HOUSES)
RULES = ["", "1/", "n; d", "m", "__import__('os')", "n.real", "(1).__class__", "[n][0]", "log(n, key=1)"]
RULES += ["lambda: 1", "n if d else s", "n < d", "True", "'a'", "sqrt()", "log(0)", "(-1)^.5", "1/(n - 1000)"]
RULES += ["9^9^9^9", "1e999", "(" * 150 + "n" + ")" * 150]
SIZES_OF = {"n": 1000, "d": 20, "s": 5}
ROWS = [
    (SpecError, "intercept", lambda: expand_formula("cost ~ 0 + age", TABLE)),
    (SpecError, "response", lambda: expand_formula("~ age", TABLE)),
    (SpecError, "log(weight)", lambda: expand_formula("cost ~ log(weight)", TABLE)),
    (SpecError, "'height'", lambda: expand_formula("cost ~ height", TABLE)),
    (SpecError, "mean", lambda: expand_formula("cost ~ mean(age)", TABLE)),
    (SpecError, "linear combination", lambda: expand_formula("cost ~ age + I(age - 1)", TABLE)),
    (ValueError, "'logistic'", lambda: REGRESSION.model_copy(update={"family": "logistic"}).check(200, "glm")),
    (ValueError, "'swarm'", lambda: REGRESSION.model_copy(update={"dataset": "swarm"}).check_data(200)),
    (ValueError, "20,640", lambda: REGRESSION.check_data(20_640)),
    (ValueError, ("grid.n", "6"), lambda: MAP.check(6, "mean")),
    (ValueError, "family", lambda: MAP.model_copy(update={"family": "logistic"}).check(5, "glm")),
    (ValueError, "users", lambda: SIMULATED.model_copy(update={"users": 1}).check(5, "mean")),
    (RuleError, ("d must", "'s/10'"), lambda: whole("s/10", SIZES_OF, what="d")),
    *[(RuleError, "value_bound", lambda rule=rule: evaluate_rule(rule, SIZES_OF, what="value_bound")) for rule in RULES],
    (SpecError, "'housing'", lambda: find_study("housin")),
    *[(SpecError, "advice", lambda name=name: advice_of(name)) for name in ("mean_comparison", "snp")],
    *[(SpecError, name, lambda name=name: use_plugins([Path(name)], "local")) for name in ("nowhere.py", "a.txt")],
]  # fmt: skip


@refusals(ROWS)
def test_what_a_study_cannot_ask_is_refused(error, named, use):
    refused(use, error, *words(named))


ALIKE = [{"categories": ("7.0", "07")}, {"categories": ("7", "b"), "missing": ("07",)}]
ALIKE += [{"categories": ("a", "b"), "levels": {"a": ("7",), "b": ("07",)}}]


@pytest.mark.parametrize("texts", ALIKE)
def test_a_text_stands_for_one_category_or_a_missing_cell(texts):
    with pytest.raises(ValueError, match="'07'"):
        AnalystColumn(name="g", source="law", **texts)


# A file's name, its content, and what the sentence names
UNREADABLE = [
    ("nowhere.toml", None, "nowhere.toml"),
    ("a.toml", b"\xff\xfe", "UTF-8"),
    ("b.toml", b"", "title"),
    *[(name, b"title = 'a'", "rename") for name in ("my study.toml", "Ünö.toml", "1.toml")],
    ("c.toml", b"name = '../elsewhere'\n" + (STUDIES / "housing.toml").read_bytes(), "name"),
]


@pytest.mark.parametrize(("name", "content", "named"), UNREADABLE)
def test_a_file_that_is_no_study_is_refused(tmp_path, name, content, named):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    refused(lambda: load_study(tmp_path / name), SpecError, named)
