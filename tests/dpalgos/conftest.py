"""Neighboring data sets: how far they move what a run would release, over the declared sensitivity."""

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.events import BoundedRangeEvent, FailureEvent, GaussianEvent
from dpalgos.api import build_params, run
from dpalgos.audit.trials import RecordingTranscript
from dpalgos.release.noise_source import Noise
from dpalgos.rows.sample import Sample


class Neighbors:
    """Runs an estimator on a data set, and on its neighbors with the same earlier releases."""

    def __init__(self, name, d, **keywords):
        self.estimator = dpalgos.get_estimator(name)
        self.params = build_params(self.estimator, keywords)
        self.d = d

    def record(self, X, y, seed=0, user_ids=None):
        transcript = RecordingTranscript(Noise([np.random.default_rng(seed)]))
        run(self.estimator, Sample(X, y, user_ids=user_ids), self.params, transcript)
        return transcript

    def replay(self, X, y, recorded, user_ids=None):
        transcript = RecordingTranscript(Noise([np.random.default_rng(0)]), script=recorded.published)
        run(self.estimator, Sample(X, y, user_ids=user_ids), self.params, transcript)
        return transcript

    def excesses(self, first, second):
        """Largest move of each label's private values, over the declared sensitivity."""
        largest = {}
        events = [event for event in first.events if not isinstance(event, FailureEvent)]
        for event, value, other in zip(events, first.values, second.values, strict=True):
            gaussian = isinstance(event, GaussianEvent)
            norm = np.inf if isinstance(event, BoundedRangeEvent) else 2 if gaussian else event.norm
            bound = np.max(event.l2_sensitivity if gaussian else event.sensitivity)
            moved = np.linalg.norm((value - other)[:, 0], norm) / bound
            largest[event.label] = max(largest.get(event.label, 0.0), float(moved))
        return largest

    def of_random_rows(self, seed, with_response, n=6, spread=5.0):
        rng = np.random.default_rng(seed)
        X, y = spread * rng.standard_t(2, (n, self.d)), spread * rng.standard_t(2, n)
        other_X, other_y = X.copy(), y.copy()
        moved = seed % n
        other_X[moved], other_y[moved] = 10 * rng.standard_t(2, self.d), 10 * rng.standard_t(2)
        first = self.record(X, y if with_response else None, seed)
        return self.excesses(first, self.replay(other_X, other_y if with_response else None, first))

    def of_the_witness(self, with_response):
        rng = np.random.default_rng(3)
        first = self.record(
            rng.standard_normal((1, self.d)), rng.standard_normal(1) if with_response else None
        )
        reached = {}
        witnesses = self.estimator.witnesses(self.params, self.d, first.published)
        for label, (X, y, other_X, other_y) in witnesses.items():
            one, two = (
                self.replay(rows, answers if with_response else None, first)
                for rows, answers in ((X, y), (other_X, other_y))
            )
            reached[label] = self.excesses(one, two).get(label)
        return reached

    def check(self, with_response=False, labels=None):
        """Random neighbors never exceed a sensitivity, and the witness attains every one."""
        for seed in range(30):
            moved = self.of_random_rows(seed, with_response)
            assert max(moved.values()) <= 1 + 1e-9, moved
        reached = {k: v for k, v in self.of_the_witness(with_response).items() if v is not None}
        assert set(reached) == set(labels or moved)
        assert 0.99 <= min(reached.values()) <= max(reached.values()) <= 1 + 1e-9, reached


@pytest.fixture
def neighbors():
    return Neighbors
