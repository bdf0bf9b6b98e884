"""Attacks: choose an event on some runs of a mechanism, and count it in others.

The event is fixed before the runs that count it. Therefore its confidence needs no correction for the many
candidates. One event tests (ε, δ), by ε ≥ log((p_low − δ) / q_high). If μ of Gaussian DP is claimed, another
event tests its trade-off curve, by μ ≥ Φ⁻¹(p_low) − Φ⁻¹(q_high) (:mod:`dpalgos.audit.rates`). The thresholds
of the second event are near the median, where a hundred thousand runs detect noise that is 10% too small.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from dpalgos.audit.rates import epsilon_lower_bound, mu_lower_bound
from dpalgos.audit.trials import Pair
from dpalgos.typing import FloatArray

_COMPARISON_SHARE, _COMPARISON_TRIALS = 0.05, (100, 500)  # of the runs; minimum and maximum
_LEAST_COUNT = 5

Chunk = TypeVar("Chunk")
Scores = tuple[dict[str, FloatArray], dict[str, FloatArray]]


@dataclass(frozen=True, kw_only=True)
class AuditVerdict:
    """Whether runs contradict a claim (ε, δ), in words and as plain data.

    Attributes
    ----------
    epsilon_lower_bound : float
        The lower bound of ε that the runs prove, at ``delta`` and with ``confidence``.
    n_trials : int
        The number of runs (or of guesses about a single run) on each of the two neighbors of ``pair``.
    distinguisher : str
        The score of the event that was counted.
    true_positive_rate, false_positive_rate : float
        How often the event occurred on the two neighbors.
    mu, mu_lower_bound : float
        The claimed μ of Gaussian DP, NaN if none is claimed, and the bound that another event proves.
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
    mu: float = np.nan
    mu_lower_bound: float = 0.0

    @property
    def violated(self) -> bool:
        """Whether the runs contradict the claim."""
        return self.epsilon_lower_bound > self.epsilon or self.mu_lower_bound > self.mu * (1 + 1e-9)

    @property
    def verdict(self) -> str:
        return "violated" if self.violated else "no violation found"

    def to_dict(self) -> dict[str, Any]:
        return {
            **dataclasses.asdict(self),
            "mu": None if np.isnan(self.mu) else self.mu,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class EventBounds:
    """The bounds on ε at ``delta``, and on μ if ``mu`` is claimed, from a number of runs."""

    n_trials: int
    delta: float
    mu: float = np.nan

    def epsilon(self, hits: float | FloatArray, false_hits: float | FloatArray) -> FloatArray:
        return epsilon_lower_bound(hits, false_hits, self.n_trials, self.delta)

    def of_mu(self, hits: float | FloatArray, false_hits: float | FloatArray) -> FloatArray:
        return mu_lower_bound(hits, false_hits, self.n_trials)

    @property
    def tests(self) -> list[Callable[..., FloatArray]]:
        """The bounds to be tested, each by a separate event."""
        return [self.epsilon] if np.isnan(self.mu) else [self.epsilon, self.of_mu]


@dataclass(frozen=True)
class Attacked:
    """The events tested on one pair: one for ε and, if μ is claimed, one for μ.

    ``counts`` are the numbers of runs on D and on D' in which the first event occurred. ``proved`` are the
    resulting bounds.
    """

    pair: Pair
    event: "TestedEvent"
    counts: tuple[int, int]
    proved: tuple[float, float]


def attack(
    candidates: Sequence[Pair],
    runs: Callable[[Pair, int], Iterator[tuple[Chunk, Chunk]]],
    fit: Callable[[Chunk, Chunk], Callable[[Chunk], dict[str, FloatArray]]],
    bounds: EventBounds,
    observe: Callable[[Chunk], None] = lambda chunk: None,
    refusals: tuple[type[Exception], ...] = (),
) -> Attacked | None:
    """Compare pairs, choose events on the first and the best pair, and test them; None if all are refused.

    ``runs`` yields chunks of runs on D and D', or raises one of the ``refusals``. ``fit`` makes scores from
    some runs. ``observe`` is called with the runs on D that choose.
    """

    def scores(pair: Pair, n: int) -> tuple[Callable[[Chunk], dict[str, FloatArray]], Scores]:
        """Fit scores to a chunk of runs, and score other runs."""
        score = fit(*next(runs(pair, max(1, n // 2))))
        collected: tuple[list[dict[str, FloatArray]], list[dict[str, FloatArray]]] = ([], [])
        for chunk in runs(pair, n):
            observe(chunk[0])
            for scores_so_far, part in zip(collected, chunk, strict=True):
                scores_so_far.append(score(part))
        on_first, on_second = (
            {name: np.concatenate([s[name] for s in of]) for name in of[0]} for of in collected
        )
        return score, (on_first, on_second)

    few = int(np.clip(_COMPARISON_SHARE * bounds.n_trials, *_COMPARISON_TRIALS))
    promised: list[tuple[float, Pair]] = []
    for pair in candidates:
        try:
            _, compared = scores(pair, few + max(few, bounds.n_trials // 50))
        except refusals:
            continue
        promised.append((choose_event(compared, bounds.tests[-1], bounds.n_trials).predicted, pair))
    if not promised:
        return None
    finalists = []
    best = max(promised, key=lambda each: each[0])
    for _, pair in [best, *(first for first in promised[:1] if first is not best)]:
        score, choosing = scores(pair, bounds.n_trials // 2 + 1)
        finalists.append(
            (pair, score, [choose_event(choosing, test, bounds.n_trials) for test in bounds.tests])
        )
    pair, score, events = max(finalists, key=lambda each: each[2][-1].predicted)
    counts = np.zeros((len(events), 2), dtype=int)
    for chunk in runs(pair, bounds.n_trials):
        scores_so_far = [score(part) for part in chunk]
        counts += [
            [event.count(each) for each in scores_so_far[:: -1 if event.reverse else 1]] for event in events
        ]
    proved = [float(test(*count)) for test, count in zip(bounds.tests, counts, strict=True)]
    return Attacked(pair, events[0], (int(counts[0, 0]), int(counts[0, 1])), (proved[0], [*proved, 0.0][1]))


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


def choose_event(scores: Scores, test: Callable[..., FloatArray], n_trials: int) -> TestedEvent:
    """Return the event with the largest predicted bound, over scores, directions and thresholds."""
    events = []
    for name in scores[0].keys() & scores[1].keys():
        first, second = np.sort(scores[0][name]), np.sort(scores[1][name])
        for hits, misses, reverse in ((first, second, False), (-second[::-1], -first[::-1], True)):
            threshold, predicted = _best_threshold(hits, misses, test, n_trials)
            events.append(TestedEvent(name, -threshold if reverse else threshold, reverse, predicted))
    return max(events, key=lambda event: (event.predicted, event.name == "likelihood"))


def _best_threshold(
    hits: FloatArray, misses: FloatArray, test: Callable[..., FloatArray], n_trials: int
) -> tuple[float, float]:
    """Return the best threshold among tail quantiles of both sorted samples, and its predicted bound."""
    n = len(hits)
    tails = np.geomspace(min(_LEAST_COUNT / n, 0.5), 0.5, 40)
    positions = np.unique((n * np.concatenate([1 - tails, tails])).astype(int).clip(0, n - 1))
    thresholds = np.concatenate([misses[positions], hits[positions]])
    above, false = (np.asarray(n - np.searchsorted(s, thresholds), dtype=float) for s in (hits, misses))
    # Assume unchanged rates, with one more false positive: thresholds were chosen to have few.
    factor = n_trials / n
    predicted = test(above * factor, np.minimum((false + 1) * factor, n_trials))
    best = int(np.argmax(predicted))
    return float(thresholds[best]), float(predicted[best])
