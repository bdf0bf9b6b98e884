"""Trials of floating-point-safe noise: the noise of releases about real people, run by run."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpalgos.api import run_estimator
from dpalgos.audit.trials import BatchNoise, Pair, Runs, Trials, trial_sample
from dpalgos.hardened_release import secure_transcript
from dpalgos.release.transcript import Transcript
from dpalgos.typing import FloatArray


@dataclass(frozen=True, eq=False)
class HardenedTrials(Trials):
    """Runs of the transcript of :func:`dpalgos.hardened_release.draw_release`, replayed by the research code.

    ``inflation`` is that of a release plan. The audit compares the published values with two things: the
    private values of the research code given the same earlier releases, and its declared noise.
    """

    inflation: float = 1.0

    def _runs(self, pair: Pair, n_trials: int) -> Runs:
        sample = trial_sample(self.estimator, pair.X, pair.y)
        runs: list[list[FloatArray]] = []
        answers = []
        for _ in range(n_trials):
            self.noise(self.rng, 1)  # counts the run
            transcript = secure_transcript(self.estimator, sample, self.inflation)
            runs.append(_published_by(transcript))
            with np.errstate(all="ignore"):
                answers.append(run_estimator(self.estimator, sample, self.params, transcript).reshape(-1, 1))
        script = [np.concatenate(parts, axis=-1) for parts in zip(*runs, strict=True)]
        source = BatchNoise(self.rng, n_trials)
        recorded, replayed = (self._run(each, source, script=script)[0] for each in (pair, pair.swapped))
        return Runs(recorded.releases, replayed.releases, np.concatenate(answers, axis=-1))


def _published_by(transcript: Transcript) -> list[FloatArray]:
    """Return a list to which a transcript will add its published values."""
    published: list[FloatArray] = []
    draw = transcript._publish

    def kept(value: FloatArray, noisy: Callable[[], FloatArray]) -> FloatArray:
        published.append(draw(value, noisy))
        return published[-1]

    vars(transcript)["_publish"] = kept
    return published
