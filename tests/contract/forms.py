"""The forms of estimators that the suites run over, and responses and user ids that suit each."""

from dataclasses import replace

import numpy as np

import dpalgos
from dpalgos.accounting.events import Relation
from dpalgos.api import build_params
from dpalgos.params import describe_keywords

IDS = {"ids": lambda value: getattr(value, "label", value)}
# Responses of a family, from numbers of any size; those that the family allows stay as they are.
_RESPONSES = {"logistic": lambda y: (y > 0).astype(float), "poisson": lambda y: np.round(np.abs(y))}
_RESPONSES |= {"multinomial": lambda y: np.minimum(np.round(np.abs(y)), 2)}
_CONSTANTS = {"logistic": {}, "multinomial": {"n_classes": 3}, "poisson": {"response_bound": 3.0}}


def keywords(estimator, calibration, **changes):
    budget = {"epsilon": 0.5, "delta": 1e-4, "calibration": calibration} if estimator.private else {}
    return {**budget, **estimator.example, **changes}


def response(estimator, y):
    of_family = _RESPONSES.get(estimator.example.get("family"), np.asarray)
    return None if estimator.task == "mean" else of_family(y)


def whose(estimator, n):
    """Ids of users of two rows each, where whole users are protected."""
    return np.arange(n) // 2 if estimator.relation is Relation.USER else None


def answered(estimator, calibration, X, y, seed=1, **options):
    asked = {"user_ids": whose(estimator, len(X)), **keywords(estimator, calibration), **options}
    rng = np.random.default_rng(seed)
    return dpalgos.estimate(estimator.name, X, response(estimator, y), rng=rng, **asked)


def in_other_families(estimator):
    for family, constants in _CONSTANTS.items():
        for form in estimator.variants:
            if estimator.task != "glm" or "interval" in form.example:
                continue
            known = {item["name"] for item in describe_keywords(form.parameters)}
            example = {**form.example, "family": family, "response_bound": None, **constants}
            example = {name: value for name, value in example.items() if name in known}
            try:
                build_params(form, keywords(form, form.calibrations[0] if form.private else None, **example))
            except dpalgos.InputError:  # the estimator has no such family
                continue
            yield replace(form, form=", ".join(filter(None, (form.form, family))), example=example)


def calibrated(forms):
    return [(e, c) for e in forms for c in e.calibrations or (None,)]


EVERY = calibrated(form for e in dpalgos.catalog() for form in e.variants)
FAMILIES = calibrated(form for e in dpalgos.catalog() for form in in_other_families(e))
PRIVATE = [(e, c) for e, c in EVERY + FAMILIES if e.private and e.protected]


def _with(name, **settings):
    estimator = dpalgos.get_estimator(name)
    shown = ", ".join(f"{key}={value}" for key, value in settings.items())
    return replace(estimator, form=shown, example={**estimator.example, **settings})


# Settings that change a sensitivity and are no form of their own; d = 3.
_WIDTHS = {"lower": (-1.0, 0.0, -40.0), "upper": (1.0, 0.5, 10.0)}
_OF_A_MEAN = {"value_bound": 1.5, "n_iterations": 4, "covariate_bound": None, "response_bound": None}
SETTINGS = calibrated(
    [
        *(_with("box_mean", **_WIDTHS, noise=noise) for noise in ("cubes", "gaussian")),
        _with("dp_sparse_glm", coef_bound=0.3),
        _with("screened_sparse_glm", clip_norm=9.0),
        *(_with("screened_sparse_regression", clip_norm=norm) for norm in (0.9, 50.0)),
        replace(_with("private_frank_wolfe_lasso", **_OF_A_MEAN), task="mean"),
    ]
)
_OTHERS = {"residual_bound": 0.8}, {"sparsity": 2}
SETTINGS += [(_with("dp_sparse_linear_regression", **setting), "tight") for setting in _OTHERS]


# Stages of preconditioned regressions that n and ε decide, of 400 rows: settings, and some of their releases
_CENTERS, _UNITS, _RESPONSE = "values above a candidate center", "values by power of two", "mean response"
_MEANS = "rows far from centers", "means about centers"
_OFFSET = {"family": "poisson", "offset_bounds": (-2.0, 1.0), "epsilon": 2.0}
_COUNTS, _EVENTS = ({"family": family, "intercept": True} for family in ("poisson", "logistic"))
_CLASSES = {"family": "multinomial", "n_classes": 3, "intercept": True}
OF_RESPONSES = [
    ({"epsilon": 8.0}, {_UNITS}),
    ({"epsilon": 2.0, "intercept": True}, {_CENTERS, _UNITS, *_MEANS}),
    ({"epsilon": 20.0, "intercept": True}, {_CENTERS, _UNITS, "means about centers"}),
    ({"epsilon": 20.0, "intercept": True, "interval": 0.95}, {_CENTERS}),
    ({"epsilon": 20.0, "interval": 0.95, "interval_target": "least squares"}, {"shares by size"}),
    ({"epsilon": 30.0}, set()),  # whitened again
]
OF_FAMILIES = [
    ({**_COUNTS, "epsilon": 20.0}, {*_MEANS, _RESPONSE, "responses above a level"}),
    ({**_EVENTS, "epsilon": 20.0}, {*_MEANS, _RESPONSE}),
    ({**_CLASSES, "epsilon": 20.0}, {*_MEANS, _RESPONSE}),
    ({**_CLASSES, "epsilon": 2.0}, {_RESPONSE}),
    ({**_OFFSET, "intercept": True}, {"mean exposure"}),
    ({**_OFFSET, "intercept": True, "epsilon": 0.05}, set()),
    (_OFFSET, set()),
    ({**_OFFSET, **_EVENTS, "interval": 0.95}, set()),
]
_BY_NAME = {"preconditioned_regression": OF_RESPONSES, "preconditioned_glm": OF_FAMILIES}
RELEASED_AT = {_with(name, **each): labels for name, stages in _BY_NAME.items() for each, labels in stages}
STAGES = calibrated(RELEASED_AT)
