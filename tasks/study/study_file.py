"""Read a study file, with the analyst's table that it may declare, or say what is wrong with it."""

import hashlib
import logging
from pathlib import Path
from typing import Any

from data.collections import collections
from data.datasets import get_dataset
from data.errors import DataError, numbered
from dpalgos.formula.design import FormulaDesign
from tasks.errors import SpecError
from tasks.file_schema import sentences, undeclared_fault, undeclared_keys
from tasks.own_table.analyst_table import AnalystTable
from tasks.problems.kinds import kinds
from tasks.problems.registered_table import RegisteredTable
from tasks.size_rules import whole
from tasks.study.own_data import OwnData, own_table, panels_in, read_study
from tasks.study.spec import StudySpec

_log = logging.getLogger(__name__)


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
    content, plain = read_study(path)
    plain = {"name": path.stem, **plain, "sha256": hashlib.sha256(content).hexdigest()}
    _expand_collections(plain)
    undeclared = dict(undeclared_keys(plain))
    spec, faults, tables_are_right = None, undeclared_fault(undeclared), True
    try:
        _fill_in_table(plain, path)
    except ValueError as error:
        faults += sentences(error, undeclared)
        tables_are_right = False
        plain = {key: value for key, value in plain.items() if key not in ("data", "panels")}
    try:
        spec = StudySpec(**plain)
        if spec.analyst_table:
            spec.check_data()
            problem = spec.head_panel.problem
            if isinstance(problem, RegisteredTable) and problem.analyst_table:
                problem.simulator(spec.guesses)
    except ValueError as error:
        new_faults = sentences(error, undeclared)
        faults += [each for each in new_faults if tables_are_right or not each.startswith("panels")]
    return spec, list(dict.fromkeys(faults))


def _expand_collections(plain: dict[str, Any]) -> None:
    """Replace a panel that names a ``collection`` by a panel for each table of it, or of its ``groups``.

    Sizes of its grid, or of the study's, may be rules in n, the table's rows. The panels of the headline's
    table run at smoke, too.
    """
    head = plain.get("headline")
    for panel in [each for each in panels_in(plain) if "collection" in each]:
        known, name, groups = collections(), panel.pop("collection"), panel.pop("groups", ())
        if name not in known:
            raise SpecError(f"panels.collection must be one of {', '.join(known)}, got {name!r}")
        panels, title = [], panel.pop("name", "")
        for dataset, settings in known[name].problems(groups).items():
            try:
                sizes = {"n": get_dataset(dataset).n_rows}
            except DataError as fault:
                _log.warning("the table %s is skipped: %s", dataset, fault)
                continue
            table = dataset.removeprefix(f"{name}_").replace("_", "-")
            is_head = isinstance(head, dict) and table == head.get("panel")
            grid = dict(panel.get("grid") or plain.get("grid") or {})
            if isinstance(grid.get("n"), list):
                grid["n"] = [whole(rule, sizes, what="grid.n") for rule in grid["n"]]
            problem = {**panel.get("problem", {}), "dataset": dataset, **settings}
            own = {"name": f"{table} {title}".strip(), "smoke": panel.get("smoke", True) or is_head}
            panels.append({**panel, **own, "grid": grid, "problem": problem})
        at = plain["panels"].index(panel)
        plain["panels"][at : at + 1] = panels
        if all("grid" in each for each in panels_in(plain)):
            plain["grid"] = None  # each panel has its own


def _fill_in_table(plain: dict[str, Any], path: Path) -> None:
    """Give the problems without a dataset the study's own table, if it has one."""
    if not isinstance(plain.get("data"), dict):
        return
    table, design = own_table(OwnData(data=plain["data"], formula=plain.get("formula", "")), path)
    for panel in panels_in(plain):
        problem = panel.get("problem")
        if isinstance(problem, dict) and "dataset" not in problem:
            _fill_in_columns(problem, table, design)
            problem |= {"dataset": plain["name"], "analyst_table": table}
    plain["analyst_table"] = table
    del plain["data"]


def _fill_in_columns(problem: dict[str, Any], table: AnalystTable, design: FormulaDesign | None) -> None:
    """Replace declared columns by those that are fitted; of a formula, its response and covariates."""
    of_tables = [kind for kind, known in kinds().items() if issubclass(known.source, RegisteredTable)]
    if problem.get("kind") in [kind for kind in kinds() if kind not in of_tables]:
        raise SpecError(
            f"kind of a panel's problem must be one of {', '.join(of_tables)} with [data], got "
            f"{problem['kind']!r}; put that panel into a separate file"
        )
    response, covariates = problem.get("response", ""), problem.get("covariates")
    if design and (covariates or response not in ("", design.response_column)):
        raise SpecError("a panel's problem must leave response and covariates to the formula; take them out")
    if design:
        response, covariates = design.response_column, list(design.covariates)
    covariates = covariates or [column.name for column in table.columns if column.name != response]
    if isinstance(covariates, list) and all(isinstance(each, str) for each in covariates):
        problem["covariates"] = [column for each in covariates for column in table.ingested(each)]
    if isinstance(response, str) and response:
        columns = table.ingested(response)
        if len(columns) > 1 and problem.get("family") == "multinomial":
            columns = (response,)
        if len(columns) > 1:
            raise SpecError(
                f"response must be a column of numbers or of two categories, got {response!r} with "
                f"{len(columns) + 1}; choose another, or family = 'multinomial'"
            )
        problem["response"] = columns[0]
