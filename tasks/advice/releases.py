"""Forecast a release on all rows: the intervals that it has on synthetic tables; no data are read."""

import math
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy

from dpalgos import InputError, Sample, estimate
from dpalgos.formula.design import FormulaDesign
from dpalgos.formula.group_table import GroupNumbers, noise_std_of
from dpalgos.formula.person_rows import person_sample
from dpalgos.models.families import family_class
from dpalgos.result import Result
from tasks.errors import SpecError
from tasks.own_table.row_simulator import RowSimulator, SimulatedTable, matters_most, table_count
from tasks.own_table.simulated_rows import simulated_table, simulator_of, simulator_of_times, with_tail
from tasks.problems.reference_answer import reference_answer
from tasks.release.request import ReleaseRequest

T = TypeVar("T")
LEVEL = 0.95  # of intervals
_TABLES, _FEW_TABLES, _OF_TIMES = 60, 12, 20
SEED = 1  # of synthetic tables and all noise
_UPPER = 0.95  # of the range, whose lower end is as sure: 90 % in all
_LEAST_SPREAD = 0.4  # of logarithms of errors: what synthetic tables leave out of real ones
_MOST_STEPS = 29  # up to 16,384 times as much
_BEYOND = 1.0  # signs of a real table beyond those of synthetic ones; chosen on the tables of the bench
_LEAST_WIDTH = 1e-300  # where a curve has reached 0, its limits are equal


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleaseForecast:
    """The intervals that a release on all rows will have, on synthetic tables.

    ``half_widths`` (k,) are in public units, the median over tables, NaN where most tables have none; usual
    tables count more in it.
    ``ends`` (2, k) are their range, NaN where shares of levels are not stated. ``terms`` are the same in the
    units of the file: the name of each with its lower limit, median and upper limit. ``intervals`` and
    ``signs`` are how many coefficients will have an interval, and one on one side of zero: (expected, least,
    most). ``none`` is the share of tables on which no coefficient has one. ``guess`` names the guess whose
    uncertainty decides most of the spread of the half-widths.
    """

    names: tuple[str, ...]
    half_widths: np.ndarray
    ends: np.ndarray
    terms: tuple[tuple[Any, ...], ...]
    intervals: tuple[float, float, float]
    signs: tuple[float, float, float]
    none: float
    guess: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class SimulatedRelease:
    """A release on synthetic tables, which are the same for every ε."""

    request: ReleaseRequest
    simulator: RowSimulator
    drawn: Sequence[Mapping[str, float]]  # the random quantities of each table's distribution
    samples: Sequence[Sample]
    weights: Sequence[float]  # how usual each table is

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, without offset and intercept; groups and times of survival curves."""
        numbers = self.request.by_group
        return numbers.terms if numbers else self.request.design.names[self._first :]

    @property
    def _first(self) -> int:
        return int(self.request.offset_bounds is not None)

    def forecast(self, epsilon: float) -> ReleaseForecast:
        releases = self._releases(epsilon)
        ends = self._limits(releases)
        widths = (ends[:, 1] - ends[:, 0]) / 2
        middle, range_ends, none = self.summary(widths, np.array(self.weights))
        signs, least, most = middle_and_ends(((ends[:, 0] > 0) | (ends[:, 1] < 0)).sum(axis=1))
        range_ends[:, self._levels_of_unknown_shares()] = np.nan
        beyond = _BEYOND * any(releases)
        in_file = self._in_units_of_file(np.stack([range_ends[0], middle, range_ends[1]]))
        return ReleaseForecast(
            names=self.names,
            half_widths=middle,
            ends=range_ends,
            terms=tuple((name, *each) for name, each in in_file.items()),
            intervals=middle_and_ends(np.isfinite(widths).sum(axis=1)),
            guess=matters_most(self.drawn, np.log(np.maximum(widths, _LEAST_WIDTH)).mean(axis=1)),
            signs=(signs, max(least - beyond, 0.0), min(most + beyond, float(widths.shape[1]))),
            none=1.0 if np.isnan(middle).all() else none,
        )

    def half_widths(self, epsilon: float) -> dict[str, np.ndarray]:
        """Return half-widths (tables,) by term in the units of the file, infinite without an interval."""
        ends = self._limits(self._releases(epsilon))
        widths = (ends[:, 1] - ends[:, 0]) / 2
        return self._in_units_of_file(np.where(np.isnan(widths), np.inf, widths))

    def _in_units_of_file(self, widths: np.ndarray) -> dict[str, np.ndarray]:
        """Return half-widths (…, k) by term in the units of the file."""
        names: Sequence[str] = self.names
        if not self.request.by_group:
            names, widths = self.request.units.half_widths(names, widths)
        return dict(zip(names, widths.T, strict=True))

    def results(self, epsilon: float) -> list[tuple[Result, float]]:
        """Return the releases at an ε from all tables that are not refused, and how usual each table is."""
        releases = zip(self._releases(epsilon), self.weights, strict=True)
        return [(result, weight) for result, weight in releases if result is not None]

    def _limits(self, releases: Sequence[Result | None]) -> np.ndarray:
        """Return the limits (tables, 2, k) without the intercept; NaN without an interval, and if refused."""
        limits = np.full((len(releases), 2, len(self.names)), np.nan)
        for number, result in enumerate(releases):
            if result and (numbers := self.request.by_group):
                limits[number] = _limits_by_group(numbers, result)
            elif result and result.interval is not None:
                limits[number] = result.interval[:, self._first : self._first + len(self.names)]
        return limits

    def _releases(self, epsilon: float) -> list[Result | None]:
        """Return the release at an ε from each table; None if it is refused."""
        return [self.release(epsilon, number) for number in range(len(self.samples))]

    def release(self, epsilon: float, number: int) -> Result | None:
        """Release all rows of a table; return None if it is refused: without intervals, or too few rows."""
        keywords = {**self.request.keywords, "epsilon": epsilon}
        rng = np.random.default_rng(number)  # the same at every ε, which makes half-widths decrease in it
        keywords = keywords if self.request.by_group else {"interval": LEVEL, **keywords}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about seeds, budgets and units of synthetic rows
            try:
                return estimate(self.request.estimator.name, self.samples[number], rng=rng, **keywords)
            except InputError:
                return None

    @property
    def _unknown_shares(self) -> set[str]:
        """The categories whose shares are not stated."""
        return set(self.simulator.categories) - set(self.simulator.guesses.shares)

    def _levels_of_unknown_shares(self) -> np.ndarray:
        """Return which columns are levels of a category whose shares are not stated, (k,)."""
        levels = {
            f"{name}={each}" for name in self._unknown_shares for each in self.simulator.categories[name]
        }
        return np.array([name in levels for name in self.names], dtype=bool)

    def summary(self, widths: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the median (k,) of half-widths (tables, k), their range (2, k), and the share without any.

        ``weights`` (tables,) say how usual each table is: usual ones count more in the median.

        Tables without a row have no interval. The median is NaN where most tables have none. Terms of a
        formula combine columns, and curves share one release: none has a range if the shares of a category
        are not stated.
        """
        known = np.isfinite(widths)
        has_most = 2 * known.sum(axis=0) > len(self.samples)
        middle = np.full(widths.shape[1], np.nan)
        for column in np.flatnonzero(has_most):
            middle[column] = _median(widths[known[:, column], column], weights[known[:, column]])
        ends = np.array([range_of(each[np.isfinite(each)])[1:] for each in widths.T]).T.reshape(2, -1)
        # Before a rare level loses its interval, its half-width is up to 100 times that of a frequent one.
        if (self.request.by_formula or self.request.by_group) and self._unknown_shares:
            ends[:] = np.nan
        return middle, ends, 1 - float(known.any(axis=1).sum()) / len(self.samples)


def _limits_by_group(numbers: GroupNumbers, result: Result) -> np.ndarray:
    """Return the limits (2, k) of survival by group and time; NaN where it is hidden."""
    rows = numbers.result(result.estimate, noise_std_of(result.events), 0, LEVEL).rows()
    by_name = {each["name"]: (each["lower"], each["upper"]) for each in rows}
    return np.array([by_name.get(name, (np.nan, np.nan)) for name in numbers.terms]).T


def simulate_release(request: ReleaseRequest, n_tables: int | None = None) -> SimulatedRelease:
    """Simulate the tables of a release from declared columns and guesses.

    They are those on which `dpcost advise` measures the estimators of a study.
    """
    own, columns, family = request.own, request.columns, request.family
    n_tables = n_tables or _TABLES
    assert own is not None
    table, guesses = own.data, with_tail(own.guesses, [request.keywords.get("interval_target")])
    design = request.design
    response = design.response.name if design.response else ""
    column = table.dataset(request.dataset).column
    derived = request.by_formula or request.by_group
    survival = derived.survival if derived else None
    if derived and survival:
        n_tables = min(n_tables, _OF_TIMES)
        right = [each for each in derived.uses if each not in survival.names]
        simulator = simulator_of_times(survival, right, table, guesses)
    elif request.by_group:
        simulator = simulator_of(request.by_group.uses, "", column, table, guesses=guesses, family="")
    else:
        simulator = simulator_of(
            design.names,
            response,
            column,
            table,
            guesses=guesses,
            formula=table.formula_of(columns.x),
            family=family,
            offset=design.names[0] if request.offset_bounds else "",
        )
    needs_classes = bool(family) and family_class(family).needs_classes
    n_classes = int(column(response).upper) + 1 if needs_classes else None

    def sample(n_units: int, rng: np.random.Generator) -> tuple[Sample, Mapping[str, float], float]:
        if survival:
            simulated = simulator.draw_persons(n_units, rng)
        else:
            simulated = simulated_table(simulator, n_units, table, rng)
        rows: Mapping[str, Any] = simulated.table
        users, weights = rows.get(table.user_id), rows.get(table.weights)
        y: np.ndarray | None
        if survival and request.by_formula:
            of_persons = _person_sample(request.by_formula, simulated, weights)
            return of_persons, simulated.drawn, simulated.weight
        is_derived = survival or request.by_group
        X, y = design.rows(derived.values(simulated.rows) if derived and is_derived else rows)
        if not np.ptp(X, axis=0).any() or (y is not None and not np.ptp(y)):
            raise InputError("covariates or the response are constant on the synthetic tables")
        if family and y is not None:
            reference_answer(X, y, family, n_classes, request.offset_bounds)
        return Sample(X, y, user_ids=users, row_weights=weights), simulated.drawn, simulated.weight

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        tables = synthetic_tables(sample, table.units[0], n_tables, request.dataset, simulator.rows_each)
        samples, drawn, usual = zip(*tables, strict=True)
    return SimulatedRelease(request=request, simulator=simulator, samples=samples, drawn=drawn, weights=usual)


def _person_sample(design: FormulaDesign, simulated: SimulatedTable, weights: Any) -> Sample:
    """Return the follow-up of persons; refuse if nothing can be estimated."""
    rows, users = simulated.rows, simulated.users
    codes: np.ndarray = np.arange(len(next(iter(rows.values())))) if users is None else users
    sample = Sample(**person_sample(design, rows, codes, row_weights=weights))
    has_event = (sample.response() > 0).astype(float)
    if not np.ptp(sample.X, axis=0).any() or not np.ptp(has_event):
        raise InputError("covariates or the response are constant on the synthetic tables")
    reference_answer(sample.X, has_event, "poisson", None, design.offset_bounds)
    return sample


def synthetic_tables(
    make: Callable[[int, np.random.Generator], T],
    n_units: int,
    count: int,
    name: str,
    rows_each: float = 1.0,
) -> Iterator[T]:
    """Yield synthetic tables with so many rows or users, fewer tables if there are many rows.

    Tables without an estimate are left out; raise SpecError if none has one.
    """
    refusal = "no table"  # empty once a table has an estimate
    for number in range(table_count(count, round(n_units * rows_each))):
        try:
            table = make(n_units, np.random.default_rng([SEED, number]))
        except ValueError as error:  # e.g. a response that has one value
            refusal = refusal and str(error)
            continue
        refusal = ""
        yield table
    if refusal:
        raise SpecError(f"{name}: {refusal}")


def forecast_release(request: ReleaseRequest) -> ReleaseForecast:
    """Forecast the intervals of a release on synthetic tables; it reads no data."""
    return simulate_release(request).forecast(request.epsilon)


def needed_epsilon(request: ReleaseRequest) -> float | None:
    """Return about the smallest ε at which half of the coefficients have an interval; None if it is far off.

    It is one of a grid whose steps are a factor of 2^½.
    """
    simulated = simulate_release(request, _FEW_TABLES)

    def has_half(step: int) -> bool:
        forecast = simulated.forecast(request.epsilon * 2 ** (step / 2))
        return 2 * forecast.intervals[0] >= len(forecast.names)

    step = bisect_left(range(_MOST_STEPS), True, lo=1, key=has_half)
    return None if step == _MOST_STEPS else request.epsilon * 2 ** (step / 2)


def range_of(errors: np.ndarray) -> tuple[float, float, float]:
    """Return the geometric mean, and the 90% prediction interval of one more table; NaN of none.

    An error of 0 counts as the smallest other error.
    """
    if not len(errors):
        return (math.nan,) * 3
    logs = np.log(np.maximum(errors, min(errors[errors > 0], default=1e-300)))
    spread = math.hypot(float(logs.std(ddof=1)) if len(logs) > 1 else 0.0, _LEAST_SPREAD)
    t = float(scipy.special.stdtrit(max(1, len(logs) - 1), _UPPER))
    reach = t * spread * math.sqrt(1 + 1 / len(logs))
    middle = float(logs.mean())
    return math.exp(middle), math.exp(middle - reach), math.exp(middle + reach)


def _median(values: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted median of values (n,): half of the weight lies on each side."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    sides = (np.searchsorted(total, total[-1] / 2, side) for side in ("left", "right"))
    return float(np.mean([values[order[min(each, len(values) - 1)]] for each in sides]))


def middle_and_ends(counts: np.ndarray) -> tuple[float, float, float]:
    """Return what to expect over synthetic tables, and a range of 90% of them; zeros of no table."""
    counts = counts if len(counts) else np.zeros(1)
    least, most = np.quantile(counts, [1 - _UPPER, _UPPER], method="inverted_cdf")
    return float(np.median(counts)), float(least), float(most)
