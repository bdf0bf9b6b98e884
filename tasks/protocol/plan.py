"""A plan on data frames: forecasts on synthetic rows, and releases that one `dpalgos.Budget` counts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cache, partial
from math import inf, nan
from typing import Any, Self

import numpy as np
from pydantic import PrivateAttr

from dpalgos.accounting.budget import Budget
from dpalgos.accounting.composition import spending
from dpalgos.answers.contrasts import check_hypotheses
from dpalgos.api import estimate
from dpalgos.coefficients import frame_of
from dpalgos.errors import InputError, shown, unknown_name
from dpalgos.formula import fit
from dpalgos.formula.allowed import SURVIVAL, call_of, read_formula
from dpalgos.formula.columns import CategoryColumn, Declared, NumberColumn, declared_columns, declared_rows
from dpalgos.formula.design import design_of
from dpalgos.formula.nested import check_nested
from dpalgos.params import check_settings
from dpalgos.release.checks import check_by_column, check_how_many, check_left_out
from dpalgos.release.noise_source import generator_of
from dpalgos.result import Result
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray
from tasks.own_table.guesses import Guesses
from tasks.own_table.row_simulator import (
    STUDIED,
    RowSimulator,
    SimulatedTable,
    matters_most,
    table_count,
)
from tasks.protocol.questions import PlanQuestion, QuestionSet
from tasks.protocol.split import Curve, likely_half_width, split_budget

_TABLES, _SEED = 20, 1
_FITS = {"": fit.ols, "logistic": fit.logit, "poisson": fit.poisson}
_OF_FILES = {"columns", "estimator", "form", "bounds", "survival", "table1", "weights"}
_DECLARED = ("bounds", "levels", "center", "scale")
_OF_MEANS = ("lower", "upper", "user_ids", "weights")
_INSTEAD = "the plan has one epsilon and delta"
_COLUMNS = ("question", "epsilon", "term", "half_width", "likely_half_width", "target", "no_interval")


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
    _simulated_tables: dict[str, Sequence[SimulatedTable]] = PrivateAttr(default_factory=dict)

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
        return cls.read(text).about(n, by_column, Guesses.read(check_by_column("guesses", guesses)))

    def about(self, n_rows: int, declared: Mapping[str, Any], guesses: Guesses) -> Self:
        """Set the public number of rows, the declarations of columns, and guesses about them."""
        self._n_rows, self._declared, self._guesses = n_rows, declared, guesses
        self._epsilons, self._simulated_tables = None, {}
        return self

    def forecast(self) -> Any:
        """Return a data frame with the ε of each question and the half-width of each term, without data.

        On nine of ten synthetic tables, half-widths are at most ``likely_half_width``. The column ``guess``
        names the guess that decides most of their spread.
        """
        rows = []
        for question, epsilon in self._split():
            drawn = [each.drawn for each in self._tables(question)]
            for term, widths in self._half_widths(question, epsilon).items():
                middle, likely = np.median(widths), likely_half_width(self, widths)
                target, none = question.precision.get(term, nan), float(np.mean(np.isinf(widths)))
                row = (question.name, epsilon, term, middle, likely, target, none)
                rows.append({**dict(zip(_COLUMNS, row, strict=True)), "guess": matters_most(drawn, widths)})
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
        for each in self.released:
            self._check_kind(each)
            widths = cache(partial(self._half_widths, each))
            curves[each.name] = Curve(half_widths=widths, cost=partial(self._cost, each))
            known = [*self._declared.get("levels", ())], [*self._declared.get("bounds", ())]
            terms = [*widths(self.epsilon)]
            for test in each.test:
                check_hypotheses("test", test, terms, known[0] + known[1])
            questions.append(each.with_terms(terms, known[0], known[0] + known[1]))
        split = split_budget(self.model_copy(update={"questions": tuple(questions)}), curves)
        if split.refusal:
            open_guesses = {guess: None for each in questions for guess in self._simulator(each).left_open()}
            hint = f"; the forecast is wide because these guesses are not stated: {', '.join(open_guesses)}"
            raise InputError(split.refusal + hint * bool(open_guesses))
        for each in self.questions:
            if each.submodel:
                (larger,) = (one for one in self.released if one.name == each.submodel)
                check_nested(design_of(larger.formula, self._columns(larger)), each.formula)
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

    def _cost(self, question: PlanQuestion, epsilon: float) -> Any:
        result = self._simulated(question, epsilon, 0)
        assert result is not None
        return spending(result.events)

    def _half_widths(self, question: PlanQuestion, epsilon: float) -> dict[str, FloatArray]:
        """Return half-widths by term on synthetic tables, (tables,), infinite without an interval."""
        results = [
            self._simulated(question, epsilon, number) for number in range(len(self._tables(question)))
        ]
        tables = [each.coefficients(question.mean or None) if each else None for each in results]
        terms = next(each.terms for each in tables if each)
        widths = np.full((len(tables), len(terms)), inf)
        for row, each in zip(widths, tables, strict=True):
            if each:
                row[:] = (each.limits[1] - each.limits[0]) / 2
        return dict(zip(terms, np.where(np.isnan(widths), inf, widths).T, strict=True))

    def _simulated(self, question: PlanQuestion, epsilon: float, number: int) -> Result | None:
        """Return the result of a question on a synthetic table; None if it is refused."""
        rng = np.random.default_rng(number)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about intervals that synthetic rows do not have
            try:
                return self._ask(question, self._tables(question)[number].rows, epsilon, rng)
            except InputError:
                if number == 0:
                    raise
                return None

    def _tables(self, question: PlanQuestion) -> Sequence[SimulatedTable]:
        """Return synthetic tables of a question, the same at every ε."""
        if question.name not in self._simulated_tables:
            simulator, n_rows = self._simulator(question), self._n_rows
            rngs = [np.random.default_rng([_SEED, number]) for number in range(table_count(_TABLES, n_rows))]
            self._simulated_tables[question.name] = [simulator.draw(n_rows, None, rng) for rng in rngs]
        return self._simulated_tables[question.name]

    def _simulator(self, question: PlanQuestion) -> RowSimulator:
        """Return the simulator of a question's rows. The response depends on the terms of the formula.

        If the response is computed from several columns, its columns do not depend on the others.
        """
        columns = self._columns(question)
        categories = {name: each.levels for name, each in columns.items() if isinstance(each, CategoryColumn)}
        names = {name for each in self.released for name in self._columns(each)}
        guesses = self._guesses.check(categories, names)
        covariates, about = question.mean, dict[str, Any]()
        if question.formula:
            design = design_of(question.formula, columns)
            left, covariates = design.reading.left, design.reading.right
            if len(left) != 1 or left[0] in covariates:
                covariates = tuple(design.declared)
            else:
                about = {"response": left[0], "response_column": columns[left[0]], "formula": design}
                if isinstance(event := columns[left[0]], CategoryColumn):
                    about |= {"response_column": NumberColumn(0.0, 1.0), "event": event.levels[:2]}
                about |= {"family": question.family, "offset": design.covariates[0] if design.offset else ""}
        declared = {name: columns[name] for name in covariates}
        return RowSimulator(declared=declared, guesses=guesses, usual=STUDIED, **about)

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
