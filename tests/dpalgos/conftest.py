"""Neighboring data sets: how far they move what a run would release, over the declared sensitivity."""

import numpy as np
import pytest

import dpalgos
from dpalgos.accounting.events import BoundedRangeEvent, FailureEvent, GaussianEvent
from dpalgos.api import build_params, run_estimator
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
        run_estimator(self.estimator, Sample(X, y, user_ids=user_ids), self.params, transcript)
        return transcript

    def replay(self, X, y, recorded, user_ids=None):
        transcript = RecordingTranscript(Noise([np.random.default_rng(0)]), script=recorded.published)
        run_estimator(self.estimator, Sample(X, y, user_ids=user_ids), self.params, transcript)
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


@pytest.fixture
def neighbors():
    return Neighbors
