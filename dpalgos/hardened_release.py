"""One private release about real people: planned, then drawn with floating-point-safe noise.

The estimator's plan states the events before any private number is read. The factor by which the noise must
grow follows: then the events prove the requested ε with the accounting of
floating-point-safe noise. Charge the plan first, and draw afterwards: a release whose events cost another
amount than the plan's is withheld.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
import scipy

from dpalgos.accounting.budget import Spending, spending
from dpalgos.accounting.events import Event, Relation
from dpalgos.api import build_params, check_number_of_users, naming, result_of, run_estimator
from dpalgos.catalog import Estimator, get_estimator
from dpalgos.core.estimator import AnyEstimator, checked_plan
from dpalgos.core.hardened_noise import SecureSpend, check_grid, no_sampler, safe_event
from dpalgos.core.persons import UnitEstimator
from dpalgos.core.plans import planned_events, quantity
from dpalgos.errors import BrokenEstimator, InputError
from dpalgos.result import Result
from dpalgos.rows.sample import Sample
from dpalgos.rows.streams import StreamRefused

_LARGEST_LOG_INFLATION = float(np.log(100.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleasePlan:
    """The cost of a release, known before the data are used."""

    estimator: Estimator
    params: AnyEstimator
    inflation: float  # the factor on the estimator's calibrated noise
    events: tuple[Event, ...]
    cost: Spending  # it proves at most the requested ε at the requested δ


def release_plan(
    name: str,
    n_rows: int,
    n_features: int,
    keywords: dict[str, Any],
    *,
    n_users: int | None = None,
    streamed: bool = False,
) -> ReleasePlan:
    """Plan one private release from data of a public shape.

    ``keywords`` are ``epsilon``, ``delta`` and the estimator's public ones; ``calibration`` is always
    ``"tight"``. ``n_users`` is public as well, and given if whole users are protected. If rows will be
    ``streamed``, an estimator that needs them in memory is refused.
    """
    estimator = releasable(name, keywords).for_unit(people=n_users is not None)
    params = build_params(estimator, {**keywords, "calibration": "tight"})
    epsilon, delta = float(keywords["epsilon"]), float(keywords["delta"])
    calibrated = _safe_events(estimator, params, n_rows, n_features, n_users, streamed)

    def excess(log_inflation: float) -> float:
        inflated = [event.scaled(float(np.exp(log_inflation))) for event in calibrated]
        return spending(inflated).epsilon(delta) - epsilon

    inflation = 1.0
    if excess(0.0) > 0:
        if excess(_LARGEST_LOG_INFLATION) > 0:
            raise InputError(
                f"epsilon {epsilon:g} at delta {delta:g} is too small for the grid on which the noise "
                "is drawn; increase one of them"
            )
        inflation = float(np.exp(scipy.optimize.brentq(excess, 0.0, _LARGEST_LOG_INFLATION, xtol=1e-9))) * (
            1 + 1e-8
        )
    events = tuple(event.scaled(inflation) for event in calibrated)
    return ReleasePlan(
        estimator=estimator, params=params, inflation=inflation, events=events, cost=spending(events)
    )


def _safe_events(
    estimator: Estimator,
    params: AnyEstimator,
    n_rows: int,
    n_features: int,
    n_users: int | None,
    streamed: bool,
) -> list[Event]:
    """Return the events of a release with floating-point-safe noise, or refuse, from public numbers."""
    n, is_of_people = n_rows, estimator.relation is Relation.USER
    if is_of_people:
        n = _number_of_users(estimator, n_users)
        check_number_of_users(estimator, n)
    if streamed and (params.in_memory or (is_of_people and estimator.averages_people)):
        raise StreamRefused
    relation = estimator.relation or Relation.CENTRAL
    with naming(estimator):
        plan = checked_plan(params.plan(n, n_features))
        if not plan:
            raise BrokenEstimator(
                f"plan must have a release for {n} rows, got none: the estimate would "
                "have no noise, or use no row; return a slot for each number that fit takes from rows"
            )
    for label, slot in plan.items():
        if not slot.has_exact_sampler:
            raise no_sampler(quantity(label), slot.instead)
    check_grid(params.largest_release(n_features), n)
    return [replace(safe_event(event), relation=relation) for event in planned_events(plan)]


def _number_of_users(estimator: Estimator, n_users: int | None) -> int:
    if n_users is None:
        raise InputError(f"user_ids is required by {estimator.name}; name the column in columns.user_id")
    return n_users


def releasable(name: str, keywords: Mapping[str, Any]) -> Estimator:
    """Return an estimator that can be drawn with floating-point-safe noise, or refuse."""
    estimator = get_estimator(name)
    if not estimator.private:
        raise InputError(
            f"estimator must be a private one for a release, got {name!r}; see dpcost estimators"
        )
    if estimator.relation is Relation.LOCAL:
        raise InputError(
            f"{name} has no floating-point-safe sampler for a curator: each device draws its own noise"
        )
    if estimator.no_release:
        raise InputError(f"{name} has no floating-point-safe sampler: {estimator.no_release}")
    if keywords.get("calibration", "tight") != "tight":
        raise InputError("calibration must be 'tight' for a release, got 'paper'; leave it out")
    return estimator


def check_data(estimator: Estimator, params: AnyEstimator, sample: Sample) -> None:
    """Refuse unsuitable data without quoting a value; to be called before the charge."""
    if estimator.relation is Relation.USER:
        check_number_of_users(estimator, int(sample.n_users.min()))
    if isinstance(params, UnitEstimator):
        params.check_units(sample)
    if estimator.check_data is not None:
        estimator.check_data(sample, params)


def draw_release(plan: ReleasePlan, sample: Sample) -> Result:
    """Draw the estimate of a charged plan, on data that were validated before the charge.

    If its events do not cost what was charged, the release is withheld.
    """
    spend = secure_spend(plan.estimator, sample, plan.inflation)
    with np.errstate(all="ignore"):  # a warning of overflow would tell of a row
        released = run_estimator(plan.estimator, sample, plan.params, spend)
    if not spending(spend.record.events).is_within(plan.cost):
        raise InputError(
            "the events drawn differ from the events charged, so the release is withheld; report this"
        )
    proved = plan.cost.epsilon(getattr(plan.params, "delta", 0.0))
    return result_of(released, spend.record, plan.estimator, plan.params, sample, certified_epsilon=proved)


def secure_spend(estimator: Estimator, sample: Sample, inflation: float = 1.0) -> SecureSpend:
    """Return what draws the noise of one release from a sample."""
    n_rows, relation = int(sample.n_rows.max()), estimator.relation or Relation.CENTRAL
    n = int(sample.n_users.min()) if relation is Relation.USER else n_rows
    return SecureSpend(relation, inflation, n_rows=n, n_blocks=ceil(n / sample.rows.block_size))
