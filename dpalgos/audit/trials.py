"""Many runs of an estimator on two neighboring data sets, with everything that they release.

Each run on one data set is replayed on the other with the same published history: the two give, release
by release, the private values and the noise scales under both hypotheses, which is what an adversary who
knows all but the noise can compute.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dpalgos.accounting.events import Event, Relation
from dpalgos.api import run
from dpalgos.audit.replay import RecordingTranscript, ReleasedVector
from dpalgos.catalog import Estimator
from dpalgos.errors import InputError
from dpalgos.params import Params
from dpalgos.release.noise_source import Noise, fill_draws
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

_BYTES = 48_000_000
_LARGEST_CHUNK = 50_000
_FIRST_CHUNK = 500

NoiseFactory = Callable[[np.random.Generator, int], Noise]


class BatchNoise(Noise):
    """Noise of many trials from one generator, since a million generators cost more than a million trials."""

    def __init__(self, rng: np.random.Generator, n_replicates: int) -> None:
        super().__init__([rng])
        self._n_replicates = n_replicates

    @property
    def n_replicates(self) -> int:
        return self._n_replicates

    def select(self, replicates: slice) -> "BatchNoise":
        """Return a source of fresh draws for some of the trials."""
        return BatchNoise(self._rngs[0], len(range(*replicates.indices(self._n_replicates))))

    def gumbel_rows(self, count: int, n_rows: int) -> Iterator[tuple[slice, FloatArray]]:
        """Draw Gumbel variables for all trials, and yield those of a few at a time."""
        draws = self.gumbel(count).T
        for start in range(0, self._n_replicates, n_rows):
            chosen = slice(start, min(start + n_rows, self._n_replicates))
            yield chosen, draws[chosen]

    def _draw(self, kind: str, shape: tuple[int, ...]) -> FloatArray:
        return self._fresh(kind, int(np.prod(shape))).reshape(*shape, self._n_replicates)

    def _fresh(self, kind: str, count: int) -> FloatArray:
        draws = np.empty((count, self._n_replicates))
        fill_draws(kind, self._rngs[0], draws)
        return draws


@dataclass(frozen=True)
class Runs:
    """A chunk of runs on one of the data sets, and the final estimates (d, R).

    ``first`` and ``second`` are the same published releases with the private values of D and of D'.
    """

    first: list[ReleasedVector]
    second: list[ReleasedVector]
    answer: FloatArray


@dataclass(frozen=True)
class Pair:
    """Two neighboring data sets."""

    label: str
    X: FloatArray
    y: FloatArray | None
    other_X: FloatArray
    other_y: FloatArray | None

    @property
    def swapped(self) -> "Pair":
        return Pair(self.label, self.other_X, self.other_y, self.X, self.y)


@dataclass(frozen=True, eq=False)
class Trials:
    """Runs of an estimator with given parameters; ``noise`` makes the random source of a chunk."""

    estimator: Estimator
    params: Params
    rng: np.random.Generator
    noise: NoiseFactory = BatchNoise

    def chunks(self, pair: Pair, n_trials: int) -> Iterator[tuple[Runs, Runs]]:
        """Yield chunks of runs on D and as many on D', of bounded memory, ``n_trials`` of each in all.

        Raises RuntimeError if the number of releases depends on the private data.
        """
        chunk, left = _FIRST_CHUNK, n_trials
        while left > 0:
            chunk = min(chunk, left)
            on_first, on_second = self._runs(pair, chunk), self._runs(pair.swapped, chunk)
            yield on_first, Runs(on_second.second, on_second.first, on_second.answer)
            left -= chunk
            size = sum(release.value.nbytes + release.published.nbytes for release in on_first.first)
            chunk = int(np.clip(_BYTES * chunk / max(size, 1), 1, _LARGEST_CHUNK))

    def events(self, candidates: Sequence[Pair]) -> list[Event]:
        """Return the events of the first run over some pairs that does not fail."""
        for pair in candidates:
            try:
                return self._run(pair, BatchNoise(self.rng, 1))[0].events
            except Exception as error:
                last = error
        raise last

    def fails(self, pair: Pair) -> bool:
        """Return whether a run on D ends in an error other than a refusal: also an observation."""
        try:
            self._run(pair, BatchNoise(self.rng, 1))
        except InputError:
            return False
        except Exception:
            return True
        return False

    def _runs(self, pair: Pair, n_trials: int) -> Runs:
        recorded, answer = self._run(pair, self.noise(self.rng, n_trials))
        replayed, _ = self._run(pair.swapped, BatchNoise(self.rng, n_trials), script=recorded.published)
        if len(recorded.releases) != len(replayed.releases):
            raise RuntimeError(
                f"{self.estimator.name} makes {len(recorded.releases)} releases on one data set and "
                f"{len(replayed.releases)} on its neighbor given the same history: how many is itself private"
            )
        return Runs(recorded.releases, replayed.releases, answer)

    def _run(
        self, pair: Pair, noise: Noise, script: Sequence[FloatArray] | None = None
    ) -> tuple[RecordingTranscript, FloatArray]:
        transcript = RecordingTranscript(noise, self.estimator.relation or Relation.CENTRAL, script)
        # Rows that overflow on purpose: whether that shows in what is released is the question.
        with np.errstate(all="ignore"):
            sample = trial_sample(self.estimator, pair.X, pair.y, noise.n_replicates)
            answer = run(self.estimator, sample, self.params, transcript)
        return transcript, answer.reshape(-1, noise.n_replicates)


def trial_sample(estimator: Estimator, X: FloatArray, y: FloatArray | None, n_replicates: int = 1) -> Sample:
    """Return a trial's sample: its rows, all of one user where users are protected, and some public rows."""
    public = np.random.default_rng(0).uniform(-1, 1, (4 * X.shape[1], X.shape[1]))
    ids = np.zeros(len(X), dtype=np.int64) if estimator.relation is Relation.USER else None
    return Sample(X, y, n_replicates=n_replicates, user_ids=ids, public_rows=public)
