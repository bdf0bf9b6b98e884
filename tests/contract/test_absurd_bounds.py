"""Bounds so small or large that arithmetic fails are refused; no release's noise may vanish."""

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.events import GaussianEvent, GaussianSketchEvent, PureEvent
from dpalgos.release.noise_source import Noise
from dpalgos.release.transcript import Transcript
from tests.contract.forms import IDS, PRIVATE, answered

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


@pytest.mark.parametrize("center", [1e31, -1e31, np.inf, np.nan, 10**400])
def test_an_absurd_center_is_refused(center):
    params = dpalgos.get_estimator("clipped_mean").parameters
    with pytest.raises(dpalgos.InputError, match="center must"):
        params(epsilon=0.5, delta=1e-4, clip_norm=1.0, center=center)


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
        with pytest.raises(dpalgos.InputError, match="of the release 'v'"):
            call()
    with pytest.raises(dpalgos.InputError, match="noise scale"):  # which underflows
        transcript.gaussian(one, l2_sensitivity=1e-200, noise_multiplier=1e-200, label="v")
    assert not transcript.events
