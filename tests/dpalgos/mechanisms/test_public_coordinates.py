"""Public rows give coordinates only where what was released says that they have the shape of private ones."""

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.api import build_params, run_estimator
from dpalgos.audit.trials import RecordingTranscript
from dpalgos.mechanisms.public_coordinates import (
    LEAST_SHARE,
    MOST_SHARE,
    PUBLIC_SHAPE,
    PublicShape,
    conclusive_share,
)
from dpalgos.release.noise_source import Noise
from dpalgos.rows.sample import Sample
from dpalgos.steps.moments import svec

N, D = 12_000, 6
BUDGET = {"epsilon": 0.6, "delta": 1e-8}
REGRESSIONS = {"preconditioned_regression": {}, "preconditioned_glm": {"family": "gaussian"}}
TURN = np.linalg.qr(np.random.default_rng(0).standard_normal((D, D)))[0]
SCALES = np.array([1.5, 1.0, 1.0, 0.5, 0.15, 0.12])


def rows(seed, n, scales=SCALES):
    return np.random.default_rng(seed).standard_normal((n, D)) * scales @ TURN


X, PUBLIC = rows(1, N), rows(2, 200)
COEF = TURN.T @ (1 / (2 * SCALES))  # every direction says as much of the response
Y = X @ COEF + np.random.default_rng(3).standard_normal(N)
WRONG = {
    "rotated": PUBLIC @ TURN,
    "columns permuted": PUBLIC[:, [3, 4, 5, 0, 1, 2]],
    "a column in another unit": PUBLIC * np.r_[1, 1, 1, 1, 1, 8],
    "all columns in a unit a third as large": PUBLIC / 3,
    "all columns in a unit a hundredth as large": PUBLIC / 100,
    "all columns in a larger unit": PUBLIC * 10,
    "a column zero": PUBLIC * np.r_[1, 1, 1, 1, 1, 0],
    "heavy tails": PUBLIC / np.sqrt(np.random.default_rng(4).chisquare(2, (200, 1)) / 2),
    "of another population": rows(5, 200, SCALES[::-1]),
}
SEEN_BY_ANYBODY = {"a column zero", "heavy tails"}  # in the public rows themselves


def answered(name, public_X=None, **changes):
    keywords = {**BUDGET, **REGRESSIONS[name], "replicates": 16, **changes}
    return dpalgos.estimate(name, X, Y, public_X=public_X, rng=np.random.default_rng(6), **keywords)


def error(result):
    return float(((X @ (result.estimate - COEF[:, None])) ** 2).mean())


def test_a_question_that_noise_would_decide_gets_a_larger_share():
    size = N * gaussian_mu(0.2, BUDGET["delta"])
    assert conclusive_share(1e6, D) == LEAST_SHARE < conclusive_share(size, D) < MOST_SHARE
    name = "preconditioned_regression"
    without, with_public = answered(name, epsilon=0.2), answered(name, PUBLIC, epsilon=0.2)
    assert with_public.diagnostics["public_shape"].mean() > 0.9
    assert error(with_public) < 0.1 * error(without)
    assert with_public.certified_epsilon == pytest.approx(0.2, rel=1e-6)


@pytest.mark.parametrize("name", REGRESSIONS)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_shape_is_not_used_and_costs_little(name, wrong):
    result = answered(name, WRONG[wrong])
    asked = PUBLIC_SHAPE in {event.label for event in result.events}
    assert asked == (wrong not in SEEN_BY_ANYBODY)
    assert not result.diagnostics["public_shape"].any()
    assert error(result) < 1.1 * error(answered(name))


@pytest.mark.parametrize("scale", [1e-200, 1e-153, 1e-100, 1e50])
def test_public_rows_of_any_size_leave_private_rows_of_any_size_an_answer(scale):
    """A refusal that depends on how large a private row is would tell about it."""
    for size in (1.0, 10.0, 1e4, 1e30):
        data = X.copy()
        data[0] = size
        result = dpalgos.estimate(
            "preconditioned_regression",
            data,
            Y,
            public_X=PUBLIC * scale,
            public_share=0.1,
            **BUDGET,
            rng=np.random.default_rng(0),
        )
        assert np.isfinite(result.estimate).all()


@pytest.mark.parametrize(
    "idle",
    [
        {"public_X": PUBLIC, "epsilon": 3.0},
        {"public_X": PUBLIC, "epsilon": 0.05},
        {"public_X": PUBLIC[:29]},
        {"public_X": rows(2, 200, np.ones(D))},
    ],
    ids=["private moments are good", "noise would decide", "few public rows", "no direction is hidden"],
)
def test_nothing_is_spent_on_an_idle_question(idle):
    result = answered("preconditioned_regression", **idle)
    without = answered("preconditioned_regression", **{**idle, "public_X": None})
    np.testing.assert_array_equal(result.estimate, without.estimate)
    assert [e.noise_multiplier for e in result.events] == [e.noise_multiplier for e in without.events]
    assert not result.diagnostics["public_shape"].any()


def test_the_sample_brings_public_rows_only_where_they_are_asked_for():
    sample = Sample(X, Y, n_replicates=16, public_rows=PUBLIC)

    def of_sample(**keywords):
        rng = np.random.default_rng(6)
        return dpalgos.estimate(
            "preconditioned_regression", sample, rng=rng, replicates=16, **BUDGET, **keywords
        )

    expected = answered("preconditioned_regression", PUBLIC)
    np.testing.assert_array_equal(of_sample(public_X="sample").estimate, expected.estimate)
    plain = of_sample()
    np.testing.assert_array_equal(plain.estimate, answered("preconditioned_regression").estimate)
    assert "public_shape" not in plain.diagnostics
    own = of_sample(public_X=WRONG["rotated"])
    assert not own.diagnostics["public_shape"].any()


def played(name, script, data, seed=0):
    keywords = {**BUDGET, **REGRESSIONS[name], "public_X": PUBLIC, "public_share": 0.1}
    estimator = dpalgos.get_estimator(name)
    transcript = RecordingTranscript(Noise([np.random.default_rng(seed)]), script=script)
    run_estimator(estimator, Sample(*data), build_params(estimator, keywords), transcript)
    return transcript


@pytest.mark.parametrize("name", REGRESSIONS)
@pytest.mark.parametrize("right", [True, False])
def test_the_release_alone_decides(name, right):
    """Whatever the rows are."""
    shape = PublicShape(PUBLIC)
    script = [svec(shape.moments[None] if right else np.zeros((1, D, D)))]
    events = [event.label for event in played(name, script, (X[:50], Y[:50])).events]
    first = events.index(PUBLIC_SHAPE)
    assert events[:first] == []
    for data in ((X, Y), (np.zeros((50, D)), np.zeros(50)), (1e3 * X[:50] @ TURN, Y[:50])):
        assert played(name, script, data).diagnostics["public_shape"].tolist() == [float(right)]


@pytest.mark.parametrize("name", REGRESSIONS)
def test_random_neighbors_stay_within_sensitivities_in_public_coordinates(name):
    script = [svec(PublicShape(PUBLIC).moments[None])]
    for seed in range(40):
        rng = np.random.default_rng(seed)
        data = 3 * rng.standard_t(2, (6, D)), rng.standard_t(2, 6)
        other = data[0].copy(), data[1].copy()
        other[0][0], other[1][0] = 10 * rng.standard_t(2, D), 10 * rng.standard_t(2)
        first = played(name, script, data, seed)
        second = played(name, first.published, other)
        assert first.diagnostics["public_shape"].all()
        for event, value, moved in zip(first.events, first.values, second.values, strict=True):
            assert np.linalg.norm(value - moved) <= event.l2_sensitivity * (1 + 1e-9), event.label


@pytest.mark.parametrize("name", REGRESSIONS)
def test_orthogonal_rows_attain_the_sensitivity_of_moments_in_public_coordinates(name):
    script = [svec(PublicShape(PUBLIC).moments[None])]
    axes = 1e6 * np.linalg.inv(PublicShape(PUBLIC).matrix)
    first = played(name, script, (axes[:1], np.zeros(1)))
    second = played(name, first.published, (axes[-1:], np.zeros(1)))
    for event, value, moved in zip(first.events, first.values, second.values, strict=True):
        if event.label in (PUBLIC_SHAPE, "second moments"):
            assert np.linalg.norm(value - moved) == pytest.approx(float(event.l2_sensitivity), rel=1e-3)
