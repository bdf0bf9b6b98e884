"""Each planned release has a named sensitivity, and nothing else reaches an answer."""

import ast
import inspect
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.events import Relation
from dpalgos.api import build_params, run_estimator
from dpalgos.audit.trials import BatchNoise, RecordingSpend
from dpalgos.core.plans import quantity
from dpalgos.mechanisms import sensitivity
from dpalgos.rows.sample import Sample
from tests.contract.forms import (
    DRAWN,
    EVERY,
    FAMILIES,
    IDS,
    RELEASED_AT,
    SINGLE_EVENTS,
    STAGES,
    keywords,
    response,
    whose,
)

PRIVATE = [(estimator, calibration) for estimator, calibration in EVERY if estimator.private]
IN_FAMILIES = [(estimator, calibration) for estimator, calibration in FAMILIES if estimator.private]
each_estimator = pytest.mark.parametrize(
    "estimator", [one for one in dpalgos.catalog() if one.private], ids=lambda one: one.name
)
each_form = pytest.mark.parametrize(
    ("estimator", "calibration"), PRIVATE + IN_FAMILIES + SINGLE_EVENTS, **IDS
)


@each_form
def test_a_plan_names_a_lemma_for_each_release(estimator, calibration):
    plan = build_params(estimator, keywords(estimator, calibration)).plan(400, 3)
    labels = {quantity(label) for label in plan} | {form for slot in plan.values() for form in slot.forms}
    assert labels <= {one.label for one in estimator.releases}
    for one in estimator.releases:
        assert (one.lemma.__name__ in LEMMAS) or one.lemma.__name__.endswith("_sensitivity")


def kinds_of(estimator, calibration):
    return {
        type(slot) for slot in build_params(estimator, keywords(estimator, calibration)).plan(400, 3).values()
    }


def test_each_kind_of_slot_has_a_form_whose_noise_is_tested():
    tested = {kind for case in DRAWN for kind in kinds_of(*case)}
    assert {kind for case in PRIVATE for kind in kinds_of(*case)} <= tested


@pytest.mark.parametrize("estimator", RELEASED_AT, **IDS)
def test_all_that_is_released_before_the_steps_is_charged(estimator):
    of = build_params(estimator, keywords(estimator, "tight", delta=1e-6))
    events = of.events(400, 4)
    assert {event.label for event in events} >= RELEASED_AT[estimator]
    assert 0.999 * of.epsilon <= certified_epsilon(events, of.delta) <= of.epsilon


PACKAGE = Path(dpalgos.__file__).parent
ELSEWHERE = {"audit", "release", "accounting"}  # where nothing private is released
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__init__.py"]
MODULES = [path for path in MODULES if path.relative_to(PACKAGE).parts[0] not in ELSEWHERE]
NAMED = ("sensitivity", "row_bound_squared")
LEMMAS = {name for name, _ in inspect.getmembers(sensitivity, inspect.isfunction)}
each_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())


@cache
def tree_of(path):
    return ast.parse(Path(path).read_text())


def assigned(tree):
    """Map each name of a module to what it is assigned, in whatever function."""
    values = defaultdict(list)
    for node in ast.walk(tree):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            both = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            parts = zip(target.elts, node.value.elts, strict=True) if both else [(target, node.value)]
            for name, value in parts:
                values[getattr(name, "id", "")].append(value)
    return values


def called(node):
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "id", "") or getattr(node.func, "attr", "")


def comes_from_a_name(node, values):
    """Whether an expression is the value of a lemma or of ``…_sensitivity``, but for public factors."""
    if isinstance(node, ast.Call):
        if called(node) in ("plain_sensitivity", "float"):
            return comes_from_a_name(node.args[0], values)
        return called(node) in LEMMAS or called(node).endswith("_sensitivity")
    if isinstance(node, ast.Name) and node.id in values:
        return all(comes_from_a_name(value, values) for value in values[node.id])
    if isinstance(node, ast.Name | ast.Attribute):  # a parameter, or a field: its keyword is checked
        return getattr(node, "id", getattr(node, "attr", "")).endswith(NAMED)
    if isinstance(node, ast.BinOp):  # what rounding adds is a factor
        sides = (comes_from_a_name(side, values) for side in (node.left, node.right))
        return isinstance(node.op, ast.Mult) and any(sides)
    branches = (comes_from_a_name(getattr(node, part), values) for part in ("body", "orelse"))
    return isinstance(node, ast.IfExp) and all(branches)


def is_planned(call):
    label = next((one.value for one in call.keywords if one.arg == "label"), None)
    return called(call).endswith("Event") and isinstance(label, ast.Constant) and label.value == ""


def without_a_name(tree):
    values = assigned(tree)
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and not is_planned(node))
    keywords = (keyword for call in calls for keyword in call.keywords if keyword.arg in NAMED)
    return [ast.unparse(keyword) for keyword in keywords if not comes_from_a_name(keyword.value, values)]


@each_module
def test_every_release_takes_its_sensitivity_from_a_named_function(path):
    assert without_a_name(tree_of(path)) == []


@each_module
def test_sensitivity_functions_say_why(path):
    """A proof sketch: more than the name of what is returned."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef) and (node.name.endswith("_sensitivity") or node.name in LEMMAS):
            assert len(ast.get_docstring(node) or "") >= 60, node.name


@each_estimator
def test_no_estimator_turns_a_budget_into_noise_itself(estimator):
    calls = {called(node) for node in ast.walk(tree_of(sys.modules[estimator.module].__file__))}
    assert not calls & {"noise_multiplier", "concentrated_rho"}


FROM_RELEASES = [
    (e, c)
    for e, c in EVERY + FAMILIES + STAGES + SINGLE_EVENTS
    if e.relation in (Relation.CENTRAL, Relation.USER)
]


def plain(events):
    return [{key: np.asarray(value).tolist() for key, value in vars(event).items()} for event in events]


@pytest.mark.parametrize(("estimator", "calibration"), FROM_RELEASES, **IDS)
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_the_answer_is_made_of_the_releases(estimator, calibration, scale):
    # The second scale is of tables large enough that boxes are halved and several axes are taken.
    epsilon, n = (2.0, 60) if scale == 1 else (20.0, 300)
    epsilon, n = (epsilon, n) if "epsilon" not in estimator.example else (estimator.example["epsilon"], 400)
    params = build_params(estimator, keywords(estimator, calibration, epsilon=epsilon))
    rng, d, n_replicates = np.random.default_rng(0), 3, 4
    X = np.clip(rng.uniform(-1, 1, (n, d)) + 0.8, -1, 1)  # means that stand out from the noise
    ids = whose(estimator, n)
    recorded = RecordingSpend(BatchNoise(rng, n_replicates), estimator.relation)
    sample = Sample(X, response(estimator, X[:, 0]), n_replicates=n_replicates, user_ids=ids)
    answer = run_estimator(estimator, sample, params, recorded)

    rows, responses = scale * rng.standard_t(2, (n, d)), scale * rng.standard_t(2, n)
    other = Sample(rows, response(estimator, responses), n_replicates=n_replicates, user_ids=ids)
    replayed = RecordingSpend(BatchNoise(rng, n_replicates), estimator.relation, recorded.published)
    np.testing.assert_array_equal(run_estimator(estimator, other, params, replayed), answer)
    assert len(replayed.releases) == len(recorded.releases)
    # Sensitivities, hence noise scales, and whatever the run reports follow from the history too.
    assert plain(replayed.record.events) == plain(recorded.record.events)
    assert replayed.record.diagnostics.keys() == recorded.record.diagnostics.keys()
    for name, value in recorded.record.diagnostics.items():
        np.testing.assert_equal(replayed.record.diagnostics[name], value, err_msg=name)
    if recorded.record.interval is not None:
        pairs = [(recorded.record.interval, replayed.record.interval)]
        if recorded.record.interval.released:
            pairs.append([each.released.along(np.ones((2, d))) for each in pairs[0]])
        for one, other in pairs:
            for part in ("half_width", "center", "without_noise", "reasons"):
                np.testing.assert_equal(getattr(other, part), getattr(one, part), err_msg=part)
