"""Histograms over public bins and over the real line."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest, laplace, norm

import dpalgos
from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.events import FailureEvent, GaussianEvent, PureEvent
from dpalgos.mechanisms.histogram import (
    gaussian_histogram,
    laplace_histogram,
    stability_histogram,
    stability_threshold,
)

EDGES = np.array([-1.0, 0.0, 0.5, 2.0])
PUBLIC = {
    "laplace": lambda transcript, values, **rest: laplace_histogram(
        transcript, values, edges=EDGES, epsilon=0.5, label="counts", **rest
    ),
    "gaussian": lambda transcript, values, **rest: gaussian_histogram(
        transcript, values, edges=EDGES, noise_multiplier=3.0, label="counts", **rest
    ),
}
STABLE = {"bin_width": 0.5, "epsilon": 1.0, "delta": 1e-3, "label": "line"}
public = pytest.mark.parametrize("mechanism", PUBLIC.values(), ids=PUBLIC)


def stable(transcript, values, **rest):
    return stability_histogram(transcript, values, **{**STABLE, **rest})


@public
def test_every_row_counts_once(transcripts, mechanism):
    values = np.array([-9.0, -1.0, -0.1, 0.0, 0.4, 0.5, 1.9, 2.0, 50.0])
    counts = mechanism(transcripts.silent(2), values)
    np.testing.assert_array_equal(counts, np.array([[3, 3], [2, 2], [4, 4]]))
    mask = np.zeros((9, 2), dtype=bool)
    mask[:4, 0] = mask[7:, 1] = True
    counts = mechanism(transcripts.silent(2), values, row_mask=mask)
    np.testing.assert_array_equal(counts, [[3, 0], [1, 0], [0, 2]])


@pytest.mark.parametrize("mechanism", [*PUBLIC.values(), stable], ids=[*PUBLIC, "stability"])
def test_sensitivity(transcripts, mechanism):
    rng = np.random.default_rng(0)
    reached = 0.0
    for trial in range(80):
        values = rng.standard_t(1.5, 8)
        other = values.copy()
        other[3] = rng.standard_t(1.5) * 10.0 ** rng.integers(-2, 3)
        if trial == 0:
            values[3], other[3] = -0.7, 1.3  # the witness: from one bin to another
        first = transcripts.recording(seed=trial)
        mechanism(first, values)
        second = transcripts.replaying(first)
        mechanism(second, other)
        event = first.events[0]
        order = 2 if isinstance(event, GaussianEvent) else 1
        bound = event.l2_sensitivity if order == 2 else event.sensitivity
        ratio = np.linalg.norm((first.values[0] - second.values[0])[:, 0], order) / bound
        assert ratio <= 1 + 1e-9
        reached = max(reached, ratio)
        np.testing.assert_array_equal(first.published[0], second.published[0])
    assert reached >= 0.999


@public
def test_noise_scale(transcripts, mechanism):
    n = 20_000
    transcript = transcripts.many(n)
    noise = (mechanism(transcript, np.zeros(5)) - np.array([[0], [5], [0]])).ravel()
    (event,) = transcript.events
    if isinstance(event, PureEvent):
        assert (event.epsilon, event.sensitivity, event.norm) == (0.5, 2.0, 1.0)
        law = lambda factor: laplace(scale=4 * factor)  # noqa: E731
    else:
        assert event.noise_multiplier == 3.0
        law = lambda factor: norm(scale=3 * np.sqrt(2) * factor)  # noqa: E731
    assert kstest(noise, law(1.0).cdf).pvalue > 1e-3
    for wrong in (2 / 3, 3 / 2):
        assert kstest(noise, law(wrong).cdf).pvalue < 1e-9


def test_stability_events_and_cost(transcripts):
    transcript = transcripts.seeded()
    stable(transcript, np.zeros(3))
    pure, failure = transcript.events
    assert isinstance(pure, PureEvent)
    assert isinstance(failure, FailureEvent)
    assert (pure.epsilon, pure.sensitivity, failure.delta) == (1.0, 2.0, 1e-3)
    assert certified_epsilon(transcript.events, 2e-3) <= 1.0
    assert np.isinf(certified_epsilon(transcript.events, 0.9e-3))


def exact_delta(epsilon, threshold, scale, before, after, weights=(1.0, 1.0)):
    """Exact ∫ (w P − e^ε w' Q)₊ over what one bin shows, by its two counts; 0: not occupied.

    It shows "not kept" or a number above the threshold; counts have Laplace noise. The weights are the
    probabilities, on each side, of what the other bins show.
    """

    def law(count):
        if not count:
            return 1.0, lambda x: 0.0
        noisy = laplace(loc=count, scale=scale)
        return noisy.cdf(threshold), noisy.pdf

    (missed, p), (other_missed, q) = law(before), law(after)
    w, other_w = weights
    excess = quad(
        lambda x: max(0.0, w * p(x) - np.exp(epsilon) * other_w * q(x)),
        threshold,
        threshold + 60 * scale,
        points=[c for c in (before, after) if c > threshold],
        limit=400,
        epsabs=1e-15,
    )[0]
    return excess + max(0.0, w * missed - np.exp(epsilon) * other_w * other_missed)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.1])
def test_the_failure_probability_is_exact_for_the_worst_neighbors(epsilon, delta):
    threshold, scale = stability_threshold(epsilon, delta), 2 / epsilon

    def loss(before, after, weights=(1.0, 1.0)):
        return exact_delta(epsilon, threshold, scale, before, after, weights)

    most = delta * (1 + 1e-6)
    # A bin that one side alone occupies, with its only row; the other bin is merely one fuller.
    assert loss(1, 0) == pytest.approx(delta, rel=1e-6)
    assert loss(0, 1) <= most
    alone, missed = delta, 1 - delta
    for count in (1, 2, 5, 40):
        assert alone + loss(count, count + 1, (missed, 1.0)) <= most
        assert loss(count + 1, count, (1.0, missed)) <= most
        assert alone + loss(count + 1, count, (missed, 1.0)) <= most
        assert loss(count, count + 1, (1.0, missed)) <= most
    # Each side has a lone row where the other has none: "only a" and "only b" exclude each other, so that
    # δ is not paid twice.
    assert alone + loss(0, 0, (missed, missed)) <= most
    # The printed threshold, 1 + (2/ε) log(1/δ), fails half as often as allowed; a lower one too often.
    printed = 1 + 2 / epsilon * np.log(1 / delta)
    assert exact_delta(epsilon, printed, scale, 1, 0) == pytest.approx(delta / 2, rel=1e-6)
    assert exact_delta(epsilon, threshold - 0.1 / epsilon, scale, 1, 0) > 1.04 * delta


def test_a_lone_row_is_shown_as_often_as_charged(transcripts):
    n_replicates = 20_000
    delta = 0.05
    shown = ~stable(transcripts.seeded(1, n_replicates), np.array([7.3]), delta=delta).empty
    assert abs(shown.mean() - delta) < 4 * np.sqrt(delta / n_replicates)


def test_stability_noise_scale(transcripts):
    n_replicates = 4_000
    released = stable(transcripts.seeded(2, n_replicates), np.full(1000, 0.2))
    np.testing.assert_array_equal(released.centers, [0.25])
    noise = released.counts[0] - 1000
    assert kstest(noise, laplace(scale=2.0).cdf).pvalue > 1e-3
    for wrong in (2 / 3, 3 / 2):
        assert kstest(noise, laplace(scale=2.0 * wrong).cdf).pvalue < 1e-9


def test_stability_histogram_without_noise(transcripts):
    values = np.concatenate([np.full(40, -3.1), np.full(30, 0.0), np.full(3, 1e6)])
    released = stable(transcripts.silent(2), values)
    np.testing.assert_array_equal(released.centers, [-3.25, 0.25])
    np.testing.assert_array_equal(released.counts, [[40, 40], [30, 30]])
    assert not released.empty.any()


def test_empty_is_an_answer(transcripts):
    released = stable(transcripts.seeded(3, 4), np.linspace(0, 1e4, 200), delta=1e-9)
    assert released.empty.all()
    assert released.centers.shape == (0,)
    assert released.counts.shape == (0, 4)


def test_the_real_line_is_whole(transcripts):
    extreme = np.repeat([-1.7e308, 1.7e308, 5e-324], 50)
    released = stable(transcripts.silent(), extreme, bin_width=1e-3)
    assert np.isfinite(released.centers).all()
    np.testing.assert_array_equal(released.counts[:, 0], [50, 50, 50])


def test_a_batch_equals_a_loop(transcripts):
    """Also with rows of its own for each replicate, and whatever is drawn afterwards."""
    rng, n_replicates = np.random.default_rng(5), 6
    values = rng.standard_normal(300)
    mask = rng.random((300, n_replicates)) < np.linspace(0.1, 1, n_replicates)
    transcript = transcripts.seeded(6, n_replicates)
    often_shown = {"epsilon": 4.0, "delta": 0.4}
    batch = stable(transcript, values, row_mask=mask, **often_shown)
    later = laplace_histogram(transcript, values, edges=EDGES, epsilon=1.0, label="x", row_mask=mask)
    for r, single in enumerate(transcripts.singles(6, n_replicates)):
        alone = stable(single, values[mask[:, r]], **often_shown)
        shown = batch.counts[:, r] > 0
        np.testing.assert_array_equal(alone.centers, batch.centers[shown])
        np.testing.assert_allclose(alone.counts[:, 0], batch.counts[shown, r], rtol=1e-10)
        after = laplace_histogram(single, values[mask[:, r]], edges=EDGES, epsilon=1.0, label="x")
        np.testing.assert_allclose(after[:, 0], later[:, r], rtol=1e-10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bin_width": 0.0}, "bin_width must be a positive finite number"),
        ({"epsilon": -1.0}, "epsilon must be a positive finite number"),
        ({"delta": 0.0}, "delta must lie strictly between 0 and 1"),
        ({"delta": 1}, "delta must lie strictly between 0 and 1"),
        ({"row_mask": np.ones((3, 1))}, "row_mask must be a boolean array"),
        ({"row_mask": np.ones((2, 1), dtype=bool)}, "row_mask must be a boolean array of shape"),
    ],
)
def test_bad_arguments(transcripts, changes, message):
    with pytest.raises(dpalgos.InputError, match=message):
        stable(transcripts.seeded(), np.zeros(3), **changes)


@pytest.mark.parametrize("values", [np.zeros(0), np.zeros((3, 2)), np.array(["1"]), np.array([0.0, np.nan])])
def test_bad_values(transcripts, values):
    for mechanism in (*PUBLIC.values(), stable):
        with pytest.raises(dpalgos.InputError, match="values must be"):
            mechanism(transcripts.seeded(), values)


@pytest.mark.parametrize("edges", [[0.0], [1.0, 1.0], [2.0, 1.0], [0.0, np.nan], [[0.0, 1.0]]])
def test_bad_edges(transcripts, edges):
    with pytest.raises(dpalgos.InputError, match="edges must be an ascending list"):
        laplace_histogram(transcripts.seeded(), np.zeros(3), edges=edges, epsilon=1.0, label="x")
