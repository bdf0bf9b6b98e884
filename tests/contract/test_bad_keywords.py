"""Keywords that an estimator cannot take, and bounds at which arithmetic fails, are refused by name."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.events import Gaussian
from dpalgos.accounting.other_events import Laplace, Selection, Sketch
from dpalgos.comparators.gram import release_sketch
from dpalgos.core.spend import Spend
from dpalgos.mechanisms.sensitivity import Bounded, count
from dpalgos.release.noise_source import Noise
from tests.builders import refused
from tests.contract.forms import EVERY, IDS, PRIVATE, answered, keywords, response, whose

FORMS = {form.label: form for form, _ in EVERY}
LEFT_OUT = object()
ONES, RADIUS = np.ones((9, 3)), {"mean_bound": None, "std_bounds": None}
CLASSES = {"family": "multinomial", "n_classes": 3}
REFUSED = tomllib.loads(Path(__file__).with_name("keywords.toml").read_text())
# Values that a form refuses next to other settings, by keyword: those that TOML can't hold
ROWS = [
    *((form, {}, bad) for form, bad in REFUSED["alone"].items()),
    *REFUSED["beside"]["rows"],
    ("dp_mean", {}, {"user_ids": [[0] * 20]}),
    ("public_axes_mean", {}, {"public_X": [np.ones((9, 2)), None, ONES], "public_groups": [[0.5] * 200]}),
    ("private_frank_wolfe_lasso", {}, {"covariate_bound": [None], "response_bound": [None]}),
    ("dp_sparse_glm", {}, {"n_iterations": [10**400]}),
    ("ldp_nldp", {}, {"response_bound": [None]}),
    ("ldp_nldp_public", {}, {"public_X": [np.ones((9, 2)), np.nan * ONES, ONES[:0], ONES[0]]}),
    ("ldp_iht", {}, {"sparsity": [LEFT_OUT]}),
    ("user_level_selection", {}, {"candidates": [np.ones(3), np.eye(2)]}),
    ("clipped_mean", RADIUS, {"center": [None, 0.0]}),
    ("clipped_mean", {**RADIUS, "clip_norm": 1.0}, {"center": [(0.0, 1.0), np.nan, "zero"]}),
    ("clipped_mean", {**RADIUS, "clip_norm": 1.0}, {"center": [1e31, -1e31, np.inf, 10**400]}),
    ("clipped_mean", {**RADIUS, "center": 0.0}, {"clip_norm": [0]}),
    ("dp_glm", {"family": "poisson"}, {"response_bound": [None]}),
    ("preconditioned_glm", {**CLASSES, "response_bound": LEFT_OUT}, {"interval": [0.95]}),
    ("binned_fit", {"family": "gaussian"}, {"residual_bound": [None]}),
    ("ldp_nldp", {"response_bound": None}, {"response_moment": [(2.0, 1.0)]}),
    ("user_level_mean: group privacy", {}, {"samples_per_user": [None]}),
]
CASES = [
    pytest.param(form, {**others, name: tuple(value) if isinstance(value, list) else value}, name)
    for form, others, bad in ROWS
    for name, values in bad.items()
    for value in values
]


@pytest.mark.parametrize(("form", "changes", "name"), CASES)
def test_bad_keywords_are_refused_by_name(form, changes, name):
    estimator, rng = FORMS[form], np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (20, 3)), rng.uniform(-1, 1, 20)
    calibration = estimator.calibrations[0] if estimator.private else None
    asked = {"user_ids": whose(estimator, 20), **keywords(estimator, calibration), **changes}
    asked = {name: value for name, value in asked.items() if value is not LEFT_OUT}
    with pytest.raises(dpalgos.InputError, match=rf"\b{name}\b"):
        dpalgos.estimate(estimator.name, X, response(estimator, y), rng=rng, **asked)


private = pytest.mark.parametrize(("estimator", "calibration"), PRIVATE, **IDS)


def bounds_of(estimator):
    ends = ("_bound", "_norm", "_bounds", "_second_moment")
    return [name for name in estimator.example if name.endswith(ends)]


def answer(estimator, calibration, changes):
    X = np.random.default_rng(1).uniform(-1, 1, (30, 3))
    return answered(estimator, calibration, X, X[:, 0], **{"user_ids": None, **changes})


def scaled(value, magnitude):
    return (magnitude, magnitude) if isinstance(value, tuple) else magnitude


@pytest.mark.parametrize("estimator", [e for e in dpalgos.catalog() if e.private], **IDS)
def test_absurd_bounds_are_refused_by_name(estimator):
    forms = {name: form for form in estimator.variants for name in bounds_of(form)}
    if not forms:
        pytest.skip("has no bounds")
    for name, form in forms.items():
        for magnitude in (1e-320, 1e-170, 1e-31, 1e31, 1e170, 10**400):
            with pytest.raises(dpalgos.InputError, match=name):
                answer(form, form.calibrations[0], {name: scaled(form.example[name], magnitude)})


@private
@pytest.mark.parametrize("magnitude", [1e-30, 1e30])
def test_noise_covers_bounds_at_the_edge_of_what_is_allowed(estimator, calibration, magnitude):
    names = bounds_of(estimator)
    if not names:
        pytest.skip("has no bounds")
    changes = {name: scaled(estimator.example[name], magnitude) for name in names}
    for chosen in [changes, *({name: changes[name]} for name in names)]:
        try:
            result = answer(estimator, calibration, chosen)
        except dpalgos.InputError:  # in words, too
            continue
        assert np.isfinite(result.estimate).all()
        for event in result.events:
            if isinstance(event, Gaussian):
                assert np.min(event.noise_multiplier * event.sensitivity) > 1e-200


@pytest.mark.parametrize("scale", [0.0, 5e-324, 1e-310, -1.0, np.inf, np.nan])
def test_what_no_noise_can_cover_is_refused_and_not_charged(scale):
    one, spend = np.ones(1), Spend(Noise([np.random.default_rng(0)]))

    def released(slot, sensitivity):
        spend.start({"v": slot}, {"v": (count,)})
        spend("v", Bounded(one, sensitivity, count.formula))

    def chosen(slot, sensitivity):
        spend.start({"v": slot}, {"v": (count,)})
        spend.choose("v", Bounded(one, sensitivity, count.formula))

    def sketched(slot, bound_squared):
        spend.start({"v": slot}, {})
        release_sketch(spend, "v", np.eye(1), bound_squared, added=np.ones(1))

    calls = (
        lambda: released(Gaussian(1.0), scale),
        lambda: released(Gaussian(scale), 1.0),
        lambda: released(Gaussian(1.0), np.array([scale])),
        lambda: released(Laplace(1.0), scale),
        lambda: released(Laplace(scale), 1.0),
        lambda: chosen(Selection(1.0), scale),
        lambda: sketched(Sketch(1, 1.0), scale),
    )
    for call in calls:
        refused(call, dpalgos.InputError, "of the release 'v'")
    with pytest.raises(dpalgos.InputError, match="noise scale"):  # which underflows
        released(Gaussian(1e-200), 1e-200)
    assert not spend.record.events
