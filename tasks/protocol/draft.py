"""A study file and a plan while a person writes them: plain data, and the files that commands read."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import count
from pathlib import Path
from typing import Any

import tomli_w

from data.columns import Marks
from data.store.folders import atomic_write, sha256_file
from data.tables.schema import table_schema
from data.tables.sources import Source, name_of, source_of
from tasks.errors import SpecError
from tasks.own_table.typed import OPEN, number_of, numbers_of
from tasks.study.own_data import checked_data, read_toml

_FORMATS = ("docx", "tex", "md", "csv")
_BY_TABLE = {"models": "formula", "means": "mean"}


KINDS = {
    "regression": "Regression",
    "table1": "Baseline table",
    "survival": "Survival curves",
    "hazard": "Hazard ratios",
    "mean": "Mean of a column",
}
_OF_COLUMNS = ("table1", "survival", "mean")  # kinds whose text is no formula of a model


@dataclass(frozen=True, kw_only=True)
class QuestionDraft:
    """A question as a person states it; what does not belong to its kind is left out."""

    kind: str
    formula: str
    family: str = ""
    target: str = "robust"  # of the intervals of a linear regression
    events: str = "first"  # of a person, whose hazards are compared
    test: str = ""
    submodel: str = ""  # the question in which it is nested
    has_interval: bool = True

    def named(self, others: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the question as a plan has it, under a name that no other question has."""
        taken, title = {each["name"] for each in others}, KINDS[self.kind].lower()
        names = (title if number == 1 else f"{title} {number}" for number in count(1))
        question: dict[str, Any] = {"name": next(name for name in names if name not in taken)}
        if not self.has_interval and not self.submodel:
            question["interval"] = 0
        if self.kind in _OF_COLUMNS:
            return question | {self.kind: self.formula.strip()}
        question["formula"] = self.formula.strip()
        if self.submodel:
            question["submodel"] = self.submodel
        elif self.kind == "regression":
            question |= (
                {"family": self.family} if self.family else {"params": {"interval_target": self.target}}
            )
        elif self.kind == "hazard" and self.events != "first":
            question["params"] = {"events": self.events}
        has_test = self.test.strip() and "interval" not in question
        return question | ({"test": [self.test.strip()]} if has_test else {})


def text_of_question(question: Mapping[str, Any]) -> str:
    """Return a question as one line."""
    text = next(str(question[key]) for key in ("formula", *_OF_COLUMNS) if key in question)
    targets = [f"{term} within ± {width}" for term, width in question.get("precision", {}).items()]
    about = question.get("family") or ("submodel" in question and f"nested in {question['submodel']}")
    targets += ["without an interval"] * (question.get("interval") == 0)
    return "; ".join([f"{text} ({about})" if about else text, *targets])


@dataclass
class Draft:
    """A study file and a plan; another window or editor may have written them since."""

    study: Path
    kinds: Mapping[str, str]  # by column of the table: "number", "whole number", "text" or a declared kind
    declared: dict[str, Any]
    questions: list[dict[str, Any]] = field(default_factory=list)
    plan_facts: dict[str, Any] = field(default_factory=lambda: {"epsilon": 1.0, "delta": 1e-6})
    means_by: dict[str, str] = field(default_factory=dict)  # by question, the category of a table of means
    seen: dict[Path, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.study.stem

    @property
    def dataset(self) -> str:
        """The name of the data in the ledger."""
        return str(self.plan_facts.get("dataset") or self.name)

    @property
    def plan(self) -> Path:
        return self.study.with_name(f"{self.name}-plan.toml")

    @property
    def results(self) -> Path:
        """The folder of page, tables and records of a release."""
        return self.study.with_name(f"{self.name}-results")

    @property
    def columns(self) -> list[dict[str, Any]]:
        columns: list[dict[str, Any]] = self.declared["data"].setdefault("columns", [])
        return columns

    @property
    def has_intervals(self) -> bool:
        """Whether intervals are valid: not if protected rows depend on each other."""
        data = self.declared["data"]
        return bool(data.get("user_id")) or data.get("clusters", "none") in ("none", OPEN)

    def guess_places(self) -> dict[str, tuple[str, str]]:
        """Return key and column of each guess that can be stated, by the name that forecasts give it."""
        data = self.declared["data"]
        of_users = ("rows_per_user", "within_users") if data.get("user_id") else ()
        places = {key: (key, "") for key in ("explained", "correlation", *of_users)}
        weights = [{"name": data["weights"]}] if data.get("weights") else []
        for column in [*self.columns, *weights]:
            for key in ("shares",) if "categories" in column else ("mean", "std"):
                places[f"{key} of {column['name']}"] = key, column["name"]
        return places

    def guess(self, key: str, column: str) -> Any:
        """Return a stated guess; None if it is not stated."""
        known = self.declared["guesses"].get(key)
        return (known or {}).get(column) if column else known

    def guesses_with(self, key: str, column: str, text: str) -> dict[str, Any]:
        """Return the guesses with one as a person typed it; without it, if the text is empty."""
        value = numbers_of(text) if key == "shares" else number_of(text)
        stated, table = value not in ([], OPEN), {**self.declared["guesses"]}
        of_key = {**table.get(key, {})} if column else table
        of_key.pop(column or key, None)
        of_key |= {column or key: value} if stated else {}
        if column:
            table.pop(key, None)
            table |= {key: of_key} if of_key else {}
        return table

    def faults(self, besides_open: bool = False) -> list[str]:
        """Return what is missing or wrong in the study file, in sentences; no row is read."""
        if besides_open and not self.columns:  # before a choice
            return []
        return checked_data(self.study, besides_open)[1]

    def again(self) -> "Draft":
        """Return the files as another window reads them now."""
        return _known(self.study, self.kinds)

    def same_as(self, question: Mapping[str, Any]) -> str:
        """Return the name of the question that differs in its name only; empty if there is none."""
        alike = (each["name"] for each in self.questions if {**each, "name": ""} == {**question, "name": ""})
        return next(alike, "")

    def without(self, name: str) -> None:
        """Take a question out, and its table of means."""
        self.questions[:] = [each for each in self.questions if each["name"] != name]
        self.means_by.pop(name, None)

    def keep(self) -> None:
        """Write both files; refuse to replace what others wrote since."""
        plan = {**self.plan_facts, "dataset": self.dataset, "study": self.study.name}
        contents = {self.study: self.declared}
        if self.questions or self.plan.exists():
            questions = [each if self.has_intervals else _without_interval(each) for each in self.questions]
            contents[self.plan] = {"plan": plan, "question": questions, "table": self._tables()}
        for file in contents:
            if file.exists() and sha256_file(file) != self.seen.get(file, ""):
                raise SpecError(
                    f"{file.name} was changed outside this window; load this page again to see its content"
                )
        for file, content in contents.items():
            atomic_write(file, tomli_w.dumps(content).encode())
            self.seen[file] = sha256_file(file)

    def _tables(self) -> list[dict[str, Any]]:
        """Return the tables of a plan in each format: of its models, its baseline table and its means."""
        by_name = {
            name: [each["name"] for each in self.questions if key in each] for name, key in _BY_TABLE.items()
        }
        tables: list[tuple[str, dict[str, Any]]]
        tables = [(name, {"columns": columns}) for name, columns in by_name.items() if columns]
        tables += [(each["name"], {"columns": [each["name"]]}) for each in self.questions if "table1" in each]
        tables += [
            (f"means {name} by {by}".replace("/", " "), {"columns": [name], "by": by})
            for name, by in self.means_by.items()
        ]
        return [{"out": f"{name}.{kind}", **table} for name, table in tables for kind in _FORMATS]


def _without_interval(question: dict[str, Any]) -> dict[str, Any]:
    """Return a question whose estimates have no intervals."""
    plain = {key: value for key, value in question.items() if key not in ("precision", "test")}
    return plain if "submodel" in plain else {**plain, "interval": 0}


def opened_files(written: str, folder: Path, decimal: str = "") -> Draft:
    """Return the files of a table, or of a study file; only the types of a new table are read.

    With a ``decimal`` mark, the other one of point and comma is between thousands of a new table.

    Raises
    ------
    DataError, SpecError
        The table or the study file cannot be read.
    """
    is_study = written.endswith(".toml")
    study = folder / written if is_study else _study_of(written, folder)
    if study.exists():
        return _known(study)
    if is_study:
        raise SpecError(f"{written} is not a file; check the path")
    marks = {"decimal": decimal, "thousands": {",": ".", ".": ","}[decimal]} if decimal else {}
    kinds, n_rows = _kinds_of(source_of(written, folder), marks)
    open_facts = {"rows": n_rows, "privacy_unit": "a person", "clusters": OPEN, "columns": []}
    files = Draft(study, kinds, {"data": {"path": written, **marks, **open_facts}, "guesses": {}})
    files.keep()
    return files


def _study_of(written: str, folder: Path) -> Path:
    """Return the study file of a table; if another table has the name, the name with a number."""
    name = _name(written, folder)
    studies = (folder / f"{name}{f'-{number}' * (number > 1)}.toml" for number in count(1))
    return next(
        each for each in studies if not each.exists() or declared_in(each)["data"].get("path") == written
    )


def _kinds_of(source: Source, data: Mapping[str, Any]) -> tuple[dict[str, str], int]:
    """Return the kind of each column by its type, and the number of rows; no value is kept."""
    schema = table_schema(source, Marks(*[data.get(each.name, "") for each in fields(Marks)]))
    return {**schema.types, **dict.fromkeys(schema.codes, "text")}, schema.n_rows


def _known(study: Path, kinds: Mapping[str, str] | None = None) -> Draft:
    """Read both files; the types of the table's columns, too, if they are not known."""
    declared = declared_in(study)
    data = declared["data"]
    declared.setdefault("guesses", {})
    if kinds is None:
        kinds, _ = _kinds_of(source_of(str(data.get("path", "")), study.parent), data)
    files = Draft(study, kinds, declared)
    files.seen[study] = sha256_file(study)
    if files.plan.exists():
        plain = read_toml(files.plan)[1]
        files.questions = plain.get("question", [])
        files.plan_facts |= plain.get("plan", {})
        tables = plain.get("table", [])
        files.means_by = {
            each["columns"][0]: each["by"] for each in tables if each.get("by") and each.get("columns")
        }
        files.seen[files.plan] = sha256_file(files.plan)
    return files


def declared_in(study: Path) -> dict[str, Any]:
    """Return the content of a study file; refuse one without [data]."""
    declared = read_toml(study)[1]
    if not isinstance(declared.get("data"), dict):
        raise SpecError(f"{study.name} has no [data]; open a table, or a study file of one")
    return declared


def _name(written: str, folder: Path) -> str:
    stem = re.sub(r"[^a-z0-9_-]+", "-", Path(name_of(source_of(written, folder))).stem.lower()).strip("-")
    return stem if stem[:1].isalpha() else f"table-{stem}".rstrip("-")
