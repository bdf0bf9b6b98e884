"""The results of a study by size and replicate, and confidence intervals, for judging claims."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy

from reports.numbers import setting
from tasks.study.spec import StudySpec

CONFIDENCE = 0.99


@dataclass(frozen=True)
class Place:
    """A panel, a form of an estimator there, and a number of steps where it has several."""

    panel: str
    form: str
    steps: int | None = None

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
        return "s" if self.spec.axis == "s" else self.spec.head_panel.problem.size_symbol

    def on_a_stand_in(self, place: Place) -> bool:
        used = self.results.loc[place.rows_of(self.results), "data_source"]
        return bool((used == "stand-in").any())

    @property
    def metric(self) -> str:
        return self.spec.head_panel.problem.metric

    def sizes_at(self, panel: str, size: int) -> dict[str, int]:
        problem = self.spec.panel(panel).problem
        if self.spec.axis == "s":
            return {**problem.sizes(self.spec.headline.n), "s": size}
        return problem.sizes(size)

    def private(self, estimator: str, calibration: str) -> pd.DataFrame:
        """Return all rows of a private estimator at a calibration."""
        table = self.results
        return table[(table["estimator"] == estimator) & (table["calibration"] == calibration)]

    def values(
        self,
        estimator: str,
        place: Place,
        calibration: str,
        *,
        metric: str | None = None,
        epsilon: float | None = None,
    ) -> dict[int, pd.Series]:
        """Return size → the values of a metric by replicate, at the headline's δ, and ε if not given.

        Where these answers have none at the headline's ε, they are taken at the nearest that they have.
        Sizes are sparsities where the study varies them. An estimator without the calibration is taken at the
        one it has; failed repetitions are left out.
        """
        table = self.results
        chosen = table[
            (table["estimator"] == estimator)
            & place.rows_of(table)
            & (table["metric"] == (metric or self.metric))
            & (table["status"] == "ok")
        ]
        if calibration in set(chosen["calibration"]):
            chosen = chosen[chosen["calibration"] == calibration]
        head = self.spec.headline
        if epsilon is None:
            there = sorted(set(chosen["epsilon"].dropna())) or [head.epsilon]
            epsilon = min(there, key=lambda value: abs(math.log(value / head.epsilon)))
        delta = head.paper_delta if head.paper_delta in set(chosen["delta_rule"]) else head.delta
        asked = (chosen["epsilon"] == epsilon) & (chosen["delta_rule"] == delta)
        chosen = chosen[asked | (chosen["calibration"] == "none")]
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
    half = float(scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1)) * _standard_error(values)
    return float(values.mean()) - half, float(values.mean()) + half


def difference_interval(first: pd.Series, second: pd.Series) -> tuple[float, float]:
    """Return the confidence interval of a difference of means, Welch's."""
    if min(len(first), len(second)) < 2:
        return -math.inf, math.inf
    parts = np.array([_standard_error(values) ** 2 for values in (first, second)])
    total = float(parts.sum())
    difference = float(first.mean()) - float(second.mean())
    if total == 0:
        return difference, difference
    freedom = total**2 / float((parts**2 / [len(first) - 1, len(second) - 1]).sum())
    half = float(scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, freedom)) * math.sqrt(total)
    return difference - half, difference + half


def _standard_error(values: pd.Series) -> float:
    return float(values.std()) / math.sqrt(len(values))


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
    """Compare our errors with ``factor`` times theirs at each size."""
    return [
        Compared(n, float(mine.mean() / other.mean()), *mean_interval(mine - factor * other))
        for n, mine, other in common_replicates(ours, theirs)
    ]
