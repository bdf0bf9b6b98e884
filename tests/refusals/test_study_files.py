"""Study files that are refused, by the key and its value: a wrong line is one row of a table."""

import tomllib
from pathlib import Path

import pytest

from data.errors import DataError
from flows.cli.options import use_plugins
from flows.studies.find_study import STUDIES, find_study
from tasks.errors import SpecError
from tasks.own_table.analyst_table import AnalystTable, fitted_columns
from tasks.own_table.formula import expand_formula, expand_group_numbers
from tasks.size_rules import RuleError, evaluate_rule, whole
from tasks.study.study_file import load_study
from tests.builders import declared_column, people, refusals, refused, visits, words
from tests.tasks.analyst_tables import advice_of, computed, edited, initialized
from tests.tasks.blocks import STEPS, made_problem

TABLES = tomllib.loads(Path(__file__).with_name("study_files.toml").read_text())


def rows_of(*studies):
    """Return (study, a line of it, what stands in its place, words of the refusal) for each row of a table."""
    lines = [(study, old, rows) for study in studies for old, rows in TABLES[study].items()]
    return [(study, old, new, named) for study, old, rows in lines for new, *named in rows]


FILES = rows_of(*(name for name in TABLES if " " not in name))  # the others are of made-up tables


@pytest.mark.parametrize(("study", "old", "new", "named"), FILES)
def test_a_wrong_line_of_a_study_is_refused_by_its_key(tmp_path, study, old, new, named):
    text = (STEPS if study == "steps" else STUDIES / f"{study}.toml").read_text()
    (tmp_path / "mine.toml").write_text(text)
    edited(tmp_path / "mine.toml", old, new)
    refused(lambda: find_study(str(tmp_path / "mine.toml")), ValueError, *named)


def test_a_study_that_an_editor_saved_with_a_byte_order_mark_is_read(tmp_path):
    content = (STUDIES / "housing.toml").read_text().replace("\n", "\r\n")
    (tmp_path / "mine.toml").write_bytes(content.encode("utf-8-sig"))
    assert find_study(str(tmp_path / "mine.toml")).title == find_study("housing").title


BOUNDS = {"age": (0, 120), "dose": (-2, 2), "cost": (-5000, 10000)}
VISITS = visits()[["patient", "dose"]]
CATEGORIES = {"region": ["north", "south", "west"], "smoker": ["no", "yes"]}
GUESSES = "\n[guesses]\nsource = 'common knowledge'\n"


@pytest.fixture
def study(tmp_path, home):
    """A function that completes the study of a made-up table, and changes a line of it."""

    def made(old="", new="", table=None, **options):
        table = people(60).drop(columns="person") if table is None else table
        return edited(initialized(tmp_path, table, bounds=BOUNDS, categories=CATEGORIES, **options), old, new)

    return made


IDS = {
    "without an id": lambda ids: ids.where(ids != "p007"),
    "mixes numbers with text": lambda ids: ids.where(ids != "p007", "17"),
    "fractions": lambda ids: ids.str[1:].astype(float) + 0.5,
    "2^53": lambda ids: "9" + ids.str[1:] + "0" * 16,
}


@pytest.mark.parametrize(("_", "old", "new", "named"), rows_of("a table of users"))
def test_a_wrong_declaration_of_users_is_refused_by_its_key(study, tmp_path, _, old, new, named):
    file = study(old, new, VISITS, user_id="patient")
    use = (lambda: computed(file, tmp_path)) if new == "users = 61" else lambda: find_study(file)
    refused(use, (DataError, SpecError), *named)


@pytest.mark.parametrize(("_", "old", "new", "named"), rows_of("a table of weights"))
def test_a_wrong_declaration_of_weights_is_refused_by_its_key(study, tmp_path, _, old, new, named):
    table = people(60)[["age", "cost"]].assign(dose=1.5)
    file = study(old, new, table, response="cost", weights="dose")
    use = (lambda: computed(file, tmp_path)) if "nowhere" in new else lambda: find_study(file)
    refused(use, (DataError, SpecError), *named)


def test_a_column_of_clusters_has_to_be_in_the_file(study, tmp_path, command_line):
    file = study('clusters = "none"', 'clusters = "zzz"')
    refused(lambda: computed(file, tmp_path), DataError, "'zzz'", "data.clusters")
    status, _, said = command_line("check", file)
    assert status == 2
    assert "'zzz'" in said


@pytest.mark.parametrize("named", IDS)
def test_missing_or_mixed_ids_are_refused_without_showing_one(study, tmp_path, named):
    file = study(table=VISITS, user_id="patient")
    VISITS.assign(patient=IDS[named](VISITS["patient"])).to_csv(tmp_path / "table.csv", index=False)
    said = refused(lambda: computed(file, tmp_path), DataError, named)
    assert "p00" not in said.split("table.csv")[1]


@pytest.mark.parametrize(("_", "old", "text", "named"), rows_of("guesses of a table"))
def test_a_wrong_guess_is_refused_by_its_key(study, _, old, text, named):
    file = study(response="cost")
    refused(lambda: advice_of(file, GUESSES + text + "\n"), SpecError, *named)


LOWER = {"age": 18, "cost": 0, "weight": 0}
COLUMNS = [declared_column(name, lower=low, upper=90, source="law") for name, low in LOWER.items()]
TABLE = AnalystTable(path="people.csv", rows=100, privacy_unit="a row", columns=tuple(COLUMNS))
ARM = declared_column("arm", categories=("a", "b"), source="law")
NUMBER = declared_column("n", lower=0, upper=9, source="law")
OF_ARMS = TABLE.model_copy(update={"columns": (ARM, NUMBER)})
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
FRAMES = {"kind": "train_test_split", "dataset": "swarm", "family": "logistic", "units": "public"}
ORDERED = {"features": "order parameters"}
HOUSES = {"dataset": "housing", "family": "", "response": "median_house_value", "covariates": ("latitude",)}
ROWS = [
    (SpecError, "intercept", lambda: expand_formula("cost ~ 0 + age", TABLE)),
    (SpecError, "response", lambda: expand_formula("~ age", TABLE)),
    (SpecError, ("'n, a'", "rename"), lambda: expand_group_numbers("table1", "arm ~ n", OF_ARMS)),
    (ValueError, ("bounds", "1e-61"), lambda: fitted_columns(declared_column("dose", lower=0, upper=1e-61))),
    (SpecError, "log(weight)", lambda: expand_formula("cost ~ log(weight)", TABLE)),
    (SpecError, "'height'", lambda: expand_formula("cost ~ height", TABLE)),
    (SpecError, "mean", lambda: expand_formula("cost ~ mean(age)", TABLE)),
    (SpecError, "linear combination", lambda: expand_formula("cost ~ age + I(age - 1)", TABLE)),
    (ValueError, "'logistic'", lambda: REGRESSION.model_copy(update={"family": "logistic"}).check(200, "glm")),
    (ValueError, "'swarm'", lambda: REGRESSION.model_copy(update={"dataset": "swarm"}).check_data(200)),
    (ValueError, "20,640", lambda: REGRESSION.check_data(20_640)),
    (ValueError, ("unit", "'simulation'"), lambda: made_problem(**FRAMES, unit="simulation").check(9, "glm")),
    (
        ValueError,
        "features",
        lambda: made_problem(**FRAMES | ORDERED | {"units": "standardized"}).check(9, "glm"),
    ),
    (ValueError, "features", lambda: made_problem(**FRAMES | ORDERED | HOUSES).check(9, "linear_regression")),
    (ValueError, ("grid.n", "6"), lambda: MAP.check(6, "mean")),
    (ValueError, "family", lambda: MAP.model_copy(update={"family": "logistic"}).check(5, "glm")),
    (ValueError, "50", lambda: find_study("survival").head_panel.problem.check(50, "glm")),
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
        AnalystTable(
            path="t.csv", rows=9, privacy_unit="a row", columns=[{"name": "g", "source": "law", **texts}]
        )


def test_codes_that_double_precision_does_not_tell_apart_are_refused():
    column = {"name": "g", "source": "law", "categories": ["7", str(2**53 - 1), "other"]}
    AnalystTable(path="t.csv", rows=9, privacy_unit="a row", columns=[column])
    column["categories"][1] = str(2**53 + 1)
    with pytest.raises(ValueError, match=str(2**53 + 1)):
        AnalystTable(path="t.csv", rows=9, privacy_unit="a row", columns=[column])


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
