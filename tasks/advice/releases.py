"""Forecast a release on all rows: intervals on synthetic tables, risks and the remaining budget."""

import math
import warnings
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from data.ledger import Ledger
from dpalgos import InputError, estimate, get_estimator
from dpalgos.accounting.risk import AttackRisk, risk_of_budget, risk_of_events
from dpalgos.central.preconditioned.releases import ROBUST
from dpalgos.hardened_release import ReleasePlan, rehearse_release
from dpalgos.result import Result
from tasks.advice.forecasts import (
    LEVEL,
    Forecast,
    made_up_tables,
    middle_and_ends,
    on_a_table,
    range_of,
    with_least_noise,
)
from tasks.cells import Replicates
from tasks.release.request import ReleaseRequest
from tasks.release.spending import spending_of
from tasks.size_rules import delta_at
from tasks.study.panel import EstimatorSpec, Panel, structure_of
from tasks.study.spec import StudySpec

_TABLES, _FEW_TABLES = 60, 12
_MOST_STEPS = 29  # up to 16,384 times as much
_BEYOND = 1.0  # signs of a real table beyond those of made-up ones; chosen on the tables of the bench
_NARROWER = 4.0  # least half-widths, where no spread is stated: bounds alone say little of it


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleaseForecast:
    """The intervals that a release on all rows will have, on synthetic tables.

    ``half_widths`` (k,) are in public units, the median over tables, NaN where most tables have none.
    ``ends`` (2, k) are their range, NaN for levels whose shares are not stated. ``intervals`` and ``signs``
    are how many coefficients will have an interval, and one on one side of zero: (expected, least, most).
    ``none`` is the share of tables on which no coefficient has one.
    """

    names: tuple[str, ...]
    half_widths: np.ndarray
    ends: np.ndarray
    intervals: tuple[float, float, float]
    signs: tuple[float, float, float]
    none: float

    @property
    def chance_of_none(self) -> float:
        """The chance that no coefficient has an interval: 1 if most tables have none for each of them."""
        return 1.0 if all(map(math.isnan, self.half_widths)) else self.none


@dataclass(frozen=True, kw_only=True)
class AskedRelease:
    """A release on all rows of a study's table, by what is public.

    ``params`` are its keywords without ``epsilon`` and ``delta``; ``columns`` are its covariates and
    ``response`` its response, by default those of the study.
    """

    estimator: str
    epsilon: float
    delta: float
    params: Mapping[str, Any] = field(default_factory=dict)
    columns: Sequence[str] = ()
    response: str | None = None

    @classmethod
    def of(cls, request: ReleaseRequest) -> "AskedRelease":
        """Return the public part of a request."""
        return cls(
            estimator=request.estimator.name,
            epsilon=request.epsilon,
            delta=request.delta,
            params=request.keywords,
            columns=request.columns.x,
            response=request.columns.y or "",
        )


def forecast_release(spec: StudySpec, request: AskedRelease) -> ReleaseForecast:
    """Forecast the intervals of a release on synthetic tables; it reads no data."""
    return simulate_release(spec, request, _TABLES).forecast(request.epsilon)


@dataclass(frozen=True, eq=False, kw_only=True)
class SimulatedRelease:
    """A release on synthetic tables, which are the same for every ε."""

    spec: StudySpec
    asked: AskedRelease
    panel: Panel
    tables: Sequence[Any]
    first: int  # 1 after an offset

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, without offset and intercept."""
        return on_a_table(self.spec, self.panel).covariates[self.first :]

    def forecast(self, epsilon: float) -> ReleaseForecast:
        """Forecast the intervals at an ε."""
        return _forecast(self.spec, self.panel, self.names, self.limits(epsilon), len(self.tables))

    def limits(self, epsilon: float) -> list[np.ndarray]:
        """Return the limits (2, k) of the intervals at an ε, of tables that have any."""
        last = self.first + len(self.names) if self.names else None
        limits = [result.interval for result in self.results(epsilon)]
        return [ends[:, self.first : last] for ends in limits if ends is not None]

    def results(self, epsilon: float) -> list[Result]:
        """Return the releases at an ε from all tables that are not refused."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about budgets and units of rows that are made up
            results = [self._release(epsilon, number) for number in range(len(self.tables))]
        return [result for result in results if result is not None]

    def _release(self, epsilon: float, number: int) -> Result | None:
        """Release all rows of a table; return None if it is refused: without intervals, or too few rows."""
        panel, n = self.panel, self.panel.problem.traits.population[0]
        replicates = Replicates(study="advice", panel=panel.name, n=n, first=0, count=1, of=1, seed=number)
        draw = next(iter(panel.problem.draws(replicates, self.tables[number])))
        keywords = {"interval": LEVEL, **self.asked.params, "epsilon": epsilon, "delta": self.asked.delta}
        rng = np.random.default_rng(number)  # the same at every ε, which makes half-widths decrease in it
        try:
            return estimate(self.asked.estimator, draw.sample, rng=rng, **keywords)
        except InputError:
            return None


def simulate_release(spec: StudySpec, request: AskedRelease, n_tables: int = _TABLES) -> SimulatedRelease:
    """Simulate the tables of a release.

    Where least squares' coefficients are covered, positive responses are taken to have a long tail.
    """
    panel, params, first = spec.head_panel, dict(request.params), 0
    if params.get("interval_target", ROBUST) != ROBUST:
        spec = spec.model_copy(update={"guesses": spec.guesses.model_copy(update={"skewed": True})})
    if request.columns and spec.analyst_table:
        table, family = spec.analyst_table, params.get("family", "")
        covariates = tuple(name for each in request.columns for name in table.ingested(each))
        of_release: dict[str, Any] = {"covariates": covariates, "analyst_table": table}
        if (y := request.response) is not None:
            response = y if family == "multinomial" or not y else table.ingested(y)[0]
            of_release |= {"response": response, "family": family, "units": "public"}
        panel = panel.model_copy(update={"problem": panel.problem.model_copy(update=of_release)})
    if (traits := panel.problem.traits).has_intercept:
        params = {**structure_of(request.estimator, traits.offset_bounds), **params}
        first = int(traits.offset_bounds is not None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        tables = tuple(made_up_tables(spec, panel, n_tables))
    return SimulatedRelease(
        spec=spec, asked=replace(request, params=params), panel=panel, tables=tables, first=first
    )


def _forecast(
    spec: StudySpec, panel: Panel, names: tuple[str, ...], some: Sequence[np.ndarray], n_tables: int
) -> ReleaseForecast:
    """Summarize the limits (2, k) of the intervals on tables that have any."""
    if not some:
        none = np.full((2, len(names)), np.nan)
        zeros = (0.0, 0.0, 0.0)
        return ReleaseForecast(
            names=names,
            half_widths=none[0],
            ends=none,
            intervals=zeros,
            signs=zeros,
            none=1.0,
        )
    ends = np.array(some)  # (tables, 2, k), without the intercept
    widths = (ends[:, 1] - ends[:, 0]) / 2
    signs, least, most = middle_and_ends(((ends[:, 0] > 0) | (ends[:, 1] < 0)).sum(axis=1))
    is_known = np.isfinite(widths)
    has_most = 2 * is_known.sum(axis=0) > len(widths)
    middle = np.full(widths.shape[1], np.nan)
    middle[has_most] = np.nanmedian(widths[:, has_most], axis=0)
    range_ends = np.array([range_of(each[np.isfinite(each)])[1:] for each in widths.T]).T.reshape(2, -1)
    # Before a rare level loses its interval, its half-width is up to 100 times that of a frequent one.
    range_ends[:, _levels_of_unknown_shares(spec, panel, names)] = np.nan
    return ReleaseForecast(
        names=names,
        half_widths=middle,
        ends=range_ends / [[1.0 if spec.guesses.std else _NARROWER], [1.0]],
        intervals=middle_and_ends(is_known.sum(axis=1)),
        signs=(signs, max(least - _BEYOND, 0.0), min(most + _BEYOND, float(widths.shape[1]))),
        none=1 - float(is_known.any(axis=1).sum()) / n_tables,
    )


def _levels_of_unknown_shares(spec: StudySpec, panel: Panel, names: Sequence[str]) -> np.ndarray:
    """Return which columns are levels of a category whose shares are not stated, (k,)."""
    rows = on_a_table(spec, panel).declared_rows(spec.guesses)
    unknown = set(rows.categories) - set(rows.guesses.shares)
    sources = rows.formula.sources if rows.formula else {}
    levels = {each for name in unknown for each in rows.categories[name]}
    levels |= {name for name, own in sources.items() if not unknown.isdisjoint(own)}
    return np.array([name in levels for name in names], dtype=bool)


def needed_epsilon(spec: StudySpec, request: AskedRelease) -> float | None:
    """Return about the smallest ε at which half of the coefficients have an interval; None if it is far off.

    It is one of a grid whose steps are a factor of 2^½.
    """

    simulated = simulate_release(spec, request, _FEW_TABLES)

    def has_half(step: int) -> bool:
        forecast = simulated.forecast(request.epsilon * 2 ** (step / 2))
        return 2 * forecast.intervals[0] >= len(forecast.names)

    step = bisect_left(range(_MOST_STEPS), True, lo=1, key=has_half)
    return None if step == _MOST_STEPS else request.epsilon * 2 ** (step / 2)


@dataclass(frozen=True, kw_only=True)
class ReleaseCost:
    """The cost of one more release on all rows to an open budget: the ε at its δ, before and after."""

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
    costs = []
    for item in panel.estimators:
        for epsilon in spec.grid_of(panel).epsilon if item.calibrations else ():
            if plan := _planned(spec, item, epsilon, n_rows, n_users=n_users):
                costs.append(
                    ReleaseCost(
                        estimator=f"{item.name}, {item.form}" if item.form else item.name,
                        epsilon=epsilon,
                        spent=spent.epsilon(budget.delta),
                        spent_after=(spent + plan.cost).epsilon(budget.delta),
                        budget=budget.epsilon,
                    )
                )
    return tuple(costs)


def _planned(
    spec: StudySpec,
    item: EstimatorSpec,
    epsilon: float,
    n_rows: int,
    *,
    n_users: int | None,
    steps: int | None = None,
) -> ReleasePlan | None:
    """Plan a release; None if it would be refused: no floating-point-safe noise, or too few users."""
    n = n_users or n_rows
    sizes = spec.head_panel.problem.sizes(n)
    budget = {"epsilon": epsilon, "delta": delta_at(spec.headline.delta, n)}
    try:
        return rehearse_release(
            item.name, n_rows, sizes["d"], {**item.keywords(sizes, steps), **budget}, n_users=n_users
        )
    except InputError:
        return None
