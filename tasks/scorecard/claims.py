"""Claims of papers, each with the test that decides it from the results of a study.

A claim is judged at a confidence of 99%, with the paper's calibration and with the smallest noise that proves
the same guarantee. The verdict is 1 (holds), 0 (does not hold) or NaN (can't be tested), with a sentence of
measured numbers.
"""

import math
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
import scipy
from pydantic import Field, ValidationError, model_validator

from reports.writing import num, setting, span, words
from tasks.errors import SpecError
from tasks.file_schema import Strict, sentences
from tasks.problems.kinds import measure_of
from tasks.size_rules import evaluate_rule
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
        return "s" if self.spec.axis == "s" else self.spec.head_panel.problem.traits.size_symbol

    def on_a_stand_in(self, place: Place) -> bool:
        used = self.results.loc[place.rows_of(self.results), "data_source"]
        return bool((used == "stand-in").any())

    @property
    def metric(self) -> str:
        problem = self.spec.head_panel.problem
        return measure_of(problem).metric(problem.traits)

    def sizes_at(self, panel: str, size: int) -> dict[str, int]:
        problem = self.spec.panel(panel).problem
        if self.spec.axis == "s":
            return {**problem.sizes(self.spec.headline.n), "s": size}
        return problem.sizes(size)

    def private(self, estimator: str, calibration: str) -> pd.DataFrame:
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
        matches = (chosen["epsilon"] == epsilon) & (chosen["delta_rule"] == delta)
        chosen = chosen[matches | (chosen["calibration"] == "none")]
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
    half = (
        float(scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1))
        * float(values.std())
        / math.sqrt(len(values))
    )
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
    """Compare our errors with ``factor`` times theirs at each size."""
    return [
        Compared(n, float(mine.mean() / other.mean()), *mean_interval(mine - factor * other))
        for n, mine, other in common_replicates(ours, theirs)
    ]


_FILE = Path(__file__).resolve().parents[2] / "flows" / "claims.toml"
HOLDS, FAILS, OPEN = 1.0, 0.0, math.nan


@dataclass(frozen=True)
class Judgment:
    """1, 0 or NaN, the numbers behind it, and of NaN in few words why the claim was not tested."""

    value: float
    text: str
    why_open: str = "too few repetitions"


NO_SUCH_ANSWER, NO_RUN, NO_TEST = "no such answer", "study not run", "no run can"
_NO_ANSWER = Judgment(OPEN, "The study has no estimate of this kind.", NO_SUCH_ANSWER)
_NO_PAIR = Judgment(OPEN, "The study has no pair of estimates of this kind.", NO_SUCH_ANSWER)
_UNDECIDED = "which these repetitions cannot distinguish."


class Test(Strict, ABC):
    """A rule that decides a claim."""

    @abstractmethod
    def judge(self, claim: "Claim", evidence: Evidence, calibration: str) -> Judgment:
        """Decide at a calibration."""


class Guarantee(Test):
    """The noise proves the ε that was asked, in every cell of the study."""

    kind: Literal["guarantee"]

    def judge(self, claim: "Claim", evidence: Evidence, calibration: str) -> Judgment:
        rows = evidence.private(claim.estimator, calibration)
        rows = rows[rows["estimator_epsilon"].notna()]
        if claim.panel:
            rows = rows[claim.place().rows_of(rows)]
        if rows.empty:
            return _NO_ANSWER
        shares = rows["estimator_epsilon"] / rows["epsilon"]
        if shares.max() == math.inf:
            return Judgment(FAILS, "The noise proves no finite ε.")
        proved = f"The noise proves {span((100 * shares.min(), 100 * shares.max()))}% of the requested ε"
        if shares.max() <= 1 + 1e-9:
            return Judgment(HOLDS, f"{proved}.")
        worst = rows.iloc[int(shares.to_numpy().argmax())]
        where = f"{evidence.symbol} = {setting(worst['n'])}"
        epsilon = f"ε = {num(worst['estimator_epsilon'])} for {setting(worst['epsilon'])}"
        return Judgment(FAILS, f"{proved}: at {where} only {epsilon}.")


class ErrorRatio(Test):
    """The mean error is at most ``factor`` times another's, at every size, or ``somewhere``.

    The other is an estimator, a form, or with ``epsilon`` the estimator itself at another ε.
    """

    kind: Literal["error_ratio"]
    than: str = ""
    than_form: str = ""
    factor: float = 1.0
    epsilon: float | None = None
    somewhere: bool = False

    @model_validator(mode="after")
    def _one_other(self) -> "ErrorRatio":
        if bool(self.than) != (self.epsilon is None):
            raise ValueError("an error ratio needs one of than and epsilon; give just one")
        return self

    def judge(self, claim: "Claim", evidence: Evidence, calibration: str) -> Judgment:
        ours = evidence.values(claim.estimator, claim.place(), calibration)
        place = claim.place(self.than_form) if self.than else claim.place()
        theirs = evidence.values(self.than or claim.estimator, place, calibration, epsilon=self.epsilon)
        intervals = compared(ours, theirs, self.factor)
        if not intervals:
            return _NO_PAIR
        ratios, n = [each.ratio for each in intervals], len(intervals)
        other = "the zero vector's" if self.than == "zero" else "the other's"
        if self.epsilon is not None:
            other = f"those at ε = {setting(self.epsilon)}"
        text = f"Mean errors are {span(ratios)} times {other} over {evidence.span_of_sizes(ours)}"
        undecided = Judgment(
            OPEN, f"{text}, which these repetitions cannot distinguish from {setting(self.factor)}."
        )
        above = [setting(each.size) for each in intervals if each.low > 0]
        n_below = sum(each.high < 0 for each in intervals)
        if self.somewhere:
            fails = len(above) == n
            return Judgment(HOLDS if n_below else FAILS, f"{text}.") if n_below or fails else undecided
        if above:
            return Judgment(FAILS, f"{text}; too large at {evidence.symbol} = {words(above)}.")
        if 2 * n_below < n or max(ratios) > self.factor:
            return undecided
        return Judgment(HOLDS, f"{text}.")


class GapShrinks(Test):
    """The distance between the mean errors with and without privacy shrinks with n but stays."""

    kind: Literal["gap_shrinks"]
    baseline: str

    def judge(self, claim: "Claim", evidence: Evidence, calibration: str) -> Judgment:
        """Compare the gaps at the smallest and at the largest size."""
        ours = evidence.values(claim.estimator, claim.place(), calibration)
        without = evidence.values(self.baseline, claim.place(""), calibration)
        gaps = [(n, mine - other) for n, mine, other in common_replicates(ours, without)]
        if len(gaps) < 2:
            return Judgment(OPEN, "The study has fewer than two sizes with both estimates.", NO_SUCH_ANSWER)
        (first, early), (last, late) = gaps[0], gaps[-1]
        text = (
            f"The gap is {num(float(early.mean()))} at {evidence.symbol} = {setting(first)} and "
            f"{num(float(late.mean()))} at {evidence.symbol} = {setting(last)}"
        )
        low, high = difference_interval(late, early)
        if high < 0 and mean_interval(late)[0] > 0:
            return Judgment(HOLDS, f"{text}.")
        if low > 0 or mean_interval(late)[1] < 0:
            return Judgment(FAILS, f"{text}.")
        return Judgment(OPEN, f"{text}, {_UNDECIDED}")


class Level(Test):
    """The mean of a metric is at least, or at most, a rule in n, d and s, at every size."""

    kind: Literal["level"]
    metric: str
    epsilon: float | None = None  # the headline's, or the nearest there is, if left out
    at_least: float | str | None = None
    at_most: float | str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "Level":
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("a level needs one of at_least and at_most; give just one")
        return self

    def judge(self, claim: "Claim", evidence: Evidence, calibration: str) -> Judgment:
        ours = evidence.values(
            claim.estimator, claim.place(), calibration, metric=self.metric, epsilon=self.epsilon
        )
        if not ours:
            return _NO_ANSWER
        sign, rule = (1, self.at_least) if self.at_most is None else (-1, self.at_most)
        assert rule is not None  # checked when the file was read
        levels = [evaluate_rule(rule, evidence.sizes_at(claim.panel, n), what="level") for n in ours]
        leads = [sign * (values - level) for values, level in zip(ours.values(), levels, strict=True)]
        intervals = [mean_interval(lead) for lead in leads]
        means = span([float(values.mean()) for values in ours.values()])
        text = f"Means are {means} over {evidence.span_of_sizes(ours)}, against {span(levels)}"
        if any(high < 0 for _, high in intervals):
            return Judgment(FAILS, f"{text}.")
        surely = sum(low > 0 for low, _ in intervals)
        if 2 * surely < len(leads) or any(lead.mean() < 0 for lead in leads):
            return Judgment(OPEN, f"{text}, {_UNDECIDED}")
        return Judgment(HOLDS, f"{text}.")


AnyTest = Annotated[Guarantee | ErrorRatio | GapShrinks | Level, Field(discriminator="kind")]


class Claim(Strict):
    """A claim of a paper: what it says, where, and which study's results decide it by which test."""

    id: str  # begins with the paper's key
    text: str
    where: str
    study: str
    panel: str = ""  # "*": one such claim for each panel that ran
    estimator: str
    form: str = ""
    steps: int | None = None  # at which number of steps, where that is the study's horizontal axis
    test: AnyTest | None = None
    untestable: str = ""  # why no run can decide it, where there is no test

    @model_validator(mode="after")
    def _one_of_both(self) -> "Claim":
        if (self.test is None) != bool(self.untestable):
            raise ValueError(f"{self.id} needs one of test and untestable; give just one")
        return self

    @property
    def paper(self) -> str:
        return self.id.partition("-")[0]

    def on_panels(self, evidence: Evidence | None) -> tuple["Claim", ...]:
        """Return the claim itself, or one for each panel of the results; ``*`` stands for its name."""
        if self.panel != "*" or evidence is None:
            return (self,)

        def on(panel: str) -> "Claim":
            name, text = f"{self.id}-{panel.replace(' ', '-')}", self.text.replace("*", panel)
            return self.model_copy(update={"id": name, "panel": panel, "text": text})

        return tuple(map(on, evidence.results["panel"].unique()))

    def place(self, form: str | None = None) -> Place:
        """Return where a form's rows are, without steps; by default those of the claim's form and steps."""
        return Place(self.panel, self.form, self.steps) if form is None else Place(self.panel, form)


class Scorecard(Strict):
    title: str
    question: str
    papers: dict[str, str]  # key → name
    claims: tuple[Claim, ...] = Field(min_length=1)

    @property
    def studies(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(claim.study for claim in self.claims))


def load_scorecard() -> Scorecard:
    plain = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    try:
        return Scorecard(**plain)
    except ValidationError as error:
        raise SpecError(f"{_FILE.name}: {sentences(error)[0]}") from None
