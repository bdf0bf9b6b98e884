"""One-shot Gumbel top-k and printed peeling: law, cost, sensitivity, noise, replay."""

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chi2

from dpalgos.accounting.composition import renyi_epsilon
from dpalgos.accounting.events import BoundedRangeEvent, GaussianEvent
from dpalgos.mechanisms.noisy_iht import peeling, printed_multiplier
from dpalgos.mechanisms.top_k import exponential_mechanism, gumbel_top_k, noisy_top_k

SCORES = np.array([0.0, 0.3, 1.1, -0.5, 0.8, 0.2])
K = 3


def sequential_law(scores, scale, k):
    """Exact law of k exponential mechanisms in turn, over ordered k-tuples."""
    weights = np.exp(scores / scale)
    law = {}
    for chosen in permutations(range(len(scores)), k):
        left, probability = weights.sum(), 1.0
        for j in chosen:
            probability *= weights[j] / left
            left -= weights[j]
        law[chosen] = probability
    return law


def tally(support, law):
    digits = 10 ** np.arange(len(support))
    counts = np.bincount(digits @ support, minlength=1000)
    return counts[[int(digits @ np.array(chosen)) for chosen in law]].astype(float)


def sequential_choices(transcripts, n, seed, scale):
    """k exponential mechanisms in turn, by the mechanism itself: chosen scores drop out of sight."""
    transcript = transcripts.many(n, seed)
    left = np.repeat(SCORES[:, None], n, axis=1)
    support = []
    for _ in range(K):
        support.append(
            exponential_mechanism(transcript, left, sensitivity=1.0, epsilon=2 / scale, label="one")
        )
        left[support[-1], np.arange(n)] = -1e6
    return np.array(support)


def test_one_shot_has_the_law_of_sequential_exponential_mechanisms(transcripts):
    n, scale = 1_000_000, 0.7
    law = sequential_law(SCORES, scale, K)
    expected = n * np.array(list(law.values()))
    one_shot = tally(
        gumbel_top_k(
            transcripts.many(n, 1),
            np.broadcast_to(SCORES[:, None], (6, n)),
            sensitivity=0.35,
            noise_multiplier=2.0,
            k=K,
            label="top",
        ),
        law,
    )
    distance = 0.5 * np.abs(one_shot / n - expected / n).sum()
    p = expected / n
    sampling_error = 0.5 * np.sqrt(2 * p * (1 - p) / (np.pi * n)).sum()
    spread = 0.5 * np.sqrt((1 - 2 / np.pi) * (p * (1 - p)).sum() / n)
    assert distance < sampling_error + 4 * spread
    assert ((one_shot - expected) ** 2 / expected).sum() < chi2.ppf(0.999, len(law) - 1)
    m = 200_000
    in_turn = tally(sequential_choices(transcripts, m, 2, scale), law)
    pooled = (one_shot + in_turn) / (n + m)
    two_samples = (one_shot - n * pooled) ** 2 / (n * pooled) + (in_turn - m * pooled) ** 2 / (m * pooled)
    assert two_samples.sum() < chi2.ppf(0.999, len(law) - 1)


def test_the_range_of_log_ratios_is_what_the_event_says(transcripts):
    """Exactly, over all corners of the box of neighbors: at most ε0, and attained."""
    sensitivity, multiplier = 0.4, 3.0
    transcript = transcripts.seeded()
    gumbel_top_k(
        transcript, SCORES[:, None], sensitivity=sensitivity, noise_multiplier=multiplier, k=1, label="top"
    )
    (event,) = transcript.events
    assert isinstance(event, BoundedRangeEvent)
    before = np.array(list(sequential_law(SCORES, sensitivity * multiplier, 1).values()))
    ranges = []
    for signs in np.ndindex(*(2,) * len(SCORES)):
        moves = 2 * np.array(signs) - 1
        moved = SCORES + sensitivity * moves
        after = np.array(list(sequential_law(moved, sensitivity * multiplier, 1).values()))
        ranges.append(np.ptp(np.log(after / before)))
    assert max(ranges) <= event.epsilon * (1 + 1e-9)
    assert max(ranges) >= 0.999 * event.epsilon


@pytest.mark.parametrize("sparsity", [1, 20, 400])
@pytest.mark.parametrize(
    ("epsilon", "delta", "certified"),
    [(0.5, 1e-5, 0.3555), (0.5, 0.0516, 0.133), (1.0, 1e-5, 0.752), (2.0, 1e-5, 1.602)],
)
def test_printed_peeling_certifies_the_same_for_every_sparsity(
    transcripts, sparsity, epsilon, delta, certified
):
    transcript = transcripts.seeded()
    peeling(
        transcript,
        np.zeros((400, 1)),
        linf_sensitivity=0.1,
        sparsity=sparsity,
        noise_multiplier=printed_multiplier(epsilon, delta, sparsity),
        label="peel",
    )
    assert [event.count for event in transcript.events] == [sparsity, sparsity]
    rho = sum(event.count * event.epsilon**2 / 2 for event in transcript.events)
    assert rho == pytest.approx(5 / 24 * epsilon**2 / np.log(1 / delta), rel=1e-12)
    proved = renyi_epsilon(transcript.events, delta)
    assert proved <= certified * (1 + 5e-3)
    if sparsity >= 20:  # a few pure events are certified by the sum of their ε
        assert proved == pytest.approx(certified, rel=5e-3)


MECHANISMS = {
    "gumbel": lambda transcript, values, sensitivity: noisy_top_k(
        transcript,
        values,
        linf_sensitivity=sensitivity,
        sparsity=4,
        selection_multiplier=2.0,
        release_multiplier=3.0,
        label="sparse",
    ),
    "peeling": lambda transcript, values, sensitivity: peeling(
        transcript, values, linf_sensitivity=sensitivity, sparsity=4, noise_multiplier=2.0, label="sparse"
    ),
}
both = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)


def moved(events, values, others):
    """How far the private values of each event moved, in units of its sensitivity."""
    result = []
    for event, value, other in zip(events, values, others, strict=True):
        order = 2 if isinstance(event, GaussianEvent) else np.inf
        bound = event.l2_sensitivity if isinstance(event, GaussianEvent) else event.sensitivity
        assert isinstance(event, GaussianEvent | BoundedRangeEvent) or event.norm == order
        result.append(np.linalg.norm((value - other)[:, 0], order) / bound)
    return np.array(result)


@both
def test_sensitivities_on_replayed_neighbors(transcripts, mechanism):
    rng = np.random.default_rng(0)
    sensitivity = 0.1
    for trial in range(60):
        values = rng.standard_normal((9, 1))
        corner = trial % 3 == 0  # the witness: every coordinate moves by all it can
        move = rng.choice([-1.0, 1.0], (9, 1)) if corner else rng.uniform(-1, 1, (9, 1))
        first = transcripts.recording(seed=trial)
        released = mechanism(first, values, sensitivity)
        second = transcripts.replaying(first)
        again = mechanism(second, values + sensitivity * move, sensitivity)
        np.testing.assert_array_equal(released.support, again.support)
        np.testing.assert_array_equal(released.dense(), again.dense())
        ratios = moved(first.events, first.values, second.values)
        assert (ratios <= 1 + 1e-9).all()
        if corner:
            assert (ratios >= 0.999).all()


@both
def test_noise_zero_gives_hard_thresholding(transcripts, mechanism):
    values = np.random.default_rng(1).standard_normal((12, 3))
    dense = mechanism(transcripts.silent(3), values, 0.1).dense()
    largest = np.argsort(-np.abs(values), axis=0)[:4]
    expected = np.zeros_like(values)
    np.put_along_axis(expected, largest, np.take_along_axis(values, largest, axis=0), axis=0)
    np.testing.assert_array_equal(dense, expected)
    assert ((dense != 0).sum(axis=0) == 4).all()


def test_peeling_has_the_scale_of_its_event(transcripts):
    """Two coordinates: P(second wins) = P(w2 − w1 > gap), in closed form for Laplace(b) noise."""
    n, gap, scale = 200_000, 1.0, 0.8
    values = np.repeat(np.array([[1.0], [0.0]]), n, axis=1)

    def wins(b):
        return np.exp(-gap / b) * (2 + gap / b) / 4

    released = peeling(
        transcripts.many(n), values, linf_sensitivity=0.4, sparsity=1, noise_multiplier=scale / 0.4, label="p"
    )
    observed = (released.support[0] == 1).mean()
    error = 4 * np.sqrt(0.25 / n)
    assert abs(observed - wins(scale)) < error
    for wrong in (2 / 3, 3 / 2):
        assert abs(observed - wins(scale * wrong)) > 5 * error
