"""The schema of ``flows/studies/*.toml``, and the expansion of a study into blocks of cells."""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

import dpalgos
from data.dataset import Dataset
from data.errors import DataError
from data.fetch.raw import RawFile
from data.results.table import LIMIT, PrintedFigure
from data.store.references import DatasetRef
from tasks.cells import Cell, Replicates
from tasks.errors import SpecError, require_once
from tasks.file_schema import Number, Strict
from tasks.own_table.analyst_table import AnalystTable
from tasks.own_table.row_simulator import Guesses
from tasks.problems.kinds import AnyProblem, measure_of, modules_of
from tasks.problems.problem import DatasetSource
from tasks.run_options import MAX_REPLICATES, MAX_TRIALS, PROFILES, Profile
from tasks.study.estimators import (
    Count,
    DeltaRule,
    EstimatorSpec,
    Grid,
    check_offset,
    structure_of,
)
from tasks.study.expand import Block, bundle

SCORECARD = "scorecard"  # a page over the results of studies: no study has its name
_NAME = re.compile(r"[a-z][a-z0-9_-]*")  # it becomes a folder's name and part of addresses


def check_cron(text: str) -> str:
    """Return a schedule, or "" for none; refuse one that never occurs or that a server would not take."""
    from cronsim import CronSim, CronSimError

    try:
        if text and (len(text.split()) != 5 or "LW" in text.upper() or not text.isprintable()):
            raise CronSimError("It must have five fields in one line")
        words = text.split() or ["*"] * 5
        days = CronSim(" ".join(words), datetime(2024, 1, 1)).weekdays
        every_day = days >= set(range(1, 7)) and not days.isdisjoint((0, 7))
        next(CronSim(" ".join([*words[:4], "*"]) if every_day else text, datetime(2024, 1, 1)))
    except (CronSimError, StopIteration) as fault:
        raise ValueError(
            f"schedule must be cron, e.g. '0 4 * * 1', got {text!r}: {fault}; the fields are minute, hour, "
            "day, month (1 to 12 or JAN to DEC) and weekday (0 to 7 or SUN to SAT)"
        ) from None
    return text


class Panel(Strict):
    """A problem with its estimators and grid, where they are not those of the whole study."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9 -]*$")]  # it becomes a part of keys
    about: str = ""  # what is particular about it, for the report
    smoke: bool = True  # whether profile smoke runs it too; false where that would last too long
    standard: bool = True  # whether profile standard runs it too; false where profile paper alone does
    problem: AnyProblem
    grid: Grid | None = None
    estimators: tuple[EstimatorSpec, ...] = ()


class Headline(Strict):
    """The setting that the report's first sentence is about."""

    n: Count
    steps: Count | None = None  # where that is the horizontal axis
    epsilon: Number
    delta: DeltaRule
    paper_delta: DeltaRule | None = None  # δ of the paper, at which its claims are judged
    panel: str
    s: Count | None = None
    about: str = ""  # the estimator that the study is about, whose line the chart always shows


class AssumptionSpec(Strict):
    what: str  # is assumed to be public
    value: str
    source: str


class Note(Strict):
    text: str


class TableSpec(Strict):
    """A table of the page: a metric's means by groups, the rows of an exhibit, or lines written here."""

    title: str
    text: str
    metric: str = ""  # whose means are shown
    panels: tuple[str, ...] = ()  # of which they are; all if left out
    exhibit: str = ""  # or whose rows
    lines: tuple[tuple[str | Number, ...], ...] = ()  # or what a paper prints, say
    rows: tuple[str, ...]  # a line for each combination of these columns; without a metric, their names
    columns: str = ""  # a column for each value of this one
    names: dict[str, str] = Field(default_factory=dict)  # of columns and values
    without_privacy: bool = False  # with errors without privacy, at ε = ∞
    summaries: tuple[Literal["slope", "at most 1", "geometric mean"], ...] = ()  # over a line's columns

    @model_validator(mode="after")
    def _has_one_source(self) -> "TableSpec":
        sources = [name for name in ("metric", "exhibit", "lines") if getattr(self, name)]
        if len(sources) != 1 or bool(self.metric) != bool(self.columns):
            raise ValueError(
                "tables need metric and columns, or exhibit, or lines, got "
                f"{', '.join([*sources, *['columns'] * bool(self.columns)]) or 'none of them'}"
            )
        if wrong := [line for line in self.lines if len(line) != len(self.rows)]:
            raise ValueError(f"lines must have {len(self.rows)} entries, as rows has, got {list(wrong[0])}")
        return self


class StudySpec(Strict):
    """A study: which data, which estimators, which grid, how often, and words for the report."""

    name: str
    title: str
    question: str
    data: str = ""
    schedule: Annotated[str, AfterValidator(check_cron)] = ""  # when `make serve` runs it, UTC
    analyst_table: AnalystTable | None = None
    formula: str = ""  # of the analyst's table: the response and the covariates of panels that name none
    task: Literal["mean", "linear_regression", "glm", "tracing", "several"]
    size_label: str
    metric_label: str
    grid: Grid | None = None
    replicates: dict[Profile, Annotated[Count, Field(le=MAX_REPLICATES)]]
    replicates_rule: str = ""  # why so many, decided before the run
    audit_trials: dict[Profile, Annotated[int, Field(ge=1000, le=MAX_TRIALS)]] = Field(default_factory=dict)
    headline: Headline
    panels: tuple[Panel, ...] = Field(min_length=1)
    estimators: tuple[EstimatorSpec, ...] = ()
    assumptions: tuple[AssumptionSpec, ...] = ()
    notes: tuple[Note, ...] = ()
    tables: tuple[TableSpec, ...] = ()
    figures: tuple[PrintedFigure, ...] = ()  # that papers print and this study repeats
    guesses: Guesses = Guesses()
    sha256: str = ""
    not_run: dict[str, str] = Field(default_factory=dict)  # panels that are left out, and why

    @field_validator("name")
    @classmethod
    def _can_name_a_folder(cls, name: str) -> str:
        if not _NAME.fullmatch(name) or name == SCORECARD:
            raise ValueError(
                "a study's name must be lower-case letters, digits, '_' and '-', beginning with a letter, "
                f"and not {SCORECARD!r}, got {name!r}; rename the file, or add e.g. name = 'my_study'"
            )
        return name

    @model_validator(mode="after")
    def _fits_together(self) -> "StudySpec":
        for profile in PROFILES:
            if profile not in self.replicates:
                raise ValueError(f"replicates.{profile} is missing; add e.g. {profile} = 3")
        names = [panel.name for panel in self.panels]
        require_once("panels must differ in name", names)
        for panel in self.panels:
            if panel.grid is None and self.grid is None:
                raise ValueError(f"panels ({panel.name}) needs a grid; add one there, or [grid] for all")
            self._check_problem(panel)
            self._check_estimators(panel)
        always = [panel.name for panel in self.panels_at("smoke")]
        allowed: dict[str, tuple[Any, ...]] = {"panel": (*always,)}
        if self.headline.panel in always:
            grid = self.grid_of(self.head_panel)
            allowed |= {
                name: getattr(grid, name) or (None,) for name in ("n", "epsilon", "delta", "s", "steps")
            }
            of_panels = (rule for panel in self.panels for rule in self.grid_of(panel).delta)
            allowed["paper_delta"] = (*dict.fromkeys(of_panels), None)
        for figure in self.figures:
            self._check_figure(figure)
        for key, values in allowed.items():
            if (value := getattr(self.headline, key)) not in values:
                known = ", ".join(str(each) for each in values if each is not None) or "none: leave it out"
                raise ValueError(f"headline.{key} must be one of the study's ({known}), got {value!r}")
        return self

    def _check_figure(self, figure: PrintedFigure) -> None:
        """Refuse a printed figure whose panels or lines the study does not have."""
        where, panels = f"figures ({figure.name})", {panel.name: panel for panel in self.panels}
        for name in filter(None, (figure.panel, figure.instead, *(line.panel for line in figure.lines))):
            if name not in panels:
                raise ValueError(f"{where}: panel must be one of {', '.join(panels)}, got {name!r}")
        if wrong := [row for row in figure.printed if len(row) != 2 + len(figure.values)]:
            raise ValueError(
                f"{where}: printed must have {2 + len(figure.values)} entries (δ, ε and one for each of "
                f"values), got {list(wrong[0])}"
            )
        for line in figure.lines:
            panel = panels[line.panel or figure.panel]
            items, grid = self.estimators_of(panel), self.grid_of(panel)
            calibrations = {(item.name, item.form): item.calibrations or ("none",) for item in items}
            if line.calibration not in calibrations.get((line.estimator, line.form), ()):
                name = " ".join(filter(None, (line.estimator, line.form, line.calibration)))
                raise ValueError(f"{where}: panel {panel.name!r} does not run {name!r}; correct the line")
            budget = {"epsilon": line.epsilon or figure.epsilon, "delta": figure.delta}
            for key, value in budget.items() if line.calibration != "none" and not figure.printed else ():
                known = getattr(grid, key)
                if value not in known and (key, value) != ("epsilon", LIMIT):
                    listed = ", ".join(map(str, known))
                    raise ValueError(f"{where}: {key} must be one of {listed}, got {value!r}")

    def _check_problem(self, panel: Panel) -> None:
        problem, task, where = panel.problem, panel.problem.traits.task, f"panels ({panel.name}).problem"
        allowed = [task, "several"] if task else ["mean", "linear_regression", "glm"]
        allowed = ["tracing"] if measure_of(problem).of_attacks else allowed
        if self.task not in allowed:
            known = " or ".join(allowed)
            raise ValueError(f"task must be {known} for {where} of kind {problem.kind}, got {self.task!r}")
        estimators = [item.name for item in self.estimators_of(panel)]
        for n in self.grid_of(panel).n:
            try:
                problem.check(n, self.task_of(panel), estimators)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None

    def check_data(self) -> None:
        for panel, problem in self.panels_on_data():
            try:
                problem.check_data(max(self.grid_of(panel).n))
            except DataError:
                raise
            except ValueError as error:
                raise SpecError(f"{self.name}: {error}") from None

    def _check_estimators(self, panel: Panel) -> None:
        estimators = self.estimators_of(panel)
        if not estimators:
            raise ValueError(f"panels ({panel.name}) has no estimators; add [[estimators]]")
        labels = [f"{item.name} {item.form}".strip() for item in estimators]
        require_once("estimators must differ in name or form", labels)
        for item in estimators:
            task = dpalgos.get_estimator(item.name).task
            if task not in ("any", self.task_of(panel)):
                raise ValueError(
                    f"estimators must be for {self.task_of(panel)}, got {item.name!r}, which is for {task}"
                )
            if offset := panel.problem.traits.offset:
                check_offset(item.name, offset)
            grid = self.grid_of(panel)
            for n, s in product(grid.n, grid.s or (None,)):
                for sizes in item.sizes(panel.problem.sizes(n), s, grid):
                    try:
                        item.check_keywords(sizes)
                        item.check_path(sizes, grid)
                    except ValueError as error:
                        raise ValueError(
                            f"estimators ({item.name}) in panel {panel.name!r}: {error}"
                        ) from None

    @property
    def head_panel(self) -> Panel:
        return self.panel(self.headline.panel)

    def panels_on_data(self, profile: Profile = "paper") -> Iterator[tuple[Panel, DatasetSource]]:
        for panel in self.panels_at(profile):
            if isinstance(panel.problem, DatasetSource):
                yield panel, panel.problem

    def panels_at(self, profile: Profile) -> tuple[Panel, ...]:
        panels = [panel for panel in self.panels if panel.standard or profile == "paper"]
        return tuple(panel for panel in panels if panel.smoke or profile != "smoke")

    def datasets_at(self, profile: Profile) -> tuple[str, ...]:
        """Return the datasets that a profile reads; none if all their data are simulated."""
        return tuple(dict.fromkeys(problem.source for _, problem in self.panels_on_data(profile)))

    def about(self, dataset: str) -> Dataset:
        return next(problem.about for _, problem in self.panels_on_data() if problem.source == dataset)

    def check_sizes(self, table: DatasetRef) -> None:
        """Refuse sizes above the rows (or users) of its own table that have no missing cells."""
        largest = max(n for panel in self.panels for n in self.grid_of(panel).n)
        if self.analyst_table and largest > table.n_rows:
            raise SpecError(
                f"grid.n must be at most the private number of {self.analyst_table.units[1]} of {self.name} "
                f"that have no missing cells, got {largest}; take a smaller one, also in [headline]"
            )

    def on(self, tables: Mapping[str, DatasetRef | RawFile]) -> tuple["StudySpec", dict[str, DatasetRef]]:
        """Return the study without the panels whose data cannot be had, and the tables of the others."""
        not_run: dict[str, str] = {}
        for dataset, raw in tables.items():
            if not isinstance(raw, DatasetRef):
                reading = [panel.name for panel in self.panels if panel.problem.source == dataset]
                if self.headline.panel in reading:
                    raise raw.absence()
                why = raw.absence().reasons[0]
                not_run |= {name: f"Panel “{name}” did not run, since {why}." for name in reading}
        stored = {name: table for name, table in tables.items() if isinstance(table, DatasetRef)}
        if own := stored.get(self.name):
            self.check_sizes(own)
        for one, problem in self.panels_on_data():
            if (table := stored.get(problem.source)) and (why := problem.lacks(table)):
                not_run[one.name] = f"Panel “{one.name}” did not run, since {why}."
        return self.without(not_run).model_copy(update={"not_run": not_run}), stored

    def without(self, names: Collection[str]) -> "StudySpec":
        panels = tuple(panel for panel in self.panels if panel.name not in names)
        return self.model_copy(update={"panels": panels})

    def modules(self) -> list[str]:
        """Return the modules of the problems and estimators, on which the numbers depend."""
        names = ((panel, [item.name for item in self.estimators_of(panel)]) for panel in self.panels)
        return sorted({each for panel, items in names for each in modules_of(panel.problem, items)})

    def panel(self, name: str) -> Panel:
        return next(panel for panel in self.panels if panel.name == name)

    def task_of(self, panel: Panel) -> str:
        return panel.problem.traits.task or self.task

    def grid_of(self, panel: Panel) -> Grid:
        grid = panel.grid or self.grid
        assert grid is not None  # checked when the file was read
        return grid

    def estimators_of(self, panel: Panel) -> tuple[EstimatorSpec, ...]:
        estimators, traits = panel.estimators or self.estimators, panel.problem.traits
        if not traits.has_intercept:
            return estimators
        structure = traits.offset_bounds, traits.max_weight, traits.count_bound
        params = [{**structure_of(item.name, *structure), **item.params} for item in estimators]
        return tuple(
            item.model_copy(update={"params": each}) for item, each in zip(estimators, params, strict=True)
        )

    @property
    def axis(self) -> Literal["n", "steps", "s"]:
        """The horizontal axis of its figures: the size, the number of steps, or the sparsity."""
        if self.headline.s is not None:
            return "s"
        return "n" if self.headline.steps is None else "steps"

    def grid_at(self, panel: Panel, profile: Profile) -> Grid:
        """Return a profile's grid: ``smoke`` keeps both ends, and the headline's ε and δ or the first."""
        grid = self.grid_of(panel)
        if profile != "smoke":
            return grid
        epsilon = self.headline.epsilon if self.headline.epsilon in grid.epsilon else grid.epsilon[0]
        delta = self.headline.delta if self.headline.delta in grid.delta else grid.delta[0]
        s, steps = (
            tuple(dict.fromkeys((min(each), max(each)))) if each else () for each in (grid.s, grid.steps)
        )
        sizes = sorted(grid.n)
        ends = sizes[:2] if measure_of(panel.problem).of_intervals else (sizes[0], sizes[-1])
        n = tuple(dict.fromkeys(panel.problem.cost(end).smoke_n or end for end in ends))
        return Grid(n=n, epsilon=(epsilon,), delta=(delta,), s=s, steps=steps)

    def stand_in_rows(self, dataset: str, profile: Profile) -> int | None:
        """Return how many rows a stand-in of a dataset is made with; None: as many as were published."""
        reading = [problem for _, problem in self.panels_on_data(profile) if problem.source == dataset]
        rows = [problem.stand_in_rows(profile) for problem in reading]
        return None if None in rows else max(filter(None, rows), default=None)

    def blocks(
        self,
        profile: Profile,
        *,
        replicates: int | None,
        seed: int,
        data_sources: Mapping[str, str] | None = None,
        with_limit: bool = True,
    ) -> list[Block]:
        """Return the study's blocks: by panel and size, and by replicates where a block would last long.

        None: as many replicates as the profile has. ``with_limit`` adds each private method at ε = 1,000
        where the panel measures errors, with one rule for δ and one calibration. The headline's panel has
        them at all sizes, other panels at the size of their tables.
        """
        count, blocks = replicates or self.replicates[profile], list[Block]()
        for panel in self.panels_at(profile):
            grid, problem, source = self.grid_at(panel, profile), panel.problem, "simulated"
            if isinstance(problem, DatasetSource):
                source = (data_sources or {}).get(problem.source, "real")
            rule = self.headline.delta if self.headline.delta in grid.delta else grid.delta[0]
            limit = [(LIMIT, rule)] if with_limit and measure_of(problem).has_limit else []
            of_table = min(grid.n, key=lambda n: abs(math.log(n / self.headline.n)))
            for n in grid.n:
                has_limit = panel.name == self.headline.panel or n == of_table
                cells = tuple(self._cells(panel, n, grid, limit if has_limit else []))
                every: dict[str, Any] = {"study": self.name, "panel": panel.name, "n": n, "seed": seed}
                drawn = Replicates(**every, first=0, count=count, of=count)
                blocks += bundle(cells, problem, drawn, source)
        return blocks

    def headline_block(self, blocks: list[Block]) -> Block:
        """Return the block at the headline's size or the nearest, with the cells of its ε and δ alone."""
        head = self.headline
        of_panel = [block for block in blocks if block.replicates.panel == head.panel]
        nearest = min(of_panel, key=lambda block: abs(block.replicates.n - head.n))
        without = [cell for cell in nearest.cells if cell.calibration == "none"]
        setting = (head.epsilon, head.delta, head.s)
        private = [cell for cell in nearest.cells if (cell.epsilon, cell.delta_rule, cell.s) == setting]
        return replace(nearest, cells=(*without, *private))

    def headline_cells(self, blocks: list[Block]) -> list[Cell]:
        return [cell for cell in self.headline_block(blocks).cells if cell.epsilon is not None]

    def _cells(self, panel: Panel, n: int, grid: Grid, limit: Sequence[tuple[float, str]]) -> Iterator[Cell]:
        for s in grid.s or (None,):
            for item in self.estimators_of(panel):
                for sizes in item.sizes(panel.problem.sizes(n), s, grid):
                    forecast = partial(self._by_forecast, item.name, panel.problem, n)
                    yield from item.cells(panel.name, sizes, s, grid, forecast, limit)

    def _by_forecast(
        self,
        estimator: str,
        problem: AnyProblem,
        n: int,
        keywords: Mapping[str, Any],
        budgets: Sequence[Mapping[str, Any]],
    ) -> list[dict[str, Any]]:
        from tasks.study.forecast_steps import settings_by_forecast  # few studies have one

        return settings_by_forecast(estimator, keywords, budgets, n, problem, self.guesses)
