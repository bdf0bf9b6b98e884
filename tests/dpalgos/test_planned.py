"""The printed plan of an estimator is what a run releases."""

from collections import Counter

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.events import Relation
from dpalgos.api import build_params, run_estimator
from dpalgos.core.spend import Spend
from dpalgos.models.families import family_names
from dpalgos.planned import planned_releases, worked_examples
from dpalgos.release.noise_source import Noise
from dpalgos.rows.sample import Sample
from tests.builders import refused

BUDGET = {"epsilon": 1.0, "delta": 1e-7}
PRIVATE = [
    each.name for each in dpalgos.catalog() if each.private and each.privacy_model in ("central", "user")
]


@pytest.mark.parametrize("name", PRIVATE)
def test_every_estimator_has_a_plan_that_proves_its_budget(name):
    rows, proved = planned_releases(name, 2000, 3, BUDGET)
    shares = [row.share for row in rows]
    assert np.isnan(shares).all() or sum(shares) == pytest.approx(1)
    assert proved <= 1 + 1e-9
    assert all(row.sensitivity for row in rows)


@pytest.mark.parametrize("name", PRIVATE)
def test_worked_examples_are_the_plans_of_forms(name):
    examples = list(worked_examples(dpalgos.get_estimator(name)))
    assert len({setting for setting, _ in examples}) == len(examples) > 0
    released = {line.label for _, plan in examples for line in plan}
    assert released <= {one.label for one in dpalgos.get_estimator(name).releases}


@pytest.mark.parametrize("family", ["gaussian", "logistic", "poisson"])
@pytest.mark.parametrize("people", [False, True])
@pytest.mark.parametrize("n", [60, 4000])
def test_the_plan_is_what_rows_lead_to(family, people, n):
    keywords = {**BUDGET, "family": family, "intercept": True, "interval": 0.95}
    rows, _ = planned_releases("preconditioned_glm", n, 3, keywords, people=people)
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.uniform(-1, 1, (n, 2)), np.ones(n)])
    ids = {"user_ids": np.arange(n)} if people else {}
    result = dpalgos.estimate("preconditioned_glm", X, rng.integers(0, 2, n), rng=rng, **keywords, **ids)
    # Released numbers say how many of the steps whiten rows; people's counts have a residual of their own.
    forms = {
        "second moments of white rows": "preconditioned score",
        "mean residual of people": "mean residual",
    }
    planned = Counter({row.label: row.times for row in rows})
    made = Counter(forms.get(each.label, each.label) for each in result.events)
    assert planned == made


OF_FAMILIES = [name for name in PRIVATE if dpalgos.get_estimator(name).takes("family")]


@pytest.mark.parametrize("name", OF_FAMILIES)
@pytest.mark.parametrize("family", family_names())
def test_a_plan_is_for_every_family_that_an_estimator_has(name, family):
    try:
        assert planned_releases(name, 2000, 5, {**BUDGET, "family": family})[0]
    except dpalgos.InputError as error:
        if not str(error).startswith("family must be one of"):
            raise


def test_noise_that_differs_between_releases_is_a_range():
    name, n = "dp_sparse_linear_regression", 500
    noise_of = {row.label: row.noise for row in planned_releases(name, n, 6, BUDGET)[0]}
    rng, keywords = np.random.default_rng(0), dpalgos.get_estimator(name).example
    X = rng.uniform(-0.4, 0.4, (n, 6))
    result = dpalgos.estimate(name, X, X[:, 0], rng=rng, **{**keywords, **BUDGET})
    for label, field, prefix in (("values", "noise_multiplier", ""), ("selection", "epsilon", "ε = ")):
        label = f"step: {label}"
        used = [getattr(event, field) for event in result.events if event.label == label]
        assert noise_of[label] == f"{prefix}{min(used):.3g} to {max(used):.3g}"


def test_an_estimator_without_privacy_has_no_plan():
    refused(lambda: planned_releases("ols", 100, 3, {}), dpalgos.InputError, "ols")


@pytest.mark.parametrize("name", [*PRIVATE, "ldp_nldp", "ldp_iht"])
def test_a_printed_sensitivity_falls_with_n_if_the_formula_says_so(name):
    """Of each label's first release; levels that follow from noise change a sensitivity by other factors."""
    estimator = dpalgos.get_estimator(name)
    for variant in estimator.variants:
        settings = {**BUDGET, **variant.example, "calibration": variant.calibrations[0]}
        (first, formulas), (second, _) = (first_sensitivities(variant, settings, n) for n in (400, 800))
        for label in first.keys() & second.keys():
            ratio = first[label] / second[label]
            if (
                ratio in (pytest.approx(1, abs=1e-3), pytest.approx(2, abs=1e-3))
                and "λ" not in formulas[label]
            ):
                assert ("/n" in formulas[label]) == (ratio > 1.5), (label, formulas[label])


def first_sensitivities(estimator, settings, n):
    """Return the sensitivity of the first release of each label, and the printed formulas."""
    params = build_params(estimator, settings)
    rng, ids = np.random.default_rng(0), np.arange(n) if estimator.relation is Relation.USER else None
    y = None if estimator.task == "mean" else rng.integers(0, 2, n)
    sample = Sample(rng.uniform(-1, 1, (n, 3)), y, user_ids=ids)
    spend = Spend(Noise([np.random.default_rng(0)]), estimator.relation)
    run_estimator(estimator, sample, params, spend)
    moves = {}
    for event in spend.record.events:
        if event.sensitivity is not None:
            moves.setdefault(event.label, float(np.max(event.sensitivity)))
    return moves, {one.label: one.sensitivity for one in estimator.releases} | params.formulas(n, 3)
