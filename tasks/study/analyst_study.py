"""Read the table that a study file declares under ``[data]``."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from tasks.faults import SpecError
from tasks.problems.analyst_table import AnalystTable

UNDECLARED = "?"  # what stands in the place of a declaration that its owner has yet to make

_UNDECLARED_LINE = re.compile(r"""^\s*([\w-]+)\s*=\s*\[?\s*(?:"\?"|'\?')\s*\]?\s*(?:#\s*(.*))?$""")


class _File(BaseModel):
    """The study file's ``[data]``, so that errors name their place in it."""

    data: AnalystTable


def with_analyst_table(plain: dict[str, Any], path: Path, text: str) -> dict[str, Any]:
    """Return a study file's content, its own table (if any) copied into the problems.

    Problems without a dataset read that table: all its columns but the response, if they name no covariates;
    a column of categories stands for its columns of 0 and 1.

    Raises
    ------
    SpecError
        A declaration is unfinished; the message says in which line.
    pydantic.ValidationError
        A declaration is wrong.
    """
    if not isinstance(plain.get("data"), dict):
        return plain
    refuse_unfinished(path.name, text)
    declared = _File(data=plain["data"]).data
    analyst_table = declared.model_copy(update={"path": str((path.parent / declared.path).resolve())})
    panels = plain.get("panels")
    if isinstance(panels, list):
        panels = [_filled(panel, plain["name"], analyst_table, path.name) for panel in panels]
    others = {key: value for key, value in plain.items() if key != "data"}
    return {**others, "analyst_table": analyst_table, **({} if panels is None else {"panels": panels})}


def refuse_unfinished(file: str, text: str) -> None:
    """Refuse a file in which its owner has yet to declare something, and say what, in which lines."""
    lines: dict[str, list[str]] = defaultdict(list)
    hints: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if match := _UNDECLARED_LINE.match(line):
            lines[match[1]].append(str(number))
            hints.setdefault(match[1], f" ({match[2].strip()})" if match[2] else "")
    if lines:
        listed = "; ".join(
            f"{name}{hints[name]} in line{'s' * (len(at) > 1)} {', '.join(at)}" for name, at in lines.items()
        )
        raise SpecError(f'{file}: where "?" stands is yours to declare: {listed}')


def _filled(panel: Any, name: str, analyst_table: AnalystTable, file: str) -> Any:
    problem = panel.get("problem") if isinstance(panel, dict) else None
    if not isinstance(problem, dict) or "dataset" in problem:
        return panel
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
