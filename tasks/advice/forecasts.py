"""Forecast the errors of a study: run it on synthetic tables, without reading data.

A dozen tables of the study's own size are simulated. All agree with the declarations and guesses of the
columns (`tasks.own_table.row_simulator`). The expected error of an estimator is the geometric mean over
them. The range is a 90% prediction interval of one more synthetic table, widened for what tables leave out.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpalgos import InputError, get_estimator
from dpalgos.accounting.risk import AttackRisk, risk_of_budget, risk_of_events
from dpalgos.hardened_release import release_plan
from reports.page import ZERO
from tasks.advice.releases import (
    LEVEL,
    SEED,
    ReleaseForecast,
    forecast_release,
    middle_and_ends,
    range_of,
    synthetic_tables,
)
from tasks.cells import Cell, Replicates, one_blas_thread
from tasks.errors import SpecError
from tasks.own_table.row_design import ReleaseColumns
from tasks.own_table.row_simulator import matters_most
from tasks.own_table.simulated_rows import with_tail
from tasks.problems.kinds import measure_of
from tasks.problems.problem import Draw
from tasks.problems.registered_table import RegisteredTable
from tasks.release.request import ReleaseConfig, ReleaseDataset, complete_request, with_declared_columns
from tasks.run.compute import compute_block
from tasks.size_rules import delta_at
from tasks.study.estimators import EstimatorSpec
from tasks.study.own_data import OwnData
from tasks.study.spec import Panel, StudySpec

TABLES = 12
_FARTHER = 2.0  # upper ends, for rows far out and nearly equal columns; lower ones, if nothing is stated


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The error to expect of one estimator at one size and budget."""

    estimator: str
    form: str
    steps: int | None
    n: int
    epsilon: float  # NaN for a non-private estimator
    error: float  # geometric mean, in the study's metric; NaN where it refuses most synthetic tables
    low: float  # ends of the range of most tables
    high: float
    refused: str = ""  # why it gives no estimate
    # At the headline's size, of estimators with intervals: the median half-width of 95% intervals over
    # coordinates and tables, in the metric's units, infinite where most have none; how many of the
    # coordinates, the intercept left out, will have one.
    half_width: float = math.nan
    intervals: tuple[float, float, float] = (0.0, 0.0, 0.0)  # expected, least, most
    coordinates: int = 0

    @property
    def private(self) -> bool:
        return not math.isnan(self.epsilon)

    @property
    def name(self) -> str:
        steps = f"T = {self.steps}" if self.steps else ""
        return ", ".join(part for part in (self.estimator, self.form, steps) if part)


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Forecasts at the study's settings, and what a wanted error needs.

    ``needs`` has an estimator with its form, its ε at the headline's size, and its size at the headline's ε.
    Each is (expected, minimum, maximum) by the limits of the ranges, infinite if the study has too few.
    """

    forecasts: tuple[Forecast, ...]
    wanted: float
    needs: tuple[Mapping[str, Any], ...]
    guess: str = ""  # whose uncertainty decides most of the best private error

    def best(self, n: int, epsilon: float) -> Forecast | None:
        """Return the private estimator with the smallest expected error; None if all refuse."""
        there = [each for each in self.forecasts if (each.n, each.epsilon) == (n, epsilon)]
        return min((each for each in there if not each.refused), key=lambda each: each.error, default=None)

    def zero(self, n: int) -> float:
        """Return the expected error of the zero baseline."""
        return next(each.error for each in self.forecasts if (each.estimator, each.n) == (ZERO, n))


def advise(
    spec: StudySpec,
    *,
    target: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> Advice:
    """Forecast a study's errors, and the ε or the number of rows that a target error needs.

    ``target`` is an error in the study's metric. By default it is twice the error without privacy of a new
    sample of the headline's size. ``progress`` receives the number of tables simulated so far.
    """
    panel, head = with_least_noise(spec), spec.headline
    # A forecast is one number by size and ε.
    grid = {"delta": (head.delta,), "s": () if head.s is None else (head.s,)}
    panel = panel.model_copy(update={"grid": spec.grid_of(panel).model_copy(update=grid)})
    if ZERO not in {item.name for item in panel.estimators}:
        panel = panel.model_copy(update={"estimators": (EstimatorSpec(name=ZERO), *panel.estimators)})
    spec = spec.model_copy(update={"panels": (panel,)})
    errors: list[pd.DataFrame] = []
    drawn: list[Mapping[str, float]] = []
    widths: dict[str, list[np.ndarray]] = {}  # by cell, of each table
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about budgets, and units of synthetic rows
        for number, (prepared, quantities) in enumerate(tables_of_study(spec, TABLES)):
            drawn.append(quantities)
            for block in spec.blocks("standard", replicates=1, seed=SEED + number, with_limit=False):
                errors.append(compute_block(block, prepared).assign(table=number))
                if block.replicates.n == head.n:
                    draw = next(iter(block.problem.draws(block.replicates, prepared)))
                    for cell in block.cells:
                        widths.setdefault(cell.key, []).append(_half_widths(draw, cell, block.replicates))
            if progress:
                progress(number + 1)
    rows = pd.concat(errors, ignore_index=True)
    problem = spec.head_panel.problem
    rows = rows[rows["metric"] == measure_of(problem).metric(problem.traits)]
    forecasts = tuple(_forecast(spec, of_cell, widths) for _, of_cell in rows.groupby("cell", sort=False))
    target = target or _default_target(spec, forecasts)
    needs = []
    for name in dict.fromkeys(each.name for each in forecasts if each.private):
        own = [each for each in forecasts if each.name == name]
        epsilon = _first(target, [(each.epsilon, each) for each in own if each.n == head.n])
        n = _first(target, [(each.n, each) for each in own if each.epsilon == head.epsilon])
        needs.append({"estimator": name, "epsilon": epsilon, "n": n})
    advice = Advice(forecasts=forecasts, wanted=target, needs=tuple(needs))
    return replace(advice, guess=_guess(spec, advice, rows, drawn))


def _guess(spec: StudySpec, advice: Advice, rows: pd.DataFrame, drawn: Sequence[Mapping[str, float]]) -> str:
    """Return the guess whose uncertainty decides most of the error of the headline's best estimator."""
    head = spec.headline
    if (best := advice.best(head.n, head.epsilon)) is None:
        return ""
    of_best = rows[(rows["n"] == head.n) & (rows["epsilon"] == head.epsilon)]
    of_best = of_best[(of_best["estimator"] == best.estimator) & (of_best["form"] == best.form)]
    of_best = of_best[of_best["steps"].fillna(0) == (best.steps or 0)]
    return matters_most(drawn, of_best.groupby("table", sort=False)["value"].mean().to_numpy(float))


def on_a_table(spec: StudySpec) -> RegisteredTable:
    """Return the headline's problem, which must be one on rows of a table."""
    problem = spec.head_panel.problem
    if not isinstance(problem, RegisteredTable) or not problem.traits.population[0]:
        raise SpecError(f"{spec.name}: advice is for studies of a table, e.g. kind = 'subsamples'")
    return problem


def tables_of_study(spec: StudySpec, count: int) -> Iterator[tuple[Any, Mapping[str, float]]]:
    """Return prepared tables of the study's size, fewer of many rows; leave out those without an estimate.

    The random quantities of each table's distribution come with it.
    """
    problem = on_a_table(spec)
    one_blas_thread()
    targets = [item.params.get("interval_target") for item in spec.estimators_of(spec.head_panel)]
    simulator = problem.simulator(with_tail(spec.guesses, targets))

    def prepared(n_units: int, rng: np.random.Generator) -> tuple[Any, Mapping[str, float]]:
        table, drawn = problem.synthetic_rows(n_units, simulator, rng)
        problem.full_answer(table)
        return table, drawn

    return synthetic_tables(prepared, problem.traits.population[0], count, spec.name, simulator.rows_each)


def _half_widths(draw: Draw, cell: Cell, replicates: Replicates) -> np.ndarray:
    """Return the half-widths of a cell's intervals in the metric's units; NaN where one is missing."""
    if cell.calibration == "none" or not get_estimator(cell.estimator).has_interval:
        return np.zeros(0)
    answer = draw.answer_with_interval(cell, replicates, LEVEL)
    if answer is None or (ends := answer.interval) is None:
        return np.zeros(0)
    half = draw.columns(ends[1] - ends[0])[:, 0] / 2
    scale = np.ones(len(half)) if draw.to_target is None else np.abs(draw.to_target).sum(axis=0)
    return np.asarray(half[scale > 0] * scale[scale > 0])


def _forecast(spec: StudySpec, of_cell: pd.DataFrame, widths: Mapping[str, list[np.ndarray]]) -> Forecast:
    one = of_cell.iloc[0]
    errors = of_cell["value"].dropna().to_numpy(dtype=float)
    refused = "" if 2 * len(errors) > len(of_cell) else of_cell["message"].max() or "no answer"
    error, low, high = range_of(errors) if not refused else (math.nan,) * 3
    if one["calibration"] != "none":
        low, high = low / (1 if spec.guesses.model_fields_set else _FARTHER), high * _FARTHER
    each_table = widths.get(one["cell"], [])
    of_tables, most = [], max((each.size for each in each_table), default=0)
    if most:  # a refused table has no interval
        of_tables = [each if each.size else np.full(most, math.nan) for each in each_table]
    counts = np.array([np.isfinite(each).sum() for each in of_tables] or [0.0])
    widths_or_none = np.nan_to_num(np.concatenate([np.zeros(0), *of_tables]), nan=math.inf)
    return Forecast(
        estimator=one["estimator"],
        form=one["form"],
        steps=None if pd.isna(one["steps"]) else int(one["steps"]),
        n=int(one["n"]),
        epsilon=float(one["epsilon"]),
        error=error,
        low=low,
        high=high,
        refused=refused,
        half_width=float(np.median(widths_or_none)) if of_tables else math.nan,
        intervals=middle_and_ends(counts),
        coordinates=len(of_tables[0]) if of_tables else 0,
    )


def _default_target(spec: StudySpec, forecasts: Sequence[Forecast]) -> float:
    """Return twice the error without privacy of a new sample of the headline's size; NaN if unknown."""
    head, n_units = spec.headline, spec.head_panel.problem.traits.population[0]
    at_head = [each for each in forecasts if each.n == head.n and not each.refused]
    without = [each.error for each in at_head if not each.private and each.estimator != ZERO]
    return 2 * min(without) / math.sqrt(1 - head.n / n_units) if without and head.n < n_units else math.nan


def _first(target: float, points: Sequence[tuple[float, Forecast]]) -> tuple[float, float, float]:
    """Return where errors fall to a wanted one, by what to expect and by both ends of the ranges."""
    expected, *ends = (
        first_below(target, [(x, getattr(each, name)) for x, each in points])
        for name in ("error", "low", "high")
    )
    return expected, min(expected, *ends), max(expected, *ends)


def first_below(target: float, points: Sequence[tuple[float, float]]) -> float:
    """Return where errors first fall to a wanted one, on log scales; infinite beyond the last point."""
    known = sorted((math.log(x), math.log(error)) for x, error in points if 0 < error < math.inf)
    if not known or not target > 0:
        return math.inf
    level = math.log(target)
    if known[0][1] <= level:
        return math.exp(known[0][0])
    for (x, error), (later, less) in pairwise(known):
        if less <= level:
            return math.exp(x + (error - level) / (error - less) * (later - x))
    return math.inf


def with_least_noise(spec: StudySpec) -> Panel:
    """Return the headline's panel without the paper's calibration, which no release uses."""
    smallest = [
        item.model_copy(update={"calibrations": item.calibrations and ("tight",)})
        for item in spec.estimators_of(spec.head_panel)
        if not item.calibrations or "tight" in item.calibrations
    ]
    return spec.head_panel.model_copy(update={"estimators": tuple(smallest)})


def release_of_advice(spec: StudySpec, best: Forecast) -> ReleaseForecast | None:
    """Forecast the release of all rows by an estimator of the study, as `dpcost release` does.

    Return None if it is no release of an own table with intervals.
    """
    table, problem = spec.analyst_table, on_a_table(spec)
    if table is None or not best.coordinates:
        return None
    items = with_least_noise(spec).estimators
    formula = problem.formula.formula if problem.formula else ""
    names = {each.name: {each.name, *each.table_columns} for each in table.columns if not each.derived}
    x, y = (
        tuple(name for name, table_columns in names.items() if table_columns & chosen_columns)
        for chosen_columns in ({*problem.covariates}, {problem.response})
    )
    config = ReleaseConfig(
        dataset=ReleaseDataset(name=spec.name, study=f"{spec.name}.toml", form=best.form),
        columns=ReleaseColumns(user_id=table.user_id or None, weights=table.weights or None)
        if formula
        else ReleaseColumns(
            x=x, y=(*y, None)[0], user_id=table.user_id or None, weights=table.weights or None
        ),
        formula=formula,
        params={"family": problem.family} if problem.family else {},
    )
    declared = table.model_copy(update={"columns": tuple(c for c in table.columns if not c.derived)})
    try:
        own = OwnData(data=declared, guesses=spec.guesses, estimators=items)
        own, config = with_declared_columns(own, config)
        budget: Any = {"epsilon": best.epsilon, "delta": delta_at(spec.headline.delta, best.n)}
        request = complete_request(config, own, best.estimator, Path(), interval=LEVEL, **budget)
        return forecast_release(request)
    except (InputError, SpecError):
        return None


def risk_of_advice(spec: StudySpec, best: Forecast) -> AttackRisk:
    """Return what the advised release lets an attacker learn, by the events that it will have.

    A release that would be refused has no events: floating-point-safe noise is missing, or users are too few.
    Its ε and δ bound the risk.
    """
    items = {(item.name, item.form): item for item in with_least_noise(spec).estimators}
    item, table = items[best.estimator, best.form], spec.analyst_table
    n_users = best.n if table and table.user_id else None
    sizes = {**spec.head_panel.problem.sizes(best.n), **({"T": best.steps} if best.steps else {})}
    delta = delta_at(spec.headline.delta, best.n)
    keywords = {**item.keywords(sizes), "epsilon": best.epsilon, "delta": delta}
    try:
        plan = release_plan(item.name, best.n, sizes["d"], keywords, n_users=n_users)
    except InputError:
        return risk_of_budget(best.epsilon, delta, "row" if n_users is None else "user")
    return risk_of_events(plan.events, delta)
