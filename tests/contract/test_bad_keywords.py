"""Keywords that an estimator cannot take, and bounds at which arithmetic fails, are refused by name."""

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.events import GaussianEvent, GaussianSketchEvent, PureEvent
from dpalgos.release.noise_source import Noise
from dpalgos.release.transcript import Transcript
from tests.builders import refused
from tests.contract.forms import EVERY, IDS, PRIVATE, answered, keywords, response, whose

FORMS = {form.label: form for form, _ in EVERY}
LEFT_OUT = object()
PAPER = {"calibration": "paper"}
QUANTILES = {"truncation": "private_quantiles"}
PAIR = "std_bounds must be a pair"
EITHER = "needs either center and clip_norm"
CLASSES = {"family": "multinomial", "n_classes": 3, "response_bound": None}
INTERVAL = {"interval": 0.95}
RADIUS = {"mean_bound": None, "std_bounds": None}

BAD = [
    # Means
    ("sparse_sample_mean", {"sparsity": 5}, "sparsity must be a whole number from 1 to 3"),
    ("dp_sparse_mean", {"sparsity": 0}, "sparsity must be a whole number"),
    ("dp_sparse_mean", {"sparsity": 21}, "sparsity must be a whole number from 1 to 3"),
    ("dp_sparse_mean", {"sparsity_choice": "bic"}, "sparsity_choice must be one of"),
    ("dp_sparse_mean", {"sparsity_choice": "holdout", **PAPER}, "sparsity_choice must not be 'holdout'"),
    ("dp_sparse_mean", {"sparsity_choice": "printed_cross_validation"}, "sparsity_choice must not be"),
    ("dp_mean", {"truncation": "percentiles"}, "truncation must be one of"),
    *[("dp_sparse_mean", {"sparsity_share": x}, "sparsity_share") for x in (0, 1, np.nan, "0.1", True, None)],
    ("box_mean", {"upper": -1.0}, "lower must be below upper in every column"),
    ("box_mean", {"lower": (0.0, 1.0), "upper": (1.0, 2.0, 3.0)}, "lower must be below upper"),
    ("box_mean", {"lower": np.nan}, "lower must be a public finite number"),
    ("box_mean", {"lower": (0.0, 0.5)}, r"lower must be a number or one per column \(3\), got 2"),
    ("clipped_mean", RADIUS, EITHER),
    ("clipped_mean", {**RADIUS, "center": 0.0}, EITHER),
    ("clipped_mean", {"center": 0.0, "clip_norm": 1.0}, EITHER),
    ("clipped_mean", {**RADIUS, "center": [0.0, 1.0], "clip_norm": 1.0}, "center must be a number or one"),
    *[
        ("clipped_mean", {**RADIUS, "center": bad, "clip_norm": 1.0}, "center must")
        for bad in (np.nan, "zero", 1e31, -1e31, np.inf, 10**400)
    ],
    ("clipped_mean", {**RADIUS, "center": 0.0, "clip_norm": 0}, "clip_norm must be a positive"),
    ("clipped_mean", {"std_bounds": (2.0, 1.0)}, PAIR),
    ("clipped_mean", {"std_bounds": 1.0}, PAIR),
    # Regressions
    ("dp_linear_regression", {"residual_bound": 1.0, **PAPER}, "residual_bound must be None"),
    ("dp_linear_regression: residual-clipped", QUANTILES, "truncation must be 'bound'"),
    ("dp_linear_regression", {**QUANTILES, **PAPER}, "truncation must be"),
    ("dp_sparse_linear_regression", {"residual_bound": 1.0, **PAPER}, "residual_bound must be None"),
    ("sheffet_ols", {"n_sketch_rows": 2}, "n_sketch_rows must be at least the columns"),
    ("sheffet_ols", {"n_sketch_rows": 10**10}, "n_sketch_rows must be a whole number from 1 to 1000000"),
    ("dp_sparse_glm", {"n_iterations": 10**400}, "n_iterations must be a whole number from 1 to 1000000"),
    ("private_frank_wolfe_lasso", {"covariate_bound": None}, "covariate_bound must be given"),
    ("private_frank_wolfe_lasso", {"response_bound": None}, "response_bound must be given"),
    # Generalized linear models
    ("glm", {"family": "probit"}, "family must be one of"),
    ("glm", {"family": "multinomial"}, "n_classes is needed"),
    ("glm", {"family": "multinomial", "n_classes": 1}, "n_classes must be a whole number of at least 2"),
    ("glm", {"n_classes": 3}, "n_classes must be None for family='gaussian'"),
    ("iht_glm", {"sparsity": 9}, "sparsity must be a whole number from 1 to 3"),
    ("dp_glm", {"family": "poisson", "response_bound": None}, "response_bound is needed"),
    ("dp_glm", {"family": "logistic"}, "response_bound must be None"),
    ("objective_perturbation_glm", {"family": "multinomial"}, "family must be one of"),
    ("objective_perturbation_glm", {"family": "poisson"}, "family must be one of"),
    ("dp_sparse_glm", {"family": "multinomial"}, "family must be one of"),
    ("screened_sparse_glm", {"family": "probit"}, "family must be one of"),
    ("dp_sparse_glm", {"sparsity": 9}, "sparsity must be a whole number from 1 to 3"),
    ("screened_sparse_glm", {"n_averaged": 9}, "n_averaged must be at most n_iterations"),
    ("screened_sparse_glm", {"selection_share": 1.0}, "selection_share must lie strictly between"),
    ("preconditioned_glm", {"family": "poisson", "response_bound": 3.0}, "response_bound"),
    ("binned_fit", {"coef": (0.5, 1.0)}, "coef must"),
    ("binned_fit", {"coef": "released"}, "coef must"),
    ("binned_fit", {"family": "gaussian", "residual_bound": None}, "residual_bound must"),
    ("binned_fit", {"family": "logistic", "residual_bound": 4.0}, "residual_bound must"),
    ("binned_fit", {"family": "multinomial"}, "family must"),
    # Local privacy
    ("ldp_nldp", {"response_bound": None}, "response_moment must be given"),
    ("ldp_nldp", {"response_moment": (4.0, 1.0)}, "response_moment must be given"),
    ("ldp_nldp", {"response_bound": None, "response_moment": (2.0, 1.0)}, r"must be \(q, M\) with 2 < q"),
    *[
        ("ldp_nldp", {"covariance_eigenvalue_bounds": bad}, "covariance_eigenvalue_bounds must")
        for bad in ((0.0, 1.0), (-1.0, 1.0), (2.0, 1.0), 1.0)
    ],
    ("ldp_nldp", {"threshold": "hard"}, "threshold='hard' needs sparsity"),
    ("ldp_nldp", {"threshold": "harder"}, "threshold must be one of"),
    ("ldp_nldp", {"sparsity": 9}, "sparsity must be a whole number from 1 to 3"),
    ("ldp_nldp", {"mechanism": "laplace"}, "mechanism must be one of"),
    ("ldp_nldp", {"mechanism": "l2", **PAPER}, "mechanism must be 'auto' or 'gaussian'"),
    ("ldp_iht", {"sparsity": LEFT_OUT}, "sparsity"),
    ("ldp_iht", {"sparsity": 9}, "sparsity must be a whole number from 1 to 3"),
    ("ldp_iht", {"working_sparsity": 9}, "working_sparsity must be a whole number from 1 to 3"),
    ("ldp_iht", {"residual_bound": 1.0, **PAPER}, "residual_bound must be left out"),
    ("ldp_iht", {"mechanism": "privunit", **PAPER}, "mechanism must be 'auto' or 'l2'"),
    ("ldp_iht", {"mechanism": "gaussian"}, "mechanism must be one of"),
    ("ldp_iht", {"n_rounds": 50}, "n_rounds must be at most the number of rows"),
    ("ldp_nldp_public", {"public_X": np.ones((9, 2))}, "public_X must have the columns of X, 3, got 2"),
    ("ldp_nldp_public", {"public_X": np.full((9, 3), np.nan)}, "public_X must be finite"),
    ("ldp_nldp_public", {"public_X": np.ones((0, 3))}, "public_X must have at least one row"),
    ("ldp_nldp_public", {"public_X": np.ones(3)}, "public_X must have shape"),
    ("ldp_nldp_public", {"public_X": "rows"}, "public_X must hold numbers"),
    ("public_axes_mean", {"public_X": np.ones((9, 2))}, "public_X must have the columns of X, 3, got 2"),
    ("public_axes_mean", {"public_X": None}, "public_X must be given, got none"),
    ("public_axes_mean", {"public_X": np.ones((9, 3))}, "public_X must have rows or groups that differ"),
    ("public_axes_mean", {"public_groups": [0, 1]}, "public_groups must have one label per row"),
    ("public_axes_mean", {"public_groups": [0.5] * 200}, "public_groups must be one label per row"),
    # Users
    ("user_level_mean", {"concentration_radius": 0.0}, "concentration_radius must be a positive"),
    ("user_level_mean", {"samples_per_user": 0}, "samples_per_user must be a whole number"),
    ("user_level_mean", {"aggregation": "group_privacy"}, "which calibrated tightly is 'clipped'"),
    ("user_level_mean", {"aggregation": "group_privacy", **PAPER}, "samples_per_user is needed"),
    ("user_level_mean", {"range_failure": 0}, "range_failure must lie strictly between 0 and 1"),
    ("user_level_regression", {"loss": "absolute"}, "loss must be one of 'squared'"),
    ("user_level_selection", {"candidates": np.ones(3)}, "candidates must be at least two vectors"),
    ("user_level_selection", {"candidates": [[1.0, np.nan, 0], [0, 0, 0]]}, "candidates must be at least"),
    ("user_level_selection", {"candidates": np.eye(2)}, "candidates must have one number per column"),
    ("user_level_selection", {"miss_probability": 1.0}, "miss_probability must lie strictly between"),
    ("dp_mean", {"user_ids": [0] * 20}, "user_ids must be left out for dp_mean"),
    # Intervals
    *[("sample_mean", {"interval": bad}, "interval must be a confidence level") for bad in (0.0, 95, "0.95")],
    ("dp_mean", {**PAPER, **INTERVAL}, "interval must be None for calibration='paper'"),
    ("dp_mean: shrunk", INTERVAL, "interval must be None for a shrunk answer"),
    ("dp_mean: private quantiles", INTERVAL, "interval"),
    ("dp_linear_regression: residual-clipped", INTERVAL, "interval must be None where residuals are clipped"),
    ("preconditioned_glm", {**CLASSES, "response_bound": LEFT_OUT, **INTERVAL}, "interval must be None"),
    ("dp_glm", {**CLASSES, **INTERVAL}, "interval must be None for family='multinomial'"),
    ("objective_perturbation_glm", {"sparsity": 1, **INTERVAL}, "interval must be None"),
    ("user_level_regression", INTERVAL, "interval must be None for aggregation='winsorized'"),
    ("user_level_regression: interval", {"loss": "huber"}, "interval must be None for loss='huber'"),
    ("user_level_regression: interval", {"curvature_bound": None}, "curvature_bound is needed"),
    ("ldp_nldp", {"sparsity": 1, **INTERVAL}, "interval must be None where coefficients are selected"),
    ("dp_sparse_mean", INTERVAL, "interval must be left out"),
]


ids = {"ids": lambda value: value if isinstance(value, str) else ", ".join(value)}


@pytest.mark.parametrize(("form", "changes", "message"), BAD, **ids)
def test_bad_keywords_are_refused_by_name(form, changes, message):
    estimator, rng = FORMS[form], np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (20, 3)), rng.uniform(-1, 1, 20)
    calibration = estimator.calibrations[0] if estimator.private else None
    asked = {"user_ids": whose(estimator, 20), **keywords(estimator, calibration), **changes}
    asked = {name: value for name, value in asked.items() if value is not LEFT_OUT}
    with pytest.raises(dpalgos.InputError, match=message):
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
            if isinstance(event, GaussianEvent):
                assert np.min(event.noise_multiplier * event.l2_sensitivity) > 1e-200


@pytest.mark.parametrize("scale", [0.0, 5e-324, 1e-310, -1.0, np.inf, np.nan])
def test_a_transcript_refuses_what_no_noise_can_cover(scale):
    transcript = Transcript(Noise([np.random.default_rng(0)]))
    one = np.ones((1, 1))
    sketch = GaussianSketchEvent(label="v", n_rows=1, row_bound_squared=scale, ridge=1.0)
    calls = (
        lambda: transcript.gaussian(one, l2_sensitivity=scale, noise_multiplier=1.0, label="v"),
        lambda: transcript.gaussian(one, l2_sensitivity=1.0, noise_multiplier=scale, label="v"),
        lambda: transcript.gaussian(one, l2_sensitivity=np.array([scale]), noise_multiplier=1.0, label="v"),
        lambda: transcript.laplace(one, l1_sensitivity=scale, epsilon=1.0, label="v"),
        lambda: transcript.laplace(one, l1_sensitivity=1.0, epsilon=scale, label="v"),
        lambda: transcript.publish(one, lambda: one, PureEvent(label="v", epsilon=1.0, sensitivity=scale)),
        lambda: transcript.publish(one, lambda: one, sketch),
    )
    for call in calls:
        refused(call, dpalgos.InputError, "of the release 'v'")
    with pytest.raises(dpalgos.InputError, match="noise scale"):  # which underflows
        transcript.gaussian(one, l2_sensitivity=1e-200, noise_multiplier=1e-200, label="v")
    assert not transcript.events
