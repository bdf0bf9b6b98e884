"""As ε → ∞ it is the classical answer: three laws of every public question.

Each public answer equals its reference, or there is no interval, a caution, or a refusal. A failure prints
the shortest recipe that breaks a law. ``pytest tests/oracle -m slow`` tries more recipes, new ones each time.
"""

import inspect
import tomllib
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import dpalgos.sklearn
from dpalgos import formula
from dpalgos.catalog import catalog
from dpalgos.formula.columns import DECLARATIONS
from dpalgos.models.families import family_names
from tests.oracle import columns, doors
from tests.oracle.changes import CHANGED, changed_faults
from tests.oracle.doors import asked
from tests.oracle.laws import classical_faults, moderate_faults
from tests.oracle.recipes import FIELDS, Recipe, recipes, singles

DOORS = doors.DOORS | columns.DOORS
KNOWN = tomllib.loads(Path(__file__).with_name("known.toml").read_text())["known"]
BASE = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=True)
FAST = settings(BASE, derandomize=True)
LAWS = {
    "classical": lambda door, recipe: classical_faults(asked(DOORS[door][0], recipe)),
    "moderate": lambda door, recipe: moderate_faults(DOORS[door][0], recipe),
    "changed": changed_faults,
}
EXAMPLES = {"classical": (10, 150), "moderate": (0, 20), "changed": (2, 40)}  # of a door: fast, and slow
CASES = [(law, door) for law in LAWS for door in (CHANGED if law == "changed" else DOORS)]
LARGE = (16_000, 60_000)  # clipping shows there
NO_INTERVAL, TYPE = "it has no interval", "a type"
PUBLIC = {  # each public name, and the field of recipes or the door that asks it, or why none does
    **{"bounds": "bounds", "levels": "g", "center": "units", "scale": "units", "impute": "missing"},
    **{"user": "people", "weights": "weights", "interval": "each door", "random_state": "each door"},
    **{"periods": "times", "resolution": "times", "events": "entry"},
    **{"gaussian": "ols", "logistic": "logit", "poisson": "poisson", "multinomial": NO_INTERVAL},
    **{"DPBoundedMean": "means", "DPMean": "means", "DPMultinomialRegression": NO_INTERVAL},
    **{"DPSparseLinearRegression": NO_INTERVAL, "DPSparseMean": NO_INTERVAL, "PublicScaler": TYPE},
    **{
        "FormulaResult": TYPE,
        "SurvivalResult": TYPE,
        "user_level_mean": "it needs persons of equally many rows",
    },
}


@cache
def faults(law, door, recipe):
    return LAWS[law](door, recipe)


def is_listed(law, door, recipe, kind, entry):
    of_it = entry["law"] == law and door in entry["doors"] and kind in entry["kinds"]
    return of_it and all(getattr(recipe, name) == value for name, value in entry["recipe"].items())


def check(law, door, recipe):
    """Fail with the faults that known.toml does not list with their reason."""
    found = faults(law, door, recipe)
    listed = {kind for kind in found for entry in KNOWN if is_listed(law, door, recipe, kind, entry)}
    assert {kind: text for kind, text in found.items() if kind not in listed} == {}


@pytest.mark.parametrize(("law", "door"), CASES)
def test_answers_obey_the_law(law, door):
    phases = [Phase.explicit, *[Phase.generate] * bool(EXAMPLES[law][0])]

    @settings(FAST, max_examples=EXAMPLES[law][0] or 1, phases=phases)
    @given(recipes(*DOORS[door][1], most=2))
    @example(Recipe())
    def obeyed(recipe):
        check(law, door, recipe)

    obeyed()


@pytest.mark.slow
@pytest.mark.parametrize(("law", "door"), CASES)
def test_more_answers_obey_the_law(law, door):
    sizes = FIELDS["n"] if law == "moderate" else (*FIELDS["n"], *LARGE)

    @settings(BASE, max_examples=EXAMPLES[law][1])
    @given(
        st.one_of(st.sampled_from(singles(*DOORS[door][1])), recipes(*DOORS[door][1], most=4, sizes=sizes))
    )
    def obeyed(recipe):
        check(law, door, recipe)

    obeyed()


FOUND = [  # recipes that once failed
    ("poisson", Recipe(seed=785, counts="large", bounds="×10", weights="steep")),
    ("logit", Recipe(n=2000, seed=842, events="separated", units="centered", order="sorted")),
]


@pytest.mark.parametrize(("door", "recipe"), FOUND, ids=str)
def test_a_fault_that_a_law_found_stays_mended(door, recipe):
    check("classical", door, recipe)


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_each_oddity_alone_obeys_the_first_law(door):
    found = {str(each): faults("classical", door, each) for each in singles(*DOORS[door][1])}
    for each in singles(*DOORS[door][1]):
        check("classical", door, each)
    assert found


@pytest.mark.parametrize("entry", KNOWN, ids=lambda entry: entry["why"])
def test_a_known_fault_still_fails(entry):
    recipe = Recipe(**entry["recipe"] | entry.get("also", {}))
    missing = [
        door for door in entry["doors"] if not set(faults(entry["law"], door, recipe)) & {*entry["kinds"]}
    ]
    assert missing == []


def test_each_public_name_has_a_recipe():
    asks = {*formula.__all__, *dpalgos.sklearn.__all__, *family_names(), *DECLARATIONS}
    for name in ("ols", "phreg", "survival", "table_one"):
        parameters = inspect.signature(getattr(formula, name)).parameters.values()
        asks |= {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    parameters = inspect.signature(formula.fit.fit_design).parameters.values()
    asks |= {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    with_intervals = [
        each for each in catalog() if each.private and each.task == "mean" and not each.no_interval
    ]
    asks |= {each.name for each in with_intervals}
    known = {*DOORS, *columns.MEANS, *columns.REGRESSIONS, *PUBLIC}
    assert asks - known == set()
    assert {*PUBLIC} - asks == set()
    used = {field for _, fields in DOORS.values() for field in fields}
    assert {*FIELDS} - used == {"n", "seed"}
