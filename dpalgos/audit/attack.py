"""Attacks: choose an event on some runs of a mechanism, and count it in others.

The event is fixed before the runs that count it. Therefore its confidence needs no correction for the many
candidates. One event tests (ε, δ), by ε ≥ log((p_low − δ) / q_high). If μ of Gaussian DP is claimed, another
event tests its trade-off curve, by μ ≥ Φ⁻¹(p_low) − Φ⁻¹(q_high) (:mod:`dpalgos.audit.rates`). The thresholds
of the second event are near the median, where a hundred thousand runs detect noise that is 10% too small.

Estimators and functions of others are attacked in the same way. A function has no releases: it has answers.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpalgos.audit.distinguishers import Scores
from dpalgos.audit.rates import CONFIDENCE, epsilon_lower_bound, mu_lower_bound
from dpalgos.audit.trials import Pair, Runs
from dpalgos.typing import FloatArray

_COMPARISON_SHARE, _COMPARISON_TRIALS = 0.05, (100, 500)  # of the runs; minimum and maximum
_LEAST_COUNT = 5
_MOST_MOVED = 1 + 1e-6  # sensitivities; a larger move is not rounding

Bound = Callable[[FloatArray, FloatArray], FloatArray]
ScoresOf = dict[str, FloatArray]


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """Whether runs contradict a claim (ε, δ), in words and as plain data.

    Attributes
    ----------
    epsilon, delta, mu : float
        The budget, and the claimed μ of Gaussian DP; NaN if none is claimed.
    claimed_epsilon : float
        The ε that bounds are compared with: that of a function, or the certified one of an estimator. For
        ``tight`` it is at most ``epsilon``.
    n_trials : int
        The number of runs (or of guesses about a single run) on each of the two neighbors of ``pair``.
    epsilon_lower_bound, mu_lower_bound : float
        The lower bounds that the runs prove, with ``confidence``, each by a separate event.
    distinguisher : str
        The score of the first event that was counted.
    true_positive_rate, false_positive_rate : float
        How often this event occurred on the two neighbors.
    certified_epsilon : float
        The ε that the accountant proves from the events of an estimator.
    detectable_fault : float
        The smallest factor on the noise scale that attacks with this number of runs detect, at the claimed ε.
    noise_epsilon : float
        The ε that the events prove with the drawn noise, if the upper confidence limits ``noise_ratios`` of
        its scale are below 1.
    largest_move : float
        The distance between the private values of the release ``moved`` on two neighbors, over its declared
        sensitivity.
    leak : str
        The value that differs between two neighbors although all releases are the same.
    """

    epsilon: float
    delta: float
    claimed_epsilon: float
    n_trials: int
    mu: float = np.nan
    pair: str = ""
    distinguisher: str = ""
    epsilon_lower_bound: float = 0.0
    mu_lower_bound: float = 0.0
    confidence: float = CONFIDENCE
    true_positive_rate: float = 0.0
    false_positive_rate: float = 0.0
    estimator: str = ""
    calibration: str = ""
    certified_epsilon: float = np.nan
    detectable_fault: float = np.inf
    noise_epsilon: float = 0.0
    noise_ratios: dict[str, float] = field(default_factory=dict)
    largest_move: float = 0.0
    moved: str = ""
    leak: str = ""

    @property
    def violated(self) -> bool:
        """Whether the runs contradict the claim."""
        return (
            bool(self.leak)
            or max(self.epsilon_lower_bound, self.noise_epsilon / (1 + 1e-9)) > self.claimed_epsilon
            or self.mu_lower_bound > self.mu * (1 + 1e-9)
            or self.largest_move > _MOST_MOVED
            or any(ratio < 1 for ratio in self.noise_ratios.values())
        )

    @property
    def verdict(self) -> str:
        return "violated" if self.violated else "no violation found"

    @property
    def remark(self) -> str:
        """A sentence on values that move more, or noise that is smaller, than declared; or empty."""
        if self.leak:
            return (
                f"; {self.leak} changes with the rows although all releases stay the same: it must be made "
                "of releases and public numbers alone"
            )
        if self.largest_move > _MOST_MOVED:
            return (
                f"; between two neighbors {self.moved!r} moves by {self.largest_move:.4g} times the "
                "sensitivity that is declared"
            )
        small = [(ratio, label) for label, ratio in self.noise_ratios.items() if ratio < 1]
        if not small:
            return ""
        ratio, label = min(small)
        return (
            f"; the noise of {label!r} is at most {ratio:.3g} times what is declared, with which the events "
            f"prove ε = {self.noise_epsilon:.3f}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data; numbers that are not known are None."""
        plain = {name: None if value != value else value for name, value in dataclasses.asdict(self).items()}
        return {**plain, "verdict": self.verdict}


def attack(
    claim: AuditResult,
    candidates: Sequence[Pair],
    runs: Callable[[Pair, int], Iterator[tuple[Runs, Runs]]],
    observe: Callable[[Runs], None] = lambda runs: None,
    refusals: tuple[type[Exception], ...] = (),
) -> AuditResult | None:
    """Compare pairs, choose events on the first and the best pair, and test them; None if all are refused.

    ``runs`` yields chunks of runs on D and D', or raises one of the ``refusals``. ``observe`` is called with
    the runs on D that choose.
    """
    n = claim.n_trials
    bounds: list[Bound] = [lambda hits, false_hits: epsilon_lower_bound(hits, false_hits, n, claim.delta)]
    if not np.isnan(claim.mu):
        bounds.append(lambda hits, false_hits: mu_lower_bound(hits, false_hits, n))

    def scored(pair: Pair, n_runs: int) -> tuple[Scores, tuple[ScoresOf, ScoresOf]]:
        """Learn scores from a chunk of runs, and score other runs."""
        score = Scores(*next(runs(pair, max(1, n_runs // 2))))
        parts: tuple[list[ScoresOf], list[ScoresOf]] = ([], [])
        for chunk in runs(pair, n_runs):
            observe(chunk[0])
            for part, each in zip(parts, chunk, strict=True):
                part.append(score(each))
        first, second = (
            {name: np.concatenate([each[name] for each in part]) for name in part[0]} for part in parts
        )
        return score, (first, second)

    n_comparisons = int(np.clip(_COMPARISON_SHARE * n, *_COMPARISON_TRIALS))
    compared: list[tuple[float, Pair]] = []
    for pair in candidates:
        try:
            _, scores = scored(pair, n_comparisons + max(n_comparisons, n // 50))
        except refusals:
            continue
        compared.append((_best_event(scores, bounds[-1], n).predicted, pair))
    if not compared:
        return None
    best = max(compared, key=lambda each: each[0])
    finalists = []
    for _, pair in [best, *(first for first in compared[:1] if first is not best)]:
        score, scores = scored(pair, n // 2 + 1)
        finalists.append((pair, score, [_best_event(scores, bound, n) for bound in bounds]))
    pair, score, events = max(finalists, key=lambda each: each[2][-1].predicted)
    counts = np.zeros((len(events), 2), dtype=int)
    for chunk in runs(pair, n):
        both = [score(each) for each in chunk]
        counts += [[event.count(each) for each in both[:: -1 if event.reverse else 1]] for event in events]
    proved = [float(bound(*count)) for bound, count in zip(bounds, counts, strict=True)]
    return dataclasses.replace(
        claim,
        pair=pair.label,
        distinguisher=events[0].name,
        epsilon_lower_bound=proved[0],
        mu_lower_bound=[*proved, 0.0][1],
        true_positive_rate=counts[0, 0] / n,
        false_positive_rate=counts[0, 1] / n,
    )


@dataclass(frozen=True)
class _Event:
    """The event that a score is at least (``reverse``: at most) a threshold, with its predicted bound."""

    name: str
    threshold: float
    reverse: bool
    predicted: float

    def count(self, scores: ScoresOf) -> int:
        score = scores[self.name]
        return int(np.sum(score <= self.threshold if self.reverse else score >= self.threshold))


def _best_event(scores: tuple[ScoresOf, ScoresOf], bound: Bound, n_trials: int) -> _Event:
    """Return the event with the largest predicted bound, over scores, directions and tail quantiles."""
    events = []
    for name in scores[0]:
        first, second = np.sort(scores[0][name]), np.sort(scores[1][name])
        for hits, misses, reverse in ((first, second, False), (-second[::-1], -first[::-1], True)):
            m = len(hits)
            tails = np.geomspace(min(_LEAST_COUNT / m, 0.5), 0.5, 40)
            positions = np.unique((m * np.concatenate([1 - tails, tails])).astype(int).clip(0, m - 1))
            thresholds = np.concatenate([misses[positions], hits[positions]])
            above, false = (np.asarray(m - np.searchsorted(s, thresholds), float) for s in (hits, misses))
            # Assume unchanged rates, with one more false positive: thresholds were chosen to have few.
            factor = n_trials / m
            predicted = bound(above * factor, np.minimum((false + 1) * factor, n_trials))
            k = int(np.argmax(predicted))
            threshold = -thresholds[k] if reverse else thresholds[k]
            events.append(_Event(name, float(threshold), reverse, float(predicted[k])))
    return max(events, key=lambda event: (event.predicted, event.name == "likelihood"))
