"""Exponential mechanism and permute-and-flip: laws, costs, neighbours."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chi2

import dpalgos
from dpalgos.accounting.events import BoundedRangeEvent, PureEvent
from dpalgos.mechanisms.selection import exponential_mechanism, permute_and_flip

SCORES = np.array([0.0, 0.6, 1.0, 1.0])
N = 200_000


def exponential_law(scores, epsilon, sensitivity, monotone=False):
    weights = np.exp(epsilon * np.asarray(scores) / ((1 if monotone else 2) * sensitivity))
    return weights / weights.sum()


def permute_and_flip_law(scores, epsilon, sensitivity, monotone=False):
    """McKenna & Sheldon's closed form: Σ over sets S of rivals of (−1)^|S| / (|S| + 1) Π_{S ∪ {j}} q."""
    q = np.exp(epsilon * (np.asarray(scores) - np.max(scores)) / ((1 if monotone else 2) * sensitivity))
    law = np.zeros(len(q))
    for j in range(len(q)):
        rivals = [i for i in range(len(q)) if i != j]
        for size in range(len(q)):
            for chosen in combinations(rivals, size):
                law[j] += (-1) ** size / (size + 1) * q[j] * np.prod(q[list(chosen)])
    return law


MECHANISMS = {
    "exponential": (exponential_mechanism, exponential_law, BoundedRangeEvent),
    "permute_and_flip": (permute_and_flip, permute_and_flip_law, PureEvent),
}
both = pytest.mark.parametrize(("mechanism", "law", "kind"), MECHANISMS.values(), ids=MECHANISMS)


@both
@pytest.mark.parametrize("monotone", [False, True])
def test_law_and_scale(transcripts, mechanism, law, kind, monotone):
    drawn = mechanism(
        transcripts.many(N),
        np.broadcast_to(SCORES[:, None], (4, N)),
        sensitivity=0.5,
        epsilon=1.2,
        label="choice",
        monotone=monotone,
    )
    counts = np.bincount(drawn, minlength=4)

    def distance(factor):
        expected = N * law(SCORES, 1.2 / factor, 0.5, monotone)
        return ((counts - expected) ** 2 / expected).sum()

    assert distance(1.0) < chi2.ppf(0.999, 3)
    for wrong in (2 / 3, 3 / 2):
        assert distance(wrong) > chi2.ppf(1 - 1e-9, 3)


@both
@pytest.mark.parametrize("monotone", [False, True])
def test_neighbors_never_exceed_and_the_witness_attains(transcripts, mechanism, law, kind, monotone):
    epsilon, sensitivity = 0.8, 0.5
    transcript = transcripts.seeded()
    mechanism(
        transcript,
        SCORES[:, None],
        sensitivity=sensitivity,
        epsilon=epsilon,
        label="choice",
        monotone=monotone,
    )
    (event,) = transcript.events
    assert isinstance(event, kind)
    assert (event.epsilon, event.sensitivity, event.count) == (epsilon, sensitivity, 1)
    rng = np.random.default_rng(0)

    def losses(scores, moves):
        return np.log(
            law(scores + sensitivity * moves, epsilon, sensitivity, monotone)
            / law(scores, epsilon, sensitivity, monotone)
        )

    for trial in range(300):
        moves = rng.integers(0, 2, 4) if trial % 2 else rng.random(4)  # corners, and inside
        loss = losses(rng.uniform(-3, 3, 4), moves if monotone else 2 * moves - 1)
        measured = np.ptp(loss) if kind is BoundedRangeEvent else np.abs(loss).max()
        assert measured <= epsilon * (1 + 1e-9)
    # One score far below the others falls against them: its probability changes by the whole of e^ε.
    moves = np.array([0, 1, 1, 1]) if monotone else np.array([-1, 1, 1, 1])
    loss = losses(np.array([-20.0, 0, 0, 0]), moves)
    assert np.abs(loss).max() >= 0.999 * epsilon
    assert np.ptp(loss) >= 0.999 * epsilon


def test_permute_and_flip_is_not_of_bounded_range():
    """Two equal scores moved apart: range about 2ε0, divergence about ε0²/2, four times ε0²/8."""
    epsilon = 1e-3
    before = permute_and_flip_law([0.0, 0.0], epsilon, 0.5)
    after = permute_and_flip_law([0.5, -0.5], epsilon, 0.5)
    np.testing.assert_allclose(after, [1 - np.exp(-epsilon) / 2, np.exp(-epsilon) / 2], rtol=1e-12)
    assert np.ptp(np.log(after / before)) == pytest.approx(2 * epsilon, rel=2e-3)
    divergence = (before * np.log(before / after)).sum()
    assert divergence / (epsilon**2 / 8) == pytest.approx(4, rel=2e-3)
    assert divergence <= epsilon**2 / 2


def test_permute_and_flip_errs_less():
    for scores in ([0, 1, 2, 5], [0, 0, 0, 1], [3, 3, 3, 3]):
        errors = [max(scores) - law(scores, 1.0, 1.0) @ scores for _, law, _ in MECHANISMS.values()]
        assert errors[1] <= errors[0] + 1e-12


@both
def test_limit_batch_and_replay(transcripts, mechanism, law, kind):
    n_replicates = 9
    scores = np.random.default_rng(3).standard_normal((20, n_replicates))
    keywords = {"sensitivity": 0.1, "epsilon": 0.5, "label": "choice"}
    np.testing.assert_array_equal(
        mechanism(transcripts.silent(n_replicates), scores, **keywords), scores.argmax(axis=0)
    )
    batch = mechanism(transcripts.seeded(4, n_replicates), scores, **keywords)
    assert batch.shape == (n_replicates,)
    loop = [
        mechanism(single, scores[:, [r]], **keywords)[0]
        for r, single in enumerate(transcripts.singles(4, n_replicates))
    ]
    np.testing.assert_array_equal(batch, loop)
    recorded = transcripts.recording(seed=4, n_replicates=n_replicates)
    chosen = mechanism(recorded, scores, **keywords)
    again = mechanism(transcripts.replaying(recorded), -scores, **keywords)
    np.testing.assert_array_equal(again, chosen)
    np.testing.assert_array_equal(recorded.values[0], scores)


@both
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a positive finite number, got 0"),
        ({"epsilon": np.inf}, "epsilon must be"),
        ({"epsilon": None}, "epsilon must be"),
        ({"sensitivity": 0.0}, "sensitivity must be positive and finite"),
    ],
)
def test_bad_arguments(transcripts, mechanism, law, kind, changes, message):
    keywords = {"sensitivity": 1.0, "epsilon": 1.0, "label": "choice", **changes}
    with pytest.raises(dpalgos.InputError, match=message):
        mechanism(transcripts.seeded(), np.zeros((3, 1)), **keywords)
    with pytest.raises(dpalgos.InputError, match="scores must have shape"):
        mechanism(transcripts.seeded(), np.zeros((3, 2)), sensitivity=1.0, epsilon=1.0, label="choice")
