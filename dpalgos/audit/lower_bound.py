"""Audits: an empirical lower bound on ε, by an adversary who sees every release of many runs.

    1. Compare: a few runs on every pair of neighbors. Which one or two promise most?
    2. Choose: n/2 runs on these. Which pair, which distinguisher, which direction, which threshold?
    3. Test: n fresh runs on each of its two data sets. How often does that one event come up?

The third step tests a single event that was fixed before it, so its confidence needs no correction for the
many candidates; ε ≥ log((p_low − δ) / q_high) by exact confidence intervals
(:mod:`dpalgos.audit.rates`).

Pairs: the estimator's own witnesses, given what a run published up to its first, middle and last release,
and rows far outside of every bound, as far as data are accepted.

Next to the bound, the runs that choose say how large the noise was that was drawn, and which ε the events
prove with that (:mod:`dpalgos.audit.drawn_noise`): noise that is too small is found whatever the pair.

What a bound means. Above the certified ε: the guarantee is false, with that confidence, whatever the
proof says. Below it: nothing is proved. :func:`dpalgos.audit.rates.detectable_fault` says which faults
n runs can see at all. Leaks through the last bits of floats are left out (scores are rounded), and the random
source of :func:`dpalgos.estimate` is audited only if ``noise`` brings it in.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpalgos.accounting.composition import certified_epsilon
from dpalgos.api import build_params
from dpalgos.audit.distinguishers import Discriminant, all_scores, declared_divergence
from dpalgos.audit.drawn_noise import DrawnNoise, epsilon_of_drawn_noise
from dpalgos.audit.hardened_trials import HardenedTrials
from dpalgos.audit.rates import CONFIDENCE, detectable_fault, epsilon_lower_bound
from dpalgos.audit.trials import BatchNoise, NoiseFactory, Pair, Trials, pairs
from dpalgos.catalog import Estimator, get_estimator
from dpalgos.errors import InputError
from dpalgos.hardened_release import rehearse_release
from dpalgos.params import Params
from dpalgos.release.checks import check_count
from dpalgos.release.noise_source import Noise
from dpalgos.typing import FloatArray

_COMPARISON_TRIALS, _LEAST_COMPARISON_TRIALS = 500, 100
_LEAST_COUNT = 5
_FAILURE_TRIALS = 1000

Scores = tuple[dict[str, FloatArray], dict[str, FloatArray]]


@dataclass(frozen=True, kw_only=True)
class AuditVerdict:
    """Whether runs contradict a claim (ε, δ), in words and as plain data.

    ``epsilon_lower_bound`` is what they prove, at ``delta`` and with ``confidence``, by how often one event
    came up in ``n_trials`` runs (or guesses of a single run) on each of two neighbors, the ``pair``: at the
    true and the false positive rate. The ``distinguisher`` is the score of the event.
    """

    epsilon: float
    delta: float
    epsilon_lower_bound: float
    confidence: float
    n_trials: int
    pair: str
    distinguisher: str
    true_positive_rate: float
    false_positive_rate: float

    @property
    def violated(self) -> bool:
        """Whether the runs contradict the claim."""
        return self.epsilon_lower_bound > self.epsilon

    @property
    def verdict(self) -> str:
        return "violated" if self.violated else "no violation found"

    def to_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "verdict": self.verdict}


@dataclass(frozen=True, kw_only=True)
class AuditResult(AuditVerdict):
    """The result of an audit of an estimator.

    ``certified_epsilon`` is what the accountant proves from the events, ``claimed_epsilon`` the same and for
    ``tight`` no more than ``epsilon``: what the bound is compared with. ``detectable_fault`` is the factor by
    which noise must be too small for so many runs to see it by attacks, at the claimed ε.
    ``noise_epsilon`` is the ε that the events prove with the noise that was drawn, where its upper confidence
    limits, ``noise_ratios`` by release, lie below what is declared.
    """

    estimator: str
    calibration: str
    certified_epsilon: float
    claimed_epsilon: float
    detectable_fault: float
    noise_epsilon: float
    noise_ratios: dict[str, float]

    @property
    def violated(self) -> bool:
        """Whether the runs contradict the claim."""
        proved = max(self.epsilon_lower_bound, self.noise_epsilon / (1 + 1e-9))
        return proved > self.claimed_epsilon or any(ratio < 1 for ratio in self.noise_ratios.values())

    @property
    def remark(self) -> str:
        """What is said of noise that is smaller than declared; empty where none is."""
        small = [(ratio, label) for label, ratio in self.noise_ratios.items() if ratio < 1]
        if not small:
            return ""
        ratio, label = min(small)
        return (
            f"; the noise of {label!r} is at most {ratio:.3f} times what is declared, with which the events "
            f"prove ε = {self.noise_epsilon:.3f}"
        )


def audit_estimator(
    name: str,
    *,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    calibration: str = "tight",
    n_trials: int = 100_000,
    n_features: int = 3,
    hardened: bool = False,
    progress: Callable[[int], None] | None = None,
    **keywords: Any,
) -> AuditResult:
    """Audit a private estimator of the catalog by ``n_trials`` runs on each of two neighbors.

    To choose them takes about as many again; ``progress`` is called with the number of runs begun so far.
    ``keywords`` are public bounds and settings; what is not given is taken from the catalog's example.
    ``hardened``: the noise of releases about real people, run by run.
    """
    estimator = get_estimator(name)
    if not estimator.private:
        raise InputError(f"estimator must be a private one, got {name!r}, which claims no ε to audit")
    # Arrays of an example have its own number of columns; a trial's sample brings public rows.
    example = {k: v for k, v in estimator.example.items() if np.shape(v)[-1:] in ((), (n_features,))}
    given = {**example, **keywords, "epsilon": epsilon, "delta": delta, "calibration": calibration}
    n_begun = 0

    def noise(rng: np.random.Generator, n_replicates: int) -> Noise:
        nonlocal n_begun
        n_begun += n_replicates
        if progress:
            progress(n_begun)
        return BatchNoise(rng, n_replicates)

    params = build_params(estimator, given)
    options: dict[str, Any] = {"n_trials": n_trials, "n_features": n_features, "rng": rng, "noise": noise}
    return audit(estimator, params, hardened=given if hardened else None, **options)


def audit(
    estimator: Estimator,
    params: Params,
    *,
    n_trials: int,
    rng: np.random.Generator,
    n_features: int = 3,
    noise: NoiseFactory = BatchNoise,
    hardened: dict[str, Any] | None = None,
) -> AuditResult:
    """Audit any estimator, e.g. a faulty one; ``noise`` makes the random source of a chunk of trials.

    ``hardened``: the keywords of a release, whose noise is drawn run by run. The other arguments are those of
    :func:`audit_estimator`.
    """
    n_trials, n_features = check_count("n_trials", n_trials), check_count("n_features", n_features)
    if not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a numpy.random.Generator, got {type(rng).__name__}")
    bounds = EventBounds(n_trials, float(getattr(params, "delta", np.nan)))

    trials = Trials(estimator, params, rng, noise)
    if hardened is not None:
        plan = rehearse_release(estimator.name, 1, n_features, hardened, n_users=2)
        trials = HardenedTrials(estimator, params, rng, noise, plan.inflation)
    audited = _Audit(trials, bounds)
    candidates = pairs(estimator, params, n_features, rng)
    for pair in candidates:
        if any(audited.trials.fails(either) for either in (pair, pair.swapped)):
            return audited.of_failure(pair)
    return audited.of_releases(candidates)


@dataclass(frozen=True)
class EventBounds:
    """The bound that a test of so many runs will give."""

    n_trials: int
    delta: float

    def predict(self, hits: FloatArray, false_hits: FloatArray, n: int) -> FloatArray:
        """Return the bound that the test will give if rates stay as they were in ``n`` runs."""
        factor = self.n_trials / n
        # One more false hit than seen, since thresholds were chosen to have few.
        scaled = np.minimum((false_hits + 1) * factor, self.n_trials)
        return epsilon_lower_bound(hits * factor, scaled, self.n_trials, self.delta)


@dataclass(frozen=True)
class TestedEvent:
    """The event that a score is at least (``reverse``: at most) a threshold."""

    name: str
    threshold: float
    reverse: bool
    predicted: float

    def count(self, scores: dict[str, FloatArray]) -> int:
        score = scores.get(self.name)
        if score is None:
            return 0
        return int(np.sum(score <= self.threshold if self.reverse else score >= self.threshold))


@dataclass(frozen=True)
class _Audit:
    trials: Trials
    bounds: EventBounds
    drawn: DrawnNoise = dataclasses.field(default_factory=DrawnNoise)

    def of_releases(self, candidates: list[Pair]) -> AuditResult:
        """Audit by what is released: compare, choose and test."""
        n = self.bounds.n_trials
        finalists = [
            (pair, discriminant, choose_event(self._score(pair, n // 2 + 1, discriminant), self.bounds))
            for pair, discriminant in self._promising(candidates)
        ]
        pair, discriminant, chosen = max(finalists, key=lambda finalist: finalist[2].predicted)
        hits, false_hits = 0, 0
        for on_first, on_second in self.trials.chunks(pair, n):
            counts = [chosen.count(all_scores(runs, discriminant)) for runs in (on_first, on_second)]
            if chosen.reverse:
                counts.reverse()
            hits, false_hits = hits + counts[0], false_hits + counts[1]
        return self._result(pair, n, chosen.name, hits, false_hits)

    def of_failure(self, pair: Pair) -> AuditResult:
        """Audit by whether a run fails with an error that is not about the input."""
        n = min(self.bounds.n_trials, _FAILURE_TRIALS)
        counts = [sum(self.trials.fails(either) for _ in range(n)) for either in (pair, pair.swapped)]
        return self._result(pair, n, "whether it fails", max(counts), min(counts))

    def _promising(self, candidates: list[Pair]) -> list[tuple[Pair, Discriminant]]:
        """Return the pair that declared noise should hide least, and the one that runs distinguish best."""
        few = min(_COMPARISON_TRIALS, max(_LEAST_COMPARISON_TRIALS, self.bounds.n_trials // 2))
        n = max(few, self.bounds.n_trials // 50)
        ranked = []
        for pair in candidates:
            try:
                runs = next(self.trials.chunks(pair, few))
                discriminant = Discriminant(*runs)
                event = choose_event(self._score(pair, n, discriminant), self.bounds)
            except InputError:
                continue  # the estimator refuses such rows, e.g. responses that are no class labels
            declared = max(declared_divergence(chunk) for chunk in runs)
            ranked.append((declared, event.predicted, pair, discriminant))
        if not ranked:
            name = self.trials.estimator.name
            raise InputError(f"{name} refuses every pair of neighbors; check its keywords")
        best = {id(item): item for item in (max(ranked, key=lambda f: f[0]), max(ranked, key=lambda f: f[1]))}
        return [(pair, discriminant) for _, _, pair, discriminant in best.values()]

    def _score(self, pair: Pair, n_trials: int, discriminant: Discriminant) -> Scores:
        collected: tuple[list[dict[str, FloatArray]], list[dict[str, FloatArray]]] = ([], [])
        for chunk in self.trials.chunks(pair, n_trials):
            self.drawn.add(chunk[0].first)
            for scores, runs in zip(collected, chunk, strict=True):
                scores.append(all_scores(runs, discriminant))
        first, second = (
            {name: np.concatenate([s[name] for s in scores]) for name in scores[0]} for scores in collected
        )
        return first, second

    def _result(self, pair: Pair, n: int, distinguisher: str, hits: int, false_hits: int) -> AuditResult:
        params, delta = self.trials.params, self.bounds.delta
        calibration = str(getattr(params, "calibration", ""))
        epsilon = float(getattr(params, "epsilon", np.nan))
        events = self.trials.events([pair, pair.swapped])
        certified, ratios = certified_epsilon(events, delta), self.drawn.ratios()
        claimed = min(certified, epsilon) if calibration == "tight" else certified
        detectable = np.inf
        if 0 < claimed < np.inf:
            detectable = detectable_fault(n, claimed, delta)
        return AuditResult(
            estimator=self.trials.estimator.name,
            calibration=calibration,
            epsilon=epsilon,
            delta=delta,
            certified_epsilon=certified,
            claimed_epsilon=claimed,
            epsilon_lower_bound=float(epsilon_lower_bound(hits, false_hits, n, delta)),
            confidence=CONFIDENCE,
            n_trials=n,
            pair=pair.label,
            distinguisher=distinguisher,
            true_positive_rate=hits / n,
            false_positive_rate=false_hits / n,
            detectable_fault=detectable,
            noise_epsilon=epsilon_of_drawn_noise(events, ratios, delta)
            if min(ratios.values(), default=1) < 1
            else 0.0,
            noise_ratios=ratios,
        )


def choose_event(scores: Scores, bounds: EventBounds) -> TestedEvent:
    """Return the event with the best predicted bound, over scores, directions and thresholds."""
    events = []
    for name in scores[0].keys() & scores[1].keys():
        first, second = np.sort(scores[0][name]), np.sort(scores[1][name])
        events.append(_best_threshold(name, first, second, bounds, reverse=False))
        events.append(_best_threshold(name, -second[::-1], -first[::-1], bounds, reverse=True))
    return max(events, key=lambda event: (event.predicted, event.name == "likelihood"))


def _best_threshold(
    name: str, hits: FloatArray, misses: FloatArray, bounds: EventBounds, *, reverse: bool
) -> TestedEvent:
    """Return the event of the best threshold at tail fractions of either sample (both sorted)."""
    n = len(hits)
    tails = np.geomspace(min(_LEAST_COUNT / n, 0.5), 0.5, 40)
    positions = np.unique((n * np.concatenate([1 - tails, tails])).astype(int).clip(0, n - 1))
    thresholds = np.concatenate([misses[positions], hits[positions]])
    above, false = (np.asarray(n - np.searchsorted(s, thresholds), dtype=float) for s in (hits, misses))
    predicted = bounds.predict(above, false, n)
    best = int(np.argmax(predicted))
    threshold = float(-thresholds[best] if reverse else thresholds[best])
    return TestedEvent(name, threshold, reverse, float(predicted[best]))
