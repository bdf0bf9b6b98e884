"""What is released before the steps of a preconditioned regression, where rows suffice for it.

Charged for, covered by its noise, and all that an answer depends on.
"""

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.composition import certified_epsilon
from dpalgos.api import build_params, run_estimator
from dpalgos.audit.trials import RecordingTranscript
from dpalgos.release.noise_source import Noise
from dpalgos.rows.sample import Sample

LINEAR, MODEL, DELTA, N, D = "preconditioned_regression", "preconditioned_glm", 1e-4, 400, 4
FEW, MANY = 1.4, 6.0  # ε at which nμ lies between 140 and 100 √d, and beyond
CENTERS, UNITS, MEANS = "values above a candidate center", "values by power of two", "means about centers"
DISTANCE, RESPONSE, ABOVE = "rows far from centers", "mean response", "responses above a level"
EVENTS, COUNTS = {"family": "logistic"}, {"family": "poisson"}
CLASSES = {"family": "multinomial", "n_classes": 3}
# The estimator, its keywords, ε, and what it releases of the origin.
REGIMES = {
    "linear, few rows": (LINEAR, {}, FEW, {CENTERS, UNITS, DISTANCE, MEANS}),
    "linear, many rows": (LINEAR, {}, MANY, {CENTERS, UNITS, MEANS}),
    "events": (MODEL, EVENTS, MANY, {CENTERS, RESPONSE}),
    "counts": (MODEL, COUNTS, MANY, {CENTERS, RESPONSE, ABOVE}),
    "classes": (MODEL, CLASSES, MANY, {CENTERS, RESPONSE}),
}
each = pytest.mark.parametrize("regime", REGIMES)


def rows(rng, regime, spread=1.0):
    X = np.column_stack([3 + spread * rng.standard_normal((N, D - 1)), np.ones(N)])
    draws = {
        "logistic": lambda: rng.integers(2, size=N),
        "poisson": lambda: rng.poisson(2.0 * spread, N),
        "multinomial": lambda: rng.integers(3, size=N),
    }
    linear = spread * (X[:, 0] + rng.standard_normal(N))
    return X, np.asarray(draws.get(REGIMES[regime][1].get("family"), lambda: linear)(), dtype=float)


def recorded(regime, X, y, script=None):
    name, keywords, epsilon, _ = REGIMES[regime]
    made = RecordingTranscript(Noise(np.random.default_rng(0).spawn(2)), script=script)
    asked = {"epsilon": epsilon, "delta": DELTA, "intercept": True, **keywords}
    params = build_params(dpalgos.get_estimator(name), asked)
    return made, run_estimator(dpalgos.get_estimator(name), Sample(X, y, n_replicates=2), params, made)


@each
def test_all_that_is_released_of_the_origin_is_charged(regime):
    _, _, epsilon, origin = REGIMES[regime]
    made, _ = recorded(regime, *rows(np.random.default_rng(1), regime))
    assert {event.label for event in made.events} >= origin
    assert 0.999 * epsilon <= certified_epsilon(made.events, DELTA) <= epsilon


@each
def test_no_row_moves_what_is_released_of_the_origin_by_more_than_was_charged(regime):
    rng, family = np.random.default_rng(2), REGIMES[regime][1].get("family")
    X, y = rows(rng, regime)
    for size in 10.0 ** rng.uniform(0, 9, 30):
        first, second = X.copy(), X.copy()
        first[0], second[0] = size * rng.standard_normal(D), -size * rng.standard_normal(D)
        second[0] = rng.choice([-1.0, 1.0]) * (first[0] if rng.random() < 0.5 else second[0])
        responses = {"logistic": (0, 1), "multinomial": (0, 2), "poisson": (0, np.floor(size))}
        ends = responses.get(family, (-size, size))
        one, answer = recorded(regime, first, np.r_[ends[0], y[1:]])
        other, same = recorded(regime, second, np.r_[ends[1], y[1:]], one.published)
        for before, after in zip(one.releases, other.releases, strict=True):
            event = before.events[0]
            moved = np.linalg.norm(before.value - after.value, axis=0) / event.l2_sensitivity
            assert (moved <= 1 + 1e-9).all(), event.label
        np.testing.assert_array_equal(same, answer)


@each
def test_an_answer_is_made_of_what_was_released_of_the_origin(regime):
    rng = np.random.default_rng(3)
    for spread in (0.01, 30.0):
        first, answer = recorded(regime, *rows(rng, regime))
        _, same = recorded(regime, *rows(rng, regime, spread), first.published)
        np.testing.assert_array_equal(same, answer)
