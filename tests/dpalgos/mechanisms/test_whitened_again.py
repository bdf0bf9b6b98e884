"""A step that whitens rows again in its place: what it releases, what that costs, and where it is taken."""

import numpy as np
import pytest

import dpalgos
from dpalgos.api import build_params, run_estimator
from dpalgos.audit.trials import RecordingTranscript
from dpalgos.mechanisms.preconditioned.steps import mean_of_step, step_sensitivity
from dpalgos.models.families import get_family
from dpalgos.models.white_rows import WhiteRows
from dpalgos.release.noise_source import Noise
from dpalgos.rows.sample import Sample

LINEAR, MODEL = "preconditioned_regression", "preconditioned_glm"
FORMS = {
    "linear": (LINEAR, {}),
    "linear, intercept": (LINEAR, {"intercept": True}),
    "events": (MODEL, {"family": "logistic", "intercept": True}),
    "counts": (MODEL, {"family": "poisson", "intercept": True}),
    "classes": (MODEL, {"family": "multinomial", "n_classes": 3}),
}
N, SCALES = 4000, np.array([1.0, 0.05, 0.03])


def rows(rng, family, scales=SCALES, slopes=(1.0, 1.0, 1.0)):
    """Columns of spreads ``scales``, and a response that has ``slopes`` on them over their spreads."""
    Z = rng.standard_normal((N, 3))
    u = Z @ slopes
    y = {"logistic": u + rng.logistic(size=N) > 0, "poisson": rng.poisson(np.exp(0.3 * u))}
    y["multinomial"] = rng.integers(3, size=N)
    X = np.column_stack([Z * scales, np.ones(N)])
    return X, np.asarray(y.get(family, u + rng.standard_normal(N)), dtype=float)


def recorded(form, X, y, script=None):
    name, keywords = FORMS[form]
    made = RecordingTranscript(Noise(np.random.default_rng(0).spawn(2)), script=script)
    params = build_params(dpalgos.get_estimator(name), {"epsilon": 30.0, "delta": 1e-4, **keywords})
    return made, run_estimator(dpalgos.get_estimator(name), Sample(X, y, n_replicates=2), params, made)


def whitenings(made):
    """Return for each release in the place of a step which replicates released moments."""
    steps = [each for each in made.releases if each.events[0].label.startswith("preconditioned ")]
    found = [each for each in steps if len(each.value) == 10]
    return np.array([np.abs(each.value[-1]) > 0 for each in found])


@pytest.mark.parametrize("form", [form for form in FORMS if form != "classes"])
def test_columns_in_far_too_large_units_are_whitened_again_and_others_are_not(form):
    rng, family = np.random.default_rng(1), FORMS[form][1].get("family")
    assert whitenings(recorded(form, *rows(rng, family))[0]).any(axis=0).all()
    assert (whitenings(recorded(form, *rows(rng, family, slopes=(1.0, 0.0, 0.0)))[0]).sum(axis=0) == 1).all()
    assert not whitenings(recorded(form, *rows(rng, family, np.ones(3)))[0]).any()


@pytest.mark.parametrize("form", FORMS)
def test_no_row_moves_moments_or_gradients_by_more_than_was_charged(form):
    rng, family = np.random.default_rng(2), FORMS[form][1].get("family")
    X, y = rows(rng, family)
    for size in 10.0 ** rng.uniform(-3, 9, 40):
        (A, a), (B, b) = (rows(rng, family) for _ in range(2))
        A[1:], a[1:] = X[1:], y[1:]
        B[1:], b[1:] = X[1:], y[1:]
        A[0] *= size
        B[0] *= rng.choice([-size, 1 / size, 0.0])
        first, answer = recorded(form, A, a)
        second, same = recorded(form, B, b, first.published)
        for one, other in zip(first.releases, second.releases, strict=True):
            event = one.events[0]
            if not hasattr(event, "l2_sensitivity"):
                continue
            moved = np.linalg.norm(one.value - other.value, axis=0) / event.l2_sensitivity
            assert (moved <= 1 + 1e-9).all(), event.label
        np.testing.assert_array_equal(same, answer)


@pytest.mark.parametrize("whitens", [False, True])
def test_orthogonal_rows_and_opposite_gradients_attain_the_sensitivity_of_a_step(whitens):
    d, level, chosen = 3, np.full(1, 2.0), np.full(1, whitens)
    W = np.linalg.qr(np.random.default_rng(3).standard_normal((d, d)))[0] @ np.diag([1.0, 30.0, 0.1])
    inverse = np.linalg.inv(W)
    pair = (inverse[0], inverse[1]) if whitens else (inverse[0], -inverse[0])
    values = []
    for row in pair:
        sample = Sample(np.vstack([1e4 * row, np.zeros((4, d))]), np.r_[1e9, np.zeros(4)])
        scores = WhiteRows(sample, get_family("gaussian"), W[None])
        values.append(mean_of_step(scores, scores.at(np.zeros((d, 1))), level, chosen, True))
    moved = np.linalg.norm(values[0] - values[1])
    assert moved == pytest.approx(step_sensitivity(level, np.full(1, 5.0), chosen)[0])
