"""Transcripts for the tests of the mechanisms."""

import numpy as np
import pytest

from dpalgos.audit.replay import RecordingTranscript, ReplayTranscript
from dpalgos.mechanisms.transcript import Transcript
from dpalgos.noise import Noise, NoNoise


class OneStream(Noise):
    """A million replicates from one generator: for the laws of mechanisms, not for a batch."""

    def __init__(self, n_replicates, seed):
        super().__init__([np.random.default_rng(seed)])
        self._count = n_replicates

    @property
    def n_replicates(self):
        return self._count

    def _fresh(self, kind, count):
        return getattr(self._rngs[0], kind)(size=(count, self._count))


class Transcripts:
    """Makes transcripts of each kind."""

    def seeded(self, seed=0, n_replicates=1):
        return Transcript(Noise(np.random.default_rng(seed).spawn(n_replicates)))

    def singles(self, seed, n_replicates):
        """One transcript per generator of :meth:`seeded`: the loop that a batch must equal."""
        return [Transcript(Noise([rng])) for rng in np.random.default_rng(seed).spawn(n_replicates)]

    def silent(self, n_replicates=1):
        return Transcript(NoNoise(np.random.default_rng(0).spawn(n_replicates)))

    def many(self, n_replicates, seed=0):
        return Transcript(OneStream(n_replicates, seed))

    def recording(self, seed=0, n_replicates=1):
        return RecordingTranscript(Noise(np.random.default_rng(seed).spawn(n_replicates)))

    def replaying(self, recorded):
        return ReplayTranscript(
            Noise(np.random.default_rng(99).spawn(recorded.n_replicates)), recorded.published
        )


@pytest.fixture
def transcripts():
    return Transcripts()
