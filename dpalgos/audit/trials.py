"""The pairs of neighboring datasets that an audit tries, and many runs on both with all their releases.

Adaptive composition concerns the change of each private value *given the same earlier releases*. Each run on
one dataset is replayed on its neighbor, which publishes the recorded values. The two runs give the two
private values of each release. The sensitivities must bound the difference. They also give the noise scales
under both hypotheses. An adversary who knows everything except the noise can compute all of these.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np

from dpalgos.accounting.events import Event, Relation
from dpalgos.accounting.other_events import RandomReport, SampledGaussian, Sketch
from dpalgos.api import run_estimator
from dpalgos.catalog import Estimator
from dpalgos.core.estimator import AnyEstimator
from dpalgos.core.spend import A, Spend
from dpalgos.errors import InputError
from dpalgos.hardened_release import secure_spend
from dpalgos.mechanisms.sensitivity import Bounded
from dpalgos.release.noise_source import FILLS, Noise
from dpalgos.rows.sample import Sample
from dpalgos.typing import BoolArray, FloatArray, IntArray

_BYTES = 48_000_000
_LARGEST_CHUNK = 50_000
_FIRST_CHUNK = 500
NoiseFactory = Callable[[np.random.Generator, int], Noise]


@dataclass(frozen=True)
class ReleasedVector:
    """One release: the private value, the published value, and the events that it was charged as.

    ``by_column`` is true if each column has its own candidates.
    """

    value: FloatArray
    published: FloatArray
    events: tuple[Event, ...]
    by_column: bool = False


class RecordingSpend(Spend):
    """Also keeps every release with its private value; for audits and tests only.

    A ``script`` holds the values that an earlier run published: they replace noisy values. ``drawn`` holds
    the rows that an earlier run drew: the same rows are drawn again.
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
        self._n_recorded, self._by_column, self._is_one_of_several = 0, False, False

    def for_replicate(self, r: int) -> Self:
        """Return what spends for one replicate, with that replicate's script."""
        part, later = super().for_replicate(r), self._script[len(self.releases) :]
        part.follow([np.ascontiguousarray(published[..., r : r + 1]) for published in later])
        return part

    def follow(self, script: Sequence[FloatArray]) -> None:
        """Forget all releases, and publish the script of one replicate of several."""
        self.releases, self.drawn = [], []
        self._script, self._n_recorded, self._is_one_of_several = script, 0, True

    def join(self, parts: Sequence[Spend]) -> None:
        """Add the records and the releases of all replicates."""
        super().join(parts)
        self._n_recorded = len(self.record.events)
        recorded = [part.releases for part in parts if isinstance(part, RecordingSpend)]
        events = iter(self.record.events[-len(parts[0].record.events) :])
        for releases in zip(*recorded, strict=True):
            value, published = (
                _side_by_side([getattr(one, name) for one in releases]) for name in ("value", "published")
            )
            self.releases.append(ReleasedVector(value, published, (next(events),)))

    @property
    def values(self) -> list[FloatArray]:
        """The private values, release by release."""
        return [release.value for release in self.releases]

    @property
    def published(self) -> list[FloatArray]:
        """The published values, release by release."""
        return [release.published for release in self.releases]

    def _drawn_rows(self, draw: Callable[[], FloatArray]) -> FloatArray:
        index = len(self.drawn)
        self.drawn.append(self._drawn[index] if index < len(self._drawn) else super()._drawn_rows(draw))
        return self.drawn[-1]

    def choose_each(
        self,
        label: str,
        scores: Bounded,
        draw: Callable[[], IntArray],
        *,
        allowed: BoolArray | None = None,
    ) -> IntArray:
        self._by_column = True
        chosen = super().choose_each(label, scores, draw, allowed=allowed)
        self._by_column = False
        return chosen

    def _publish(self, value: FloatArray, draw: Callable[[], A]) -> A:
        events = [
            event
            for event in self.record.events[self._n_recorded :]
            if not (event.is_failure or event.is_unprotected)
        ]
        self._n_recorded = len(self.record.events)
        # A run on the neighbor may make more releases than the script has; the comparison finds this.
        index, private = len(self.releases), np.array(value)
        published = self._script[index] if index < len(self._script) else draw()
        if self._is_one_of_several:
            published = published[: len(private)]
        self.releases.append(ReleasedVector(private, published, tuple(events), self._by_column))
        return cast(A, published)


def _side_by_side(vectors: Sequence[FloatArray]) -> FloatArray:
    """Return vectors (k_r, 1) as one array (k, R); shorter vectors are padded with zeros."""
    joined = np.zeros((max(map(len, vectors)), len(vectors)), dtype=vectors[0].dtype)
    for r, vector in enumerate(vectors):
        joined[: len(vector), r] = vector[:, 0]
    return joined


class BatchNoise(Noise):
    """Noise of many trials from one generator: a generator for each trial would cost more than the trials."""

    def __init__(self, rng: np.random.Generator, n_replicates: int) -> None:
        super().__init__([rng])
        self.n_replicates = n_replicates

    def select(self, replicates: slice) -> "BatchNoise":
        """Return a source of fresh draws for some of the trials."""
        return type(self)(self._rngs[0], len(range(*replicates.indices(self.n_replicates))))

    def gumbel_rows(self, count: int, n_rows: int) -> Iterator[tuple[slice, FloatArray]]:
        """Draw Gumbel variables for all trials, and yield them a few trials at a time."""
        draws = self.gumbel(count).T
        for start in range(0, self.n_replicates, n_rows):
            chosen = slice(start, min(start + n_rows, self.n_replicates))
            yield chosen, draws[chosen]

    def _draw(self, kind: str, shape: tuple[int, ...]) -> FloatArray:
        return self._fresh(kind, int(np.prod(shape))).reshape(*shape, self.n_replicates)

    def _fresh(self, kind: str, count: int) -> FloatArray:
        draws = np.empty((count, self.n_replicates))
        FILLS[kind](self._rngs[0], out=draws)
        return draws


@dataclass(frozen=True)
class Runs:
    """A chunk of runs on one of the datasets, and the final estimates (d, R).

    ``first`` and ``second`` are the same published releases with the private values of D and of D'.
    ``others`` are other numbers (R,) of the runs, such as whether each fails.
    """

    first: list[ReleasedVector]
    second: list[ReleasedVector]
    answer: FloatArray
    others: dict[str, FloatArray] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Pair:
    """Two neighboring datasets."""

    label: str
    X: FloatArray
    y: FloatArray | None
    other_X: FloatArray
    other_y: FloatArray | None

    @property
    def swapped(self) -> "Pair":
        return Pair(self.label, self.other_X, self.other_y, self.X, self.y)


class DependsOnData(RuntimeError):
    """The number of releases depends on the private data."""


@dataclass(frozen=True, eq=False)
class Trials:
    """Runs of an estimator with given parameters; ``noise`` makes the random source of a chunk.

    With ``inflation``, that of a release plan, the noise is floating-point-safe and drawn run by run, as by
    :func:`dpalgos.hardened_release.draw_release`. The research code replays the published values: the audit
    compares these with its private values given the same earlier releases, and with its declared noise.
    """

    estimator: Estimator
    params: AnyEstimator
    rng: np.random.Generator
    noise: NoiseFactory = BatchNoise
    inflation: float | None = None

    def chunks(self, pair: Pair, n_trials: int) -> Iterator[tuple[Runs, Runs]]:
        """Yield chunks of runs on D and on D', in bounded memory; ``n_trials`` in all on each.

        Raises DependsOnData if the number of releases depends on the private data.
        """
        chunk, n_left = _FIRST_CHUNK, n_trials
        while n_left > 0:
            chunk = min(chunk, n_left)
            on_first, on_second = (self._runs(each, chunk, self.inflation) for each in (pair, pair.swapped))
            yield on_first, Runs(on_second.second, on_second.first, on_second.answer)
            n_left -= chunk
            size = sum(release.value.nbytes + release.published.nbytes for release in on_first.first)
            chunk = int(np.clip(_BYTES * chunk / max(size, 1), 1, _LARGEST_CHUNK))

    def replay(self, pair: Pair) -> tuple[float, float, str]:
        """Compare the private values of a run on D with those on D' given the same history.

        Return their distance in units of noise, and the largest move in units of sensitivity with its label.
        """
        try:
            with np.errstate(all="ignore"):
                runs = self._runs(pair, 2, inflation=None)
                moves = [_move(*both) for both in zip(runs.first, runs.second, strict=True)]
        except InputError:  # of one of them; the other may fail
            with suppress(InputError):
                self._run(pair.swapped, BatchNoise(self.rng, 1))
            return 0.0, 0.0, ""
        distance = float(sum(min(size / multiplier, 1e6) ** 2 for size, multiplier, _ in moves))
        return distance, *max(((size, label) for size, _, label in moves), default=(0.0, ""))

    def leak(self, pair: Pair) -> str:
        """Return what differs between the neighbors although all releases are the same; "" if nothing does.

        It would come from rows without noise. Reports of persons are not compared.
        """
        if self.estimator.relation not in (Relation.CENTRAL, Relation.USER):
            return ""
        try:
            recorded, answer = self._run(pair, BatchNoise(self.rng, 1))
            replayed, other = self._run(pair.swapped, BatchNoise(self.rng, 1), recorded.published)
        except Exception:  # a refusal, or a failure, which the attack counts
            return ""
        if len(recorded.releases) != len(replayed.releases):
            return "the number of releases"
        one, two = recorded.record, replayed.record
        intervals = [each.interval and each.interval.half_width for each in (one, two)]
        parts = {"the estimate": (answer, other), "the interval": tuple(intervals)}
        if one.diagnostics.keys() == two.diagnostics.keys():
            parts |= {
                f"the diagnostic {key!r}": (one.diagnostics[key], two.diagnostics[key])
                for key in one.diagnostics
            }
        return next((name for name, both in parts.items() if not _are_equal(*both)), "")

    def events(self, candidates: Sequence[Pair]) -> list[Event]:
        """Return the events of the first run that does not fail, over some pairs."""
        for pair in candidates:
            try:
                return self._run(pair, BatchNoise(self.rng, 1))[0].record.events
            except Exception as error:
                last = error
        raise last

    def fails(self, pair: Pair) -> bool:
        """Return whether a run on D ends in an error other than a refusal; an adversary would observe it."""
        try:
            self._run(pair, BatchNoise(self.rng, 1))
        except InputError:
            return False
        except Exception:
            return True
        return False

    def _runs(self, pair: Pair, n_trials: int, inflation: float | None) -> Runs:
        if inflation is None:
            recorded, answer = self._run(pair, self.noise(self.rng, n_trials))
        else:
            script, answer = self._safe_runs(pair, n_trials, inflation)
            recorded, _ = self._run(pair, BatchNoise(self.rng, n_trials), script)
        replayed, _ = self._run(pair.swapped, BatchNoise(self.rng, n_trials), recorded.published)
        if len(recorded.releases) != len(replayed.releases):
            raise DependsOnData(
                f"{self.estimator.name} makes {len(recorded.releases)} releases on one dataset and "
                f"{len(replayed.releases)} on its neighbor given the same history: the number depends on data"
            )
        return Runs(recorded.releases, replayed.releases, answer)

    def _run(
        self, pair: Pair, noise: Noise, script: Sequence[FloatArray] | None = None
    ) -> tuple[RecordingSpend, FloatArray]:
        spend = RecordingSpend(noise, self.estimator.relation or Relation.CENTRAL, script)
        # Rows overflow on purpose: the audit asks whether releases show it.
        with np.errstate(all="ignore"):
            sample = trial_sample(self.estimator, pair.X, pair.y, noise.n_replicates)
            answer = run_estimator(self.estimator, sample, self.params, spend)
        return spend, answer.reshape(-1, noise.n_replicates)

    def _safe_runs(self, pair: Pair, n: int, inflation: float) -> tuple[list[FloatArray], FloatArray]:
        """Return the published values and the estimates of runs with floating-point-safe noise."""
        sample = trial_sample(self.estimator, pair.X, pair.y)
        runs, answers = list[list[FloatArray]](), []
        for _ in range(n):
            self.noise(self.rng, 1)  # counts the run
            spend = secure_spend(self.estimator, sample, inflation)
            runs.append(_published_by(spend))
            with np.errstate(all="ignore"):
                answers.append(run_estimator(self.estimator, sample, self.params, spend).reshape(-1, 1))
        script = [np.concatenate(parts, axis=-1) for parts in zip(*runs, strict=True)]
        return script, np.concatenate(answers, axis=-1)


def _are_equal(one: Any, other: Any) -> bool:
    """Return whether two released values are equal, bit by bit."""
    if isinstance(one, str | None) or isinstance(other, str | None):
        return bool(one == other)
    first, second = np.asarray(one), np.asarray(other)
    return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")


def _published_by(spend: Spend) -> list[FloatArray]:
    """Return a list to which a run will add its published values."""
    published: list[FloatArray] = []
    publish = spend._publish

    def kept(value: FloatArray, draw: Callable[[], FloatArray]) -> FloatArray:
        published.append(publish(value, draw))
        return published[-1]

    vars(spend)["_publish"] = kept
    return published


def _move(first: ReleasedVector, second: ReleasedVector) -> tuple[float, float, str]:
    """Return the move of a private value and its noise, both in units of its sensitivity, and its label."""
    event = first.events[0] if first.events else None
    # The neighbors do not share rows drawn at random, or reports. A sketch is bounded by its ridge.
    others = SampledGaussian | RandomReport | Sketch
    if event is None or event.sensitivity is None or isinstance(event, others):
        return 0.0, 1.0, ""
    size = np.linalg.norm(first.value - second.value, event.norm, axis=0) / np.asarray(event.sensitivity)
    multiplier = getattr(event, "noise_multiplier", 1 / max(getattr(event, "epsilon", 1.0), 1e-9))
    return float(np.max(np.nan_to_num(size, nan=0.0))), float(multiplier), event.label


def trial_sample(estimator: Estimator, X: FloatArray, y: FloatArray | None, n_replicates: int = 1) -> Sample:
    """Return a trial's sample and some public rows; if users are protected, all rows are of one user."""
    public = np.random.default_rng(0).uniform(-1, 1, (4 * X.shape[1], X.shape[1]))
    ids = np.zeros(len(X), dtype=np.int64) if estimator.relation is Relation.USER else None
    return Sample(X, y, n_replicates=n_replicates, user_ids=ids, public_rows=public)


def pairs(estimator: Estimator, params: AnyEstimator, n_features: int) -> list[Pair]:
    """Return the pairs of neighbors that an audit tries."""
    neighbors = [Pair(label, *each) for label, each in estimator.witnesses(params, n_features).items()]
    if estimator.relation is Relation.USER:
        neighbors += [_with_more_rows(pair) for pair in neighbors]
    if estimator.task == "glm":
        neighbors += [_with_labels(pair) for pair in neighbors]
    if estimator.task == "mean":
        neighbors = [dataclasses.replace(pair, y=None, other_y=None) for pair in neighbors]
    by_content = {(_content(pair), _content(pair.swapped)): pair for pair in reversed(neighbors)}
    return [pair for (one, other), pair in by_content.items() if one != other]


def _content(pair: Pair) -> tuple[bytes, bytes]:
    return pair.X.tobytes(), b"" if pair.y is None else pair.y.tobytes()


def _with_more_rows(pair: Pair) -> Pair:
    """Return a pair of persons, the first of whom has each row three times."""
    y = None if pair.y is None else np.repeat(pair.y, 3)
    return dataclasses.replace(pair, label=f"{pair.label}, three times", X=np.repeat(pair.X, 3, axis=0), y=y)


def _with_labels(pair: Pair) -> Pair:
    """Return the pair with responses of 0 and 1, which every family allows."""
    y, other_y = ((each > 0).astype(float) for each in (pair.y, pair.other_y) if each is not None)
    return dataclasses.replace(pair, label=f"{pair.label}, labels", y=y, other_y=other_y)
