"""What a study's answers will cost, from public declarations and simulation alone: no data are touched.

Small tables are made up that are all as plausible as what is declared and guessed of the columns
(`tasks.problems.declared_rows`), and the study's estimators run on them. Two laws bring their errors to other
sizes and budgets: what noise costs depends on n μ(ε, δ) alone, for a release's noise is in proportion to
1/(n μ); what chance costs is in proportion to 1/√n. The error to expect is the geometric mean over
the tables, and the range a 90 % prediction interval of one more.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from data.ledger import Ledger
from dpalgos import InputError, Result, get_estimator
from dpalgos.accounting.gaussian_dp import gaussian_epsilon, gaussian_mu
from dpalgos.accounting.risk import AttackRisk, risk_of_budget, risk_of_events
from dpalgos.hardened_release import ReleasePlan, plan_release
from reports.analysis.ranking import first_below
from reports.analysis.results import PUBLIC_ALONE
from reports.page import ZERO
from tasks.faults import SpecError
from tasks.problems.problem import DrawsFromPopulation, Estimation
from tasks.release.spending import spending_of
from tasks.rules import delta_at
from tasks.run.resources import one_blas_thread
from tasks.study.panel import EstimatorSpec, Panel
from tasks.study.spec import StudySpec
from tasks.work_units import Cell, Replicates

BUDGETS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
FACTORS = (1 / 64, 1 / 16, 1 / 4, 4.0, 16.0, 64.0)  # of tables of other sizes
TABLES = 12  # made up; half of them are fitted with intervals
LEVEL = 0.95  # of intervals
_SEED = 1  # of made-up tables and all noise
_ROWS, _ROWS_PER_COLUMN = 1_000, 40  # of a made-up table, unless the study's has fewer
_ROWS_OF_RELEASES = 10_000  # of which sampling errors are near those of more rows, next to noise
_STRENGTHS = 5  # n μ(ε, δ) at which noise is simulated
_LEAST_NOISE = 0.1  # of an error, where chance explains it all
_UPPER = 0.95  # of the range, whose lower end is as sure: 90 % in all
_LEAST_SPREAD = 0.4  # of logarithms of errors: what made-up tables leave out of real ones
_MOST_STRENGTH = 60.0  # μ at which noise is nothing


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The error to expect of one estimator at one size and budget."""

    estimator: str
    form: str
    steps: int | None
    n: int
    epsilon: float  # NaN for a non-private estimator
    error: float  # geometric mean, in the study's metric; NaN where it refuses most made-up tables
    low: float  # ends of the 90 % range
    high: float
    refused: str = ""  # why it gives no answer
    # At the headline's size, of estimators with intervals: mean half width of the coordinates' 95 % intervals
    # in the metric's units; how many of the coordinates, the intercept left out, will have one.
    half_width: float = math.nan
    intervals: tuple[float, float, float] = (0.0, 0.0, 0.0)  # expected, least, most
    coordinates: int = 0

    @property
    def private(self) -> bool:
        return not math.isnan(self.epsilon)

    @property
    def name(self) -> str:
        """Estimator, form and number of steps."""
        steps = f"T = {self.steps}" if self.steps else ""
        return ", ".join(part for part in (self.estimator, self.form, steps) if part)


@dataclass(frozen=True, kw_only=True)
class Need:
    """What one estimator needs for a wanted error: (expected, least, most), by the ends of the ranges."""

    estimator: str  # with its form
    epsilon: tuple[float, float, float]  # at the headline's size; infinite if no ε up to 10 is enough
    # At the headline's ε, of a table that is larger or smaller than the study's by the same factor; infinite
    # if a table 64 times as large is not enough.
    n: tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class ReleaseCost:
    """What one more release on all rows would cost an open budget: the ε at its δ, before and after."""

    estimator: str
    epsilon: float
    spent: float
    spent_after: float
    budget: float


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Forecasts at the study's settings, and what a wanted error needs."""

    forecasts: tuple[Forecast, ...]
    wanted: float
    needs: tuple[Need, ...]

    def best(self, n: int, epsilon: float) -> Forecast | None:
        """Return the private estimator with the smallest expected error; None if all refuse."""
        there = [each for each in self.forecasts if (each.n, each.epsilon) == (n, epsilon)]
        return min((each for each in there if not each.refused), key=lambda each: each.error, default=None)


def advise(
    spec: StudySpec,
    *,
    wanted: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> Advice:
    """Forecast a study's errors, and what a wanted error needs.

    ``wanted`` is an error in the study's metric; by default twice the sampling error at the headline's size:
    what random rows cost without privacy. ``progress`` is told the number of tables made up so far.
    """
    head, panel = spec.headline, with_least_noise(spec)
    grid, tables = spec.grid_of(panel), _Tables(spec=spec, panel=panel, delta=delta_at(head.delta, head.n))
    curves = [
        _Curve(item, tables, steps)
        for item in spec.estimators_of(panel)
        if item.form != PUBLIC_ALONE and "public_X" not in item.params  # made-up rows have another shape
        for steps in (item.steps or (None,))
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about the units of rows that are made up
        for number, table in enumerate(tables.drawn(head.n / tables.n_units, TABLES), 1):
            for curve in curves:
                curve.run(table, with_intervals=number % 2 == 1)
            if progress:
                progress(number)
    chance = np.min([c.chance() for c in curves if c.without_privacy] or [np.zeros(1)], axis=0)
    forecasts, needs = [], []
    for curve in curves:
        epsilons = grid.epsilon if curve.private else (math.nan,)
        forecasts += [curve.forecast(n, epsilon, chance) for n in grid.n for epsilon in epsilons]
    if wanted is None:
        wanted = 2 * math.sqrt(float(np.median(chance)) / head.n) or math.nan
    for curve in curves:
        if curve.private:
            by_epsilon = [(e, curve.forecast(head.n, e, chance)) for e in sorted({*BUDGETS, *grid.epsilon})]
            sizes = [max(1, round(factor * head.n)) for factor in (*FACTORS, 1.0)]
            by_n = [(n, curve.forecast(n, head.epsilon, chance, grows=True)) for n in sizes]
            name = by_n[0][1].name
            needs.append(Need(estimator=name, epsilon=_first(wanted, by_epsilon), n=_first(wanted, by_n)))
    return Advice(forecasts=tuple(forecasts), wanted=wanted, needs=tuple(needs))


def _first(wanted: float, points: Sequence[tuple[float, Forecast]]) -> tuple[float, float, float]:
    """Return where errors fall to a wanted one, by what to expect and by both ends of the ranges."""
    expected, *ends = (
        first_below(wanted, [(x, getattr(each, name)) for x, each in points])
        for name in ("error", "low", "high")
    )
    return expected, min(expected, *ends), max(expected, *ends)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Tables:
    """Small tables that are as plausible as what is declared of the study's."""

    spec: StudySpec
    panel: Panel
    delta: float
    most_rows: int = 0  # of a made-up table; 0: a thousand, or what its columns need

    def __post_init__(self) -> None:
        if not isinstance(self.panel.problem, DrawsFromPopulation):
            raise SpecError(f"{self.spec.name}: advice is for studies of a table, e.g. kind = 'subsamples'")
        one_blas_thread()

    @property
    def n_units(self) -> int:
        """How many rows, or users, the study's own table has."""
        return int(self.panel.problem.population[0])  # type: ignore[attr-defined]

    @property
    def n_rows(self) -> int:
        d = self.panel.problem.sizes(self.spec.headline.n)["d"]
        return min(self.n_units, max(_ROWS, _ROWS_PER_COLUMN * d, self.most_rows))

    def drawn(self, share: float, count: int) -> Iterator["_Table"]:
        """Yield a share of the rows of each table; leave out those without an answer, but not all of them."""
        refusal = "no table"  # empty once one has an answer
        n = max(1, round(share * self.n_rows))
        same: dict[str, Any] = {"study": self.spec.name, "panel": self.panel.name, "n": n}
        for number in range(count):
            rng = np.random.default_rng([_SEED, number])
            drawn = Replicates(**same, first=0, count=1, of=1, n_cells=1, seed=_SEED + number)
            try:
                prepared = self.panel.problem.made_up(self.n_rows, self.spec.guesses, rng)  # type: ignore[attr-defined]
                draw = next(iter(self.panel.problem.draws(drawn, prepared)))
            except ValueError as error:  # e.g. a response that has one value
                refusal = refusal and str(error)
                continue
            refusal = ""
            assert isinstance(draw, Estimation)
            yield _Table(draw=draw, replicates=drawn, delta=self.delta)
        if refusal:
            raise SpecError(f"{self.spec.name}: {refusal}")


@dataclass(frozen=True, eq=False, kw_only=True)
class _Table:
    """Random rows of one made-up table."""

    draw: Estimation
    replicates: Replicates
    delta: float

    def answer(self, estimator: str, params: Mapping[str, Any], strength: float | None) -> Result:
        """Return an answer from these rows; ``strength`` is n μ(ε, δ), None without privacy."""
        n = self.replicates.n
        budget: dict[str, Any] = {"calibration": "none", "epsilon": None, "delta": None}
        if strength is not None:
            epsilon = gaussian_epsilon(self.delta, min(strength / n, _MOST_STRENGTH))
            budget = {"calibration": "tight", "epsilon": epsilon, "delta": self.delta}
        rule, panel = "" if strength is None else f"{self.delta:.3g}", self.replicates.panel
        cell = Cell(estimator=estimator, panel=panel, n=n, params=dict(params), delta_rule=rule, **budget)
        return self.draw.answer(cell, self.replicates)

    def error(self, estimator: str, params: Mapping[str, Any], strength: float | None) -> float:
        measured = self.draw.measure(self.answer(estimator, params, strength).estimate)
        return float(np.atleast_2d(measured)[0, 0])

    def interval(self, estimator: str, params: Mapping[str, Any], strength: float) -> np.ndarray | None:
        """Return the ends in public units, (2, d), NaN without an honest interval; None if it is refused."""
        try:
            return self.answer(estimator, {"interval": LEVEL, **params}, strength).interval
        except InputError:  # a setting that has none, or too few rows
            return None

    def half_widths(self, estimator: str, params: Mapping[str, Any], strength: float) -> np.ndarray:
        """Return the coordinates' half widths in the metric's units; NaN without an honest interval."""
        interval = self.interval(estimator, params, strength)
        if interval is None:
            return np.zeros(0)
        ends = self.draw.columns(interval[1] - interval[0])[:, 0] / 2
        scale = np.ones(len(ends)) if self.draw.to_target is None else np.abs(self.draw.to_target).sum(axis=0)
        return np.asarray(ends[scale > 0] * scale[scale > 0])


class _Curve:
    """One estimator's errors on made-up tables, and what they are at other sizes and budgets.

    Its strengths are products n μ(ε, δ), of which the privacy part of an error is a function.
    """

    def __init__(self, item: EstimatorSpec, tables: _Tables, steps: int | None) -> None:
        self.item, self.tables, self.steps = item, tables, steps
        head, grid = tables.spec.headline, tables.spec.grid_of(tables.panel)
        self.share, self.refusal = head.n / tables.n_units, ""
        self.private = bool(item.calibrations)
        self.without_privacy = not self.private and item.name != ZERO
        self.at_head = {epsilon: self._strength(head.n, epsilon) for epsilon in grid.epsilon}
        ends = [self._strength(n, epsilon) for n in grid.n for epsilon in grid.epsilon]
        ends += [self._strength(head.n, epsilon) for epsilon in (BUDGETS[0], BUDGETS[-1])]
        between = map(float, np.geomspace(min(ends), max(ends), _STRENGTHS))
        self.strengths: list[float | None] = [*between] if self.private else [None]
        self.params = item.keywords(tables.panel.problem.sizes(head.n), steps)
        self.errors: list[list[float]] = []  # by table and strength
        self.widths: dict[float, list[np.ndarray]] = {}  # by ε of the study, by table

    def _strength(self, n: int, epsilon: float) -> float:
        return n * gaussian_mu(epsilon, delta_at(self.tables.spec.headline.delta, n))

    def run(self, table: _Table, with_intervals: bool) -> None:
        """Add the errors on one more table."""
        name, found = self.item.name, []
        for strength in self.strengths:
            try:
                found.append(table.error(name, self.params, strength))
            except InputError as error:
                self.refusal = str(error)
                found.append(math.nan)
        self.errors.append(found)
        if with_intervals and self.private and get_estimator(name).has_interval:
            for epsilon, strength in self.at_head.items():
                widths = table.half_widths(name, self.params, strength)
                self.widths.setdefault(epsilon, []).append(widths)

    def chance(self) -> np.ndarray:
        """Return the squared error of one row without privacy, about an endless population, by table."""
        left, n = 1 - self.share, round(self.share * self.tables.n_rows)
        errors = np.nan_to_num(np.array(self.errors)[:, 0])
        return np.asarray(errors**2 * n / left if left > 0 else 0 * errors)

    def forecast(self, n: int, epsilon: float, chance: np.ndarray, grows: bool = False) -> Forecast:
        """Return the forecast at a size and budget; ``grows``: of a table that grows with n."""
        errors = np.array(self.errors)
        left = 1 - (self.share if grows else n / self.tables.n_units)
        if self.without_privacy:
            errors = np.sqrt(self.chance() * left / n)
        elif not self.private:
            errors = errors[:, 0]
        else:
            here = chance * (1 - self.share) / round(self.share * self.tables.n_rows)
            noise = np.sqrt(np.maximum(errors**2 - here[:, None], (_LEAST_NOISE * errors) ** 2))
            at, strengths = (
                math.log(self._strength(n, epsilon)),
                np.log(np.array(self.strengths, dtype=float)),
            )
            noise = np.array([_interpolated(at, strengths, each) for each in noise])
            errors = np.sqrt(noise**2 + chance * left / n)
        known = errors[np.isfinite(errors)]
        refused = "" if 2 * len(known) > len(errors) else self.refusal or "no answer"
        error, low, high = _range(known) if not refused else (math.nan,) * 3
        at_head = n == self.tables.spec.headline.n and not grows
        counts, k, half_width = interval_counts(self.widths.get(epsilon, []) if at_head else [])
        return Forecast(
            estimator=self.item.name,
            form=self.item.form,
            steps=self.steps,
            n=n,
            epsilon=epsilon,
            error=error,
            low=low,
            high=high,
            refused=refused,
            half_width=half_width,
            intervals=counts,
            coordinates=k,
        )


def _interpolated(at: float, strengths: np.ndarray, errors: np.ndarray) -> float:
    """Return an error between simulated ones, on log scales; NaN where the nearest was refused."""
    known = np.isfinite(errors) & (errors > 0)
    if not known.any() or not known[np.argmin(np.abs(strengths - at))]:
        return math.nan
    return float(np.exp(np.interp(at, strengths[known], np.log(errors[known]))))


def _range(errors: np.ndarray) -> tuple[float, float, float]:
    """Return the geometric mean, and the 90 % prediction interval of one more table."""
    logs = np.log(np.maximum(errors, 1e-300))
    spread = math.hypot(float(logs.std(ddof=1)) if len(logs) > 1 else 0.0, _LEAST_SPREAD)
    t = float(scipy.special.stdtrit(max(1, len(logs) - 1), _UPPER))
    reach = t * spread * math.sqrt(1 + 1 / len(logs))
    middle = float(logs.mean())
    return math.exp(middle), math.exp(middle - reach), math.exp(middle + reach)


def interval_counts(widths: Sequence[np.ndarray]) -> tuple[tuple[float, float, float], int, float]:
    """Return how many coordinates have an interval (expected, least, most), of how many, and half widths."""
    told = [each for each in widths if each.size]
    if not told:
        return (0.0, 0.0, 0.0), 0, math.nan
    counts = [float(np.isfinite(each).sum()) for each in told]
    there = np.concatenate([each[np.isfinite(each)] for each in told])
    half_width = float(there.mean()) if len(there) else math.nan
    return (float(np.median(counts)), min(counts), max(counts)), len(told[0]), half_width


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleaseForecast:
    """What intervals a release on all rows will have, on made-up tables.

    ``half_widths`` (k,) are in public units, the median over tables, NaN where most tables have none;
    ``intervals`` and ``signs`` are how many coefficients will have an interval, and one on one side of zero:
    (expected, least, most).
    """

    names: tuple[str, ...]
    half_widths: np.ndarray
    intervals: tuple[float, float, float]
    signs: tuple[float, float, float]


def forecast_release(
    spec: StudySpec,
    estimator: str,
    params: Mapping[str, Any],
    epsilon: float,
    delta: float,
    columns: Sequence[str] = (),
) -> ReleaseForecast:
    """Forecast the intervals of a release on all rows; it reads no data.

    ``params`` are the release's public keywords without ``epsilon`` and ``delta``; ``columns`` are its
    covariates, by default the study's.
    """
    panel = spec.head_panel
    if columns and spec.analyst_table:
        covariates = [name for column in columns for name in spec.analyst_table.ingested(column)]
        problem = panel.problem.model_copy(update={"covariates": tuple(covariates)})
        panel = panel.model_copy(update={"problem": problem})
    tables = _Tables(spec=spec, panel=panel, delta=delta, most_rows=_ROWS_OF_RELEASES)
    strength = gaussian_mu(epsilon, delta) * tables.n_units
    names = tuple(getattr(panel.problem, "covariates", ()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about budgets and units of rows that are made up
        drawn = tables.drawn(1.0, TABLES)
        found = [ends for table in drawn if (ends := table.interval(estimator, params, strength)) is not None]
    if not found:
        return ReleaseForecast(
            names=names, half_widths=np.full(len(names), np.nan), intervals=(0, 0, 0), signs=(0, 0, 0)
        )
    ends = np.array(found)[:, :, : len(names) or None]  # (tables, 2, k), without the intercept
    widths = (ends[:, 1] - ends[:, 0]) / 2
    is_known = np.isfinite(widths)
    has_most = 2 * is_known.sum(axis=0) > len(widths)
    middle = np.full(widths.shape[1], np.nan)
    middle[has_most] = np.nanmedian(widths[:, has_most], axis=0)
    return ReleaseForecast(
        names=names,
        half_widths=middle,
        intervals=_middle_and_ends(is_known.sum(axis=1)),
        signs=_middle_and_ends(((ends[:, 0] > 0) | (ends[:, 1] < 0)).sum(axis=1)),
    )


def _middle_and_ends(counts: np.ndarray) -> tuple[float, float, float]:
    return float(np.median(counts)), float(counts.min()), float(counts.max())


def with_least_noise(spec: StudySpec) -> Panel:
    """Return the headline's panel without printed noise: a release draws the least that is proved."""
    kept = [
        item.model_copy(update={"calibrations": item.calibrations and ("tight",)})
        for item in spec.estimators_of(spec.head_panel)
        if not item.calibrations or "tight" in item.calibrations
    ]
    return spec.head_panel.model_copy(update={"estimators": tuple(kept)})


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
    budget, panel = ledger.budget(dataset), with_least_noise(spec)
    spent, table = spending_of(ledger.charges(dataset)), spec.analyst_table
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
        return plan_release(
            item.name, n_rows, sizes["d"], {**item.keywords(sizes, steps), **budget}, n_users=n_users
        )
    except InputError:
        return None
