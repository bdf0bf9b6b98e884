"""What a study's answers will cost, from public declarations and simulation alone: no data are touched.

Tables are made up that are all as plausible as what is declared and guessed of the columns
(`tasks.problems.declared_rows`), and the study's estimators run on them as they would on the data. The error
to expect is the median of these tables; the least and the largest say how much the declarations leave open.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd

from data.ledger import Ledger
from dpalgos import InputError, get_estimator
from dpalgos.hardened_release import plan_release
from reports.analysis.error_curve import first_below
from tasks.faults import SpecError
from tasks.problems.guesses import Guesses
from tasks.problems.problem import Estimation
from tasks.problems.registered_table import RegisteredTableProblem
from tasks.release.draw import spending_of
from tasks.rules import delta_at
from tasks.run.block import compute_block
from tasks.run.resources import one_blas_thread
from tasks.study.block import Block
from tasks.study.panel import Grid, Panel
from tasks.study.spec import StudySpec
from tasks.work_units import Cell

BUDGETS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
SIZES = (1 / 16, 1 / 4, 4.0)  # of tables beside the study's own, as multiples of it
TABLES = 10  # made up, among which repetitions are divided
LEVEL = 0.95
_MOST_ELEMENTS = 20_000_000  # of a made-up table
_FEWEST_ROWS = 50  # of a made-up table
_TRIES = 5  # at a table that has an answer
BEYOND = 16.0  # how far the last slope is followed


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The error to expect of one estimator at one size and budget.

    Attributes
    ----------
    estimator, form : str
    n : int
    epsilon : float
        NaN for a non-private estimator.
    error, low, high : float
        Median, least and largest of the made-up tables' mean errors in the study's metric; NaN where the
        estimator refuses most of them.
    half_width : float
        Mean half width of the coordinates' 95 % intervals, in the metric's units, at the headline's size; NaN
        elsewhere, and for estimators without intervals.
    flagged : float
        Share of coordinates without an honest interval; 1 where the estimator has none.
    refused : str
        Why it gives no answer.
    """

    estimator: str
    form: str
    steps: int | None
    n: int
    epsilon: float
    error: float
    low: float
    high: float
    refused: str
    half_width: float = math.nan
    flagged: float = math.nan

    @property
    def private(self) -> bool:
        """Whether it has an ε."""
        return not math.isnan(self.epsilon)

    @property
    def without_privacy(self) -> bool:
        """Whether it is what private estimators are compared with."""
        return not self.private and self.estimator != "zero"

    @property
    def name(self) -> str:
        """Estimator, form and number of steps."""
        steps = f"T = {self.steps}" if self.steps else ""
        return ", ".join(part for part in (self.estimator, self.form, steps) if part)


@dataclass(frozen=True, kw_only=True)
class Need:
    """What one estimator needs for a wanted error: what to expect, and by the least and the largest errors.

    Attributes
    ----------
    estimator : str
        With its form.
    epsilon : (expected, least, most) of float
        At the headline's size; infinite if no ε up to 10 is enough.
    n : (expected, least, most) of float
        At the headline's ε, of a table that is larger or smaller than the study's by the same factor;
        infinite if it is beyond what simulation tells.
    """

    estimator: str
    epsilon: tuple[float, float, float]
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
    replicates: int = 3 * TABLES,
    seed: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Advice:
    """Forecast a study's errors, and what a wanted error needs.

    Parameters
    ----------
    spec : StudySpec
    wanted : float, optional
        An error in the study's metric; by default twice the sampling error at the headline's size: what
        random rows cost without privacy.
    replicates : int
        Repetitions of each forecast.
    seed : int
        Of the made-up tables and all noise.
    progress : callable, optional
        Is told the number of forecasts made so far.

    Raises
    ------
    SpecError
        In words.
    """
    one_blas_thread()
    head, grid = spec.headline, spec.grid_of(spec.head_panel)
    simulation = _Simulation(spec, replicates, seed, progress)
    forecasts = simulation.forecasts()
    study = [
        each for each in forecasts if each.n in grid.n and (not each.private or each.epsilon in grid.epsilon)
    ]
    if wanted is None:
        wanted = 2 * _sampling_error(study, head.n, simulation.n_units)
    return Advice(forecasts=tuple(study), wanted=wanted, needs=needs(forecasts, spec, wanted))


def needs(forecasts: Sequence[Forecast], spec: StudySpec, wanted: float) -> tuple[Need, ...]:
    """Return what each private estimator needs for a wanted error, from forecasts at sizes and budgets."""
    head, sizes = spec.headline, spec.grid_of(spec.head_panel).n
    found = []
    for name in dict.fromkeys(each.name for each in forecasts if each.private):
        own = [each for each in forecasts if each.name == name]
        by_budget = [(each.epsilon, each) for each in own if each.n == head.n]
        by_size = [
            (float(each.n), each)
            for each in own
            if each.epsilon == head.epsilon and (each.n == head.n or each.n not in sizes)
        ]
        found.append(
            Need(
                estimator=name,
                epsilon=_first_below(wanted, by_budget),
                n=_first_below(wanted, by_size, BEYOND),
            )
        )
    return tuple(found)


def _first_below(
    wanted: float, points: list[tuple[float, Forecast]], beyond: float = 1.0
) -> tuple[float, float, float]:
    def where(errors: list[float]) -> float:
        return first_below(wanted, list(zip((x for x, _ in points), errors, strict=True)), beyond)

    told = [each for _, each in points]
    expected, *ends = (where([getattr(f, name) for f in told]) for name in ("error", "low", "high"))
    # Beyond the points each curve follows its own last slope, so that they may cross.
    return expected, min(expected, *ends), max(expected, *ends)


def _sampling_error(forecasts: Sequence[Forecast], n: int, population: int) -> float:
    """Return the error of n rows of a population without end, without privacy; NaN if no size tells."""
    known = [each for each in forecasts if each.without_privacy and each.n < population]
    nearest = [each for each in known if each.n == min((f.n for f in known), key=lambda m: abs(m - n))]
    # Drawn without replacement, m of N rows err by sqrt(1 - m/N) of what m of very many would.
    return min(
        (each.error * math.sqrt(each.n / n / (1 - each.n / population)) for each in nearest),
        default=math.nan,
    )


@dataclass(frozen=True, kw_only=True)
class _Run:
    """A cell's results on one made-up table: rows of the results table, and half widths of intervals."""

    rows: pd.DataFrame
    ends: np.ndarray

    @property
    def answered(self) -> bool:
        return bool((self.rows["status"] == "ok").all())


class _Simulation:
    """Runs the headline's panel on tables that are made up from declarations."""

    def __init__(
        self, spec: StudySpec, replicates: int, seed: int, progress: Callable[[int], None] | None
    ) -> None:
        if not isinstance(spec.head_panel.problem, RegisteredTableProblem):
            raise SpecError(f"{spec.name}: advice is for studies of a table, e.g. kind = 'subsamples'")
        self._problem = spec.head_panel.problem
        self.panel = with_least_noise(spec)
        self.n_units = spec.analyst_table.units[0] if spec.analyst_table else self._problem.about.n_rows
        self._n_tables = min(TABLES, replicates)
        self._spec, self._replicates, self._seed = spec, -(-replicates // self._n_tables), seed
        self._progress, self._made = progress, 0
        rows_each = spec.analyst_table.rows / self.n_units if spec.analyst_table else 1.0
        self._most = int(_MOST_ELEMENTS / rows_each / self._problem.sizes(spec.headline.n)["d"])

    def forecasts(self) -> list[Forecast]:
        """Return errors at the study's sizes and budgets, at more budgets, and of tables of other sizes."""
        runs: dict[str, list[_Run]] = {}
        for table in range(self._n_tables):
            for key, run in self._runs_on(table).items():
                runs.setdefault(key, []).append(run)
        return [_forecast(each) for each in runs.values()]

    def _populations(self) -> dict[int, list[Grid]]:
        """Return by size of a made-up table what is asked of it."""
        head, grid = self._spec.headline, self._spec.grid_of(self.panel)
        population = min(self.n_units, self._most)
        sizes = tuple(n for n in grid.n if n <= population)
        if head.n not in sizes:
            raise SpecError(
                f"{self._spec.name}: headline.n must be at most {population:,} for advice, got {head.n:,}; "
                "take a smaller one, for errors at larger sizes follow from it"
            )
        delta = (head.delta,)
        others = tuple(epsilon for epsilon in BUDGETS if epsilon not in grid.epsilon)
        asked = {
            population: [
                Grid(n=sizes, epsilon=grid.epsilon, delta=delta),
                *([Grid(n=(head.n,), epsilon=others, delta=delta)] if others else []),
            ]
        }
        for factor in SIZES:
            n, rows = round(factor * head.n), round(factor * self.n_units)
            if n >= _FEWEST_ROWS and rows <= self._most and n not in grid.n:
                asked[rows] = [Grid(n=(n,), epsilon=(head.epsilon,), delta=delta)]
        return asked

    def _runs_on(self, table: int) -> dict[str, _Run]:
        """Return each cell's results on a table and on larger and smaller ones of its kind."""
        for attempt in range(_TRIES):
            rng = np.random.default_rng([self._seed, table, attempt])
            try:
                guesses = self._problem.declared_rows(self._spec.guesses).plausible(self._spec.guesses, rng)
                return {
                    key: run
                    for population, grids in self._populations().items()
                    for key, run in self._runs_of(population, grids, guesses, table, rng).items()
                }
            except ValueError as error:  # e.g. a constant column, or a response that a line separates
                refusal = error
        raise SpecError(f"{self._spec.name}: {refusal}") from None

    def _runs_of(
        self, population: int, grids: list[Grid], guesses: Guesses, table: int, rng: np.random.Generator
    ) -> dict[str, _Run]:
        spec, problem = self._spec, self._problem
        prepared = problem.made_up(population, guesses, rng)
        found: dict[str, _Run] = {}
        for grid in grids:
            alone = spec.model_copy(update={"panels": (self.panel.model_copy(update={"grid": grid}),)})
            for block in alone.blocks("paper", replicates=self._replicates, seed=self._seed + table):
                rows = compute_block(block, prepared)
                rows = rows[rows["metric"] == problem.metric]
                widths = grid is grids[0] and block.replicates.n == spec.headline.n
                for cell in block.cells:
                    ends = _half_widths(cell, block, prepared) if widths else np.zeros(0)
                    run = _Run(rows=rows[rows["cell"] == cell.key], ends=ends)
                    found.setdefault(cell.key, run)
                self._made += len(block.cells)
                if self._progress:
                    self._progress(self._made)
        return found


def _half_widths(cell: Cell, block: Block, prepared: Any) -> np.ndarray:
    """Return half widths of a cell's intervals in the metric's units; NaN where there is no honest one."""
    if not cell.epsilon or not get_estimator(cell.estimator).has_interval:
        return np.zeros(0)
    asked, found = replace(cell, params={**cell.params, "interval": LEVEL}), [np.zeros(0)]
    for draw in block.problem.draws(block.replicates, prepared):
        assert isinstance(draw, Estimation)
        try:
            interval = draw.answer(asked, block.replicates).interval
        except InputError:  # a setting that has none, or too few rows
            return np.zeros(0)
        assert interval is not None
        ends = draw.columns(interval[1] - interval[0]) / 2
        scale = np.ones(len(ends)) if draw.to_target is None else np.abs(draw.to_target).sum(axis=0)
        found.append((ends[scale > 0] * scale[scale > 0, None]).ravel())
    return np.concatenate(found)


def with_least_noise(spec: StudySpec) -> Panel:
    """Return the headline's panel without printed noise: a release draws the least that is proved."""
    kept = [
        item.model_copy(update={"calibrations": item.calibrations and ("tight",)})
        for item in spec.estimators_of(spec.head_panel)
        if not item.calibrations or "tight" in item.calibrations
    ]
    return spec.head_panel.model_copy(update={"estimators": tuple(kept)})


def _forecast(runs: list[_Run]) -> Forecast:
    answered = [run for run in runs if run.answered]
    told = len(answered) > len(runs) / 2
    errors = [float(run.rows["value"].mean()) for run in answered] if told else [math.nan]
    ends = np.concatenate([run.ends for run in runs])
    first, there = runs[0].rows.iloc[0], ends[np.isfinite(ends)]
    refusals = [str(run.rows["message"].iloc[-1]) for run in runs if not run.answered]
    return Forecast(
        estimator=str(first["estimator"]),
        form=str(first["form"]),
        steps=None if pd.isna(first["steps"]) else int(first["steps"]),
        n=int(first["n"]),
        epsilon=cast(float, first["epsilon"]),
        error=float(np.median(errors)),
        low=min(errors),
        high=max(errors),
        refused="" if told else refusals[0],
        half_width=float(there.mean()) if len(there) else math.nan,
        flagged=1 - len(there) / len(ends) if len(ends) else 1.0,
    )


def release_costs(spec: StudySpec, ledger: Ledger, dataset: str) -> tuple[ReleaseCost, ...]:
    """Return what a release on all rows would cost the budget of a dataset, by estimator and ε of the study.

    Raises
    ------
    LedgerError
        No budget of that name was opened.
    """
    budget, panel = ledger.budget(dataset), with_least_noise(spec)
    spent, problem = spending_of(ledger.charges(dataset)), panel.problem
    about = spec.about(problem.source)
    n_rows, n_users = (
        (spec.analyst_table.rows, spec.analyst_table.users) if spec.analyst_table else (about.n_rows, None)
    )
    n = n_users or n_rows
    delta = delta_at(spec.headline.delta, n)
    found = []
    for item in panel.estimators:
        for epsilon in spec.grid_of(panel).epsilon if item.calibrations else ():
            sizes = problem.sizes(n)
            asked = {**item.keywords(sizes), "epsilon": epsilon, "delta": delta}
            try:
                cost = plan_release(item.name, n_rows, sizes["d"], asked, n_users=n_users).cost
            except InputError:  # no hardened noise, or too few users: the release would say so
                continue
            found.append(
                ReleaseCost(
                    estimator=f"{item.name}, {item.form}" if item.form else item.name,
                    epsilon=epsilon,
                    spent=spent.epsilon(budget.delta),
                    spent_after=(spent + cost).epsilon(budget.delta),
                    budget=budget.epsilon,
                )
            )
    return tuple(found)
