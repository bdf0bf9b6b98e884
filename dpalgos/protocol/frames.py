"""A plan on data frames: forecasts on public rows, and releases that one `dpalgos.Budget` counts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import inf, nan
from typing import Any

import numpy as np

from dpalgos.accounting.budget import Budget
from dpalgos.accounting.composition import spending
from dpalgos.api import estimate
from dpalgos.coefficients import frame_of
from dpalgos.errors import InputError
from dpalgos.formula import fit
from dpalgos.formula.allowed import read_formula
from dpalgos.formula.columns import CategoryColumn, NumberColumn, public_rows
from dpalgos.protocol.questions import MEAN_SETTINGS, PlanQuestion, QuestionSet
from dpalgos.protocol.split import Curve, likely_half_widths, split_budget
from dpalgos.result import Result
from dpalgos.rows.sample import Sample
from dpalgos.typing import FloatArray

_TABLES = 20
_FITS = {"": fit.ols, "logistic": fit.logit, "poisson": fit.poisson}
_COLUMNS = ("question", "epsilon", "term", "half_width", "likely_half_width", "target", "no_interval")


@dataclass(frozen=True, eq=False, kw_only=True)
class PlanFrames:
    """A plan, and the public facts about its frame: the number of rows, and declarations of columns."""

    plan: QuestionSet
    n_rows: int
    declared: Mapping[str, Any]  # bounds, levels, center and scale

    def forecast(self) -> Any:
        """Return the ε of each question and the half-width to expect of each term, as a data frame."""
        rows = []
        for question, epsilon in self._split:
            for term, widths in self._half_widths(question, epsilon).items():
                middle, likely = np.median(widths), likely_half_widths(self.plan, widths[:, None], _TABLES)[0]
                target, none = question.precision.get(term, nan), float(np.mean(np.isinf(widths)))
                rows.append((question.name, epsilon, term, middle, likely, target, none))
        return frame_of([dict(zip(_COLUMNS, row, strict=True)) for row in rows])

    def release(self, rows: Any, random_state: Any) -> dict[str, Any]:
        """Return the results of all questions by name."""
        if len(rows) != self.n_rows:
            raise InputError(f"rows must be the {self.n_rows} that were declared, got another number")
        budget = Budget(epsilon=self.plan.epsilon, delta=self.plan.delta, failure_delta=0.0)
        rng, results = np.random.default_rng(random_state), dict[str, Any]()
        for question, epsilon in self._split:
            results[question.name] = self._ask(question, rows, epsilon, rng, budget=budget)
        for each in self.plan.questions:
            if each.submodel:
                results[each.name] = results[each.submodel].submodel(each.formula)
        return {each.name: results[each.name] for each in self.plan.questions}

    @cached_property
    def _split(self) -> list[tuple[PlanQuestion, float]]:
        """Return the released questions with the ε of each; refuse a plan that cannot be met."""
        levels, curves, questions = list(self.declared.get("levels", ())), {}, []
        for each in self.plan.released:
            curves[each.name] = self._curve(each)
            terms = list(curves[each.name].half_widths(self.plan.epsilon))
            questions.append(each.with_terms(terms, levels))
        split = split_budget(replace(self.plan, questions=tuple(questions)), curves)
        if split.refusal:
            raise InputError(split.refusal)
        return [(each, split.epsilons[each.name]) for each in questions]

    def _curve(self, question: PlanQuestion) -> Curve:
        @cache
        def half_widths(epsilon: float) -> dict[str, float]:
            widths = self._half_widths(question, epsilon)
            likely = likely_half_widths(self.plan, np.column_stack([*widths.values()]), _TABLES)
            return dict(zip(widths, likely.tolist(), strict=True))

        return Curve(
            half_widths=half_widths,
            cost=lambda epsilon: spending(self._simulated(question, epsilon, 0).events),
        )

    def _half_widths(self, question: PlanQuestion, epsilon: float) -> dict[str, FloatArray]:
        """Return half-widths by term on tables of public rows, (tables,), infinite without an interval."""
        results = (self._simulated(question, epsilon, seed) for seed in range(_TABLES))
        tables = [each.coefficients(question.mean or None) for each in results]
        widths = np.array([(each.limits[1] - each.limits[0]) / 2 for each in tables])
        return dict(zip(tables[0].terms, np.where(np.isnan(widths), inf, widths).T, strict=True))

    def _simulated(self, question: PlanQuestion, epsilon: float, seed: int) -> Result:
        rng = np.random.default_rng(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about intervals that made-up rows do not have
            return self._ask(question, self._public(question, rng), epsilon, rng)

    def _public(self, question: PlanQuestion, rng: np.random.Generator) -> dict[str, Any]:
        """Return synthetic rows with independent columns of the declared centers and scales."""
        center, scale = (self.declared.get(name, {}) for name in ("center", "scale"))
        declared: dict[str, NumberColumn | CategoryColumn] = {
            name: NumberColumn(low, high, center.get(name), scale.get(name))
            for name, (low, high) in self.declared.get("bounds", {}).items()
        }
        declared |= {
            name: CategoryColumn(tuple(each)) for name, each in self.declared.get("levels", {}).items()
        }
        left = read_formula(question.formula, declared).left if question.formula else ()
        if question.family == "logistic":
            declared = {**dict.fromkeys(left, NumberColumn(0, 1)), **declared}
        order, rows = rng.permutation(self.n_rows), public_rows(declared, self.n_rows)
        rows = {name: values[: self.n_rows][order] for name, values in rows.items()}
        for name in left:
            if question.family == "logistic" and isinstance(declared[name], NumberColumn):
                rows[name] = (rng.random(self.n_rows) < rows[name]).astype(float)
            if question.family == "poisson":
                rows[name] = rng.poisson(rows[name])
        return rows

    def _ask(
        self, question: PlanQuestion, rows: Any, epsilon: float, rng: np.random.Generator, **budget: Any
    ) -> Result:
        """Return the result of one question."""
        if question.columns or question.estimator or question.bounds:
            raise InputError(
                f"question {question.name!r} must be a formula or a mean without estimator and bounds; for "
                "others use dpcost protocol release"
            )
        spent = {"epsilon": epsilon, "delta": self.plan.delta, **question.params, **budget}
        if not question.mean:
            options = {"interval": question.interval, "random_state": rng, **self.declared, **spent}
            return _FITS[question.family](question.formula, rows, **options)
        bounds = self.declared.get("bounds", {})
        if unknown := [name for name in question.mean if name not in bounds]:
            raise InputError(f"mean must be of columns with bounds, got {unknown[0]!r}; pass its bounds")
        ends = zip(*(map(float, bounds[name]) for name in question.mean), strict=True)
        keywords: dict[str, Any] = dict(zip(("lower", "upper"), ends, strict=True))
        keywords |= {} if question.interval is None else {"interval": question.interval}
        values = np.column_stack([np.asarray(rows[name], dtype=float) for name in question.mean])
        return estimate("box_mean", Sample(values), rng=rng, **keywords, **{**MEAN_SETTINGS, **spent})
