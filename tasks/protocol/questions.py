"""The questions of an analysis plan, with targets for their half-widths, and what can be wrong in them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from data.columns import Text
from dpalgos.answers.names import find_name
from dpalgos.errors import InputError, shown
from dpalgos.models.families import family_class
from tasks.file_schema import Positive, Strict
from tasks.own_table.row_design import ReleaseColumns
from tasks.release.request import ReleaseQuestion

Name = Annotated[str, Field(pattern=r"^[^/.\s][^/\x00-\x1f]*$")]  # questions name folders
_BY_GROUP = "survival", "table1"
_RELATIVE = "a target relative to the estimate depends on the data"


class PlanQuestion(ReleaseQuestion):
    """One question of a plan: that of a release file, means, or a nested model; with targets.

    ``precision`` is the target half-width by term. Questions without a target divide what is left by
    ``weight``; ``weights`` names the column of the rows' weights. A ``test`` is a hypothesis about
    coefficients, such as ``age - 10 * smoker = 0``. A ``submodel`` names the question that it is nested in,
    and costs nothing; one of curves has their hazard ratios.
    """

    name: Name
    mean: Annotated[tuple[Text, ...], Field(min_length=1)] = ()
    submodel: str = ""
    family: str = ""  # of a generalized linear model
    estimator: str = ""
    form: str = ""  # of the estimator, if the study lists several
    interval: Annotated[float, Field(strict=True, ge=0.5, lt=1)] | None = 0.95
    precision: Annotated[dict[str, Positive], Field(min_length=1)] = Field(default={})
    weight: Positive | None = None  # of the question, when what is left of the budget is divided
    weights: str | None = None  # the study file's column for a regression; "": rows weigh the same
    test: tuple[Text, ...] = ()  # hypotheses about the coefficients of a formula, which cost nothing

    @model_validator(mode="before")
    @classmethod
    def _in_one_form(cls, plain: Any) -> Any:
        if not isinstance(plain, dict):
            return plain
        mean, target = plain.get("mean"), plain.get("precision")
        targets = target.values() if isinstance(target, dict) else [target]
        if any(key.startswith("relative") for key in plain) or any(isinstance(each, str) for each in targets):
            word = next((key for key in plain if key.startswith("relative")), f"precision = {target!r}")
            raise ValueError(f"precision must be positive half-widths, got {word}: {_RELATIVE}")
        mean = [mean] if isinstance(mean, str) else mean
        if isinstance(target, int | float):
            if not mean or len(mean) > 1:
                raise ValueError(f"precision must name its terms, got {target!r}; write e.g. {{ age = 0.1 }}")
            plain = {**plain, "precision": {mean[0]: target}}
        if isinstance(test := plain.get("test"), str):
            plain = {**plain, "test": [test]}
        plain = {**plain, "interval": plain.get("interval", 0.95) or None}
        return plain if mean is None else {**plain, "mean": mean}

    @field_validator("family")
    @classmethod
    def _is_known(cls, family: str) -> str:
        family_class(family)
        return family.replace("gaussian", "")

    @model_validator(mode="after")
    def _is_one_kind(self) -> PlanQuestion:
        kinds = [name for name in ("formula", "mean", *_BY_GROUP) if getattr(self, name)]
        kinds += ["columns"] * self.has_columns
        if self.submodel and (others := [*self.declared.keys() - {"name", "submodel", "formula", "test"}]):
            raise ValueError(f"a submodel costs nothing, so leave out {min(others)!r}")
        if len(kinds) != 1 or (self.submodel and not self.formula):
            got = " and ".join(kinds) or "none"
            raise ValueError(
                "it must have one of formula, mean, survival, table1 and columns; a submodel a formula; "
                f"got {got}"
            )
        if self.weights is not None and not self.formula:
            raise ValueError(f"weights must be of a question with a formula, got {self.weights!r}")
        if self.has_columns and not self.estimator:
            raise ValueError("estimator must be stated with columns, got none; see dpcost estimators")
        if self.precision and self.interval is None:
            raise ValueError("precision needs an interval, got interval = 0")
        if self.test and (not self.formula or self.interval is None):
            raise ValueError("test must be of a question with a formula and an interval, got another")
        return self

    @property
    def has_columns(self) -> bool:
        """Whether columns are stated, as in a release file."""
        return self.columns != ReleaseColumns()

    @property
    def declared(self) -> dict[str, Any]:
        """The fields that are stated, as plain data."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @property
    def share(self) -> float:
        """The weight by which the question gets a part of what targets leave; 0 for none."""
        return self.weight or float(not self.precision and not self.submodel)

    def with_terms(
        self, terms: Sequence[str], categories: Sequence[str] = (), columns: Sequence[str] = ()
    ) -> PlanQuestion:
        """Return the question with targets by the names of its terms; refuse a term that it lacks.

        A category may be written ``C(name)`` or ``name``, and a name of ``columns`` in quotes. The factors of
        an interaction may have another order.
        """

        def plain(term: str) -> str:
            for name in categories:
                for written in (name, f"Q('{name}')", f'Q("{name}")', f"`{name}`"):
                    term = term.replace(f"C({written})", name)
            return term

        targets: dict[str, float] = {}
        for text, target in self.precision.items():
            if ends := [each for each in terms if self.survival and _is_time(text, each)]:
                targets |= dict.fromkeys(ends, target)
                continue
            meant = [
                term
                for term in terms
                if find_name(
                    plain(text), {":".join(each) for each in permutations(plain(term).split(":"))}, columns
                )
            ]
            if len(meant) != 1 or meant[0] in targets:
                several = ", whose term has a target already" if meant and meant[0] in targets else ""
                raise InputError(
                    f"precision must be for one of {', '.join(terms) or 'no numbers'}, got {text!r}{several}"
                )
            targets[meant[0]] = target
        return self.model_copy(update={"precision": targets})


def _is_time(text: str, term: str) -> bool:
    """Return whether a text is the time of a term of survival, in all groups."""
    try:
        return float(text) == float(term.rpartition("at ")[2])
    except ValueError:
        return False


class PlanTable(Strict):
    """A table of a plan: a file, and the questions that are its columns."""

    out: Text
    columns: Annotated[tuple[str, ...], Field(min_length=1)]
    by: str = ""  # a category of the questions' formulas: the table has the means of its levels


class QuestionSet(Strict):
    """Questions about one dataset, and the (ε, δ) of all their releases together."""

    epsilon: Positive
    delta: Annotated[float, Field(strict=True, gt=0, le=0.01)]
    dataset: Text = ""
    data: Text = ""
    study: Text = ""
    questions: Annotated[tuple[PlanQuestion, ...], Field(alias="question", min_length=1)]
    tables: tuple[PlanTable, ...] = Field(default=(), alias="table")

    @model_validator(mode="after")
    def _agrees(self) -> QuestionSet:
        if faults := list(self._contradictions()):
            raise ValueError("; ".join(faults))
        return self

    def _contradictions(self) -> Iterator[str]:
        names = [each.name for each in self.questions]
        for name in dict.fromkeys(each for each in names if names.count(each) > 1):
            yield f"questions must differ in name, got {name!r} twice; rename one"
        first: dict[str, str] = {}
        for each in self.questions:
            content = repr(sorted(each.model_dump(exclude={"name"}).items()))
            if (other := first.setdefault(content, each.name)) != each.name:
                yield f"question {each.name!r} must differ from {other!r}, got the same twice; take one out"
        for each in self.questions:
            larger = [
                one for one in self.released if one.name == each.submodel and (one.formula or one.survival)
            ]
            if each.submodel and not larger:
                yield (
                    f"question {each.name!r}: submodel must be a released formula or survival, got "
                    f"{each.submodel!r}"
                )
            if each.test and larger and larger[0].survival:
                yield f"question {each.name!r}: test must be of a regression, got a submodel of curves"
            for key, value in {**each.bounds, **each.params}.items():
                if key == "coef" or (key in each.bounds and isinstance(value, str) and value in names):
                    yield (
                        f"question {each.name!r} must not read the estimate of another question, got {key} = "
                        f"{value!r}; ask it after the plan, with dpcost release"
                    )
        for name in (each.name for each in self.questions if each.survival or each.table1):
            for table in self.tables:
                if name in table.columns and (len(table.columns) > 1 or table.by):
                    yield f"table {table.out!r} must have {name!r} alone, which is a table of its own"
        for unknown in (name for table in self.tables for name in table.columns if name not in names):
            yield f"columns of a table must be questions of the plan, got {unknown!r}"

    @property
    def released(self) -> tuple[PlanQuestion, ...]:
        """The questions that cost something."""
        return tuple(each for each in self.questions if not each.submodel)

    @classmethod
    def read(cls, text: str | Mapping[str, Any]) -> Self:
        """Read a plan from the text of a TOML file, or from its content; refuse all that is wrong in it."""
        try:
            if not isinstance(text, str | Mapping):
                raise InputError(f"the plan must be text or a dictionary, got {shown(text)}")
            content = tomllib.loads(text) if isinstance(text, str) else dict(text)
            if not isinstance(head := content.pop("plan", None), dict) or not content.get("question"):
                raise InputError("the plan must have [plan], and at least one [[question]]")
            return cls.model_validate({**head, **content})
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"the plan is not TOML: {error}; correct it there") from None
        except ValidationError as error:
            raise InputError("; ".join(_sentences(error, content))) from None


def _sentences(error: ValidationError, content: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong in a plan, with the name of the question."""
    for each in error.errors():
        if each["type"] == "too_short" and each["input"]:  # its parts are refused
            continue
        part, number, *keys = (*each["loc"], None, None)[: max(2, len(each["loc"]))]
        where = f"[[{part}]]" if part in ("question", "table") else f"[plan] {part or ''}".rstrip()
        if part == "question" and isinstance(number, int):
            question = content["question"][number]
            where = f"question {question.get('name', number + 1)!r}" if isinstance(question, dict) else where
        message = f"{each['msg']}, got {each['input']!r:.60}"
        if each["type"] == "missing":
            message = "must be stated, got none"
        elif each["type"] == "value_error":
            message = each["msg"].removeprefix("Value error, ")
        yield ": ".join([where, *([repr(".".join(map(str, keys)))] if keys else []), message])
