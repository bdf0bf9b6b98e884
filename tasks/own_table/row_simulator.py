"""Synthetic rows from public declarations and the owner's guesses, for forecasts that read no data.

Guesses are general knowledge, a codebook, a published table; never computed from the rows. Each synthetic
table follows a distribution of its own. It is drawn near to stated guesses, and from a broad range where
nothing is stated. A column of numbers has a beta distribution on its declared bounds. The spread of a
response is log-uniform: bounds may be far wider than responses. Tables with a usual spread have a larger
weight. Columns are joined by a Gaussian copula, rows of one user by a common part of it. Users' numbers of
rows are geometric. The response depends on the standardized covariates. Curves, uneven scatter and longer
tails are left out.

Times to an event have a constant baseline hazard, and covariates multiply it. If the file has entry times and
persons, a person has a row from each change of covariates to the next. Follow-up ends at the first event,
except where all events of a person count.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import numpy as np
import scipy
from pydantic import Field

from dpalgos.errors import InputError
from dpalgos.formula.columns import CategoryColumn, Declared, NumberColumn, unit_of_bounds
from dpalgos.formula.design import FormulaDesign
from dpalgos.typing import FloatArray
from tasks.file_schema import Number, Positive, Strict

if TYPE_CHECKING:  # imported if a response is a time
    from dpalgos.formula.survival_time import SurvivalTime


Share = Annotated[Number, Field(ge=0, lt=1)]
Correlation = Annotated[Number, Field(gt=-1, lt=1)]


class Guesses(Strict):
    """An owner's guesses about a table from general knowledge, from which errors are forecast; all public."""

    correlation: Share = 0.0  # of any two covariates, but for those in `correlations`
    correlations: tuple[tuple[str, str, Correlation], ...] = ()  # of some pairs of columns
    # Share of the response's variance that the covariates explain; on the scale of the linear predictor for
    # logistic, Poisson and multinomial regressions.
    explained: Annotated[Number, Field(gt=0, lt=1)] = 0.5
    skewed: bool = False  # a positive response has a long upper tail
    within_users: Share = 0.5  # correlation of the rows of one user
    rows_per_user: Annotated[Number, Field(ge=1)] = 3.0  # their mean number
    # By column, where center and scale of its units are no guess of them. Of a column of categories, a level
    # ("mi=yes") or a list of all levels in their order: how frequent they are, as in `shares`.
    mean: dict[str, Number | tuple[Number, ...]] = Field(default_factory=dict)
    std: dict[str, Positive] = Field(default_factory=dict)
    # By covariate: how much the response changes with a standard deviation of it, the others fixed, in any
    # unit that is the same for all; those that are not named have none. Empty: random ones.
    effects: dict[str, Number] = Field(default_factory=dict)
    # By column of categories: how frequent each is, in their order; or one number, of a level ("mi=yes") or
    # of the second of two.
    shares: dict[str, Positive | tuple[Positive, ...]] = Field(default_factory=dict)
    source: str = ""  # how the owner knows

    @property
    def means(self) -> dict[str, float]:
        """The means that are one number; after `by_column` all are."""
        return {name: value for name, value in self.mean.items() if not isinstance(value, tuple)}

    def by_column(self, categories: Mapping[str, tuple[str, ...]]) -> Self:
        """Return guesses with all shares of each column of ``categories``, whichever way they are stated.

        For two categories the mean of the second one's indicator is stated, too. Levels without a stated
        share divide the rest.
        """
        guesses_by_column: dict[str, dict[str, float]] = {}
        mean, shares = dict(self.mean), dict(self.shares)
        for entry, table in (("mean", mean), ("shares", shares)):
            for name, value in list(table.items()):
                column, level = _level_of(name, categories)
                if not column:  # of numbers; of 0 and 1 their shares say the mean
                    if isinstance(value, tuple) and len(value) != 2:
                        raise InputError(f"guesses.{entry} of {name!r} must be one number, got {len(value)}")
                    mean[name] = value[1] / sum(value) if isinstance(value, tuple) else value
                    shares.pop(name, None)
                    continue
                levels, values = categories[column], value if isinstance(value, tuple) else (value,)
                levels_of_guess = (level,) if level else levels if isinstance(value, tuple) else levels[1:]
                if len(values) != len(levels_of_guess):
                    raise InputError(
                        f"guesses.{entry} of {name!r} must be one number for each of its {len(levels)} "
                        f"categories, got {len(values)}; or name a level, e.g. '{column}={levels[-1]}' = 0.01"
                    )
                del table[name]
                guesses_by_column.setdefault(column, {}).update(zip(levels_of_guess, values, strict=True))
        for column, known in guesses_by_column.items():
            levels, total = categories[column], sum(known.values())
            rest = len(levels) - len(known)
            if not min(known.values()) > 0 or (rest and not total < 1):
                raise InputError(
                    f"guesses of {column!r} must be shares above 0 and below 1, got {list(known.values())}"
                )
            all_of_them = [known.get(level, (1 - total) / max(rest, 1)) for level in levels]
            shares[column] = tuple(share / sum(all_of_them) for share in all_of_them)
            if len(levels) == 2:
                mean[f"{column}={levels[1]}"] = all_of_them[1] / sum(all_of_them)
        return self.model_copy(update={"mean": mean, "shares": shares})

    def without(self, name: str) -> Self:
        """Return the guesses about all other columns."""
        pairs = tuple(each for each in self.correlations if name not in each[:2])
        mean, std = (
            {key: value for key, value in each.items() if key != name} for each in (self.mean, self.std)
        )
        return self.model_copy(update={"mean": mean, "std": std, "correlations": pairs})

    def check(self, categories: Mapping[str, tuple[str, ...]], names: Collection[str]) -> Self:
        """Return guesses about columns, by column; refuse other names."""
        guesses = self.by_column(categories)
        known = {*names, *categories}
        known |= {f"{name}={level}" for name, levels in categories.items() for level in levels[1:]}
        pairs = [name for pair in guesses.correlations for name in pair[:2]]
        for name in (*pairs, *guesses.mean, *guesses.std, *guesses.effects, *guesses.shares):
            if name not in known:
                raise InputError(
                    f"guesses must be about declared columns, got {name!r}; correct or remove it"
                )
        if same := [one for one, other, _ in guesses.correlations if one == other]:
            raise InputError(f"guesses.correlations must be of two columns, got {same[0]!r} twice")
        return guesses


def _level_of(name: str, categories: Mapping[str, tuple[str, ...]]) -> tuple[str, str]:
    """Return the column of categories that a name means, and the level if it is of one; else nothing."""
    if name in categories:
        return name, ""
    pairs = ((column, level) for column, levels in categories.items() for level in levels)
    return next(((column, level) for column, level in pairs if name == f"{column}={level}"), ("", ""))


# What real tables are like where nothing is stated: (mean, standard deviation) of normal laws, chosen on the
# league's tables of which `data.collections.league.developed_on` says so.
_POSITION = (-0.7, 1.1)  # logit of a mean's place between the bounds
_POSITION_OF_COUNT = (-3.0, 1.0)
_POSITION_OF_RARE_EVENT = (-4.4, 0.7)  # around 1.2 %
_LOG_WIDTH = (np.log(0.36), 0.3)  # standard deviation over that of a column which holds its bounds alone
_WIDEST, _TRIES = 0.6, 50  # of that ratio, if a stated deviation leaves a mean open; draws of the mean
_NARROWEST = 0.01  # of that ratio of a response, uniform on the log scale: bounds may be far wider than it
_LOG_USUAL_SPREAD = (np.log(0.26), 0.5)  # of that ratio of usual responses, by the same tables of the league
_LOG_CARE = 0.25  # what all widths of a table have in common: how carefully its bounds were chosen
_LOG_SHARE, _LOG_FIRST = 1.0, 0.8  # spread of categories' shares; how much more frequent the first one is
_LEAST_SHARE = 0.01
_LOG_EFFECT = 0.7  # beyond the normal law: few effects are large
# How far the truth lies from what is stated under [guesses], and from the units of columns.
_LOGIT_MEAN, _LOGIT_CENTER = 0.05, 0.2
_LOG_STD, _LOG_SCALE = 0.1, 0.3
_STATED_ROWS = 50  # per column, of which stated correlations are as sure as
_STATED_EXPLAINED = 0.3  # on the logit scale
_STATED_EFFECT = 0.35  # of the effects' root mean square
# Rows of users, open or stated: logarithm of their mean number beyond one, and logit of their correlation.
_LOG_ROWS_PER_USER, _LOGIT_WITHIN_USERS = (1.0, 0.1), (1.3, 0.2)

_LEAST_TABLES, _ROWS_IN_ALL = 3, 1_000_000
_FEWEST_RANKED, _STANDS_OUT = 8, 2.0  # tables; standard errors of a rank correlation


@dataclass(frozen=True, kw_only=True)
class UsualTables:
    """Facts about usual tables of one purpose, for guesses that are not stated."""

    rate: tuple[float, float]  # of an event: mean and standard deviation of its logit
    rare: float  # the share of tables in which an event may be rare; most forecasts then include 1 %
    explained: Mapping[str, tuple[float, float]]  # by family, "" for others: logit of the explained share
    log_rows: tuple[float, float]  # correlations as of so many random rows per column, beyond one


PREDICTED = UsualTables(
    rate=(-1.4, 1.7),
    rare=0.4,
    explained={"": (0.0, 1.3), "logistic": (0.7, 1.3), "poisson": (-0.7, 0.7), "multinomial": (0.0, 1.3)},
    log_rows=(0.5, 1.0),
)
# A planned analysis estimates small effects, of columns that do not say the same. Its event is not rare.
STUDIED = UsualTables(rate=(-1.0, 1.0), rare=0.0, explained={"": (-1.5, 1.0)}, log_rows=(1.1, 0.6))

_SCORES = np.linspace(-6, 6, 601)  # normal scores at which quantiles are looked up: dense in both tails
# Standard deviation of what the linear predictor leaves to chance, on its own scale.
_FAMILY_SPREAD = {"logistic": np.pi / np.sqrt(3), "poisson": 0.5, "multinomial": np.pi / np.sqrt(6)}
_HAZARD_SPREAD = np.pi / np.sqrt(6)  # of the logarithm of a cumulative hazard
_MOST_EVENTS = 0.95  # share of persons with an event
_SKEWED = 1.0  # least standard deviation of a skewed response's logarithm, if its own is not stated
_MOST_SKEWED = 2.0  # largest over least standard deviation of a skewed response at its mean
_NEAR_ZERO = 0.1  # of the upper bound


def _smallest_skewed_std(mean: float) -> float:
    """Return the smallest standard deviation of a skewed response, by its mean above the lower bound."""
    return mean * float(np.sqrt(np.expm1(_SKEWED**2)))


def table_count(count: int, n_rows: int) -> int:
    """Return how many tables to simulate: fewer if they have many rows."""
    return min(count, max(_LEAST_TABLES, _ROWS_IN_ALL // n_rows))


def matters_most(drawn: Sequence[Mapping[str, float]], widths: FloatArray) -> str:
    """Return the guess whose uncertainty decides most of the half-widths (tables,); "" if none stands out.

    By rank correlation: no interval counts as the widest.
    """
    ranks = scipy.stats.rankdata(np.nan_to_num(widths, nan=np.inf))
    if len(drawn) < _FEWEST_RANKED or not np.ptp(ranks):
        return ""
    columns = {name: np.array([each[name] for each in drawn]) for name in drawn[0]}
    by_guess = {
        name: abs(np.corrcoef(scipy.stats.rankdata(values), ranks)[0, 1])
        for name, values in columns.items()
        if np.ptp(values)
    }
    name = max(by_guess, key=lambda each: by_guess[each], default="")
    return name if name and by_guess[name] > _STANDS_OUT / np.sqrt(len(drawn)) else ""


@dataclass(frozen=True, kw_only=True)
class SimulatedTable:
    """Synthetic rows, and the random quantities of their distribution by the guess that would fix each."""

    rows: dict[str, Any]  # column → values (n,); of a formula, the declared columns
    table: dict[str, FloatArray]  # covariates, with indicators of categories; response and weights
    drawn: Mapping[str, float]
    users: np.ndarray | None = None  # of each row, (n,), if users or persons are simulated
    weight: float = 1.0  # how usual it is; tables are drawn from a broader range than most real ones


@dataclass(frozen=True, kw_only=True)
class RowSimulator:
    """The declarations and guesses of a table, from which rows are simulated."""

    declared: Declared  # covariates; of a formula, the columns on its right
    response: str = ""
    response_column: NumberColumn | None = None
    event: tuple[Any, Any] | None = None  # levels of a response that is a category, for 0 and 1
    family: str = ""  # of a generalized linear model; empty for others
    guesses: Guesses
    offset: str = ""  # the covariate that enters the linear predictor unscaled
    formula: FormulaDesign | None = None  # by which covariates are computed
    of_users: bool = False  # who have several rows each
    weights: Mapping[str, NumberColumn] = field(default_factory=dict)  # their column, if there is one
    times: "SurvivalTime | None" = None  # to the event that is the response
    usual: UsualTables = PREDICTED

    @property
    def numbers(self) -> dict[str, NumberColumn]:
        """The covariates that are numbers."""
        return {name: each for name, each in self.declared.items() if isinstance(each, NumberColumn)}

    @property
    def categories(self) -> dict[str, tuple[Any, ...]]:
        """The covariates that have levels, with these."""
        return {name: each.levels for name, each in self.declared.items() if isinstance(each, CategoryColumn)}

    @property
    def rows_each(self) -> float:
        """The mean number of rows of a unit."""
        return self.guesses.rows_per_user if self.of_users else 1.0

    @property
    def _event_name(self) -> str:
        """The name under which the mean of the response is guessed."""
        return f"{self.response}={self.event[1]}" if self.event else self.response

    @property
    def _is_skewed(self) -> bool:
        """Whether a linear response has a long upper tail: of positive numbers whose mean permits it."""
        column = self.response_column
        if not (self.guesses.skewed and column and 0 <= column.lower <= _NEAR_ZERO * column.upper):
            return False
        mean = self.guesses.means.get(self.response, column.lower) - column.lower
        return _smallest_skewed_std(mean) <= _WIDEST * math.sqrt(mean * (column.upper - column.lower - mean))

    def left_open(self) -> tuple[str, ...]:
        """Return the names of guesses that are not stated and would narrow a forecast."""
        guesses, response = self.guesses, self.response
        numbers = [*self.numbers, *([self._event_name] if response and self.family != "multinomial" else [])]
        used = {
            "correlation": len(self.declared) > 1,
            "explained": bool(response),
            "effects": bool(response),
            "rows_per_user": self.of_users,
            "within_users": self.of_users,
        }
        unknown = [name for name, is_used in used.items() if is_used and name not in guesses.model_fields_set]
        weights = list(self.weights)
        for entry, names in (
            ("mean", numbers),
            ("std", [name for name in numbers if self.family != "logistic" or name != self._event_name]),
            ("shares", list(self.categories)),
            ("mean", weights),
            ("std", weights),
        ):
            missing = [name for name in names if name not in getattr(guesses, entry)]
            if missing:
                listed = ", ".join(missing) if len(missing) < 4 else f"{len(missing)} columns"
                unknown.append(f"{entry} of {listed}")
        return tuple(unknown)

    def draw_users(self, n_users: int, rng: np.random.Generator) -> SimulatedTable:
        """Return synthetic rows of users, one after another."""
        near, drawn = self._near_users(rng)
        users = np.repeat(np.arange(n_users), rng.geometric(1 / drawn["rows_per_user"], n_users))
        simulated = near.draw(len(users), users, rng)
        return replace(simulated, drawn={**simulated.drawn, **drawn})

    def draw_persons(self, n_persons: int, rng: np.random.Generator) -> SimulatedTable:
        """Return synthetic rows of persons with times to an event; up to half leave before the longest time.

        If persons have several rows, covariates change at random times.
        """
        followed = np.minimum(rng.uniform(1, 2) * rng.random(n_persons), 1.0)
        if not self.of_users:
            spans = _Spans(np.arange(n_persons), np.zeros(n_persons), followed, 1.0)
            return self.draw(n_persons, None, rng, spans)
        near, drawn = self._near_users(rng)
        rows_each = drawn["rows_per_user"]
        share = self._share_of_persons(self.guesses.means.get(self._event_name, 0.5), rows_each)
        observed = 1.0 if self.times and self.times.all_events else 1 - share / 2
        per_time = (rows_each - 1) / (followed.mean() * observed)
        person = np.repeat(np.arange(n_persons), 1 + rng.poisson(per_time * followed))
        is_first = np.diff(person, prepend=-1) > 0
        begin = np.where(is_first, 0.0, rng.random(len(person)) * followed[person])
        begin = begin[np.lexsort((begin, person))]
        end = np.where(np.diff(person, append=n_persons) > 0, followed[person], np.append(begin[1:], 0.0))
        simulated = near.draw(len(person), person, rng, _Spans(person, begin, end, rows_each))
        return replace(simulated, drawn={**simulated.drawn, **drawn})

    def _near_users(self, rng: np.random.Generator) -> tuple[Self, dict[str, float]]:
        """Return a simulator of users whose rows are correlated nearly as guessed, and what was drawn."""
        guesses, (z, z_within) = self.guesses, rng.standard_normal(2)
        stated = guesses.model_fields_set
        rows_spread = _LOG_ROWS_PER_USER["rows_per_user" in stated]
        within_spread = _LOGIT_WITHIN_USERS["within_users" in stated]
        per_user = 1 + (guesses.rows_per_user - 1) * float(np.exp(rows_spread * z))
        logit = scipy.special.logit(guesses.within_users) + within_spread * z_within
        within = float(scipy.special.expit(logit))
        near = replace(self, guesses=guesses.model_copy(update={"within_users": within}))
        return near, {"rows_per_user": per_user, "within_users": within}

    def draw(
        self,
        n_rows: int,
        users: np.ndarray | None,
        rng: np.random.Generator,
        spans: "_Spans | None" = None,
    ) -> SimulatedTable:
        """Return synthetic rows; ``users`` (n_rows,) are their user ids, if any.

        ``spans`` are those of rows that are followed over time; rows after an event are left out.
        """
        care = _LOG_CARE * rng.standard_normal()
        columns, correlation = self._latent(n_rows, users, rng)
        latent, drawn = iter(columns), {"correlation": correlation}
        table, rows, weight = dict[str, Any](), dict[str, Any](), 1.0
        for name, column in self.numbers.items():
            mean, std = self._moments(name, column, _POSITION, care, rng)
            drawn |= {f"mean of {name}": mean, f"std of {name}": std}
            table[name] = rows[name] = _beta(column, mean, std, next(latent))
        for name, levels in self.categories.items():
            codes = self._codes(name, len(levels), next(latent), rng)
            drawn[f"shares of {name}"] = float(np.bincount(codes, minlength=len(levels)).min())
            table.update({f"{name}={level}": (codes == k) * 1.0 for k, level in enumerate(levels) if k})
            rows[name] = np.array(levels, dtype=object)[codes]
        if self.formula:
            table = {name: each for name, each in self.formula.values(rows).items() if name != self.response}
        if self.response_column is not None:
            position = _POSITION_OF_COUNT if self._is_skewed or self.family == "poisson" else _POSITION
            if self.family == "logistic":
                is_rare = rng.random() < self.usual.rare
                position = _POSITION_OF_RARE_EVENT if is_rare else self.usual.rate
            moments = self._moments(self.response, self.response_column, position, care, rng)
            drawn[f"mean of {self._event_name}"] = moments[0]
            weight = self._weight(*moments)
            if self.family != "logistic":
                drawn[f"std of {self.response}"] = moments[1]
            if spans is None:
                values, drawn["explained"] = self._responses(self.response_column, moments, table, users, rng)
            else:
                until_event, end, values, drawn["explained"] = self._events(spans, moments[0], table, rng)
                rows, table = (
                    {name: each[until_event] for name, each in own.items()} for own in (rows, table)
                )
                rows |= self._times(spans.begin[until_event], end)
                users, n_rows = spans.person[until_event], len(until_event)
            table[self.response] = values
            rows[self.response] = np.array(self.event)[values.astype(int)] if self.event else values
        for name, column in self.weights.items():
            mean, std = self._moments(name, column, _POSITION, care, rng)
            drawn |= {f"mean of {name}": mean, f"std of {name}": std}
            table[name] = _beta(column, mean, std, rng.standard_normal(n_rows))
        return SimulatedTable(rows=rows, table=table, drawn=drawn, users=users, weight=weight)

    def _latent(
        self, n_rows: int, users: np.ndarray | None, rng: np.random.Generator
    ) -> tuple[FloatArray, float]:
        """Return standard normals (k, n), correlated nearly as guessed, and their largest correlation."""
        index = {name: j for j, name in enumerate([*self.numbers, *self.categories])}
        k = len(index)
        matrix = np.full((k, k), self.guesses.correlation)
        np.fill_diagonal(matrix, 1.0)
        for one, other, value in self.guesses.correlations:
            if one in index and other in index:
                matrix[index[one], index[other]] = matrix[index[other], index[one]] = value
        levels, axes = np.linalg.eigh(matrix)
        is_stated = "correlation" in self.guesses.model_fields_set
        per_column = _STATED_ROWS if is_stated else 1 + rng.lognormal(*self.usual.log_rows)
        root = axes * np.sqrt(np.maximum(levels, 0)) @ rng.standard_normal((k, 1 + round(k * per_column)))
        root /= np.linalg.norm(root, axis=1, keepdims=True)
        correlations = root @ root.T
        levels, axes = np.linalg.eigh(correlations)
        noise = self._noise(k, n_rows, users, rng)
        largest = float(np.abs(correlations - np.eye(k)).max()) if k > 1 else 0.0
        return np.asarray((axes * np.sqrt(np.maximum(levels, 0))) @ noise), largest

    def _moments(
        self,
        name: str,
        column: NumberColumn,
        position: tuple[float, float],
        care: float,
        rng: np.random.Generator,
    ) -> tuple[float, float]:
        """Return a mean and a standard deviation that are near to what is stated, if anything is."""
        low, width, guesses = column.lower, column.upper - column.lower, self.guesses
        (center, scale), is_response = column.unit, column is self.response_column
        is_event = is_response and self.family == "logistic"
        has_units = (
            not is_event  # nobody stated its units
            and name != self.offset
            and (center, scale) != unit_of_bounds(column.lower, column.upper)
        )
        key = self._event_name if name == self.response else name
        mean = guesses.means.get(key, center if has_units else None)
        std = guesses.std.get(name, scale if has_units else None)
        if mean is not None and low < mean < column.upper:
            position = (
                scipy.special.logit((mean - low) / width),
                _LOGIT_MEAN if name in guesses.mean else _LOGIT_CENTER,
            )
        elif name in guesses.mean:
            raise InputError(
                f"guesses.mean of {name!r} must lie between its bounds {low:g} and "
                f"{column.upper:g}, got {mean:g}; correct it"
            )
        if guesses.std.get(name, 0.0) > width / 2:
            raise InputError(
                f"guesses.std of {name!r} must be at most {width / 2:g}, half the width of its bounds, got "
                f"{guesses.std[name]:g}; correct it"
            )
        for _ in range(_TRIES):
            share = float(scipy.special.expit(rng.normal(*position)))
            most = width * np.sqrt(share * (1 - share))
            least, widest = self._std_limits(share * width, most) if is_response else (0.0, _WIDEST * most)
            if mean is not None or std is None or least < std < widest:
                break
        if std is not None:
            std *= np.exp((_LOG_STD if name in guesses.std else _LOG_SCALE) * rng.standard_normal())
        elif width == 1 and low == round(low) and name not in self.weights:  # two values, most likely
            std = most
        elif is_response:
            narrowest = min(max(least, _NARROWEST * most), widest)
            std = np.exp(rng.uniform(np.log(narrowest), np.log(widest)))
        else:
            std = most * np.exp(rng.normal(*_LOG_WIDTH) + care)
        return low + share * width, float(min(std, most))

    def _weight(self, mean: float, std: float) -> float:
        """Return how usual a linear response is whose spread is not stated; 1 of others."""
        column = self.response_column
        assert column
        low, high = column.lower, column.upper
        is_stated = self.response in self.guesses.std or column.unit != unit_of_bounds(low, high)
        if self.family or self._is_skewed or is_stated or (high - low == 1 and low == round(low)):
            return 1.0
        middle, spread = _LOG_USUAL_SPREAD
        ratio = std / np.sqrt((mean - low) * (high - mean))
        return float(np.exp(-(((np.log(ratio) - middle) / spread) ** 2) / 2))

    def _std_limits(self, mean: float, most: float) -> tuple[float, float]:
        """Return the smallest and largest standard deviation of a response, by its mean above the bound."""
        if self._is_skewed:
            least = _smallest_skewed_std(mean)
            return least, min(_MOST_SKEWED * least, _WIDEST * most)
        return float(np.sqrt(mean)) if self.family == "poisson" else 0.0, _WIDEST * most

    def _codes(
        self, name: str, n_categories: int, scores: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        shares = np.exp(_LOG_SHARE * rng.standard_normal(n_categories))
        shares[0] *= np.exp(_LOG_FIRST)
        shares = np.maximum(shares / shares.sum(), _LEAST_SHARE)
        if name in self.guesses.shares:
            shares = np.array(self.guesses.shares[name])
        return np.searchsorted(np.cumsum(shares / shares.sum())[:-1], scipy.special.ndtr(scores))

    def _effects(self, names: Sequence[str], rng: np.random.Generator) -> np.ndarray:
        """Return how much the response changes with a standard deviation of each covariate."""
        z = rng.standard_normal(len(names))
        if not self.guesses.effects:
            return z * np.exp(_LOG_EFFECT * rng.standard_normal(len(names)))
        effects = np.array([self.guesses.effects.get(name, 0.0) for name in names])
        return np.asarray(effects + _STATED_EFFECT * np.sqrt(np.mean(effects**2)) * z)

    def _responses(
        self,
        column: NumberColumn,
        moments: tuple[float, float],
        covariates: Mapping[str, np.ndarray],
        users: np.ndarray | None,
        rng: np.random.Generator,
    ) -> tuple[FloatArray, float]:
        """Return responses, and the share of their variance that the covariates explain."""
        index, share = self._index(covariates, rng)
        mean, std = moments
        u = _FAMILY_SPREAD.get(self.family, 1.0) * index * np.sqrt(share / (1 - share))
        offset: np.ndarray | float = covariates[self.offset] if self.offset else 0.0
        u = u + offset - np.mean(offset)
        if self.family == "multinomial":
            directions = np.linspace(-np.sqrt(3), np.sqrt(3), int(column.upper) + 1)
            utilities = u[:, None] * directions + rng.gumbel(size=(len(u), len(directions)))
            return np.asarray(np.argmax(utilities, axis=1), dtype=float), float(share)
        if self.family == "logistic":
            shift = scipy.optimize.brentq(lambda b: float(scipy.special.expit(u + b).mean()) - mean, -40, 40)
            return (self._uniforms(len(u), users, rng) < scipy.special.expit(u + shift)) * 1.0, float(share)
        if self.family == "poisson":
            rates = np.exp(u)
            rates *= mean / rates.mean()
            # What the deviation has beyond the rates' own and Poisson's is spread of people of one rate.
            beyond = (std**2 - mean - rates.var()) / float((rates**2).mean())
            if beyond > 0 and users is None:
                rates *= rng.gamma(1 / beyond, beyond, len(u))
            elif beyond > 0:
                rates *= beyond * scipy.special.gammaincinv(1 / beyond, self._uniforms(len(u), users, rng))
            return np.asarray(np.minimum(rng.poisson(rates), np.floor(column.upper)), dtype=float), float(
                share
            )
        noise = self._noise(1, len(u), users, rng)[0]
        z = np.sqrt(share) * index + np.sqrt(1 - share) * noise
        y = mean + std * z
        if self._is_skewed:
            spread = np.sqrt(np.log1p((std / (mean - column.lower)) ** 2))
            y = column.lower + (mean - column.lower) * np.exp(spread * z - spread**2 / 2)
        return np.asarray(np.clip(y, column.lower, column.upper)), float(share)

    def _index(
        self, covariates: Mapping[str, np.ndarray], rng: np.random.Generator
    ) -> tuple[FloatArray, float]:
        """Return the standardized effects of covariates (n,), and the share of variance that they explain."""
        covariates = {name: values for name, values in covariates.items() if name != self.offset}
        X = np.column_stack(list(covariates.values()))
        Z = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), np.inf)
        index = Z @ self._effects(list(covariates), rng)
        index /= max(float(np.std(index)), 1e-12)
        odds = self.usual.explained.get(self.family, self.usual.explained[""])
        if "explained" in self.guesses.model_fields_set:
            odds = (scipy.special.logit(self.guesses.explained), _STATED_EXPLAINED)
        return index, float(scipy.special.expit(rng.normal(*odds)))

    def _events(
        self, spans: "_Spans", mean: float, covariates: Mapping[str, np.ndarray], rng: np.random.Generator
    ) -> tuple[np.ndarray, FloatArray, FloatArray, float]:
        """Return the rows that are kept, where they end, their events, and the share that is explained.

        ``mean`` is the mean of the event over rows. The baseline hazard is constant.
        """
        assert self.times is not None
        index, share = self._index(covariates, rng)
        hazard = np.exp(_HAZARD_SPREAD * index * np.sqrt(share / (1 - share)))
        hazard *= spans.end - spans.begin
        counts_all = self.times.all_events
        wanted = mean if counts_all else self._share_of_persons(mean, spans.rows_each)
        own = hazard if counts_all else np.bincount(spans.person, hazard)
        level = scipy.optimize.brentq(lambda b: wanted + np.expm1(-own * np.exp(b)).mean(), -40, 40)
        part = rng.exponential(size=len(hazard)) / (hazard * np.exp(level))
        is_event = part < 1
        if counts_all:
            return np.arange(len(hazard)), spans.end, is_event * 1.0, share
        before = np.cumsum(is_event) - is_event
        first = np.flatnonzero(np.diff(spans.person, prepend=-1))
        until_event = np.flatnonzero(before == before[first][spans.person])
        at_event = spans.begin + np.minimum(part, 1.0) * (spans.end - spans.begin)
        end = np.where(is_event, at_event, spans.end)
        return until_event, end[until_event], is_event[until_event] * 1.0, share

    @staticmethod
    def _share_of_persons(mean: float, rows_each: float) -> float:
        """Return the share of persons with an event, by the mean of the event over rows."""
        return min(mean * rows_each, _MOST_EVENTS)

    def _times(self, begin: FloatArray, end: FloatArray) -> dict[str, FloatArray]:
        """Return the columns of times of rows, from parts of the longest time."""
        assert self.times is not None
        first, *_, last = self.times.periods
        names = {self.times.start: begin, self.times.time: end}
        return {name: first + part * (last - first) for name, part in names.items() if name}

    def _uniforms(self, n_rows: int, users: np.ndarray | None, rng: np.random.Generator) -> FloatArray:
        """Return uniform numbers (n_rows,), correlated for the rows of a user."""
        if users is None:
            return rng.random(n_rows)
        return np.asarray(scipy.special.ndtr(self._noise(1, n_rows, users, rng)[0]))

    def _noise(self, k: int, n_rows: int, users: np.ndarray | None, rng: np.random.Generator) -> FloatArray:
        """Return standard normals, (k, n_rows), of which a user's rows have a part in common."""
        independent: FloatArray = rng.standard_normal((k, n_rows))
        if users is None:
            return independent
        within = self.guesses.within_users
        common = rng.standard_normal((k, int(users.max()) + 1))[:, users]
        return np.asarray(np.sqrt(within) * common + np.sqrt(1 - within) * independent)


class _Spans(NamedTuple):
    """Rows of persons, one after another, from ``begin`` to ``end``, as parts of the longest time."""

    person: np.ndarray
    begin: FloatArray
    end: FloatArray
    rows_each: float  # mean number of rows of a person up to the first event


def _beta(column: NumberColumn, mean: float, std: float, scores: np.ndarray) -> np.ndarray:
    """Return values with normal scores of the beta law on a column's bounds, or of both bounds."""
    width = column.upper - column.lower
    center, variance = (mean - column.lower) / width, (std / width) ** 2
    if variance >= 0.999 * center * (1 - center):
        return np.where(scores > scipy.special.ndtri(1 - center), column.upper, column.lower)
    total = center * (1 - center) / variance - 1
    a, b = center * total, (1 - center) * total
    below, above = _SCORES[_SCORES < 0], _SCORES[_SCORES >= 0]
    lower = scipy.special.betaincinv(a, b, scipy.special.ndtr(below))
    upper = scipy.special.betainccinv(a, b, scipy.special.ndtr(-above))
    quantiles = np.concatenate([lower, upper])
    return np.asarray(column.lower + width * np.interp(scores, _SCORES, quantiles))
