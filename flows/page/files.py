"""The study file and the plan of a page, as plain data, and as the files that the command line reads."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from data.errors import DataError
from data.store.folders import atomic_write, sha256_file
from data.tables.reading import opened_table
from data.tables.sources import name_of, source_of
from tasks.errors import SpecError
from tasks.study.own_data import checked_data, read_toml

OPEN = "?"  # what a person has still to state
_FORMATS = ("docx", "tex", "md", "csv")


@dataclass
class PageFiles:
    """The two files of a page; another window or editor may have written them since."""

    study: Path
    names: tuple[str, ...]  # the columns of the table
    kinds: Mapping[str, str]  # by column: "number", "whole number" or "text"
    declared: dict[str, Any]
    questions: list[dict[str, Any]] = field(default_factory=list)
    plan_facts: dict[str, Any] = field(default_factory=lambda: {"epsilon": 1.0, "delta": 1e-6})
    _written: dict[Path, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.study.stem

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

    def faults(self) -> list[str]:
        """Return what is missing or wrong in the study file, in sentences; no row is read."""
        return checked_data(self.study)[1]

    def again(self) -> "PageFiles":
        """Return the files as another window reads them now."""
        return replace(_known(self.study), kinds=self.kinds)

    def keep(self) -> None:
        """Write both files; refuse to replace what others wrote since."""
        import tomli_w

        plan = {
            **self.plan_facts,
            "dataset": self.plan_facts.get("dataset") or self.name,
            "study": self.study.name,
        }
        contents = {self.study: self.declared}
        if self.questions:
            contents[self.plan] = {"plan": plan, "question": self.questions, "table": self._tables()}
        for file, content in contents.items():
            text = tomli_w.dumps(content).encode()
            if file.exists() and sha256_file(file) != self._written.get(file, ""):
                raise SpecError(
                    f"{file.name} was changed outside this window; load this page again to see what it holds"
                )
            atomic_write(file, text)
            self._written[file] = sha256_file(file)

    def _tables(self) -> list[dict[str, Any]]:
        """Return the tables of a plan: of its models, and of its baseline table, in each format."""
        models = [each["name"] for each in self.questions if "formula" in each or "mean" in each]
        baseline = [each["name"] for each in self.questions if "table1" in each]
        return [
            {"out": f"{name}.{kind}", "columns": columns}
            for name, columns in (("models", models), ("baseline", baseline))
            for kind in _FORMATS
            if columns
        ]


def opened_files(written: str, folder: Path) -> PageFiles:
    """Return the files of a page for a table, or for a study file; of a table's rows, types are read alone.

    Raises
    ------
    DataError, SpecError
        The table or the study file cannot be read.
    """
    study = folder / written if written.endswith(".toml") else folder / f"{_name(written, folder)}.toml"
    if study.exists():
        return _known(study)
    if written.endswith(".toml"):
        raise SpecError(f"{written} is not a file; check the path")
    from data.tables.schema import table_schema

    found = table_schema(source_of(written, folder))
    declared = {
        "data": {
            "path": written,
            "rows": found.n_rows,
            "privacy_unit": OPEN,
            "clusters": OPEN,
            "columns": [],
        },
        "guesses": {},
    }
    files = PageFiles(study, tuple(found.types), found.types, declared)
    files.keep()
    return files


def _known(study: Path) -> PageFiles:
    declared = read_toml(study)[1]
    if not isinstance(declared.get("data"), dict):
        raise SpecError(f"{study.name} has no [data]; open a table, or a study file of one")
    declared.setdefault("guesses", {})
    with opened_table(source_of(str(declared["data"].get("path", "")), study.parent)) as (names, _):
        kinds = {each["name"]: _kind(each) for each in declared["data"].get("columns", [])}
        files = PageFiles(study, tuple(names), {name: kinds.get(name, "number") for name in names}, declared)
    files._written[study] = sha256_file(study)
    if files.plan.exists():
        plain = read_toml(files.plan)[1]
        files.questions = plain.get("question", [])
        files.plan_facts |= plain.get("plan", {})
        files._written[files.plan] = sha256_file(files.plan)
    return files


def _kind(column: Mapping[str, Any]) -> str:
    return "text" if "categories" in column or "levels" in column else "number"


def _name(written: str, folder: Path) -> str:
    stem = re.sub(r"[^a-z0-9_-]+", "-", Path(name_of(source_of(written, folder))).stem.lower()).strip("-")
    if not stem or not stem[0].isalpha():
        stem = f"table-{stem}".rstrip("-")
    return stem


def number_of(text: str) -> float | int | str:
    """Return a number that a person typed; another text as it is, which the check of the file refuses."""
    plain = text.strip()
    try:
        return int(plain)
    except ValueError:
        try:
            return float(plain)
        except ValueError:
            return plain or OPEN


def quoted(name: str) -> str:
    """Return a column's name as formulas write it."""
    return name if name.isidentifier() else f'Q("{name}")'


__all__ = ["OPEN", "DataError", "PageFiles", "number_of", "opened_files", "quoted"]
