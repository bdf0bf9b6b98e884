"""A plan on data frames: forecasts on synthetic rows, and releases that one `dpalgos.Budget` counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from math import nan
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import PrivateAttr

from dpalgos.accounting.budget import Budget
from dpalgos.accounting.composition import Spending, spending
from dpalgos.api import estimate
from dpalgos.coefficients import frame_of
from dpalgos.errors import InputError, shown, unknown_name
from dpalgos.formula import fit
from dpalgos.formula.allowed import SURVIVAL, call_of, read_formula
from dpalgos.formula.columns import CategoryColumn, Declared, declared_columns, declared_rows
from dpalgos.params import check_settings
from dpalgos.release.checks import check_by_column, check_how_many, check_left_out
from dpalgos.release.noise_source import generator_of
from dpalgos.result import Result
from dpalgos.rows.sample import Sample
from tasks.advice.releases import SimulatedRelease, simulate_release
from tasks.errors import SpecError
from tasks.own_table.analyst_table import AnalystTable
from tasks.own_table.guesses import Guesses
from tasks.own_table.row_simulator import matters_most
from tasks.protocol.plan_file import check_nested_question, request_of, with_terms_of
from tasks.protocol.questions import PlanQuestion, QuestionSet
from tasks.protocol.split import Curve, likely_half_width, split_budget
from tasks.release.request import ReleaseRequest
from tasks.study.own_data import OwnData

_TABLES = 20
_FITS = {"": fit.ols, "logistic": fit.logit, "poisson": fit.poisson}
_OF_FILES = {"columns", "estimator", "form", "bounds", "survival", "table1", "weights"}
_DECLARED = ("bounds", "levels", "center", "scale")
_OF_MEANS = ("lower", "upper", "user_ids", "weights")
_INSTEAD = "the plan has one epsilon and delta"
_COLUMNS = (
    "question",
    "epsilon",
    "term",
    "half_width",
    "likely_half_width",
    "target",
    "no_interval",
    "guess",
)


class AnalysisPlan(QuestionSet):
    """Questions about one dataset, and the (ε, δ) of all their releases together.

    Examples
    --------
    >>> text = '''
    ... [plan]
    ... epsilon = 2.0
    ... delta = 1e-6
    ... [[question]]
    ... name = "mean age"
    ... mean = "age"
    ... precision = 0.5
    ... '''
    >>> plan = AnalysisPlan.from_toml(text, n_rows=5000, bounds={"age": (18, 90)})
    >>> list(plan.forecast()["question"])
    ['mean age']
    """

    _n_rows: int = PrivateAttr(default=0)
    _declared: Mapping[str, Any] = PrivateAttr(default_factory=dict)
    _guesses: Guesses = PrivateAttr(default_factory=Guesses)
    _epsilons: list[tuple[PlanQuestion, float]] | None = PrivateAttr(default=None)
    _simulated: dict[str, SimulatedRelease] = PrivateAttr(default_factory=dict)

    @classmethod
    def from_toml(
        cls,
        text: str | Mapping[str, Any],
        *,
        n_rows: int = 0,
        guesses: Mapping[str, Any] | None = None,
        **declared: Any,
    ) -> AnalysisPlan:
        """Read a plan from the text of a TOML file, or from its content as a dictionary.

        Parameters
        ----------
        text : str or mapping
        n_rows : int, optional
            The public number of rows; :meth:`forecast` and :meth:`release` need it.
        guesses : mapping, optional
            What is known of the columns without the data, as under ``[guesses]`` of a study file, e.g.
            ``{"mean": {"ill": 0.1}, "std": {"age": 12}}``. Forecasts simulate rows that agree with it. The
            more is stated, the narrower is a forecast.
        **declared
            ``bounds``, ``levels``, ``center`` and ``scale`` of columns, as of `dpalgos.formula.ols`.

        Raises
        ------
        InputError
            All that is wrong in the plan.
        """
        if unknown := [name for name in declared if name not in _DECLARED]:
            raise InputError(unknown_name("keyword", unknown[0], _DECLARED))
        by_column = {name: check_by_column(name, each) for name, each in declared.items()}
        n = check_how_many("n_rows", n_rows) if n_rows else 0
        stated = Guesses.read(check_by_column("guesses", guesses))
        return cls.read(text).with_declarations(n, by_column, stated)

    def with_declarations(self, n_rows: int, declared: Mapping[str, Any], guesses: Guesses) -> Self:
        """Set the public number of rows, the declarations of columns, and guesses about them."""
        self._n_rows, self._declared, self._guesses = n_rows, declared, guesses
        return self

    def forecast(self) -> Any:
        """Return a data frame with the ε of each question and the half-width of each term, without data.

        On nine of ten synthetic tables, half-widths are at most ``likely_half_width``. The column ``guess``
        names the guess that decides most of their spread.
        """
        rows = []
        for question, epsilon in self._split():
            simulated = self._simulated[question.name]
            for term, widths in simulated.half_widths(epsilon).items() if question.interval else ():
                middle, likely = np.median(widths), likely_half_width(self, widths)
                target, none = question.precision.get(term, nan), float(np.mean(np.isinf(widths)))
                guess = matters_most(simulated.drawn, widths)
                row = (question.name, epsilon, term, middle, likely, target, none, guess)
                rows.append(dict(zip(_COLUMNS, row, strict=True)))
        return frame_of(rows)

    def release(self, rows: Any, *, random_state: Any = None) -> dict[str, Any]:
        """Release all questions from a frame, and return their results by name.

        One :class:`dpalgos.Budget` counts them. No result is kept, and a second call spends again: publish
        with ``dpcost protocol release``.
        """
        if not hasattr(rows, "columns"):
            raise InputError(f"rows must be a data frame, got {shown(rows)}")
        if len(rows) != self._n_rows:
            raise InputError(f"rows must be the {self._n_rows} that were declared, got another number")
        budget = Budget(epsilon=self.epsilon, delta=self.delta, failure_delta=0.0)
        rng = generator_of(random_state)
        results: dict[str, Any] = {
            each.name: self._ask(each, rows, epsilon, rng, budget=budget) for each, epsilon in self._split()
        }
        for each in self.questions:
            if each.submodel:
                results[each.name] = results[each.submodel].submodel(each.formula)
        return {each.name: results[each.name] for each in self.questions}

    def _split(self) -> list[tuple[PlanQuestion, float]]:
        """Return the released questions with the ε of each, computed once."""
        if self._epsilons is None:
            self._epsilons = self._smallest_epsilons()
        return self._epsilons

    def _smallest_epsilons(self) -> list[tuple[PlanQuestion, float]]:
        """Return the released questions with the ε of each; refuse a plan that cannot be met."""
        if not self._n_rows:
            raise InputError("n_rows must be the public number of rows, got none; pass it to from_toml")
        curves, questions = {}, []
        try:
            for each in self.released:
                self._check_kind(each)
                request = self._request(each)
                self._simulated[each.name] = simulated = simulate_release(request, _TABLES)
                cost = partial(self._cost, each)
                curves[each.name] = Curve(half_widths=cache(simulated.half_widths), cost=cost)
                questions.append(with_terms_of(each, request))
            for each in self.questions:
                if each.submodel:
                    check_nested_question(each, self._simulated[each.submodel].request)
        except SpecError as error:
            raise InputError(f"question {each.name!r}: {error}") from None
        split = split_budget(self.model_copy(update={"questions": tuple(questions)}), curves)
        if split.refusal:
            simulators = [each.simulator for each in self._simulated.values()]
            open_guesses = dict.fromkeys(guess for each in simulators for guess in each.left_open())
            hint = f"; the forecast is wide because these guesses are not stated: {', '.join(open_guesses)}"
            raise InputError(split.refusal + hint * bool(open_guesses))
        return [(each, split.epsilons[each.name]) for each in questions]

    def _check_kind(self, question: PlanQuestion) -> None:
        """Refuse a question that only files can ask."""
        known = [*self._declared.get("bounds", ()), *self._declared.get("levels", ())]
        extra = [*question.declared.keys() & _OF_FILES]
        response = read_formula(question.formula, known).response if question.formula else ""
        is_time = bool(response) and call_of(response)[0] == SURVIVAL
        if extra or is_time:
            raise InputError(
                f"question {question.name!r} must be a formula of one response or a mean, without "
                f"{min(extra, default='Surv(…)')}; use dpcost protocol release"
            )
        if question.family not in _FITS or (question.mean and question.family):
            raise InputError(
                f"family of question {question.name!r} must be one of gaussian, logistic and poisson, of a "
                f"formula, got {question.family!r}"
            )
        bounds = self._declared.get("bounds", {})
        if unknown := [name for name in question.mean if name not in bounds]:
            raise InputError(f"mean must be of columns with bounds, got {unknown[0]!r}; pass its bounds")
        reserved = (*_DECLARED, "interval", "budget", "random_state", *(_OF_MEANS if question.mean else ()))
        check_settings(f"question {question.name!r}: params", question.params, _INSTEAD)
        check_left_out(question.params, *reserved)

    def _cost(self, question: PlanQuestion, epsilon: float) -> Spending:
        """Return the cost of a release on a frame, whose noise is not that of a release file."""
        simulated = self._simulated[question.name]
        results = (simulated.release(epsilon, number) for number in range(len(simulated.samples)))
        if (result := next(filter(None, results), None)) is None:
            raise InputError(f"question {question.name!r} is refused on all synthetic tables; use more rows")
        return spending(result.events)

    def _request(self, question: PlanQuestion) -> ReleaseRequest:
        """Return the request that a plan's file would make of a question, with levels of any type."""
        declared = {name: each for one in self.released for name, each in self._columns(one).items()}
        levels = {name: each.levels for name, each in declared.items() if isinstance(each, CategoryColumn)}
        columns: list[dict[str, Any]] = []
        for name, each in declared.items():
            facts = {key: getattr(each, key, None) for key in ("lower", "upper", "center", "scale")}
            facts = {"categories": tuple(map(str, levels[name]))} if name in levels else facts
            columns.append({"name": name, "source": "declared", **facts})
        content: Any = {"path": "frame", "rows": self._n_rows, "privacy_unit": "a row", "columns": columns}
        table = AnalystTable(**content)
        of_frame = tuple(replace(each, categories=levels.get(each.name, ())) for each in table.columns)
        own = OwnData(data=table, guesses=self._guesses)
        own = own.model_copy(update={"data": table.model_copy(update={"columns": of_frame})})
        return request_of(Path("plan"), self.model_copy(update={"dataset": "frame"}), question, own)

    def _columns(self, question: PlanQuestion) -> Declared:
        declared = {"bounds": {}, **self._declared}
        return declared_columns(question.family, question.formula, **declared)

    def _ask(
        self, question: PlanQuestion, rows: Any, epsilon: float, rng: np.random.Generator, **budget: Any
    ) -> Result:
        """Return the result of one question."""
        spent = {"epsilon": epsilon, "delta": self.delta, **question.params, **budget}
        if not question.mean:
            options = {"interval": question.interval, "random_state": rng, **self._declared, **spent}
            return _FITS[question.family](question.formula, rows, **options)
        columns = self._columns(question)
        lower, upper = ([getattr(columns[name], end) for name in question.mean] for end in ("lower", "upper"))
        keywords = {"lower": lower, "upper": upper, "noise": "gaussian", **spent}
        keywords |= {} if question.interval is None else {"interval": question.interval}
        declared_rows(rows, columns, question.mean)  # refuses what is not a number, and quotes no cell
        values = np.column_stack([np.asarray(rows[name], dtype=float) for name in question.mean])
        return estimate("box_mean", Sample(values), rng=rng, **keywords)
