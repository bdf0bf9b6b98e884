"""The exponential mechanism: its law, cost, neighbors."""

import numpy as np
import pytest
from scipy.stats import chi2

import dpalgos
from dpalgos.accounting.events import BoundedRangeEvent
from dpalgos.mechanisms.top_k import exponential_mechanism

SCORES = np.array([0.0, 0.6, 1.0, 1.0])
N = 200_000


def exponential_law(scores, epsilon, sensitivity):
    weights = np.exp(epsilon * np.asarray(scores) / (2 * sensitivity))
    return weights / weights.sum()


def test_choices_follow_the_exponential_law_at_the_declared_scale_only(transcripts):
    drawn = exponential_mechanism(
        transcripts.many(N),
        np.broadcast_to(SCORES[:, None], (4, N)),
        sensitivity=0.5,
        epsilon=1.2,
        label="choice",
    )
    counts = np.bincount(drawn, minlength=4)

    def distance(factor):
        expected = N * exponential_law(SCORES, 1.2 / factor, 0.5)
        return ((counts - expected) ** 2 / expected).sum()

    assert distance(1.0) < chi2.ppf(0.999, 3)
    for wrong in (2 / 3, 3 / 2):
        assert distance(wrong) > chi2.ppf(1 - 1e-9, 3)


def test_neighbors_never_exceed_and_the_witness_attains(transcripts):
    epsilon, sensitivity = 0.8, 0.5
    transcript = transcripts.seeded()
    exponential_mechanism(
        transcript,
        SCORES[:, None],
        sensitivity=sensitivity,
        epsilon=epsilon,
        label="choice",
    )
    (event,) = transcript.events
    assert isinstance(event, BoundedRangeEvent)
    assert (event.epsilon, event.sensitivity, event.count) == (epsilon, sensitivity, 1)
    rng = np.random.default_rng(0)

    def losses(scores, moves):
        return np.log(
            exponential_law(scores + sensitivity * moves, epsilon, sensitivity)
            / exponential_law(scores, epsilon, sensitivity)
        )

    for trial in range(300):
        moves = rng.integers(0, 2, 4) if trial % 2 else rng.random(4)  # corners, and inside
        loss = losses(rng.uniform(-3, 3, 4), 2 * moves - 1)
        assert np.ptp(loss) <= epsilon * (1 + 1e-9)
    # One score far below the others falls against them: its probability changes by the whole of e^ε.
    loss = losses(np.array([-20.0, 0, 0, 0]), np.array([-1, 1, 1, 1]))
    assert np.abs(loss).max() >= 0.999 * epsilon
    assert np.ptp(loss) >= 0.999 * epsilon


def test_without_noise_the_best_is_chosen(transcripts):
    scores = np.random.default_rng(3).standard_normal((20, 9))
    chosen = exponential_mechanism(
        transcripts.silent(9), scores, sensitivity=0.1, epsilon=0.5, label="choice"
    )
    np.testing.assert_array_equal(chosen, scores.argmax(axis=0))


@pytest.mark.parametrize("changes", [{"epsilon": 0}, {"epsilon": None}, {"sensitivity": 0.0}], ids=str)
def test_bad_arguments_are_refused_by_name(transcripts, changes):
    good = {"sensitivity": 1.0, "epsilon": 1.0, "label": "choice"}
    with pytest.raises(dpalgos.InputError, match=next(iter(changes))):
        exponential_mechanism(transcripts.seeded(), np.zeros((3, 1)), **{**good, **changes})
    with pytest.raises(dpalgos.InputError, match="scores must have shape"):
        exponential_mechanism(transcripts.seeded(), np.zeros((3, 2)), **good)
