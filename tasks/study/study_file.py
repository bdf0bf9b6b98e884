"""Read a study file, with the analyst's table that it may declare, or say what is wrong with it."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from data.errors import DataError, numbered
from dpalgos.formula.design import FormulaDesign
from tasks.errors import SpecError
from tasks.file_schema import sentences, undeclared_fault, undeclared_keys
from tasks.own_table.analyst_table import AnalystTable
from tasks.problems.kinds import kinds
from tasks.problems.registered_table import RegisteredTable
from tasks.study.collection import with_collections
from tasks.study.own_data import OwnData, of_this_version, own_table, read_toml, with_lists
from tasks.study.spec import StudySpec


def load_study(path: Path) -> StudySpec:
    """Read and check a study file; its name is the file's unless it says another."""
    spec, faults = checked_study(path)
    if faults or spec is None:
        raise SpecError(f"{path.name}: {numbered(faults)}")
    return spec


def checked_study(path: Path) -> tuple[StudySpec | None, list[str]]:
    """Return a study, and all that is missing or wrong in its file; the rows of its table are not read.

    While its tables are wrong, panels, which depend on them, are not checked.
    """
    content, plain = read_toml(path)
    plain = with_lists(of_this_version(plain, path.name))
    plain = {"name": path.stem, **with_collections(plain)}
    undeclared = dict(undeclared_keys(plain))
    spec, faults = None, undeclared_fault(undeclared)
    try:
        spec = StudySpec(
            **{**_with_analyst_table(plain, path), "sha256": hashlib.sha256(content).hexdigest()}
        )
        if spec.analyst_table:
            _check_table(spec)
    except ValidationError as error:
        faults += sentences(error, undeclared)
        faults += _faults_of_the_rest(plain, undeclared) if error.title == OwnData.__name__ else []
    except (SpecError, DataError) as error:
        faults += [str(error), *([] if spec else _faults_of_the_rest(plain, undeclared))]
    return spec, list(dict.fromkeys(faults))


def _faults_of_the_rest(plain: dict[str, Any], undeclared: Iterable[str]) -> list[str]:
    """Return the faults of a file outside its tables and panels."""
    rest = {key: value for key, value in plain.items() if key not in ("data", "panels")}
    try:
        StudySpec(**rest)
    except ValidationError as error:
        return [each for each in sentences(error, undeclared) if not each.startswith("panels")]
    return []


def _check_table(spec: StudySpec) -> None:
    """Refuse columns, sizes and guesses that the declared table does not have."""
    spec.check_data()
    try:
        if isinstance(problem := spec.head_panel.problem, RegisteredTable) and problem.analyst_table:
            problem.simulator(spec.guesses)
    except ValueError as error:
        raise SpecError(str(error)) from None


def _with_analyst_table(plain: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return a study file's content, its own tables (if any) copied into the problems without a dataset."""
    if not isinstance(plain.get("data"), dict):
        return plain
    table, design = own_table(OwnData(data=plain["data"], formula=plain.get("formula", "")), path)
    tables = {key: value for key, value in plain.items() if key != "data"}
    tables["analyst_table"] = table
    if isinstance(plain.get("panels"), list):
        panels = [_of_formula(panel, design) for panel in plain["panels"]] if design else plain["panels"]
        tables["panels"] = [_filled(panel, plain["name"], table, path.name) for panel in panels]
    return tables


def _of_formula(panel: Any, design: FormulaDesign) -> Any:
    """Give a panel's problem the response and covariates of the formula; refuse both at once."""
    problem = panel.get("problem") if isinstance(panel, dict) else None
    if not isinstance(problem, dict) or "dataset" in problem:
        return panel
    response = design.response_column
    if problem.get("covariates") or problem.get("response", response) != response:
        raise SpecError("a panel's problem must leave response and covariates to the formula; take them out")
    filled = {**problem, "response": response, "covariates": list(design.covariates)}
    return {**panel, "problem": filled}


def _filled(panel: Any, name: str, analyst_table: AnalystTable, file: str) -> Any:
    problem = panel.get("problem") if isinstance(panel, dict) else None
    if not isinstance(problem, dict) or "dataset" in problem:
        return panel
    of_tables = [kind for kind, known in kinds().items() if issubclass(known.source, RegisteredTable)]
    if problem.get("kind") in [kind for kind in kinds() if kind not in of_tables]:
        raise SpecError(
            f"{file}: kind of a panel's problem must be one of {', '.join(of_tables)} with [data], got "
            f"{problem['kind']!r}; put that panel into a separate file"
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
    return {**panel, "problem": {**filled, **({"response": ingested[0]} if ingested and response else {})}}
