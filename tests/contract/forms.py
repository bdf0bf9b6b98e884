"""The forms of estimators that the suites run over, and responses and user ids that suit each."""

import re
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np

import dpalgos
from dpalgos.accounting.events import Relation
from dpalgos.api import build_params
from dpalgos.params import describe_keywords

IDS = {"ids": lambda value: getattr(value, "label", value)}
# Responses of a family, from numbers of any size; those that the family allows stay as they are.
_RESPONSES = {"logistic": lambda y: (y > 0).astype(float), "poisson": lambda y: np.round(np.abs(y))}
_RESPONSES |= {"multinomial": lambda y: np.minimum(np.round(np.abs(y)), 2)}
_RESPONSES |= {"counted_events": _RESPONSES["logistic"]}
_CONSTANTS = {"logistic": {}, "multinomial": {"n_classes": 3}, "poisson": {"response_bound": 3.0}}


def keywords(estimator, calibration, **changes):
    budget = {"epsilon": 0.5, "delta": 1e-4, "calibration": calibration} if estimator.private else {}
    return {**budget, **estimator.example, **changes}


def response(estimator, y):
    family = "counted_events" if "counted_events" in estimator.example else estimator.example.get("family")
    of_family = _RESPONSES.get(family, np.asarray)
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
_EVENTS = _with("preconditioned_glm", family="poisson", counted_events="first", intercept=True, interval=0.95)
SINGLE_EVENTS = [(replace(_EVENTS, relation=Relation.USER), "tight")]
SETTINGS += SINGLE_EVENTS


_STAGES = tomllib.loads(Path(__file__).with_name("stages.toml").read_text())
RELEASED_AT = {_with(name, **each): set(labels) for name, rows in _STAGES.items() for each, labels in rows}
STAGES = calibrated(RELEASED_AT)

# `Spend` draws the noise of a slot by its kind. So what holds for one form of a kind holds for all.
_BY_KIND = {
    "adassp": "symmetric matrices",
    "box_mean": "noise in cubes",
    "box_mean: interval": "Laplace noise",
    "boosted_adassp": "a slot that is released several times",
    "dp_mean": "Gaussian vectors",
    "dp_sparse_mean": "selections, and peeling as printed",
    "private_frank_wolfe_lasso": "the same by scores with a sign",
    "hessian_mixing": "sketches",
}
BY_KIND = [(e, c) for e, c in EVERY if e.label in _BY_KIND]


def _modules(estimator):
    """Return the files of an estimator, and of the modules of this package that it imports."""
    own = sys.modules[estimator.module].__file__
    packages = r"^from (dpalgos\.(?:tuning|user_level|local|central)[\w.]*) import"
    names = re.findall(packages, Path(own).read_text(), re.MULTILINE)
    return [own, *(sys.modules[name].__file__ for name in names)]


_OWN_SAMPLER = re.compile(
    r"spend\.(release|choose_each|of_drawn_rows)\(|(private_interval|private_range|_quantiles)\(\s*spend"
)


def _mechanism_owners():
    """Map each file that calls a mechanism with a sampler of its own to one estimator that uses it."""
    owners = {}
    for estimator in dpalgos.catalog():
        own, *imported = _modules(estimator) if estimator.private else [""]
        for file in (own, *imported):
            if file and _OWN_SAMPLER.search(Path(file).read_text()) and (file == own or file not in owners):
                owners[file] = estimator.name
    return set(owners.values())


def _kinds(estimator, calibration):
    plan = build_params(estimator, keywords(estimator, calibration)).plan(400, 3)
    return estimator.name, calibration, frozenset((label, type(slot)) for label, slot in plan.items())


# Mechanisms with a sampler of their own, for which `Spend.release` charges: a form for each set of releases.
_OWNERS = _mechanism_owners()
_OWN = [(e, c) for e, c in EVERY if e.protected and e.name in _OWNERS]
OWN_SAMPLERS = list({_kinds(e, c): (e, c) for e, c in reversed(_OWN)}.values())[::-1]
DRAWN = BY_KIND + [case for case in OWN_SAMPLERS if case not in BY_KIND]
