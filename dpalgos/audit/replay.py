"""Record a run's releases, and replay them on a neighboring data set.

Adaptive composition is about the change of each private value *given the same earlier releases*. A
replayed run publishes what the recorded run published, so that the two runs' private values, release
by release, are what the sensitivities must bound.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.events import Event, FailureEvent, Relation, UnprotectedEvent
from dpalgos.release.noise_source import Noise
from dpalgos.release.transcript import Transcript
from dpalgos.typing import FloatArray


@dataclass(frozen=True)
class ReleasedVector:
    """One release: the private value, what was published, and what it was charged as."""

    value: FloatArray
    published: FloatArray
    events: tuple[Event, ...]


class RecordingTranscript(Transcript):
    """A transcript that also keeps every release with its private value; for audits and tests only.

    With a ``script``, what an earlier run published, it publishes that instead of noise; with ``drawn``,
    which rows an earlier run drew, it draws the same.
    """

    def __init__(
        self,
        noise: Noise,
        relation: Relation = Relation.CENTRAL,
        script: Sequence[FloatArray] | None = None,
        drawn: Sequence[FloatArray] = (),
    ) -> None:
        super().__init__(noise, relation)
        self.releases: list[ReleasedVector] = []
        self.drawn: list[FloatArray] = []
        self._script, self._drawn = script or (), drawn
        self._n_recorded = 0

    @property
    def values(self) -> list[FloatArray]:
        """The private values, release by release."""
        return [release.value for release in self.releases]

    @property
    def published(self) -> list[FloatArray]:
        """What was published, release by release."""
        return [release.published for release in self.releases]

    def _drawn_rows(self, draw: Callable[[], FloatArray]) -> FloatArray:
        index = len(self.drawn)
        self.drawn.append(self._drawn[index] if index < len(self._drawn) else super()._drawn_rows(draw))
        return self.drawn[-1]

    def _publish(self, value: FloatArray, noisy: Callable[[], FloatArray]) -> FloatArray:
        silent = FailureEvent | UnprotectedEvent
        events = [event for event in self.events[self._n_recorded :] if not isinstance(event, silent)]
        self._n_recorded = len(self.events)
        # A run on the neighbor may ask for more releases than the script has: caught when compared.
        index, kept = len(self.releases), np.array(value)
        published = self._script[index] if index < len(self._script) else noisy()
        self.releases.append(ReleasedVector(kept, published, tuple(events)))
        return published
