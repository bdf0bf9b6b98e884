"""The questions of an analysis plan, with targets for their half-widths, and what can be wrong in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import Any

from dpalgos.errors import InputError
from dpalgos.models.families import family_class


@dataclass(frozen=True, kw_only=True)
class PlanQuestion:
    """One question of a plan: a regression by formula, means, other columns of a release, or a nested model.

    ``precision`` is the target half-width by term. Questions without a target divide what is left by
    ``weight``. A ``submodel`` names the question that it is nested in, and costs nothing. ``columns``,
    ``bounds`` and ``params`` are those of a release file.
    """

    name: str
    formula: str = ""
    mean: tuple[str, ...] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)
    submodel: str = ""
    family: str = ""  # of a generalized linear model
    estimator: str = ""
    interval: float | None = 0.95
    precision: Mapping[str, float] = field(default_factory=dict)
    weight: float = 0.0
    bounds: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def declared(self) -> dict[str, Any]:
        """The fields that are stated, as plain data."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        kinds = ((Mapping, dict), (tuple, list))
        for key, value in values.items():
            values[key] = next((plain(value) for kind, plain in kinds if isinstance(value, kind)), value)
        return {key: value for key, value in values.items() if value}

    def estimator_for(self, *, users: bool) -> str:
        """Return the name of the estimator: the stated one, or that of its kind for rows or users."""
        of_users = "user_level_mean" if self.mean else "user_level_regression"
        of_rows = "preconditioned_glm" if self.family else "preconditioned_regression"
        return self.estimator or (of_users if users else "box_mean" if self.mean else of_rows)

    def with_terms(self, terms: Sequence[str], categories: Sequence[str] = ()) -> PlanQuestion:
        """Return the question with targets by the names of its terms; refuse a term that it lacks.

        A category may be written ``C(name)`` or ``name``.
        """

        def plain(term: str) -> str:
            for name in categories:
                term = term.replace(f"C({name})", name)
            return term

        known = {plain(term): term for term in terms}
        for term in self.precision:
            if plain(term) not in known:
                raise InputError(f"precision must be for one of {', '.join(terms)}, got {term!r}")
        targets = {known[plain(term)]: target for term, target in self.precision.items()}
        return replace(self, precision=targets)


# Means have Gaussian noise in a plan: next to Gaussian releases, pure ε costs many times as much.
MEAN_SETTINGS: Mapping[str, Any] = {"noise": "gaussian"}


@dataclass(frozen=True, kw_only=True)
class PlanTable:
    """A table of a plan: a file, and the questions that are its columns."""

    out: str
    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class QuestionSet:
    """Questions about one dataset, and the (ε, δ) of all their releases together."""

    epsilon: float
    delta: float
    questions: tuple[PlanQuestion, ...]

    @property
    def released(self) -> tuple[PlanQuestion, ...]:
        """The questions that cost something."""
        return tuple(each for each in self.questions if not each.submodel)


def question_of(plain: Mapping[str, Any]) -> PlanQuestion:
    """Return a question whose parts were checked."""
    mean = plain.get("mean", ())
    settings = {"weight": 0.0 if {"submodel", "precision"} & set(plain) else 1.0, **plain}
    settings["mean"] = (mean,) if isinstance(mean, str) else tuple(mean)
    if _is_positive(settings.get("precision")):
        settings["precision"] = {settings["mean"][0]: settings["precision"]}
    settings["interval"] = settings.get("interval", 0.95) or None
    settings["family"] = settings.get("family", "").replace("gaussian", "")
    return PlanQuestion(**settings)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip(". ")) and value.isprintable()


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < inf


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_text, value))


def _is_family(value: Any) -> bool:
    try:
        return bool(_is_text(value) and family_class(value))
    except InputError:
        return False


_RELATIVE = "a target relative to the estimate depends on the data"
# What each key of a part must be.
_PARTS = dict.fromkeys(("plan", "question", "table"), (lambda _: True, ""))
_PLAN = {
    "epsilon": (_is_positive, "a positive number"),
    "delta": (lambda value: _is_positive(value) and value < 1, "a number above 0 and below 1"),
    **dict.fromkeys(("dataset", "data", "study"), (_is_text, "text")),
}
_TABLE = {"out": (_is_text, "the name of a file"), "columns": (_are_texts, "names of questions")}
_QUESTION = {
    "name": (lambda value: _is_text(value) and "/" not in value, "text without '/'"),
    **dict.fromkeys(("formula", "submodel", "estimator"), (_is_text, "text")),
    "mean": (lambda value: _is_text(value) or _are_texts(value), "a column, or a list of columns"),
    **dict.fromkeys(("columns", "bounds", "params"), (_is_table, "a table")),
    "family": (_is_family, "a family of a generalized linear model"),
    "interval": (
        lambda value: value == 0 or (_is_positive(value) and 0.5 <= value < 1),
        "a confidence level from 0.5 to below 1, or 0 for none",
    ),
    "precision": (
        lambda value: (
            _is_positive(value) or (_is_table(value) and value and all(map(_is_positive, value.values())))
        ),
        f"positive half-widths in the units of the coefficients ({_RELATIVE})",
    ),
    "weight": (_is_positive, "a positive number"),
}


def faults_of(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is missing or wrong in a plan."""
    plan: Any = content.get("plan")
    questions, tables = content.get("question"), content.get("table", [])
    parts = [[plan], questions, tables]
    if not all(isinstance(part, list) and all(map(_is_table, part)) for part in parts) or not questions:
        yield "the plan must have [plan], at least one [[question]], and [[table]] where tables are wanted"
        return
    yield from _wrong_values("the plan", content, _PARTS)
    yield from _wrong_values("[plan]", plan, _PLAN)
    if missing := {"epsilon", "delta"} - set(plan):
        yield f"[plan] must state epsilon and delta, of all questions together; add {min(missing)}"
    names = [each.get("name") for each in questions]
    by_name = {str(each.get("name")): each for each in reversed(questions)}
    for name in by_name:
        if names.count(name) > 1:
            yield f"questions must differ in name, got {name!r} twice; rename one"
    for number, each in enumerate(questions, 1):
        where = f"question {each.get('name', number)!r}"
        wrong = list(_wrong_values(where, each, _QUESTION))
        yield from wrong or (f"{where}: {fault}" for fault in _faults_of_question(each, by_name))
    for each in tables:
        yield from _wrong_values("[[table]]", each, _TABLE)
        if unknown := [name for name in each.get("columns", ()) if name not in names]:
            yield f"columns of a table must be questions of the plan, got {unknown[0]!r}"


def _wrong_values(where: str, plain: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[str]:
    for key, value in plain.items():
        if key.startswith("relative"):
            yield f"{where}: {key} must be a precision instead: {_RELATIVE}"
        elif key not in expected:
            yield f"{where} must have no {key!r}; it may have {', '.join(expected)}"
        elif not expected[key][0](value):
            yield f"{where}: {key} must be {expected[key][1]}, got {value!r}"


def _faults_of_question(plain: Mapping[str, Any], by_name: Mapping[str, Any]) -> Iterator[str]:
    """Yield contradictions among the values of a question; each value by itself is valid."""
    if "name" not in plain:
        yield "name must be stated, got none"
    if larger := plain.get("submodel"):
        one = by_name.get(larger, {})
        if "formula" not in one or "submodel" in one or "formula" not in plain:
            yield f"submodel must name a released question with a formula, and have its own, got {larger!r}"
        if others := set(plain) - {"name", "submodel", "formula"}:
            yield f"a submodel follows from {larger!r} and costs nothing, so leave out {min(others)!r}"
        return
    if len(kinds := {"formula", "mean", "columns"} & set(plain)) != 1:
        yield f"it must have one of formula, mean, columns and submodel, got {' and '.join(kinds) or 'none'}"
    if "columns" in plain and "estimator" not in plain:
        yield "estimator must be stated with columns, got none; see dpcost estimators"
    for key, value in {**plain.get("bounds", {}), **plain.get("params", {})}.items():
        if key == "coef" or (isinstance(value, str) and value in by_name):
            yield (
                f"it must not read the estimate of another question, got {key} = {value!r}; ask it after the "
                "plan, with dpcost release"
            )
    target, mean = plain.get("precision"), plain.get("mean", ())
    if _is_positive(target) and not (isinstance(mean, str) or len(mean) == 1):
        yield f"precision must name its terms, got {target!r}; write e.g. precision = {{ age = 0.1 }}"
    if target and plain.get("interval") == 0:
        yield "precision needs an interval, got interval = 0"
