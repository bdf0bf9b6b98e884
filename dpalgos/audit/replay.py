"""Record a run's releases, and replay them on a neighboring data set.

Adaptive composition is about the change of each private value *given the same earlier releases*. A
replayed run publishes what the recorded run published, so that the two runs' private values, release
by release, are what the sensitivities must bound.
"""

from collections.abc import Callable, Sequence

import numpy as np

from dpalgos.accounting.relation import Relation
from dpalgos.release.noise_source import Noise
from dpalgos.release.transcript import Transcript
from dpalgos.typing import FloatArray


class RecordingTranscript(Transcript):
    """A transcript that also keeps private values and what was published; for audits and tests only.

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
        self.values: list[FloatArray] = []
        self.published: list[FloatArray] = []
        self.drawn: list[FloatArray] = []
        self._script, self._drawn = script or (), drawn

    def _drawn_rows(self, draw: Callable[[], FloatArray]) -> FloatArray:
        index = len(self.drawn)
        self.drawn.append(self._drawn[index] if index < len(self._drawn) else super()._drawn_rows(draw))
        return self.drawn[-1]

    def _publish(self, value: FloatArray, noisy: Callable[[], FloatArray]) -> FloatArray:
        # A run on the neighbor may ask for more releases than the script has: caught when compared.
        index = len(self.published)
        self.values.append(np.array(value))
        self.published.append(self._script[index] if index < len(self._script) else noisy())
        return self.published[-1]
