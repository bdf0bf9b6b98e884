"""Small tables made up from what is declared and guessed of a study, and answers from their rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpalgos import InputError, Result
from dpalgos.accounting.gaussian_dp import gaussian_epsilon
from tasks.cells import Cell, Replicates
from tasks.errors import SpecError
from tasks.problems.kinds import measure_of
from tasks.problems.problem import Draw
from tasks.problems.registered_table import RegisteredTable
from tasks.run.threads import one_blas_thread
from tasks.study.panel import Panel
from tasks.study.spec import StudySpec

TABLES = 12  # made up; half of them are fitted with intervals
LEVEL = 0.95  # of intervals
_SEED = 1  # of made-up tables and all noise
_ROWS, _ROWS_PER_COLUMN = 1_000, 40  # of a made-up table, unless the study's has fewer
_OTHER_KIND = "advice is for studies of a table, e.g. kind = 'subsamples'"
_MOST_STRENGTH = 60.0  # μ at which noise is nothing


def on_a_table(spec: StudySpec, panel: Panel) -> RegisteredTable:
    """Return a panel's problem, which must be one on rows of a table."""
    if not isinstance(panel.problem, RegisteredTable):
        raise SpecError(f"{spec.name}: {_OTHER_KIND}")
    return panel.problem


@dataclass(frozen=True, eq=False, kw_only=True)
class MadeUpTables:
    """Small tables that are as plausible as what is declared of the study's."""

    spec: StudySpec
    panel: Panel
    delta: float
    most_rows: int = 0  # of a made-up table; 0: a thousand, or what its columns need

    def __post_init__(self) -> None:
        if not self.problem.traits.population[0]:
            raise SpecError(f"{self.spec.name}: {_OTHER_KIND}")
        one_blas_thread()

    @property
    def problem(self) -> RegisteredTable:
        return on_a_table(self.spec, self.panel)

    @property
    def n_units(self) -> int:
        """How many rows, or users, the study's own table has."""
        return self.problem.n_units[0]

    @property
    def n_rows(self) -> int:
        d = self.problem.sizes(self.spec.headline.n)["d"]
        return min(self.n_units, max(_ROWS, _ROWS_PER_COLUMN * d, self.most_rows))

    def drawn(self, share: float, count: int) -> Iterator["MadeUpTable"]:
        """Yield a share of the rows of each table; leave out those without an answer, but not all of them."""
        refusal = "no table"  # empty once one has an answer
        n = max(1, round(share * self.n_rows))
        same: dict[str, Any] = {"study": self.spec.name, "panel": self.panel.name, "n": n}
        for number in range(count):
            rng = np.random.default_rng([_SEED, number])
            drawn = Replicates(**same, first=0, count=1, of=1, n_cells=1, seed=_SEED + number)
            try:
                prepared = self.problem.made_up(self.n_rows, self.spec.guesses, rng)
                draw = next(iter(self.problem.draws(drawn, prepared)))
            except ValueError as error:  # e.g. a response that has one value
                refusal = refusal and str(error)
                continue
            refusal = ""
            yield MadeUpTable(draw=draw, problem=self.problem, replicates=drawn, delta=self.delta)
        if refusal:
            raise SpecError(f"{self.spec.name}: {refusal}")


@dataclass(frozen=True, eq=False, kw_only=True)
class MadeUpTable:
    """Random rows of one made-up table."""

    draw: Draw
    problem: RegisteredTable
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
        measure, traits = measure_of(self.problem), self.problem.traits
        measured = measure.measure(traits, self.draw, self.answer(estimator, params, strength))
        return float(measured[measure.metric(traits)][0])

    def interval(self, estimator: str, params: Mapping[str, Any], strength: float) -> np.ndarray | None:
        """Return the ends in public units, (2, d), NaN without an honest interval; None if it is refused."""
        try:
            return self.answer(estimator, {"interval": LEVEL, **params}, strength).interval
        except InputError:  # a setting that has none, or too few rows
            return None

    def interval_of_more(
        self, estimator: str, params: Mapping[str, Any], strength: float, share: float
    ) -> np.ndarray | None:
        """Return the ends for a table of which these rows are a share: of the same noise, of less chance."""
        ends = self.interval(estimator, params, strength)
        if ends is None or share >= 1:
            return ends
        of_chance = self.interval(estimator, params, _MOST_STRENGTH * self.replicates.n)
        if of_chance is None:
            return ends
        center, half, least = (
            ends.mean(axis=0),
            np.diff(ends, axis=0)[0] / 2,
            np.diff(of_chance, axis=0)[0] / 2,
        )
        noise = half**2 - np.minimum(np.nan_to_num(least), half) ** 2
        half = np.sqrt(noise + share * (half**2 - noise))
        return np.array([center - half, center + half])

    def half_widths(self, estimator: str, params: Mapping[str, Any], strength: float) -> np.ndarray:
        """Return the coordinates' half widths in the metric's units; NaN without an honest interval."""
        interval = self.interval(estimator, params, strength)
        if interval is None:
            return np.zeros(0)
        ends = self.draw.columns(interval[1] - interval[0])[:, 0] / 2
        scale = np.ones(len(ends)) if self.draw.to_target is None else np.abs(self.draw.to_target).sum(axis=0)
        return np.asarray(ends[scale > 0] * scale[scale > 0])


def middle_and_ends(counts: np.ndarray) -> tuple[float, float, float]:
    """Return what to expect over made-up tables, the least and the most."""
    return float(np.median(counts)), float(counts.min()), float(counts.max())


def with_least_noise(spec: StudySpec) -> Panel:
    """Return the headline's panel without printed noise: a release draws the least that is proved."""
    kept = [
        item.model_copy(update={"calibrations": item.calibrations and ("tight",)})
        for item in spec.estimators_of(spec.head_panel)
        if not item.calibrations or "tight" in item.calibrations
    ]
    return spec.head_panel.model_copy(update={"estimators": tuple(kept)})
