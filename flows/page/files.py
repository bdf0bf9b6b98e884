"""The study file and the plan of a page, as plain data, and as the files that the command line reads."""

import json
import re
from collections.abc import Iterable, Mapping
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
from tasks.study.own_data import checked_data, read_toml

OPEN = "?"  # a value that a person has still to state
_FORMATS = ("docx", "tex", "md", "csv")
_ENTRY = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^,]*?)\s*(?:,|$)')
_DECIMAL_COMMA = re.compile(r"-?\d+,(\d{1,2}|\d{4,})")  # 1,500 may be 1.5 or 1500, and is refused
_OF_CATEGORY = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^=]*?)\s*(?:=(.*))?', re.DOTALL)
_BY_TABLE = {"models": "formula", "means": "mean"}


@dataclass
class PageFiles:
    """The two files of a page; another window or editor may have written them since."""

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
        found: list[dict[str, Any]] = self.declared["data"].setdefault("columns", [])
        return found

    @property
    def has_intervals(self) -> bool:
        """Whether intervals are valid: not if protected rows depend on each other."""
        data = self.declared["data"]
        return bool(data.get("user_id")) or data.get("clusters", "none") in ("none", OPEN)

    def faults(self, besides_open: bool = False) -> list[str]:
        """Return what is missing or wrong in the study file, in sentences; no row is read."""
        return checked_data(self.study, besides_open)[1]

    def again(self) -> "PageFiles":
        """Return the files as another window reads them now."""
        return _known(self.study, self.kinds)

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


def opened_files(written: str, folder: Path) -> PageFiles:
    """Return the files of a page for a table, or for a study file; only the types of a new table are read.

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
    kinds, n_rows = _kinds_of(source_of(written, folder), {})
    open_facts = {"rows": n_rows, "privacy_unit": "a person", "clusters": OPEN, "columns": []}
    files = PageFiles(study, kinds, {"data": {"path": written, **open_facts}, "guesses": {}})
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
    found = table_schema(source, Marks(*[data.get(each.name, "") for each in fields(Marks)]))
    return {**found.types, **dict.fromkeys(found.codes, "text")}, found.n_rows


def _known(study: Path, kinds: Mapping[str, str] | None = None) -> PageFiles:
    """Read both files; the types of the table's columns, too, if they are not known."""
    declared = declared_in(study)
    data = declared["data"]
    declared.setdefault("guesses", {})
    if kinds is None:
        kinds, _ = _kinds_of(source_of(str(data.get("path", "")), study.parent), data)
    files = PageFiles(study, kinds, declared)
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


def number_of(text: str) -> float | int | str:
    """Return a number that a person typed; another text as it is, which the check of the file refuses."""
    plain = text.strip().replace("−", "-")
    if _DECIMAL_COMMA.fullmatch(plain):
        plain = plain.replace(",", ".")
    for read in (int, float):
        try:
            return read(plain)
        except ValueError:
            continue
    return plain or OPEN


def list_of(text: str) -> list[str]:
    """Return texts between commas; one in quotation marks is as JSON writes it, maybe with commas."""
    return [_unquoted(found[1]) for found in _ENTRY.finditer(text) if found[1].strip()]


def _unquoted(entry: str) -> str:
    if entry[0] != '"':
        return entry.strip()
    try:
        return str(json.loads(entry))
    except ValueError:  # a backslash that a person typed
        return entry[1:-1]


def codes_of(text: str) -> dict[str, list[str]]:
    """Return the codes of each category, from lines such as ``female = 2, F``."""
    lines = filter(None, map(_OF_CATEGORY.fullmatch, filter(str.strip, text.splitlines())))
    return {_unquoted(line[1].strip()): list_of(line[2]) for line in lines}


def text_of_list(values: Iterable[Any]) -> str:
    return ", ".join(quoted_entry(str(each)) for each in values if each != OPEN)


def quoted_entry(text: str) -> str:
    """Return a text as an entry of a list, in quotation marks if it has marks of the list."""
    is_plain = text == text.strip() and not re.search(r'[,="\r\n]', text)
    return text if is_plain else json.dumps(text, ensure_ascii=False)
