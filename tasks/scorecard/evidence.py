"""The results that claims are judged on: an estimator's errors by size, and their comparison."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd
import scipy

from reports.writing import setting
from tasks.file_schema import Strict
from tasks.problems.kinds import measure_of
from tasks.study.spec import StudySpec

CONFIDENCE = 0.99


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

        Sizes are sparsities where the study varies them. The metric is the study's by default; ε is the
        headline's, or the nearest in the panel. Failed repetitions are left out.
        """
        table, head, problem = self.results, self.spec.headline, self.spec.head_panel.problem
        in_panel = table[(table["panel"] == place.panel) & table["epsilon"].notna()]
        if epsilon is None:
            there = sorted(set(in_panel["epsilon"])) or [head.epsilon]
            epsilon = min(there, key=lambda value: abs(math.log(value / head.epsilon)))
        printed = head.paper_delta in set(in_panel["delta_rule"])
        delta = place.delta or (head.paper_delta if printed else head.delta)
        private = (table["epsilon"] == epsilon) & (table["delta_rule"] == delta)
        chosen = table[
            (table["estimator"] == place.estimator)
            & place.rows_of(table)
            & (table["metric"] == (metric or measure_of(problem).metric(problem.traits)))
            & (table["status"] == "ok")
            & ((private & (table["calibration"] == calibration)) | (table["calibration"] == "none"))
        ]
        return {
            int(str(size)): rows.set_index("replicate")["value"].sort_index()
            for size, rows in chosen.groupby("s" if self.spec.axis == "s" else "n", sort=True)
        }

    def span_of_sizes(self, values: dict[int, pd.Series]) -> str:
        """Return the smallest and the largest size of some values in words: ``"n = 100–4,000"``."""
        ends = dict.fromkeys((setting(min(values)), setting(max(values))))
        return f"{self.symbol} = {'–'.join(ends)}"


def mean_interval(values: pd.Series) -> tuple[float, float]:
    """Return the confidence interval of a mean, Student's; infinite for fewer than two values."""
    if len(values) < 2:
        return -math.inf, math.inf
    reach = float(scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1))
    half = reach * float(values.std()) / math.sqrt(len(values))
    return float(values.mean()) - half, float(values.mean()) + half


def difference_interval(first: pd.Series, second: pd.Series) -> tuple[float, float]:
    """Return the confidence interval of a difference of means, Welch's."""
    if min(len(first), len(second)) < 2:
        return -math.inf, math.inf
    if first.nunique() == second.nunique() == 1:
        return (float(first.mean()) - float(second.mean()),) * 2
    interval = scipy.stats.ttest_ind(first, second, equal_var=False).confidence_interval(CONFIDENCE)
    return float(interval.low), float(interval.high)


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
    """Two answers at a size: the ratio of their mean errors, and the interval of the mean difference."""

    size: int
    ratio: float
    low: float
    high: float


def compared(ours: dict[int, pd.Series], theirs: dict[int, pd.Series], factor: float = 1.0) -> list[Compared]:
    return [
        Compared(n, float(mine.mean() / other.mean()), *mean_interval(mine - factor * other))
        for n, mine, other in common_replicates(ours, theirs)
    ]
