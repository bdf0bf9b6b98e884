"""Transcripts for the tests of the mechanisms."""

import numpy as np
import pytest

from dpalgos.audit.trials import BatchNoise, RecordingTranscript
from dpalgos.release.noise_source import Noise, NoNoise
from dpalgos.release.transcript import Transcript


class Transcripts:
    """Makes transcripts of each kind."""

    def seeded(self, seed=0, n_replicates=1):
        return Transcript(Noise(np.random.default_rng(seed).spawn(n_replicates)))

    def silent(self, n_replicates=1):
        return Transcript(NoNoise(np.random.default_rng(0).spawn(n_replicates)))

    def many(self, n_replicates, seed=0):
        """A million replicates from one generator: for the laws of mechanisms, not for a batch."""
        return Transcript(BatchNoise(np.random.default_rng(seed), n_replicates))

    def recording(self, seed=0, n_replicates=1):
        return RecordingTranscript(Noise(np.random.default_rng(seed).spawn(n_replicates)))

    def replaying(self, recorded):
        return RecordingTranscript(
            Noise(np.random.default_rng(99).spawn(recorded.n_replicates)), script=recorded.published
        )


@pytest.fixture
def transcripts():
    return Transcripts()
