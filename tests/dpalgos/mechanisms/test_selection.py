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


def test_without_noise_the_best_is_chosen_and_batches_and_replays_agree(transcripts):
    n_replicates = 9
    scores = np.random.default_rng(3).standard_normal((20, n_replicates))
    keywords = {"sensitivity": 0.1, "epsilon": 0.5, "label": "choice"}
    np.testing.assert_array_equal(
        exponential_mechanism(transcripts.silent(n_replicates), scores, **keywords), scores.argmax(axis=0)
    )
    batch = exponential_mechanism(transcripts.seeded(4, n_replicates), scores, **keywords)
    assert batch.shape == (n_replicates,)
    loop = [
        exponential_mechanism(single, scores[:, [r]], **keywords)[0]
        for r, single in enumerate(transcripts.singles(4, n_replicates))
    ]
    np.testing.assert_array_equal(batch, loop)
    recorded = transcripts.recording(seed=4, n_replicates=n_replicates)
    chosen = exponential_mechanism(recorded, scores, **keywords)
    again = exponential_mechanism(transcripts.replaying(recorded), -scores, **keywords)
    np.testing.assert_array_equal(again, chosen)
    np.testing.assert_array_equal(recorded.values[0], scores)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a positive finite number, got 0"),
        ({"epsilon": np.inf}, "epsilon must be"),
        ({"epsilon": None}, "epsilon must be"),
        ({"sensitivity": 0.0}, "sensitivity must be positive and finite"),
    ],
)
def test_bad_arguments_are_refused_by_name(transcripts, changes, message):
    keywords = {"sensitivity": 1.0, "epsilon": 1.0, "label": "choice", **changes}
    with pytest.raises(dpalgos.InputError, match=message):
        exponential_mechanism(transcripts.seeded(), np.zeros((3, 1)), **keywords)
    with pytest.raises(dpalgos.InputError, match="scores must have shape"):
        exponential_mechanism(
            transcripts.seeded(), np.zeros((3, 2)), sensitivity=1.0, epsilon=1.0, label="choice"
        )
