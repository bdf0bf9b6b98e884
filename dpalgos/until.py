"""One private answer at the smallest budget of a fixed increasing sequence whose interval is narrow enough.

Attempt k = 1, 2, …, K runs an estimator at a budget that grows with k. After each one a rule looks at what
was released, the estimate and its interval, and stops where it is narrow enough; K and all budgets are public
and fixed before the first draw. What is spent up to attempt k is known in advance, too.

Two ways to go from one attempt to the next:

    refined   a Gaussian release of a value that depends on no earlier release (the catalog says which, and
              rehearsals on made-up rows confirm it): attempt k draws only the
              precision that is lacking, 1/z² = 1/z_k² − 1/z_(k−1)², and goes on with the average of all draws
              weighted by their precisions, whose noise is that of one draw at z_k. The k attempts together
              cost just what attempt k alone would: noise reduction (Whitehouse et al. 2022) in the form of
              independent increments.
    anew      every other release is drawn in full, and all attempts are paid for. Nothing is reused: for
              steps that follow released values, correlated noise has no proof.

The factor from one budget to the next is the one that wastes least in between: small where most is refined,
√e where nothing is.

Guarantee (proof: :func:`dpalgos.until_plan.spent_epsilon`): the answer as a whole is (E, δ)-differentially
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
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpalgos.accounting.budget import charge_open_budgets
from dpalgos.accounting.events import Event, Relation
from dpalgos.accounting.odometer import Spending
from dpalgos.accounting.risk import AttackRisk, risk_of_events
from dpalgos.api import Result, check_users, replicate_generators
from dpalgos.catalog import get_estimator
from dpalgos.errors import InputError
from dpalgos.hardened_release import Release, charged_answer, check_data
from dpalgos.release.noise_source import Noise
from dpalgos.release.refining import Draws, refining_transcript
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray
from dpalgos.until_plan import UntilPlan, plan_until, spent_epsilon

Enough = Callable[[Release], bool]


def draw_until(
    plan: UntilPlan,
    sample: Sample,
    *,
    enough: Enough,
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
    """Say of a released answer whether intervals (2, d) are narrow enough; one that is missing is not.

    All of them count, or those of some coordinates.
    """
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
    check_users(plan.estimator, sample)
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
