"""The questions of an analysis plan, with targets for their half-widths, and what can be wrong in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import Any

from dpalgos.accounting.gaussian_dp import check_budget
from dpalgos.errors import InputError
from dpalgos.models.families import family_class

_KINDS = ("formula", "mean", "columns", "submodel")
_OF_SUBMODEL = {"name", "submodel", "formula"}
_LINEAR = "gaussian"


@dataclass(frozen=True, kw_only=True)
class Question:
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
    family: str = ""
    estimator: str = ""
    interval: float | None = 0.95
    precision: Mapping[str, float] = field(default_factory=dict)
    weight: float = 0.0
    bounds: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def declared(self) -> dict[str, Any]:
        """The fields that are stated, as plain data."""
        stated = {item.name: getattr(self, item.name) for item in fields(self)}
        plain = {key: dict(value) if isinstance(value, Mapping) else value for key, value in stated.items()}
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in plain.items() if value
        }

    def estimator_for(self, *, users: bool) -> str:
        """Return the name of the estimator: the stated one, or that of its kind for rows or users."""
        of_rows = "box_mean" if self.mean else "preconditioned_regression"
        if self.family not in ("", _LINEAR):
            of_rows = "preconditioned_glm"
        of_users = "user_level_mean" if self.mean else "user_level_regression"
        return self.estimator or (of_users if users else of_rows)

    def with_terms(self, terms: Sequence[str], categories: Sequence[str] = ()) -> Question:
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


@dataclass(frozen=True, kw_only=True)
class PlanTable:
    """A table of a plan: a file, and the questions that are its columns."""

    out: str
    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PlanQuestions:
    """Questions about one dataset, and the (ε, δ) of all their releases together."""

    epsilon: float
    delta: float
    questions: tuple[Question, ...]

    @property
    def released(self) -> tuple[Question, ...]:
        """The questions that cost something."""
        return tuple(each for each in self.questions if not each.submodel)


def question_of(plain: Mapping[str, Any]) -> Question:
    """Return a question whose parts were checked."""
    stated = dict(plain)
    mean = (stated["mean"],) if isinstance(stated.get("mean"), str) else tuple(stated.get("mean", ()))
    if "precision" in stated and not isinstance(stated["precision"], Mapping):
        stated["precision"] = {mean[0]: stated["precision"]}
    if "submodel" not in stated and "precision" not in stated:
        stated.setdefault("weight", 1.0)
    if stated.get("interval") == 0:
        stated["interval"] = None
    return Question(**{**stated, "mean": mean})


def faults_of(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is missing or wrong in a plan."""
    yield from _wrong_keys("the plan", content, {"plan", "question", "table"})
    plan = content.get("plan")
    if not isinstance(plan, Mapping) or not {"epsilon", "delta"} <= set(plan):
        yield "[plan] must state epsilon and delta, the budget of all questions together"
    else:
        yield from _wrong_keys("[plan]", plan, {"dataset", "data", "study", "epsilon", "delta"})
        try:
            check_budget(plan["epsilon"], plan["delta"])
        except InputError as error:
            yield f"[plan] {error}"
    questions, tables = content.get("question"), content.get("table", [])
    if not _are_tables(questions) or not questions:
        yield "the plan must have at least one [[question]], got none"
        return
    names = [each.get("name") for each in questions]
    for name in dict.fromkeys(map(repr, names)):
        if list(map(repr, names)).count(name) > 1:
            yield f"questions must differ in name, got {name} twice; rename one"
    by_name = {str(each.get("name")): each for each in questions}
    for number, each in enumerate(questions, 1):
        name = each.get("name")
        if not isinstance(name, str) or not name.strip(". ") or not name.isprintable() or "/" in name:
            yield f"name of question {number} must be visible text without '/', got {name!r}"
            continue
        yield from (f"question {name!r}: {fault}" for fault in _faults_of_question(each, by_name))
    for table in tables if _are_tables(tables) else [{}]:
        columns = table.get("columns")
        if (
            set(table) != {"out", "columns"}
            or not isinstance(table["out"], str)
            or not isinstance(columns, list)
        ):
            yield f"[[table]] must have out, a file, and columns, names of questions, got {dict(table)!r}"
        elif unknown := [each for each in columns if each not in names]:
            yield f"columns of table {table['out']!r} must be questions of the plan, got {unknown[0]!r}"


def _are_tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, Mapping) for each in value)


def _wrong_keys(where: str, plain: Mapping[str, Any], known: set[str]) -> Iterator[str]:
    for key in plain:
        if key not in known:
            yield f"{where} must have no key {key!r}; it may have {', '.join(sorted(known))}"


def _faults_of_question(plain: Mapping[str, Any], by_name: Mapping[str, Any]) -> Iterator[str]:
    if any(key.startswith("relative") for key in plain):
        yield _relative("relative half-widths")
        return
    yield from _wrong_keys("it", plain, {item.name for item in fields(Question)})
    kinds = [kind for kind in _KINDS if plain.get(kind) and not (kind == "formula" and plain.get("submodel"))]
    if len(kinds) != 1:
        yield f"it must have one of {', '.join(_KINDS)}, got {' and '.join(kinds) or 'none'}"
    if plain.get("columns") and not plain.get("estimator"):
        yield "estimator must be stated with columns, got none; see dpcost estimators"
    if (family := plain.get("family", _LINEAR)) != _LINEAR:
        try:
            family_class(family)
        except InputError as error:
            yield str(error)
    yield from _faults_of_settings(plain, by_name)
    if plain.get("submodel"):
        yield from _faults_of_submodel(plain, by_name)
    else:
        yield from _faults_of_target(plain)


def _faults_of_settings(plain: Mapping[str, Any], by_name: Mapping[str, Any]) -> Iterator[str]:
    for part in ("bounds", "params"):
        for key, value in dict(plain.get(part, {})).items():
            if key == "coef" or (isinstance(value, str) and value in by_name):
                yield (
                    f"it must not read the answer of another question, got {part}.{key} = {value!r}; release "
                    "it after the plan, with dpcost release"
                )


def _faults_of_submodel(plain: Mapping[str, Any], by_name: Mapping[str, Any]) -> Iterator[str]:
    larger = by_name.get(str(plain["submodel"]), {})
    if not larger.get("formula") or larger.get("submodel") or larger is plain:
        yield f"submodel must name a question with a formula that is released, got {plain['submodel']!r}"
    if not plain.get("formula"):
        yield "a submodel must have a formula, got none"
    if others := set(plain) - _OF_SUBMODEL:
        yield f"a submodel costs nothing and follows from {plain['submodel']!r}, so leave out {min(others)!r}"


def _faults_of_target(plain: Mapping[str, Any]) -> Iterator[str]:
    target, weight, level = plain.get("precision"), plain.get("weight", 1.0), plain.get("interval", 0.95)
    if not _is_number(level) or not (level == 0 or 0.5 <= level < 1):
        yield f"interval must be a confidence level from 0.5 to below 1, or 0 for none, got {level!r}"
    if not _is_number(weight) or not 0 < weight < inf:
        yield f"weight must be a positive number, got {weight!r}"
    if target is None:
        return
    means = plain.get("mean", ())
    one_mean = isinstance(means, str) or len(means) == 1
    targets = target if isinstance(target, Mapping) else {"": target}
    for value in targets.values():
        if isinstance(value, str):
            yield _relative(repr(value))
        elif not _is_number(value) or not 0 < value < inf:
            yield f"precision must be a positive half-width, got {value!r}"
    if not targets or (not isinstance(target, Mapping) and not one_mean and not isinstance(target, str)):
        yield f"precision must name its terms, got {target!r}; write e.g. precision = {{ age = 0.1 }}"
    if level == 0:
        yield "precision needs an interval, got interval = 0"


def _relative(what: str) -> str:
    return (
        f"precision must be a half-width in the units of the coefficient, got {what}: a target relative to "
        "the estimate depends on the data"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
