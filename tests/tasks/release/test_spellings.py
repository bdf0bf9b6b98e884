"""Spellings of questions: each is the stored result at no cost."""

import numpy as np
import pytest

import tasks.release.release
from data.ledger import Ledger
from tests.dpalgos.test_group_tables import PUBLIC, trial
from tests.tasks.analyst_tables import drawn_from_a_seed, edited, initialized, release

BOUNDS = {"time": (0, 5), "died": (0, 1), "age": (40, 80)}
BUDGET = {"epsilon": 1e3, "delta": 1e-6}
COLUMNS = '[columns]\nx = ["age", "died"]\ny = "time"\n'
QUESTIONS = {
    "columns": ("preconditioned_regression", "", COLUMNS),
    "table1": ("group_sums", 'table1 = "arm ~ age + stage"\n', ""),
    "survival": ("cumulative_counts", 'survival = "Surv(time, died) ~ arm"\n', ""),
    "hazard": ("preconditioned_glm", 'formula = "Surv(time, died) ~ arm + age"\n', ""),
    "formula": ("preconditioned_regression", 'formula = "time ~ age + stage"\n', ""),
}
MISSING = 'missing = "refuse"'
POINT, QUOTE = ((MISSING, f"{MISSING}\n{mark}") for mark in ('decimal = "."', 'thousands = "\'"'))
CUTS = np.linspace(0, 5, 17).tolist()
PERIODS = ('name = "time"', f'name = "time"\nperiods = {CUTS}')
AGE = 'name = "age"'
CODES = f'{AGE}\nmissing = ["-7", "99"]\n'
STAGES = "categories = ['I', 'II', 'III']"


def levels(text):
    return f"levels = {{ I = {text}, II = ['two'], III = [] }}"


# Changes of a study before the first release: missing cells, and several spellings of a level.
EDGES = [(AGE, f"{CODES}impute = 50"), (STAGES, levels("['one', '1']"))]
SAME_EDGES = [
    ("formula", [("impute = 50", "impute = 5e1")], []),
    ("formula", [('["-7", "99"]', '["99", "-7.0", "NA"]')], []),
    ("formula", [(levels("['one', '1']"), levels("['1.0', 'one', 'I']"))], []),
    ("formula", [("upper = 80", "upper = 8e1")], [("age + stage", "0 + 1 + age + stage - 0")]),
    ("formula", [], [("age + stage", "C( stage ) + age")]),
    (
        "columns",
        [(levels("['one', '1']"), levels("['01', 'one']"))],
        [('["age", "died"]', '["died", "age"]')],
    ),
    ("table1", [("impute = 50", "impute = 51")], []),
    ("table1", [("impute = 50", "")], []),
    ("table1", [('["-7", "99"]', '["99", "-7"]')], [("age + stage", "(stage + age) + age")]),
    ("hazard", [], [("arm + age", "age + C(arm)")]),
    ("survival", [("impute = 50", "impute = 51")], [("~ arm", "~ 0 + arm")]),
]
# The kind of question, changes of its study, and of its release file
SPELLINGS = [
    ("columns", [], [('["age", "died"]', '["died", "age"]')]),
    ("columns", [POINT], []),
    ("columns", [QUOTE], []),
    ("columns", [POINT], [('["age", "died"]', '["died", "age"]')]),
    ("columns", [], [("[params]", '[params]\ninterval_target = "robust"')]),
    ("columns", [], [("[params]", '[params]\nperson_weight = "equal"')]),
    ("columns", [("upper = 80", "upper = 80.0")], []),
    ("table1", [], [("age + stage", "stage + age")]),
    ("table1", [], [("age + stage", "stage+`age`")]),
    ("table1", [], [("arm ~ age", "Q('arm') ~ age")]),
    ("table1", [POINT], [("age + stage", "stage + age")]),
    ("table1", [PERIODS], []),
    ("survival", [PERIODS], []),
    ("survival", [], [("(time, died)", "( time,died )")]),
    ("table1", [(AGE, f"{AGE}\nresolution = 1.0")], []),
    ("survival", [PERIODS, QUOTE], [("~ arm", "~`arm`")]),
    ("hazard", [], [("arm + age", "age + arm")]),
    ("hazard", [], [("arm + age", "1 + arm  + age")]),
    ("formula", [POINT], []),
    ("formula", [], [("age + stage", "stage + age")]),
    ("formula", [], [("time ~ age", "`time` ~ 1 + age")]),
    ("formula", [], [("time ~ age + stage", "Q('time') ~ C(stage) + Q('age')")]),
]


def asked(ledger, folder, kind, study, config):
    estimator, head, columns = QUESTIONS[kind]
    file = folder / "mine.toml"
    if not file.exists():
        initialized(folder, trial(600).round(6), bounds=BOUNDS, categories=PUBLIC["levels"])
    for old, new in study:
        edited(file, old, new)
    path = folder / "release.toml"
    path.write_text(f'{head}[dataset]\nname = "trial"\nstudy = "mine.toml"\n{columns}[params]\n')
    for old, new in config:
        edited(path, old, new)
    return release(ledger, estimator, folder / "table.csv", path, **BUDGET)


@pytest.mark.parametrize(
    ("kind", "before", "study", "config"),
    [(kind, [], *changes) for kind, *changes in SPELLINGS]
    + [(kind, EDGES, *changes) for kind, *changes in SAME_EDGES],
)
def test_a_question_in_another_spelling_is_replayed_or_refused(
    tmp_path, monkeypatch, kind, before, study, config
):
    monkeypatch.setattr(tasks.release.release, "draw_release", drawn_from_a_seed)
    ledger = Ledger(tmp_path / "home")
    ledger.open_dataset("trial", 1e7, 1e-3)
    first = asked(ledger, tmp_path, kind, before, [])
    second = asked(ledger, tmp_path, kind, study, config)
    assert second.replayed
    assert second.estimate == first.estimate
    assert len(ledger.account("trial").charges) == 1


# Pairs of right sides that are one model, and then pairs that are two
SAME = [
    ("log(age)", "np.log(age)"),
    ("age + x", "x + age"),
    ("stage", "C(stage)"),
    ("age + x + I(age*x)", "age + x + age:x"),
    ("age*x", "age + x + x:age"),
    ("I(age)", "age"),
    ("age + I(age**2)", "age + I(age*age)"),
    ("I(age + x)", "I(x + age)"),
    ("stage", "C(stage, Treatment('I'))"),
    ("stage*x", "x*stage"),
    ("stage*arm", "arm + stage + arm:stage"),
    ("I(2*x)", "I(x*2)"),
    ("I(x/age)", "I(x * age**-1)"),
    ("bs(age, df=4)", "bs(age, 4)"),
    ("I(age - 0)", "age"),
    ("age + I(age^2)", "I(age**2) + age"),
]
OTHER = [
    ("I(-age)", "age"),
    ("stage", "C(stage, Treatment('II'))"),
    ("log(age)", "log2(age)"),
    ("age + x", "age*x"),
    ("I(2*x)", "x"),
    ("bs(age, df=4)", "bs(age, df=5)"),
    ("I(age + 1)", "age"),
]


@pytest.mark.parametrize(
    ("pair", "is_same"), [(each, True) for each in SAME] + [(each, False) for each in OTHER]
)
def test_two_formulas_are_one_question_if_and_only_if_their_columns_are_equal(
    tmp_path, monkeypatch, pair, is_same
):
    monkeypatch.setattr(tasks.release.release, "draw_release", drawn_from_a_seed)
    ledger = Ledger(tmp_path / "home")
    ledger.open_dataset("trial", 1e7, 1e-3)
    table = trial(600).round(6)
    table["x"] = np.random.default_rng(2).uniform(0, 1, len(table)).round(6)
    bounds = {**BOUNDS, "x": (0, 1)}
    initialized(tmp_path, table, bounds=bounds, categories=PUBLIC["levels"])
    found = []
    for right in pair:
        config = tmp_path / "release.toml"
        config.write_text(f'formula = "time ~ {right}"\n[dataset]\nname = "trial"\nstudy = "mine.toml"\n')
        found.append(release(ledger, "preconditioned_regression", tmp_path / "table.csv", config, **BUDGET))
    one, other = found
    assert (one.estimate == other.estimate) == other.replayed == is_same
    assert len(other.account.charges) == 2 - is_same
    assert one.plan.request.formula in (other.plan.request.formula, f"time ~ {pair[0]}")
