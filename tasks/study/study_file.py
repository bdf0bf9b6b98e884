"""Read a study file, with the analyst's table that it may declare, or say what is wrong with it."""

import difflib
import hashlib
import re
import tomllib
from collections import defaultdict
from contextlib import suppress
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from data.errors import DataError, numbered
from data.store.folders import read_small
from dpalgos.errors import InputError
from dpalgos.formula.allowed import read_formula
from tasks.errors import SpecError
from tasks.file_schema import Keys, field_fault, one_for_each_entry
from tasks.problems.analyst_table import AnalystColumn, AnalystTable
from tasks.problems.declared_rows import Guesses
from tasks.problems.formula import FormulaColumns, expand_formula
from tasks.problems.kinds import kinds
from tasks.problems.public_rows import PublicRows, PublicTable, read_public_rows, refuse_private_file
from tasks.problems.registered_table import RegisteredTable
from tasks.study.collection import with_collections, with_lists
from tasks.study.panel import EstimatorSpec, Grid, Panel
from tasks.study.spec import AssumptionSpec, Headline, Note, Printed, StudySpec
from tasks.study.stand_ins import TablesOfFile, with_stand_ins, without_open

_PARTS: dict[str, type[BaseModel]] = {
    "panels": Panel,
    "grid": Grid,
    "headline": Headline,
    "estimators": EstimatorSpec,
    "assumptions": AssumptionSpec,
    "notes": Note,
    "printed": Printed,
    "data": AnalystTable,
    "public": PublicTable,
    "guesses": Guesses,
    "columns": AnalystColumn,
    **{name: kind.source for name, kind in kinds().items()},
}

STUDY_FILE_VERSION = 1  # what study files look like; a file that says none is of the first version
# A declaration that its owner has yet to make: "?" stands in its place.
_UNDECLARED_LINE = re.compile(r"""^\s*([^\s#=][^#=]*?)\s*=\s*\[?\s*(?:"\?"|'\?')\s*\]?\s*(?:#\s*(.*))?$""")
_MARKER_LINE = re.compile(r"\s*missing\s*=\s*\[")  # "?" is what stands for a missing cell there


def load_study(path: Path) -> StudySpec:
    """Read and check a study file; its name is the file's unless it says another."""
    spec, faults = checked_study(path)
    if faults or spec is None:
        raise SpecError(f"{path.name}: {numbered(faults)}")
    return spec


def checked_study(path: Path) -> tuple[StudySpec | None, list[str]]:
    """Return a study, and all that is missing or wrong in its file; the rows of its table are not read.

    A column or key of ``[data]`` that is open or wrong is replaced by one that could stand there, so that
    what depends on it can be checked; a fault that names such a column is not told.
    """
    content, plain = read_toml(path)
    digest = hashlib.sha256(content)

    def content_of(file: str) -> dict[str, Any]:
        other, found = read_toml(path.with_name(file))
        digest.update(other)
        return found

    plain = with_lists(_of_this_version(plain, path.name), content_of)
    plain = {"name": path.stem, **with_collections(plain)}
    whole, faults, replaced = plain, list[str](), set[str]()
    if isinstance(plain.get("data"), dict):
        plain = {**plain, "data": _with_label(plain)}
        whole, wrong, replaced = with_stand_ins(plain)
        faults = [*open_lines(content.decode()), *_sentences(wrong, plain)]
        if faults and "guesses" in whole:
            whole["guesses"] = without_open(whole["guesses"])
        if replaced and not faults:  # "?" in another line than its key
            faults = [f'where "?" stands is yours to declare: {", ".join(sorted(replaced))}']
    is_whole = "data" in whole or "data" not in plain
    spec, more = None, list[str]()
    try:
        whole = _with_analyst_table(whole, path)
        spec = StudySpec(**{**whole, "sha256": digest.hexdigest()})
        if spec.analyst_table:
            _check_table(spec)
    except ValidationError as error:
        more = _sentences(error.errors(), plain) if is_whole else _faults_of_the_rest(whole)
    except (SpecError, DataError) as error:
        more = [str(error), *(() if spec else _faults_of_the_rest(whole))]
    told = (*(repr(name) for name in replaced), "got '?'")
    faults += [fault for fault in more if not any(each in fault for each in told) or not faults]
    return spec, list(dict.fromkeys(faults))


def _faults_of_the_rest(whole: dict[str, Any]) -> list[str]:
    """Return the faults of a file but for its tables and panels."""
    rest = {key: value for key, value in whole.items() if key not in ("data", "public", "panels")}
    try:
        StudySpec(**rest)
    except ValidationError as error:
        return _sentences([each for each in error.errors() if each["loc"][:1] != ("panels",)], rest)
    return []


_LABEL = {"lower": 0, "upper": 1, "source": "a label is 0 or 1"}


def _with_label(plain: dict[str, Any]) -> dict[str, Any]:
    """Return a file's table, in which a logistic response without declarations is a label of 0 and 1."""
    data, panels, formula = plain["data"], plain.get("panels"), plain.get("formula")
    columns = data.get("columns")
    if not isinstance(columns, list) or not isinstance(panels, list):
        return dict(data)
    problems = [panel.get("problem") for panel in panels if isinstance(panel, dict)]
    logistic = [each for each in problems if isinstance(each, dict) and each.get("family") == "logistic"]
    responses = {each["response"] for each in logistic if isinstance(each.get("response"), str)}
    if logistic and isinstance(formula, str):
        names = [
            each["name"] for each in columns if isinstance(each, dict) and isinstance(each.get("name"), str)
        ]
        with suppress(InputError):  # said where the formula is expanded
            responses.update(read_formula(formula, names).left)
    declares = {"lower", "upper", "categories", "levels", "transform"}

    def labeled(column: Any) -> Any:
        is_label = isinstance(column, dict) and column.get("name") in responses and not declares & set(column)
        return {**_LABEL, **column} if is_label else column

    return {**data, "columns": [labeled(each) for each in columns]}


def _check_table(spec: StudySpec) -> None:
    """Refuse columns, sizes and guesses that the declared table does not have."""
    spec.check_data()
    try:
        if isinstance(problem := spec.head_panel.problem, RegisteredTable) and problem.analyst_table:
            problem.declared_rows(spec.guesses)
    except ValueError as error:
        raise SpecError(str(error)) from None


def read_toml(path: Path) -> tuple[bytes, dict[str, Any]]:
    """Read a TOML file that a person wrote: its bytes, and its content as plain data."""
    try:
        content = read_small(path)
        return content, tomllib.loads(content.decode())
    except OSError as error:
        raise SpecError(f"{path} cannot be read ({error.strerror}); pass a .toml file") from None
    except (ValueError, RecursionError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
        raise SpecError(f"{path.name} is not a TOML file: {reason}; mend it there") from None


def _of_this_version(plain: dict[str, Any], file: str) -> dict[str, Any]:
    version = plain.pop("version", 1)
    if isinstance(version, bool) or version != STUDY_FILE_VERSION:
        newer = isinstance(version, int) and version > STUDY_FILE_VERSION
        remedy = "update dpcost" if newer else "write the file anew with dpcost init under another name"
        raise SpecError(f"{file}: version must be {STUDY_FILE_VERSION}, got {version!r}; {remedy}")
    return plain


def _sentences(errors: list[ErrorDetails], content: dict[str, Any]) -> list[str]:
    return [_sentence(_where(keys, content), error) for keys, error in one_for_each_entry(errors, content)]


def _sentence(where: str, error: ErrorDetails) -> str:
    if error["type"] == "union_tag_not_found":
        return f"{where}.kind is missing; add e.g. kind = 'simulation'"
    nearest = _nearest_key(error["loc"]) if error["type"] == "extra_forbidden" else ""
    return f"{field_fault(where, error)}{nearest}"


def _where(keys: Keys, content: Any) -> str:
    """Write the place of an entry, with the names of panels, estimators and columns for their numbers."""
    words: list[str] = []
    for depth, key in enumerate(keys, 1):
        if isinstance(key, int) and words and words[-1] in ("panels", "estimators", "columns"):
            entry = reduce(getitem, keys[:depth], content)
            name = entry.get("name", "") if isinstance(entry, dict) else ""
            words[-1] += f" ({name or key})"
        else:
            words.append(str(key))
    return ".".join(words)


def _nearest_key(location: Keys) -> str:
    parts = [_PARTS[part] for part in location[:-1] if isinstance(part, str) and part in _PARTS]
    known = [*(parts[-1] if parts else StudySpec).model_fields]
    nearest = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
    return f"; did you mean {nearest[0]!r}?" if nearest else f"; choose one of: {', '.join(known)}"


def _with_analyst_table(plain: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return a study file's content, its own tables (if any) copied into the problems without a dataset."""
    if not isinstance(plain.get("data"), dict):
        return plain
    declared = TablesOfFile(data=plain["data"], public=plain.get("public"))
    table = declared.data.model_copy(update={"path": str((path.parent / declared.data.path).resolve())})
    tables = {key: value for key, value in plain.items() if key != "data"}
    expanded = expand_formula(plain["formula"], table) if isinstance(plain.get("formula"), str) else None
    table = expanded.table if expanded else table
    tables["analyst_table"] = table
    rows = None
    if declared.public:
        tables["public"] = declared.public.resolved_from(path)
        refuse_private_file(tables["public"], [Path(table.path)])
        rows = read_public_rows(tables["public"], table, table.columns)
    if isinstance(plain.get("panels"), list):
        panels = [_of_formula(panel, expanded) for panel in plain["panels"]] if expanded else plain["panels"]
        tables["panels"] = [_filled(panel, plain["name"], table, rows, path.name) for panel in panels]
    return tables


def _of_formula(panel: Any, expanded: FormulaColumns) -> Any:
    """Give a panel's problem the response and covariates of the formula; refuse both at once."""
    problem = panel.get("problem") if isinstance(panel, dict) else None
    if not isinstance(problem, dict) or "dataset" in problem:
        return panel
    if problem.get("covariates") or problem.get("response", expanded.response) != expanded.response:
        raise SpecError("a panel's problem must leave response and covariates to the formula; take them out")
    filled = {**problem, "response": expanded.response, "covariates": list(expanded.covariates)}
    return {**panel, "problem": filled}


def open_lines(text: str) -> list[str]:
    """Return a sentence, if any is due, about what its owner has yet to declare, and in which lines."""
    lines: dict[str, list[str]] = defaultdict(list)
    hints: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if (match := _UNDECLARED_LINE.match(line)) and not _MARKER_LINE.match(line):
            lines[match[1]].append(str(number))
            hints.setdefault(match[1], f" ({match[2].strip()})" if match[2] else "")
    listed = "; ".join(
        f"{name}{hints[name]} in line{'s' * (len(at) > 1)} {', '.join(at)}" for name, at in lines.items()
    )
    return [f'where "?" stands is yours to declare: {listed}'] if lines else []


def _filled(panel: Any, name: str, analyst_table: AnalystTable, rows: PublicRows | None, file: str) -> Any:
    problem = panel.get("problem") if isinstance(panel, dict) else None
    if not isinstance(problem, dict) or "dataset" in problem:
        return panel
    of_tables = [kind for kind, known in kinds().items() if issubclass(known.source, RegisteredTable)]
    if problem.get("kind") in [kind for kind in kinds() if kind not in of_tables]:
        raise SpecError(
            f"{file}: kind of a panel's problem must be one of {', '.join(of_tables)} with [data], got "
            f"{problem['kind']!r}; write that panel into a file of its own"
        )
    response, covariates = problem.get("response", ""), problem.get("covariates")
    if not covariates:
        covariates = [column.name for column in analyst_table.columns if column.name != response]
    ingested = analyst_table.ingested(response) if isinstance(response, str) else ()
    if len(ingested) > 1 and problem.get("family") == "multinomial":
        ingested = (response,)
    if isinstance(response, str) and len(ingested) > 1:
        raise SpecError(
            f"{file}: response must be a column of numbers or of two categories, got {response!r} with "
            f"{len(ingested) + 1}; choose another, or family = 'multinomial'"
        )
    if isinstance(covariates, list) and all(isinstance(each, str) for each in covariates):
        covariates = [column for each in covariates for column in analyst_table.ingested(each)]
    filled = {**problem, "dataset": name, "analyst_table": analyst_table, "covariates": covariates}
    filled |= {"public": rows} if rows else {}
    return {**panel, "problem": {**filled, **({"response": ingested[0]} if ingested and response else {})}}
