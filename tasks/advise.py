"""What a study's answers will cost, from public declarations and simulation alone: no data are touched.

Tables are made up from what is declared of the columns (`tasks.problems.declared_rows`), and the study's
estimators run on them as they would on the data: as good a forecast as the declarations and guesses are.
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
from reports.error_curve import first_below
from tasks.faults import SpecError
from tasks.problems.problem import Estimation
from tasks.release import spending_of
from tasks.rules import delta_at
from tasks.run.block import compute_block
from tasks.run.threads import one_blas_thread
from tasks.study.panel import Grid, Panel
from tasks.study.spec import StudySpec
from tasks.work_units import Block, Cell

BUDGETS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
SIZES = (1 / 16, 1 / 4, 1.0, 4.0)  # of the headline's
_MOST_ELEMENTS = 20_000_000  # of a made-up table
TABLES = 5  # made up, among which repetitions are divided
LEVEL = 0.95
_BEYOND = 16.0  # how far the last slope is followed


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The error to expect of one estimator at one size and budget.

    Attributes
    ----------
    estimator, form : str
    n : int
    epsilon : float
        NaN for a non-private estimator.
    error, standard_error : float
        Mean of the study's metric over repetitions; NaN where the estimator refuses.
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
    n: int
    epsilon: float
    error: float
    standard_error: float
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
        """Estimator and form."""
        return f"{self.estimator}, {self.form}" if self.form else self.estimator


@dataclass(frozen=True, kw_only=True)
class Need:
    """What one estimator needs for a wanted error.

    Attributes
    ----------
    estimator : str
        With its form.
    epsilon : float
        At the headline's size; infinite if no ε up to 10 is enough.
    n : float
        At the headline's ε; infinite if it is beyond what simulation tells.
    """

    estimator: str
    epsilon: float
    n: float


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
    replicates: int = 10,
    seed: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Advice:
    """Forecast a study's errors, and what a wanted error needs.

    Parameters
    ----------
    spec : StudySpec
    wanted : float, optional
        An error in the study's metric; by default twice the one without privacy at the headline.
    replicates : int
        Repetitions of each forecast.
    seed : int
        Of the made-up table and all noise.
    progress : callable, optional
        Is told the number of forecasts made so far.

    Raises
    ------
    SpecError
        In words.
    """
    one_blas_thread()
    head = spec.headline
    simulation = _Simulation(spec, replicates, seed, progress)
    grid = spec.grid_of(spec.head_panel)
    study = simulation.forecasts(simulation.n_units, grid.n, grid.epsilon, widths=True)
    # A population of which even the largest size is a small part: more rows mean other people.
    sizes = [max(10, int(head.n * share)) for share in SIZES]
    by_size = simulation.forecasts(8 * sizes[-1], sizes, [head.epsilon])
    by_budget = simulation.forecasts(8 * sizes[-1], [head.n], BUDGETS)
    if wanted is None:
        wanted = 2 * min((each.error for each in by_budget if each.without_privacy), default=math.nan)
    private = dict.fromkeys(each.name for each in study if each.private)
    needs = tuple(
        Need(
            estimator=name,
            epsilon=first_below(
                wanted, [(each.epsilon, each.error) for each in by_budget if each.name == name]
            ),
            n=first_below(wanted, [(each.n, each.error) for each in by_size if each.name == name], _BEYOND),
        )
        for name in private
    )
    return Advice(forecasts=tuple(study), wanted=wanted, needs=needs)


class _Simulation:
    """Runs the headline's panel on tables that are made up from declarations."""

    def __init__(
        self, spec: StudySpec, replicates: int, seed: int, progress: Callable[[int], None] | None
    ) -> None:
        if spec.head_panel.problem.simulated:
            raise SpecError(f"{spec.name}: its data are simulated; advice is for studies of a table")
        self.panel = _with_least_noise(spec)
        self.n_units = spec.own.units[0] if spec.own else self.panel.problem.about.n_rows
        self._spec, self._replicates, self._seed = spec, replicates, seed
        self._progress, self._made = progress, 0
        rows_each = spec.own.rows / self.n_units if spec.own else 1.0
        self._most = int(_MOST_ELEMENTS / rows_each / self.panel.problem.sizes(spec.headline.n)["d"])

    def forecasts(
        self, population: int, sizes: Sequence[int], budgets: Sequence[float], *, widths: bool = False
    ) -> list[Forecast]:
        """Return the errors of each estimator on subsamples of a made-up population."""
        population = min(population, self._most)
        sizes = [n for n in sizes if n <= population]
        if not sizes:
            raise SpecError(
                f"{self._spec.name}: grid.n and headline.n must have a size of at most {population:,} for "
                "advice; add one, for errors at larger sizes follow from it"
            )
        spec, problem = self._spec, self.panel.problem
        grid = Grid(n=tuple(dict.fromkeys(sizes)), epsilon=tuple(budgets), delta=(spec.headline.delta,))
        alone = spec.model_copy(update={"panels": (self.panel.model_copy(update={"grid": grid}),)})
        runs: list[pd.DataFrame] = []
        ends: dict[str, list[np.ndarray]] = {}
        n_tables = min(TABLES, self._replicates)
        for table in range(n_tables):
            seed = self._seed + table
            try:
                prepared = problem.made_up(population, spec.guesses, np.random.default_rng(seed))
            except ValueError as error:
                raise SpecError(f"{spec.name}: {error}") from None
            each = -(-self._replicates // n_tables)
            for block in alone.blocks("paper", replicates=each, seed=seed):
                runs.append(compute_block(block, prepared))
                if widths and block.n == spec.headline.n:
                    for cell in block.cells:
                        ends.setdefault(cell.key, []).append(_half_widths(cell, block, prepared))
                self._made += len(block.cells)
                if self._progress:
                    self._progress(self._made)
        rows = pd.concat(runs)
        cells = rows[rows["metric"] == problem.metric].groupby("cell", sort=False)
        return [_forecast(each, self.panel.name, ends.get(str(key), [])) for key, each in cells]


def _half_widths(cell: Cell, block: Block, prepared: Any) -> np.ndarray:
    """Return half widths of a cell's intervals in the metric's units; NaN where there is no honest one."""
    if not cell.epsilon or not get_estimator(cell.estimator).has_interval:
        return np.zeros(0)
    asked, found = replace(cell, params={**cell.params, "interval": LEVEL}), [np.zeros(0)]
    for draw in block.problem.draws(block, prepared):
        assert isinstance(draw, Estimation)
        try:
            interval = draw.answer(asked, block).interval
        except InputError:  # a setting that has none, or too few rows
            return np.zeros(0)
        assert interval is not None
        ends = draw.columns(interval[1] - interval[0]) / 2
        scale = np.ones(len(ends)) if draw.to_target is None else np.abs(draw.to_target).sum(axis=0)
        found.append((ends[scale > 0] * scale[scale > 0, None]).ravel())
    return np.concatenate(found)


def _with_least_noise(spec: StudySpec) -> Panel:
    """Return the headline's panel without printed noise: a release draws the least that is proved."""
    kept = [
        item.model_copy(update={"calibrations": item.calibrations and ("tight",)})
        for item in spec.estimators_of(spec.head_panel)
        if not item.calibrations or "tight" in item.calibrations
    ]
    return spec.head_panel.model_copy(update={"estimators": tuple(kept)})


def _forecast(rows: pd.DataFrame, panel: str, half_widths: list[np.ndarray]) -> Forecast:
    first, ends = rows.iloc[0], np.concatenate([np.zeros(0), *half_widths])
    answered = bool((rows["status"] == "ok").all())
    errors, there = rows["value"].to_numpy(float), ends[np.isfinite(ends)]
    return Forecast(
        estimator=str(first["estimator"]),
        form=str(first["variant"]).removeprefix(panel).removeprefix(", "),
        n=int(first["n"]),
        epsilon=cast(float, first["epsilon"]),
        error=float(errors.mean()) if answered else math.nan,
        standard_error=float(errors.std() / math.sqrt(len(errors))) if answered else math.nan,
        refused="" if answered else str(rows["message"].iloc[-1]),
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
    budget, panel = ledger.budget(dataset), _with_least_noise(spec)
    spent, problem = spending_of(ledger.charges(dataset)), panel.problem
    n_rows, n_users = (spec.own.rows, spec.own.users) if spec.own else (problem.about.n_rows, None)
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
