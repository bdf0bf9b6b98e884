"""One private answer at the smallest budget of a fixed increasing sequence whose interval is narrow enough.

Attempt k = 1, 2, …, K runs an estimator at a budget that grows with k. After each one a rule looks at what
was released, the estimate and its interval, and stops where it is narrow enough; K and all budgets are public
and fixed before the first draw. What is spent up to attempt k is known in advance, too.

Two ways to go from one attempt to the next:

    refined   a Gaussian release of a value that depends on no earlier release (the catalog says which, and
              rehearsals on made-up rows confirm it): attempt k draws only the precision that is lacking,
              1/z² = 1/z_k² − 1/z_(k−1)², and goes on with the average of all draws weighted by their
              precisions, whose noise is that of one draw at z_k. The k attempts together cost just what
              attempt k alone would: noise reduction (Whitehouse et al. 2022) by independent increments.
    anew      every other release is drawn in full, and all attempts are paid for. Nothing is reused: for
              steps that follow released values, correlated noise has no proof.

The factor from one budget to the next is the one that wastes least in between: small where most is refined,
√e where nothing is.

Guarantee (proof: :func:`dpalgos.until.spent_epsilon`): the answer as a whole is (E, δ)-differentially
private with E the largest budget. Beyond that, *ex post*, for every k: among answers that were charged at
most ε_k no event is more than e^(ε_k) times as likely, plus δ, as on a neighbor. That is weaker than a fixed
ε_k, for which budget applies is known only once the answer is drawn, and may depend on the data.

References
----------
Ligett, Neel, Roth, Waggoner & Wu (2017), Accuracy first. Whitehouse, Wu, Ramdas & Rogers (2022), Brownian
noise reduction. Whitehouse, Ramdas, Rogers & Wu (2023), Fully adaptive composition. Ghazi et al. (2025,
arXiv 2508.15183) run any sequence of estimators at twice the budget of the last, in pure ε. Budgets that
double add up to as much in pure ε, and to 4/3 of the last in ρ, so that no other filter is needed here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from math import ceil, log
from typing import Any

import numpy as np

from dpalgos.accounting.budget import charge_open_budgets
from dpalgos.accounting.composition import Spending, spending
from dpalgos.accounting.events import Event, Relation
from dpalgos.accounting.risk import AttackRisk, risk_of_events
from dpalgos.api import Result, build_params, replicate_generators, run
from dpalgos.catalog import Estimator, get_estimator
from dpalgos.errors import InputError
from dpalgos.hardened_release import Release, charged_answer, check_data, made_up_rows, releasable
from dpalgos.params import Params
from dpalgos.release.hardened_noise import Draws, refining_transcript
from dpalgos.release.noise_source import Noise
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

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
    spent = spending(alone)
    if growth is None:
        refinable = estimator.refinable if refined else ()
        anew = spending([event for event in alone if event.label not in refinable])
        growth = best_growth(anew.rho / spent.rho, pure=spent.pure_epsilon < float("inf"))
    share = delta
    if spent.failure:
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


def draw_until(
    plan: UntilPlan,
    sample: Sample,
    *,
    enough: Callable[[Release], bool],
    begin: Callable[[int], None],
    noise: Noise | None = None,
) -> tuple[int, bool, Release]:
    """Return how many attempts were made, whether the last was good enough, and its answer.

    ``enough`` is given what was released and nothing else. ``begin`` is called with the number of each
    attempt, from 1 on, before anything of it is drawn: what it writes down stays charged whatever happens
    next. Noise is hardened, or from ``noise`` in simulations.
    """
    relation, draws = plan.estimator.relation or Relation.CENTRAL, Draws(plan.refined)
    number, spent = 0, Spending()
    for number, (params, cost) in enumerate(zip(plan.attempts, plan.costs, strict=True), start=1):
        begin(number)
        transcript = refining_transcript(draws, relation, noise)
        epsilon = spent_epsilon(plan.costs, number, plan.delta)
        release = charged_answer(plan.estimator, params, sample, transcript, cost, epsilon, spent)
        if enough(release):
            return number, True, release
        spent = cost
    return number, False, release


def narrow_enough(
    estimate: FloatArray,
    interval: FloatArray | None,
    *,
    half_width: float | None = None,
    relative_error: float | None = None,
    coordinates: Sequence[int] | None = None,
) -> bool:
    """Say whether released intervals (2, d) of all, or some, coordinates are narrow enough; None is not."""
    if interval is None:
        return False
    chosen = slice(None) if coordinates is None else list(coordinates)
    half, sizes = (interval[1] - interval[0])[chosen] / 2, np.abs(estimate)[chosen]
    most = half_width if half_width is not None else (relative_error or 0.0) * sizes
    return bool(np.all(half <= most))  # NaN is not


def check_wish(half_width: float | None, relative_error: float | None) -> None:
    """Refuse anything but one positive number of the two."""
    wishes = [each for each in (half_width, relative_error) if each is not None]
    if len(wishes) != 1 or isinstance(wishes[0], bool) or not 0 < wishes[0] < float("inf"):
        raise InputError(
            f"one of half_width and relative_error must be a positive number, got {half_width!r} and "
            f"{relative_error!r}; pass e.g. half_width=0.5"
        )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class UntilResult(Result):
    """The result of :func:`estimate_until`; ``certified_epsilon`` is what was spent, ex post.

    ``events`` are those of the attempts that were made, ``planned`` those of all: since the data decide how
    many are made, ``risk`` is that of all.

    Attributes
    ----------
    max_epsilon : float
        What the call as a whole is guaranteed to spend at most, before the answer is known.
    attempts : int
        How many budgets were tried.
    reached : bool
        Whether the last interval is narrow enough.
    planned : tuple of Event
    """

    max_epsilon: float
    attempts: int
    reached: bool
    planned: tuple[Event, ...]

    @property
    def risk(self) -> AttackRisk:
        """What all attempts together would let an attacker learn of one row or user."""
        return risk_of_events(self.planned, self.delta)


def estimate_until(
    name: str,
    X: object,
    y: object = None,
    *,
    max_epsilon: float,
    delta: float,
    rng: np.random.Generator,
    half_width: float | None = None,
    relative_error: float | None = None,
    first_epsilon: float | None = None,
    growth: float | None = None,
    coordinates: Sequence[int] | None = None,
    user_ids: object = None,
    interval: float = 0.95,
    **keywords: Any,
) -> UntilResult:
    """Run a private estimator at growing budgets until its intervals are narrow enough.

    What is spent is the smallest of a fixed increasing sequence of budgets at which they are: an *ex-post*
    guarantee, which is weaker than a fixed ε (see :mod:`dpalgos.until`). Noise is simulated; answers about
    real people are for ``dpcost release --half-width``.

    Parameters
    ----------
    name : str
        A private estimator of the catalog that has intervals.
    X, y, user_ids
        As for :func:`dpalgos.estimate`.
    max_epsilon, delta : float
        The largest budget.
    rng : numpy.random.Generator
        Required.
    half_width, relative_error : float
        One of the two: the largest half-width wanted of any coordinate, or that over the size of its
        estimate. It must not come from the data.
    first_epsilon, growth : float, optional
        The first budget, by default max_epsilon/64, and the factor from one budget to the next, by default
        that which wastes least.
    coordinates : sequence of int, optional
        Which coordinates have to be so narrow; all of them by default.
    interval : float
        The confidence level.
    **keywords
        Public bounds and settings of the estimator.

    Returns
    -------
    UntilResult

    Raises
    ------
    InputError
        If an argument is wrong, or an open :class:`dpalgos.Budget` would be exceeded.

    Examples
    --------
    >>> import numpy as np, dpalgos
    >>> ages = np.random.default_rng(0).uniform(20, 60, (2000, 1))
    >>> found = dpalgos.estimate_until(
    ...     "box_mean", ages, half_width=2.0, max_epsilon=2, delta=1e-6, lower=0.0, upper=100.0,
    ...     noise="gaussian", rng=np.random.default_rng(1),
    ... )
    >>> found.reached, found.certified_epsilon < 1
    (True, True)
    """
    check_wish(half_width, relative_error)
    generators = replicate_generators(rng, 1)
    for name_given in sorted({"epsilon", "calibration"} & set(keywords)):
        raise InputError(
            f"{name_given} must be left out, got {keywords[name_given]!r}: max_epsilon says what may be spent"
        )
    sample = X if isinstance(X, Sample) else Sample(X, y, user_ids=user_ids)
    if sample.n_replicates != 1:
        raise InputError(
            f"replicates must be 1, got a Sample of {sample.n_replicates}: all would share one draw of "
            "noise, and their differences would show the rows"
        )
    protects_users = get_estimator(name).relation is Relation.USER
    users = min(each.n_users for each in sample.users) if protects_users else None
    plan = plan_until(
        name,
        int(sample.n_rows[0]),
        sample.n_features,
        {**keywords, "interval": interval, "delta": delta},
        max_epsilon=max_epsilon,
        first_epsilon=first_epsilon,
        growth=growth,
        n_users=users,
    )
    check_data(plan.estimator, plan.params, sample)
    attempts, reached, release = draw_until(
        plan,
        sample,
        enough=lambda found: narrow_enough(
            found.estimate,
            found.interval,
            half_width=half_width,
            relative_error=relative_error,
            coordinates=coordinates,
        ),
        begin=lambda number: charge_open_budgets(plan.steps[number - 1], 1),
        noise=Noise(generators),
    )
    return UntilResult(
        estimate=release.estimate,
        interval=release.interval,
        certified_epsilon=release.epsilon,
        delta=delta,
        events=plan.events_until(attempts),
        diagnostics=release.diagnostics,
        max_epsilon=max_epsilon,
        attempts=attempts,
        reached=reached,
        planned=plan.events,
    )
