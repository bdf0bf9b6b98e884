"""A plan on data frames: forecasts on public rows, and releases that one `dpalgos.Budget` counts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from typing import Any

import numpy as np

from dpalgos.accounting.budget import Budget
from dpalgos.accounting.composition import Spending, spending
from dpalgos.api import estimate
from dpalgos.coefficients import frame_of
from dpalgos.errors import InputError
from dpalgos.formula import fit
from dpalgos.formula.allowed import read_formula
from dpalgos.formula.columns import CategoryColumn, NumberColumn, public_rows
from dpalgos.protocol.questions import PlanQuestions, Question
from dpalgos.protocol.split import Curve, split_budget
from dpalgos.result import Result
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

_TABLES = 20
_UPPER = 0.95  # of half-widths on public rows
_FITS = {"": fit.ols, "gaussian": fit.ols, "logistic": fit.logit, "poisson": fit.poisson}


@dataclass(frozen=True, eq=False, kw_only=True)
class FrameDeclarations:
    """The public facts about a frame: its number of rows, and bounds, levels and units of its columns."""

    n_rows: int
    declared: Mapping[str, Any]

    def forecast(self, plan: PlanQuestions) -> Any:
        """Return the ε and the expected half-width of each term of a plan, as a data frame."""
        rows = []
        for name, epsilon in self.split(plan).items():
            question = next(each for each in plan.released if each.name == name)
            for term, widths in self._half_widths(question, plan.delta, epsilon).items():
                middle, upper = np.quantile(widths, [0.5, _UPPER], method="inverted_cdf")
                target = question.precision.get(term, np.nan)
                rows.append((name, epsilon, term, middle, upper, target, float(np.mean(np.isinf(widths)))))
        columns = ("question", "epsilon", "term", "half_width", "upper_half_width", "target", "no_interval")
        return frame_of(dict(zip(columns, zip(*rows, strict=True), strict=True)))

    def split(self, plan: PlanQuestions) -> dict[str, float]:
        """Return the ε of each question; refuse a plan that cannot be met."""
        curves = {each.name: self._curve(plan, each) for each in plan.released}
        levels = list(self.declared.get("levels", ()))
        questions = (
            each.with_terms(list(curves[each.name].half_widths(plan.epsilon)), levels)
            if each.precision
            else each
            for each in plan.questions
        )
        split = split_budget(replace(plan, questions=tuple(questions)), curves)
        if split.refusal:
            raise InputError(split.refusal)
        return dict(split.epsilons)

    def release(self, plan: PlanQuestions, rows: Any, random_state: Any) -> dict[str, Any]:
        """Return the results of all questions by name."""
        if len(rows) != self.n_rows:
            raise InputError(f"rows must be the {self.n_rows} declared ones, got another number")
        budget = Budget(epsilon=plan.epsilon, delta=plan.delta, failure_delta=0.0)
        rng = np.random.default_rng(random_state)
        found: dict[str, Any] = {}
        for name, epsilon in self.split(plan).items():
            question = next(each for each in plan.released if each.name == name)
            found[name] = self._fit(question, rows, epsilon, plan.delta, rng, budget=budget)
        for each in plan.questions:
            if each.submodel:
                found[each.name] = found[each.submodel].submodel(each.formula)
        return {each.name: found[each.name] for each in plan.questions}

    def _curve(self, plan: PlanQuestions, question: Question) -> Curve:
        @cache
        def likely(epsilon: float) -> dict[str, float]:
            widths = self._half_widths(question, plan.delta, epsilon)
            return {
                term: float(np.quantile(each, _UPPER, method="inverted_cdf")) for term, each in widths.items()
            }

        def cost(epsilon: float) -> Spending:  # events never depend on the rows
            return spending(self._simulated(question, plan.delta, epsilon, 0).events)

        return Curve(half_widths=likely, cost=cost)

    def _columns(self, question: Question) -> dict[str, NumberColumn | CategoryColumn]:
        """Return the declared columns; an undeclared event is 0 or 1."""
        stated = {name: self.declared.get(name, {}) for name in ("bounds", "levels", "center", "scale")}
        found: dict[str, NumberColumn | CategoryColumn] = {
            name: NumberColumn(low, high, stated["center"].get(name), stated["scale"].get(name))
            for name, (low, high) in stated["bounds"].items()
        }
        found |= {name: CategoryColumn(tuple(levels)) for name, levels in stated["levels"].items()}
        if question.family == "logistic":
            found = dict.fromkeys(read_formula(question.formula, found).left, NumberColumn(0, 1)) | found
        return found

    def _public(self, question: Question, rng: np.random.Generator) -> dict[str, Any]:
        """Return made-up rows: each column has its declared center and scale, and explains no other."""
        declared = self._columns(question)
        order = rng.permutation(self.n_rows)
        rows = {
            name: values[: self.n_rows][order] for name, values in public_rows(declared, self.n_rows).items()
        }
        for name in read_formula(question.formula, declared).left if question.formula else ():
            if question.family == "logistic" and isinstance(declared[name], NumberColumn):
                rows[name] = (rng.random(self.n_rows) < rows[name]).astype(float)
            if question.family == "poisson":
                rows[name] = rng.poisson(rows[name])
        return rows

    def _fit(
        self,
        question: Question,
        rows: Any,
        epsilon: float,
        delta: float,
        rng: np.random.Generator,
        **budget: Any,
    ) -> Result:
        if question.columns or question.estimator:
            raise InputError(
                f"question {question.name!r} must be a formula or a mean without an estimator; for others "
                "use dpcost protocol release"
            )
        spent = {"epsilon": epsilon, "delta": delta, **budget}
        if question.mean:
            if unknown := [name for name in question.mean if name not in self.declared.get("bounds", {})]:
                raise InputError(f"mean must be of columns with bounds, got {unknown[0]!r}; pass its bounds")
            lower, upper = zip(*(self.declared["bounds"][name] for name in question.mean), strict=True)
            bounds = {"lower": tuple(map(float, lower)), "upper": tuple(map(float, upper))}
            values = np.column_stack([np.asarray(rows[name], dtype=float) for name in question.mean])
            level = {} if question.interval is None else {"interval": question.interval}
            return estimate(
                "box_mean", Sample(values), rng=rng, **bounds, **level, **question.params, **spent
            )
        options = {**question.params, **self.declared, **spent}
        return _FITS[question.family](
            question.formula, rows, interval=question.interval, random_state=rng, **options
        )

    def _simulated(self, question: Question, delta: float, epsilon: float, seed: int) -> Result:
        rng = np.random.default_rng(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about intervals that simulated rows do not have
            return self._fit(question, self._public(question, rng), epsilon, delta, rng)

    def _half_widths(self, question: Question, delta: float, epsilon: float) -> dict[str, FloatArray]:
        """Return half-widths by term on tables of public rows, (tables,), infinite without an interval."""
        found = []
        for seed in range(_TABLES):
            result = self._simulated(question, delta, epsilon, seed)
            table = result.coefficients(question.mean or None)
            low, high = table.ends
            found.append(np.where(np.isfinite(high - low), (high - low) / 2, inf))
        return dict(zip(table.terms, np.transpose(found), strict=True))
