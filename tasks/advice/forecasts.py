"""What a study's answers will cost, from public declarations and simulation alone: no data are touched.

Small tables are made up that are all as plausible as what is declared and guessed of the columns
(`tasks.problems.declared_rows`), and the study's estimators run on them. Two laws bring their errors to other
sizes and budgets: what noise costs depends on n μ(ε, δ) alone, for a release's noise is in proportion to
1/(n μ); what chance costs is in proportion to 1/√n. The error to expect is the geometric mean over
the tables, and the range a 90 % prediction interval of one more made-up table, and wider for what those leave
out.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from dpalgos import InputError, get_estimator
from dpalgos.accounting.gaussian_dp import gaussian_mu
from reports.analysis.ranking import first_below
from reports.analysis.results import PUBLIC_ALONE
from reports.page import ZERO
from tasks.advice.made_up_tables import TABLES, MadeUpTable, MadeUpTables, middle_and_ends, with_least_noise
from tasks.size_rules import delta_at
from tasks.study.panel import EstimatorSpec
from tasks.study.spec import StudySpec

BUDGETS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
FACTORS = (1 / 64, 1 / 16, 1 / 4, 4.0, 16.0, 64.0)  # of tables of other sizes
_STRENGTHS = 5  # n μ(ε, δ) at which noise is simulated
_LEAST_NOISE = 0.1  # of an error, where chance explains it all
_UPPER = 0.95  # of the range, whose lower end is as sure: 90 % in all
_LEAST_SPREAD = 0.4  # of logarithms of errors: what made-up tables leave out of real ones
_FARTHER = 2.0  # upper ends, for rows far out and nearly equal columns; lower ones, if nothing is stated


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The error to expect of one estimator at one size and budget."""

    estimator: str
    form: str
    steps: int | None
    n: int
    epsilon: float  # NaN for a non-private estimator
    error: float  # geometric mean, in the study's metric; NaN where it refuses most made-up tables
    low: float  # ends of the range of most tables
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
    grid = spec.grid_of(panel)
    tables = MadeUpTables(spec=spec, panel=panel, delta=delta_at(head.delta, head.n))
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
    # Of fewer rows there is no answer without privacy either.
    least = min(panel.problem.sizes(head.n)["d"] + 2, head.n)
    for curve in curves:
        epsilons = grid.epsilon if curve.private else (math.nan,)
        forecasts += [curve.forecast(n, epsilon, chance) for n in grid.n for epsilon in epsilons]
    if wanted is None:
        wanted = 2 * math.sqrt(float(np.median(chance)) / head.n) or math.nan
    for curve in curves:
        if curve.private:
            by_epsilon = [(e, curve.forecast(head.n, e, chance)) for e in sorted({*BUDGETS, *grid.epsilon})]
            sizes = [n for factor in (*FACTORS, 1.0) if (n := round(factor * head.n)) >= least]
            by_n = [(n, curve.forecast(n, head.epsilon, chance, grows=True)) for n in sizes]
            name = by_n[0][1].name
            needs.append(Need(estimator=name, epsilon=_first(wanted, by_epsilon), n=_first(wanted, by_n)))
    return Advice(forecasts=tuple(forecasts), wanted=wanted, needs=tuple(needs))


def _first(wanted: float, points: Sequence[tuple[float, Forecast]]) -> tuple[float, float, float]:
    """Return where errors fall to a wanted one, by what to expect and by both ends of the ranges."""
    expected, *ends = (
        first_below(wanted, [(x, getattr(each, name), 0.0) for x, each in points])[0]
        for name in ("error", "low", "high")
    )
    return expected, min(expected, *ends), max(expected, *ends)


class _Curve:
    """One estimator's errors on made-up tables, and what they are at other sizes and budgets.

    Its strengths are products n μ(ε, δ), of which the privacy part of an error is a function.
    """

    def __init__(self, item: EstimatorSpec, tables: MadeUpTables, steps: int | None) -> None:
        self.item, self.tables, self.steps = item, tables, steps
        spec, panel = tables.spec, tables.panel
        self.head, self.are_guesses_stated = spec.headline, bool(spec.guesses.model_fields_set)
        head, grid = spec.headline, spec.grid_of(panel)
        self.share, self.refusal = head.n / tables.n_units, ""
        self.private = bool(item.calibrations)
        self.without_privacy = not self.private and item.name != ZERO
        self.at_head = {epsilon: self._strength(head.n, epsilon) for epsilon in grid.epsilon}
        ends = [self._strength(n, epsilon) for n in grid.n for epsilon in grid.epsilon]
        ends += [self._strength(head.n, epsilon) for epsilon in (BUDGETS[0], BUDGETS[-1])]
        between = map(float, np.geomspace(min(ends), max(ends), _STRENGTHS))
        self.strengths: list[float | None] = [*between] if self.private else [None]
        self.params = item.keywords(panel.problem.sizes(head.n), steps)
        self.errors: list[list[float]] = []  # by table and strength
        self.widths: dict[float, list[np.ndarray]] = {}  # by ε of the study, by table

    def _strength(self, n: int, epsilon: float) -> float:
        return n * gaussian_mu(epsilon, delta_at(self.head.delta, n))

    def run(self, table: MadeUpTable, with_intervals: bool) -> None:
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
            at = math.log(self._strength(n, epsilon))
            strengths = np.log(np.array(self.strengths, dtype=float))
            noise = np.array([_interpolated(at, strengths, each) for each in noise])
            errors = np.sqrt(noise**2 + chance * left / n)
        known = errors[np.isfinite(errors)]
        refused = "" if 2 * len(known) > len(errors) else self.refusal or "no answer"
        error, low, high = range_of(known) if not refused else (math.nan,) * 3
        if self.private:
            low, high = low / (1 if self.are_guesses_stated else _FARTHER), high * _FARTHER
        at_head = n == self.head.n and not grows
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


def range_of(errors: np.ndarray) -> tuple[float, float, float]:
    """Return the geometric mean, and the 90 % prediction interval of one more table; NaN of none."""
    if not len(errors):
        return (math.nan,) * 3
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
    counts = np.array([np.isfinite(each).sum() for each in told])
    there = np.concatenate([each[np.isfinite(each)] for each in told])
    half_width = float(there.mean()) if len(there) else math.nan
    return middle_and_ends(counts), len(told[0]), half_width
