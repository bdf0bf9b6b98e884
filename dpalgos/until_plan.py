"""The plan of one answer by its half-width: all attempts and their costs, before the data are used."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from math import ceil, log
from typing import Any

import numpy as np

from dpalgos.accounting.events import Event, Relation
from dpalgos.accounting.odometer import Spending, spending
from dpalgos.api import build_params, run
from dpalgos.catalog import Estimator
from dpalgos.errors import InputError
from dpalgos.hardened_release import made_up_rows, releasable
from dpalgos.params import Params
from dpalgos.release.noise_source import Noise
from dpalgos.release.refining import Draws, refining_transcript
from dpalgos.rows.sample import Sample

FIRST_SHARE = 1 / 64  # of the largest budget: the first of the sequence
_GROWTHS = (1.1, 1.15, 1.2, 1.25, 1.3, 1.35, 1.4, 1.5, 1.65, 2.0, 2.7)
MOST_ATTEMPTS = 200
_LOUD = (1.0, 1e2, 1e4)  # factors on the noise of rehearsals, at which values that follow noise differ
_CLOSE = 0.995


@dataclass(frozen=True, eq=False, kw_only=True)
class UntilPlan:
    """All attempts: their keywords, what each releases (``steps``), and what those so far cost together.

    ``refined`` are the Gaussian releases, by their place in a run, that draw only the precision that is
    lacking.
    """

    estimator: Estimator
    attempts: tuple[Params, ...]
    refined: frozenset[int]
    steps: tuple[tuple[Event, ...], ...]
    costs: tuple[Spending, ...]
    delta: float

    @property
    def params(self) -> Params:
        """The keywords of the last attempt."""
        return self.attempts[-1]

    @property
    def cost(self) -> Spending:
        """What all attempts cost together."""
        return self.costs[-1]

    @property
    def events(self) -> tuple[Event, ...]:
        """What all attempts release."""
        return self.events_until(len(self.attempts))

    def events_until(self, attempts: int) -> tuple[Event, ...]:
        """Return what the first attempts release."""
        return tuple(event for events in self.steps[:attempts] for event in events)

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The increasing sequence of budgets of which one is charged."""
        return tuple(spent_epsilon(self.costs, k, self.delta) for k in range(1, len(self.costs) + 1))


def spent_epsilon(costs: Sequence[Spending], attempts: int, delta: float) -> float:
    """Return the ε at δ of a run that stopped after so many attempts.

    Proof sketch. Let M_k be the process that halts after attempt k if it has not stopped before. It composes
    at most k releases, each of fixed cost ρ_j whatever was released before, so that M_k is Σ_(j≤k) ρ_j-zCDP
    (an attempt that is not made costs less), hence (ε_k, δ)-DP; stopping is a function of released numbers,
    that is post-processing. M_K is the whole process. An event of answers that stopped by attempt k is the
    same event of M_k, which has not looked further: P[S] ≤ e^(ε_k) Q[S] + δ. In a filter that is full once
    Σ ρ of all releases reaches a bound, as the ledger is, stopped attempts count with what they spent
    (Whitehouse et al. 2023); the δ of steps that may fail counts in full, however many attempts were made.
    Independent Gaussian draws of one value with multipliers z_j cost Σ 1/(2z_j²), and increments
    1/z_k² − 1/z_(k−1)² add up to 1/z_k².
    """
    return replace(costs[attempts - 1], failure=costs[-1].failure).epsilon(delta)


def plan_until(
    name: str,
    n_rows: int,
    n_features: int,
    keywords: dict[str, Any],
    *,
    max_epsilon: float,
    first_epsilon: float | None = None,
    growth: float | None = None,
    n_users: int | None = None,
    streamed: bool = False,
) -> UntilPlan:
    """Plan the attempts of one answer; no data are needed.

    Arguments are those of :func:`dpalgos.hardened_release.plan_release`; ``keywords`` hold ``delta`` and
    ``interval``, too. ``max_epsilon`` is the last budget E, ``first_epsilon`` the first (E/64), ``growth``
    the factor from one to the next before rounding to the last one.
    """
    estimator = releasable(name, keywords)
    if keywords.get("interval") is None:
        raise InputError(f"interval must be a confidence level for {name} here, got None; pass interval=0.95")
    delta, relation = float(keywords["delta"]), estimator.relation or Relation.CENTRAL
    made_up = made_up_rows(estimator, n_rows, n_features, n_users, streamed)
    whole = {**keywords, "calibration": "tight", "epsilon": max_epsilon}
    if estimator.refinable and any(item.name == "noise" for item in fields(estimator.parameters)):
        whole.setdefault("noise", "gaussian")  # the kind that can be refined
    build_params(estimator, whole)

    def events_of(attempts: Sequence[Params], *, hardened: bool = False) -> list[tuple[Event, ...]]:
        draws, found = Draws(refined), []
        noise = None if hardened else Noise([np.random.default_rng(0)])
        for params in attempts:
            transcript = refining_transcript(draws, relation, noise)
            run(estimator, made_up, params, transcript)
            found.append(tuple(transcript.events))
        return found

    def sequence(last: float, growth: float, delta: float) -> tuple[Params, ...]:
        first = max_epsilon * FIRST_SHARE if first_epsilon is None else first_epsilon
        count = _attempts(max_epsilon, first, growth)
        ratio = (max_epsilon / first) ** (1 / max(count - 1, 1))
        budgets = [last * ratio ** (k - count) for k in range(1, count + 1)]
        return tuple(build_params(estimator, {**whole, "epsilon": e, "delta": delta}) for e in budgets)

    few = sequence(max_epsilon, 2.0, delta)
    refined = _free_places(estimator, few, made_up)
    alone = events_of(few[-1:])[0]
    growth = growth or best_growth(
        _share_drawn_anew(alone, estimator.refinable if refined else ()),
        pure=spending(alone).pure_epsilon < float("inf"),
    )
    share = delta
    if spending(alone).failure:
        share = delta / len(sequence(max_epsilon, growth, delta))  # the δ of steps that may fail adds up
    last, within = max_epsilon, None
    for _ in range(12):
        attempts = sequence(last, growth, share)
        costs = tuple(accumulate(map(spending, events_of(attempts))))
        ratio = costs[-1].epsilon(delta) / max_epsilon
        if ratio <= 1 and (within is None or last > within[0]):
            within = last, attempts
        if _CLOSE <= ratio <= 1 or not np.isfinite(ratio):
            break
        last *= 0.999 / ratio
    if within is None:
        raise InputError(
            f"max_epsilon {max_epsilon:g} at delta {delta:g} is too little for so many attempts of {name}; "
            "ask for more of either, or for a larger growth"
        )
    attempts = within[1]
    events = events_of(attempts, hardened=True)
    return UntilPlan(
        estimator=estimator,
        attempts=attempts,
        refined=refined,
        steps=tuple(events),
        costs=tuple(accumulate(map(spending, events))),
        delta=delta,
    )


def _attempts(last: float, first: float, growth: float) -> int:
    if not 0 < first <= last:
        raise InputError(f"first_epsilon must be above 0 and at most max_epsilon {last:g}, got {first:g}")
    if not growth > 1:
        raise InputError(f"growth must be above 1, got {growth:g}: the sequence of budgets would have no end")
    count = 1 + ceil(log(last / first) / log(growth) - 1e-9)
    if count > MOST_ATTEMPTS:
        raise InputError(
            f"growth {growth:g} from first_epsilon {first:g} would take {count} attempts, more than "
            f"{MOST_ATTEMPTS}; choose a larger growth, or a larger first_epsilon"
        )
    return count


def best_growth(anew: float, *, pure: bool = False) -> float:
    """Return the factor between budgets that wastes least, if a share of ρ is drawn anew in each attempt.

    With g the factor between the ρ, attempts up to one of cost 1 cost (1 − share) + share g/(g − 1), and the
    first budget that is enough exceeds the least that would be by (g − 1)/log g on average. ``pure``: the ε
    of the attempts add up in the place of ρ.
    """

    def waste(growth: float) -> float:
        g = growth if pure else growth**2
        return (1 - anew + anew * g / (g - 1)) * (g - 1) / log(g)

    return min(_GROWTHS, key=waste)


def _share_drawn_anew(events: Sequence[Event], refinable: Sequence[str]) -> float:
    total = spending(events).rho
    return spending([event for event in events if event.label not in refinable]).rho / total


def _free_places(estimator: Estimator, attempts: Sequence[Params], made_up: Sample) -> frozenset[int]:
    """Return the Gaussian releases, by their place in a run, whose value no noise and no budget decides.

    Those of the catalog that rehearsals on made-up rows confirm, with noise of very different sizes, which
    tells nothing of the data. A wrong answer would cost accuracy, not privacy: all draws are charged as made.
    """
    runs = []
    for params in (attempts[0], attempts[-1]):
        for loud in _LOUD:
            draws = Draws(rehearsal=True)
            transcript = refining_transcript(draws, estimator.relation or Relation.CENTRAL, inflation=loud)
            try:
                run(estimator, made_up, params, transcript)
            except (InputError, ArithmeticError, np.linalg.LinAlgError):
                return frozenset()
            runs.append(draws.values)
    if len({tuple(label for label, _ in values) for values in runs}) > 1:
        return frozenset()
    same = (each for each in enumerate(zip(*runs, strict=True)) if len(set(each[1])) == 1)
    return frozenset(place for place, values in same if values[0][0] in estimator.refinable)
