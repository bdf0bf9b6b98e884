"""The results that claims are judged on: an estimator's errors by size, and their comparison."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd
import scipy

from reports.cells import ROUNDING
from reports.writing import setting
from tasks.file_schema import Strict
from tasks.problems.kinds import measure_of
from tasks.study.spec import StudySpec

CONFIDENCE = 0.99
_TAIL = (1 - CONFIDENCE) / 2
_LEAST_ANSWERED = 0.9  # share of the repetitions


class TooFewAnswers(Exception):
    """Too many repetitions without an estimate; the message is a sentence for the page."""


class Place(Strict):
    """Results that are judged: an estimator's form in a panel, at a number of steps and a rule for δ."""

    estimator: str
    panel: str = ""
    form: str = ""
    steps: int | None = None  # at which number of steps, where that is the study's horizontal axis
    delta: str = ""  # a rule for δ; the paper's or the headline's if left out

    def rows_of(self, table: pd.DataFrame) -> pd.Series:
        steps = table["steps"].isna() if self.steps is None else (table["steps"] == self.steps).fillna(False)
        return (table["panel"] == self.panel) & (table["form"] == self.form) & steps


@dataclass(frozen=True)
class Evidence:
    spec: StudySpec
    results: pd.DataFrame

    @property
    def symbol(self) -> str:
        """Symbol of the size in sentences: s where the study varies the sparsity, m for subsamples."""
        return "s" if self.spec.axis == "s" else self.spec.head_panel.problem.traits.size_symbol

    def sizes_at(self, panel: str, size: int) -> dict[str, int]:
        problem = self.spec.panel(panel).problem
        if self.spec.axis == "s":
            return {**problem.sizes(self.spec.headline.n), "s": size}
        return problem.sizes(size)

    def values(
        self, place: Place, calibration: str, *, metric: str = "", epsilon: float | None = None
    ) -> dict[int, pd.Series]:
        """Return size → the values of a metric by replicate, at a calibration or without privacy.

        Sizes are sparsities where the study varies them. The metric is the study's by default. Repetitions
        without an estimate are left out; raise `TooFewAnswers` if there are many at a size.
        """
        problem, values = self.spec.head_panel.problem, dict[int, pd.Series]()
        metric = metric or measure_of(problem).metric(problem.traits)
        for size, rows in self._by_size(place, calibration, epsilon):
            n_answered, n_repetitions = _count_answers(rows)
            if n_answered < _LEAST_ANSWERED * n_repetitions:
                raise TooFewAnswers(
                    f"At {self.symbol} = {setting(size)} there is an estimate of {place.estimator} on "
                    f"{n_answered} of {n_repetitions} repetitions."
                )
            answers = rows[(rows["metric"] == metric) & (rows["status"] == "ok")]
            if len(answers):
                values[size] = answers.set_index("replicate")["value"].sort_index()
        return values

    def answers(self, place: Place, calibration: str, epsilon: float | None = None) -> tuple[int, int]:
        """Return the numbers of repetitions with an estimate, and of all, over all sizes."""
        counts = [_count_answers(rows) for _, rows in self._by_size(place, calibration, epsilon)]
        return sum(answered for answered, _ in counts), sum(every for _, every in counts)

    def epsilon_at(self, panel: str) -> float:
        """Return the ε at which claims about a panel are judged: that of its grid nearest the headline's."""
        head = self.spec.headline.epsilon
        grid = self.spec.grid_of(self.spec.panel(panel)).epsilon
        return min(sorted(grid), key=lambda value: abs(math.log(value / head)))

    def _by_size(
        self, place: Place, calibration: str, epsilon: float | None
    ) -> Iterator[tuple[int, pd.DataFrame]]:
        """Yield each size with the rows of all repetitions, without sizes that the estimator refuses."""
        table, head = self.results, self.spec.headline
        epsilon = self.epsilon_at(place.panel) if epsilon is None else epsilon
        in_panel = table[(table["panel"] == place.panel) & table["epsilon"].notna()]
        printed = head.paper_delta in set(in_panel["delta_rule"])
        delta = place.delta or (head.paper_delta if printed else head.delta)
        private = (table["epsilon"] == epsilon) & (table["delta_rule"] == delta)
        chosen = table[
            (table["estimator"] == place.estimator)
            & place.rows_of(table)
            & ((private & (table["calibration"] == calibration)) | (table["calibration"] == "none"))
        ]
        for size, rows in chosen.groupby("s" if self.spec.axis == "s" else "n", sort=True):
            if not (rows["status"] == "refused").all():
                yield int(str(size)), rows

    def span_of_sizes(self, values: dict[int, pd.Series]) -> str:
        """Return the smallest and the largest size of some values in words: ``"n = 100–4,000"``."""
        ends = dict.fromkeys((setting(min(values)), setting(max(values))))
        return f"{self.symbol} = {'–'.join(ends)}"


def _count_answers(rows: pd.DataFrame) -> tuple[int, int]:
    """Return how many replicates have an estimate, and how many there are."""
    return rows.loc[rows["status"] == "ok", "replicate"].nunique(), rows["replicate"].nunique()


def mean_interval(
    values: pd.Series, other: pd.Series | float = 0.0, n_intervals: int = 1
) -> tuple[float, float]:
    """Return Student's confidence interval of the mean of ``values - other``; infinite for one value.

    So many intervals cover together at the confidence.
    """
    difference, tail = values - other, _TAIL / n_intervals
    mean, std, n = float(difference.mean()), float(difference.std()), len(values)
    rounding = ROUNDING * max(values.abs().max(), difference.abs().max())
    if std > rounding:
        half = float(scipy.stats.t.isf(tail, n - 1)) * std / math.sqrt(n)
    else:
        half = _half_width_of_equal(mean, rounding, n, tail)
    return mean - half, mean + half


def difference_interval(first: pd.Series, second: pd.Series) -> tuple[float, float]:
    """Return Welch's confidence interval of a difference of means; infinite for one value."""
    n, mean = min(len(first), len(second)), float(first.mean() - second.mean())
    rounding = ROUNDING * max(first.abs().max(), second.abs().max())
    if n < 2 or max(first.std(), second.std()) <= rounding:
        half = _half_width_of_equal(mean, rounding, n, _TAIL)
        return mean - half, mean + half
    interval = scipy.stats.ttest_ind(first, second, equal_var=False).confidence_interval(CONFIDENCE)
    return float(interval.low), float(interval.high)


def _half_width_of_equal(mean: float, rounding: float, n: int, tail: float) -> float:
    """Return 0 if the sign test decides that n equal values are not 0, else infinity."""
    return 0.0 if abs(mean) > rounding and 0.5**n <= tail else math.inf


def common_replicates(
    ours: dict[int, pd.Series], theirs: dict[int, pd.Series]
) -> Iterator[tuple[int, pd.Series, pd.Series]]:
    """Yield (size, values, values) on the replicates that both have."""
    for n in sorted(set(ours) & set(theirs)):
        both = ours[n].index.intersection(theirs[n].index)
        if len(both):
            yield n, ours[n].loc[both], theirs[n].loc[both]


@dataclass(frozen=True)
class Compared:
    """Two answers at a size: the ratio of their mean errors, and the interval of the mean difference.

    The joint interval is wider: those of all sizes cover together at the confidence.
    """

    size: int
    ratio: float
    interval: tuple[float, float]
    joint: tuple[float, float]


def compared(ours: dict[int, pd.Series], theirs: dict[int, pd.Series], factor: float = 1.0) -> list[Compared]:
    pairs = list(common_replicates(ours, theirs))
    return [
        Compared(
            n,
            float(mine.mean() / other.mean()),
            mean_interval(mine, factor * other),
            mean_interval(mine, factor * other, len(pairs)),
        )
        for n, mine, other in pairs
    ]
