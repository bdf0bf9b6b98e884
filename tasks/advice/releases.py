"""What a release on all rows will have and cost: intervals on made-up tables, risks and the budget's rest."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from data.ledger import Ledger
from dpalgos import InputError, get_estimator
from dpalgos.accounting.gaussian_dp import gaussian_mu
from dpalgos.accounting.risk import AttackRisk, risk_of_budget, risk_of_events
from dpalgos.hardened_release import ReleasePlan, rehearse_release
from dpalgos.intervals.regression import ROBUST
from tasks.advice.forecasts import Forecast, range_of
from tasks.advice.made_up_tables import TABLES, MadeUpTables, middle_and_ends, with_least_noise
from tasks.release.spending import spending_of
from tasks.size_rules import delta_at
from tasks.study.panel import EstimatorSpec, structure_of
from tasks.study.spec import StudySpec

_ROWS_OF_RELEASES = 10_000
_OF_NONE = 60  # made-up tables that tell the chance of no interval
_BEYOND = 1.0  # signs of a real table beyond those of made-up ones; chosen on the tables of the bench
_NARROWER = 4.0  # least half-widths, where no spread is stated: bounds alone say little of it
_WIDER = 1.25  # half-widths of made-up tables over real ones where no spread is stated, a median of 83


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleaseForecast:
    """What intervals a release on all rows will have, on made-up tables.

    ``half_widths`` (k,) are in public units, the median over tables, NaN where most tables have none;
    ``ends`` (2, k) are their range. ``intervals`` and ``signs`` are how many
    coefficients will have an interval, and one on one side of zero: (expected, least, most).
    """

    names: tuple[str, ...]
    half_widths: np.ndarray
    ends: np.ndarray
    intervals: tuple[float, float, float]
    signs: tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class AskedRelease:
    """A release on all rows of a study's table, by what is public.

    ``params`` are its keywords without ``epsilon`` and ``delta``; ``columns`` are its covariates, by default
    the study's.
    """

    estimator: str
    epsilon: float
    delta: float
    params: Mapping[str, Any] = field(default_factory=dict)
    columns: Sequence[str] = ()


def forecast_release(
    spec: StudySpec, asked: AskedRelease, *, more: float = 1.0, without: Sequence[str] = ()
) -> ReleaseForecast:
    """Forecast the intervals of a release; it reads no data.

    The table has ``more`` times the rows; the columns are ``without`` some indicators.
    """
    tables, params, first = _made_up(spec, asked, without)
    strength = gaussian_mu(asked.epsilon, asked.delta) * tables.n_units * more
    names = tables.problem.covariates[first:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about budgets and units of rows that are made up
        drawn = tables.drawn(1.0, TABLES)
        share = tables.n_rows / (tables.n_units * more)
        found = [
            ends
            for table in drawn
            if (ends := table.interval_of_more(asked.estimator, params, strength, share)) is not None
        ]
    if not found:
        none = np.full((2, len(names)), np.nan)
        return ReleaseForecast(
            names=names, half_widths=none[0], ends=none, intervals=(0, 0, 0), signs=(0, 0, 0)
        )
    last = first + len(names) if names else None
    ends = np.array(found)[:, :, first:last]  # (tables, 2, k), without the intercept
    widths = (ends[:, 1] - ends[:, 0]) / 2
    widths, narrower = (widths, 1.0) if spec.guesses.std else (widths / _WIDER, _NARROWER)
    signs, least, most = middle_and_ends(((ends[:, 0] > 0) | (ends[:, 1] < 0)).sum(axis=1))
    is_known = np.isfinite(widths)
    has_most = 2 * is_known.sum(axis=0) > len(widths)
    middle = np.full(widths.shape[1], np.nan)
    middle[has_most] = np.nanmedian(widths[:, has_most], axis=0)
    return ReleaseForecast(
        names=names,
        half_widths=middle,
        ends=np.array([range_of(each[np.isfinite(each)])[1:] for each in widths.T]).T.reshape(2, -1)
        / [[narrower], [1]],
        intervals=middle_and_ends(is_known.sum(axis=1)),
        signs=(signs, max(least - _BEYOND, 0.0), min(most + _BEYOND, float(widths.shape[1]))),
    )


def chance_of_none(spec: StudySpec, asked: AskedRelease) -> float:
    """Return the share of made-up tables on which no covariate has an interval.

    Where least squares' coefficients are covered, positive responses have a long tail: then they are wanted.
    """
    if asked.params.get("interval_target", ROBUST) != ROBUST:
        spec = spec.model_copy(update={"guesses": spec.guesses.model_copy(update={"skewed": True})})
    tables, params, first = _made_up(spec, asked)
    strength = gaussian_mu(asked.epsilon, asked.delta) * tables.n_units
    last = first + len(tables.problem.covariates[first:]) or None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = [each.interval(asked.estimator, params, strength) for each in tables.drawn(1.0, _OF_NONE)]
    some = [ends is not None and np.isfinite(ends[:, first:last]).all(axis=0).any() for ends in found]
    return 1 - float(np.mean(some))


def _made_up(
    spec: StudySpec, asked: AskedRelease, without: Sequence[str] = ()
) -> tuple[MadeUpTables, dict[str, Any], int]:
    """Return the tables of a release, its keywords, and the place of the first covariate."""
    panel, params, first = spec.head_panel, dict(asked.params), 0
    if asked.columns and spec.analyst_table:
        every = [name for column in asked.columns for name in spec.analyst_table.ingested(column)]
        covariates = tuple(name for name in every if name not in without)
        of_release = {"covariates": covariates, "analyst_table": spec.analyst_table}
        problem = panel.problem.model_copy(update=of_release)
        panel = panel.model_copy(update={"problem": problem})
    tables = MadeUpTables(spec=spec, panel=panel, delta=asked.delta, most_rows=_ROWS_OF_RELEASES)
    if (traits := panel.problem.traits).has_intercept:
        params = {**structure_of(asked.estimator, traits.offset_bounds), **params}
        first = int(traits.offset_bounds is not None)
    return tables, params, first


_MORE = 4  # times the rows, or ε, of what would help


def what_would_help(spec: StudySpec, asked: AskedRelease) -> dict[str, ReleaseForecast]:
    """Forecast releases that would tell more than one without intervals: by what is to be changed."""
    columns, table = asked.columns, spec.analyst_table
    larger = replace(asked, epsilon=_MORE * asked.epsilon)
    found = {
        f"epsilon = {larger.epsilon:g}": forecast_release(spec, larger),
        f"{_MORE} times the rows": forecast_release(spec, asked, more=_MORE),
    }
    if asked.params.get("interval_target", ROBUST) != ROBUST:
        robust = replace(asked, params={**asked.params, "interval_target": ROBUST})
        found[f'interval_target = "{ROBUST}"'] = forecast_release(spec, robust)
    if (half := len(columns) // 2) and table:
        few = replace(asked, columns=columns[:half])
        found[f"{half} of the {len(columns)} columns"] = forecast_release(spec, few)
        name = max(columns, key=lambda column: len(table.ingested(column)))
        if levels := table.ingested(name)[1:]:
            merged = f"levels of {name!r} merged into 2, not {len(levels) + 2}"
            found[merged] = forecast_release(spec, asked, without=levels)
    return found


@dataclass(frozen=True, kw_only=True)
class ReleaseCost:
    """What one more release on all rows would cost an open budget: the ε at its δ, before and after."""

    estimator: str
    epsilon: float
    spent: float
    spent_after: float
    budget: float


def risk_of_advice(spec: StudySpec, best: Forecast) -> AttackRisk:
    """Return what the advised release lets an attacker learn, by the events that it will have.

    Where no release can be planned, by ε and δ alone.
    """
    items = {(item.name, item.form): item for item in with_least_noise(spec).estimators}
    plan = _planned(
        spec, items[best.estimator, best.form], best.epsilon, best.n, n_users=best.n, steps=best.steps
    )
    delta = delta_at(spec.headline.delta, best.n)
    if plan is None:
        return risk_of_budget(best.epsilon, delta, get_estimator(best.estimator).unit_of_privacy)
    return risk_of_events(plan.events, delta)


def release_costs(spec: StudySpec, ledger: Ledger, dataset: str) -> tuple[ReleaseCost, ...]:
    """Return what a release on all rows would cost the budget of a dataset, by estimator and ε of the study.

    A budget of that name must be open, else it raises LedgerError.
    """
    account, panel = ledger.account(dataset), with_least_noise(spec)
    budget, spent, table = account.budget, spending_of(account.charges), spec.analyst_table
    n_rows, n_users = (table.rows, table.users) if table else (spec.about(panel.problem.source).n_rows, None)
    found = []
    for item in panel.estimators:
        for epsilon in spec.grid_of(panel).epsilon if item.calibrations else ():
            if plan := _planned(spec, item, epsilon, n_rows, n_users=n_users):
                found.append(
                    ReleaseCost(
                        estimator=f"{item.name}, {item.form}" if item.form else item.name,
                        epsilon=epsilon,
                        spent=spent.epsilon(budget.delta),
                        spent_after=(spent + plan.cost).epsilon(budget.delta),
                        budget=budget.epsilon,
                    )
                )
    return tuple(found)


def _planned(
    spec: StudySpec,
    item: EstimatorSpec,
    epsilon: float,
    n_rows: int,
    *,
    n_users: int | None,
    steps: int | None = None,
) -> ReleasePlan | None:
    """Plan a release; None where it would refuse: no hardened noise, or too few users."""
    n = n_users or n_rows
    sizes = spec.head_panel.problem.sizes(n)
    budget = {"epsilon": epsilon, "delta": delta_at(spec.headline.delta, n)}
    try:
        return rehearse_release(
            item.name, n_rows, sizes["d"], {**item.keywords(sizes, steps), **budget}, n_users=n_users
        )
    except InputError:
        return None
