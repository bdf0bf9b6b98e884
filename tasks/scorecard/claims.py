"""Claims of papers, each with the test that decides it from the results of a study.

A claim is judged with the paper's calibration, and with the smallest noise that proves the same guarantee.
The confidence is 99%; where any of several sizes decides, it is that of all of them together. The verdict is
1 (holds), 0 (does not hold) or NaN (can't be tested), with a sentence of measured numbers.
"""

import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import pandas as pd
import scipy
from pydantic import Field, ValidationError, model_validator

from data.results.table import LIMIT
from reports.cells import ROUNDING
from reports.error_table import CERTIFIED_LIMIT
from reports.writing import num, num_in, setting, span, words
from tasks.errors import SpecError
from tasks.file_schema import Strict, sentences
from tasks.papers import CLAIMS_FILE
from tasks.problems.kinds import measure_of
from tasks.size_rules import evaluate_rule
from tasks.study.spec import StudySpec

CONFIDENCE = 0.99
_TAIL = (1 - CONFIDENCE) / 2
_LEAST_ANSWERED = 0.9  # share of the repetitions
_BOTH_NOISE = "both no better than zero"


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
    """Two estimators at a size: the ratio of their mean errors, and the interval of the mean difference.

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


def _judged(text: str, *, holds: bool, fails: bool) -> Judgment:
    if holds or fails:
        return Judgment(FAILS if fails else HOLDS, f"{text}.")
    return Judgment(OPEN, f"{text}, which these repetitions cannot distinguish.")


class Guarantee(Strict):
    """The noise proves the ε that was asked, in every cell of the study."""

    kind: Literal["guarantee"]

    def judge(self, claim: "Claim", evidence: Evidence, calibration: str) -> Judgment:
        table = evidence.results
        is_private = (table["calibration"] == calibration) & table["estimator_epsilon"].notna()
        is_private &= table["epsilon"] != LIMIT  # the papers claim nothing of so large an ε
        rows = table[is_private & (table["estimator"] == claim.estimator)]
        if claim.panel:
            rows = rows[claim.rows_of(rows)]
        if rows.empty:
            return _NO_ANSWER
        shares = rows["estimator_epsilon"] / rows["epsilon"]
        if shares.max() == math.inf:
            return Judgment(FAILS, "The noise proves no finite ε.")
        proved = f"The noise proves {span((100 * shares.min(), 100 * shares.max()))}% of the requested ε"
        if shares.max() <= CERTIFIED_LIMIT:
            return Judgment(HOLDS, f"{proved}.")
        worst = rows[shares >= shares.max() * (1 - ROUNDING)].iloc[0]  # equal up to rounding: the first
        where = f"{evidence.symbol} = {setting(worst['n'])}"
        certified, requested = worst["estimator_epsilon"], worst["epsilon"]
        epsilon = f"ε = {num_in(certified, requested, certified)} for {setting(requested)}"
        return Judgment(FAILS, f"{proved}: at {where} only {epsilon}.")


class ErrorRatio(Strict):
    """The mean error is at most ``factor`` times another estimator's (or form's, or its own at another ε).

    It is so at every size, or at one at least. Sizes at which neither is better than the zero vector compare
    noise with noise, and are left out.
    """

    kind: Literal["error_ratio"]
    than: str = ""  # the claim's own estimator if left out
    than_form: str = ""
    than_epsilon: float | None = None
    factor: float = 1.0
    somewhere: bool = False  # at some size of the study at least

    def judge(self, claim: "Claim", evidence: Evidence, calibration: str) -> Judgment:
        ours = evidence.values(claim, calibration)
        than = claim.of(self.than, self.than_form) if self.than else claim
        theirs = evidence.values(than, calibration, epsilon=self.than_epsilon)
        zero = evidence.values(claim.of("zero"), calibration)
        pairs = compared(ours, theirs, self.factor)
        if not pairs:
            return _NO_PAIR
        if self.somewhere:
            return self._somewhere(pairs, evidence.span_of_sizes(ours))
        useful = {each.size for one in (ours, theirs) for each in compared(one, zero) if each.interval[1] < 0}
        intervals = [each for each in pairs if each.size in useful or each.size not in zero]
        ratios = [each.ratio for each in intervals or pairs]
        sizes = {each.size: ours[each.size] for each in intervals or pairs}
        text = f"Mean errors are {span(ratios)} times the other's over {evidence.span_of_sizes(sizes)}"
        if not intervals:
            return Judgment(OPEN, f"{text}; neither is better than the zero vector.", _BOTH_NOISE)
        above = [setting(each.size) for each in intervals if each.joint[0] > 0]
        if above:
            return Judgment(FAILS, f"{text}; too large at {evidence.symbol} = {words(above)}.")
        if all(each.interval[1] < 0 for each in intervals):
            return Judgment(HOLDS, f"{text}.")
        return Judgment(
            OPEN, f"{text}, which these repetitions cannot distinguish from {setting(self.factor)}."
        )

    def _somewhere(self, pairs: list[Compared], sizes: str) -> Judgment:
        other = "zero vector's" if self.than == "zero" else "other's"
        at = "" if self.than_epsilon is None else f" at ε = {setting(self.than_epsilon)}"
        text = f"Mean errors are {span([each.ratio for each in pairs])} times the {other}{at} over {sizes}."
        if any(each.joint[1] < 0 for each in pairs):
            return Judgment(HOLDS, text)
        return Judgment(FAILS if all(each.interval[0] > 0 for each in pairs) else OPEN, text)


class GapShrinks(Strict):
    """The distance between the mean errors with and without privacy shrinks with n but stays."""

    kind: Literal["gap_shrinks"]
    baseline: str

    def judge(self, claim: "Claim", evidence: Evidence, calibration: str) -> Judgment:
        ours = evidence.values(claim, calibration)
        without = evidence.values(claim.of(self.baseline), calibration)
        pairs = list(common_replicates(ours, without))
        if len(pairs) < 2:
            return Judgment(OPEN, "The study has fewer than two sizes with both estimates.", NO_SUCH_ANSWER)
        (first, *before), (last, mine, other) = pairs[0], pairs[-1]
        early, late = before[0] - before[1], mine - other
        text = (
            f"The gap is {num(float(early.mean()))} at {evidence.symbol} = {setting(first)} and "
            f"{num(float(late.mean()))} at {evidence.symbol} = {setting(last)}"
        )
        low, high = difference_interval(late, early)
        least, most = mean_interval(mine, other)
        return _judged(text, holds=high < 0 and least > 0, fails=low > 0 or most < 0)


class LargerThanIn(Strict):
    """The mean error is larger than in another panel, each at its largest size."""

    kind: Literal["larger_than_in"]
    panel: str

    def judge(self, claim: "Claim", evidence: Evidence, calibration: str) -> Judgment:
        ours, others = (
            evidence.values(claim.model_copy(update={"panel": panel}), calibration)
            for panel in (claim.panel, self.panel)
        )
        if not ours or not others:
            return _NO_PAIR
        n, m = max(ours), max(others)
        text = (
            f"The mean error is {num(float(ours[n].mean()))} at {evidence.symbol} = {setting(n)}, and "
            f"{num(float(others[m].mean()))} in panel {self.panel} at {evidence.symbol} = {setting(m)}"
        )
        low, high = difference_interval(ours[n], others[m])
        return _judged(text, holds=low > 0, fails=high < 0)


class Level(Strict):
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
        ours = evidence.values(claim, calibration, metric=self.metric, epsilon=self.epsilon)
        if not ours:
            return _NO_ANSWER
        sign, rule = (1, self.at_least) if self.at_most is None else (-1, self.at_most)
        assert rule is not None  # checked when the file was read
        levels = [evaluate_rule(rule, evidence.sizes_at(claim.panel, n), what="level") for n in ours]
        pairs = [(sign * values, sign * level) for values, level in zip(ours.values(), levels, strict=True)]
        means = span([float(values.mean()) for values in ours.values()])
        text = f"Means are {means} over {evidence.span_of_sizes(ours)}, against {span(levels)}"
        fails = any(mean_interval(*pair, len(pairs))[1] < 0 for pair in pairs)
        return _judged(text, holds=all(mean_interval(*pair)[0] > 0 for pair in pairs), fails=fails)


AnyTest = Annotated[
    Guarantee | ErrorRatio | GapShrinks | LargerThanIn | Level,
    Field(discriminator="kind"),
]


class Claim(Place):
    """A claim of a paper: what it says, where, and which study's results decide it by which test.

    The panel ``*`` makes a claim for each panel that ran; in its text, ``*`` is the panel's name.
    """

    id: str  # begins with the paper's key
    text: str
    where: str
    study: str
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

    def on_panels(self, evidence: Evidence | None) -> Iterator["Claim"]:
        if self.panel != "*" or evidence is None:
            yield self
            return
        there = set(evidence.results["panel"])
        for panel in (each.name for each in evidence.spec.panels if each.name in there):
            name, text = f"{self.id}-{panel.replace(' ', '-')}", self.text.replace("*", panel)
            yield self.model_copy(update={"id": name, "panel": panel, "text": text})

    def of(self, estimator: str, form: str = "") -> "Claim":
        """Return where another estimator's rows are, without steps."""
        return self.model_copy(update={"estimator": estimator, "form": form, "steps": None})


class Scorecard(Strict):
    title: str
    question: str
    papers: dict[str, str]  # key → name
    without_figures: tuple[str, ...] = ()  # papers that print no measurement
    claims: tuple[Claim, ...] = Field(min_length=1)

    @property
    def studies(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(claim.study for claim in self.claims))


def load_scorecard() -> Scorecard:
    plain = tomllib.loads(CLAIMS_FILE.read_text(encoding="utf-8"))
    try:
        return Scorecard(**plain)
    except ValidationError as error:
        raise SpecError(f"{CLAIMS_FILE.name}: {sentences(error)[0]}") from None
