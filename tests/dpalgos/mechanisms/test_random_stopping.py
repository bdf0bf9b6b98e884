"""Private selection with random stopping: its law, its exact cost, and what stopping at a cap would cost."""

import numpy as np
import pytest

from dpalgos.accounting.composition import certified_epsilon
from dpalgos.accounting.events import ApproximateEvent
from dpalgos.mechanisms.random_stopping import number_of_draws, select_by_random_stopping
from dpalgos.mechanisms.winsorized_mean import FINE_WINDOW, repeated_winsorized_means


def geometric(stop, most=None):
    """Probabilities of 1, 2, … draws."""
    law = stop * (1 - stop) ** np.arange(20_000 if most is None else most)
    return law / law.sum()


@pytest.mark.parametrize("most", [None, 7])
def test_the_number_of_draws_is_geometric(most):
    uniforms = (np.arange(50_000) + 0.5) / 50_000
    drawn = np.array([number_of_draws(u, 0.2, most) for u in uniforms])
    expected = geometric(0.2, most)
    seen = np.bincount(drawn, minlength=12)[1:12] / len(drawn)
    np.testing.assert_allclose(seen[:7], expected[:7], atol=1e-4)
    assert most is None or drawn.max() == most


def losses(n, m, epsilon_k=20):
    rng = np.random.default_rng(1)
    return rng.binomial(m, np.linspace(0.3, 0.7, epsilon_k), (n, epsilon_k)) / m


def select(transcript, values, epsilon, most_draws=None):
    n, n_candidates = values.shape
    radius = float(np.sqrt(np.log(2 * n_candidates * n / 0.1) / (2 * 100)))

    def scores(which, noise, replicate):
        return repeated_winsorized_means(
            values,
            which,
            noise,
            bound=1.0,
            radius=radius,
            window=FINE_WINDOW,
            range_epsilon=epsilon / 6,
            mean_epsilon=epsilon / 6,
        )

    return select_by_random_stopping(
        transcript,
        np.repeat(values.mean(axis=0)[:, None], transcript.n_replicates, axis=1),
        scores,
        score_epsilon=epsilon / 3,
        stop_probability=0.1 / (5 * n_candidates),
        most_draws=most_draws,
        label="choice",
    )


def test_the_record_is_one_pure_event_of_three_scores(transcripts):
    transcript = transcripts.seeded(3)
    select(transcript, losses(100, 10), 0.6, most_draws=5)
    (event,) = transcript.events
    assert isinstance(event, ApproximateEvent)
    assert (event.epsilon, event.delta) == (pytest.approx(0.6), 0.0)
    assert 0.59 < certified_epsilon(transcript.events, 1e-6) <= 0.6
