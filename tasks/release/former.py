"""Charges of earlier versions, whose questions left out inputs of the draw.

Version 1.1 stored a question as the release file and the declarations stated it. A request that it would have
stated the same way is replayed, except with a formula: there other columns are fitted now. Version 2.0
dropped the keywords ``intercept`` and ``offset_bounds`` and the order of columns. Its charges match no
request.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from data.errors import AnswerLost
from data.formats.canonical import MISSING
from data.ledger import Charge, Question
from tasks.own_table.analyst_table import AnalystColumn, AnalystTable
from tasks.release.request import ReleaseRequest
from tasks.release.rows import ReleaseRows


def question_of_1_1(question: Question, request: ReleaseRequest, rows: ReleaseRows) -> Question | None:
    """Return a question as version 1.1 stated it; None for a formula, or without charges of 1.1."""
    if not rows.former_content or request.by_formula:
        return None
    columns, design, declared = request.columns, rows.design, dict[str, Any]()
    if table := request.table:
        used = table.needed(each for each in table.columns if each.name in columns.xy)
        units = {column.name: [column.center, column.scale] for column in design.columns}
        declared = _declared(table, used, units)
        if columns.y and design.response:
            declared["response"] = [design.response.center, design.response.scale]
            transform = next(each.transform for each in used if each.name == columns.y)
            declared |= {"response_transform": transform} if transform else {}
    parameters = {
        "x": list(columns.x),
        "y": columns.y,
        **({"user_id": columns.user_id} if columns.user_id else {}),
        **declared,
        **request.bounds,
        **request.params,
    }
    return replace(question, content=rows.former_content, parameters=parameters, exact="")


def refuse_unmatched(question: Question, rows: ReleaseRows, charges: Iterable[Charge]) -> None:
    """Refuse to charge what an earlier version may have charged: its question has other keywords."""
    known = {name: set(part) for name, part in question.parameters.items()}
    for charge in charges:
        one = charge.question
        same_budget = (one.estimator, one.epsilon, one.delta) == _budget_of(question)
        if not same_budget or one.content not in (rows.content, rows.former_content):
            continue
        if {name: set(part) for name, part in one.parameters.items() if name in known} != known:
            version = charge.cost.facts.get("software", {}).get("dpcost", "1.1")
            raise AnswerLost(
                f"nothing was charged: version {version} charged {question.dataset!r} for {one.estimator} at "
                f"epsilon {one.epsilon:g} and delta {one.delta:g}, and its request cannot be compared with "
                "this one; dpcost ledger show --json prints its result. To charge this request, add --again"
            )


def _budget_of(question: Question) -> tuple[str, float, float]:
    return question.estimator, question.epsilon, question.delta


def _declared(
    analyst_table: AnalystTable, used: Sequence[AnalystColumn], units: dict[str, list[float]]
) -> dict[str, Any]:
    declared: dict[str, Any] = {"units": units}
    declared["categories"] = {column.name: list(column.categories) for column in used if column.categories}
    if others := {column.name: column.others for column in used if column.others}:
        declared["others"] = others
    if spelled := [
        one.name for one in used if any(each.strip().lower() in MISSING for each in one.categories)
    ]:
        declared["levels_before_markers"] = spelled  # other rows are left out than in version 1.0.0
    if markers := {column.name: list(column.missing) for column in used if column.missing}:
        declared["markers"] = markers
    if spellings := {
        one.name: sorted(map(list, one.declared.spellings)) for one in used if one.declared.spellings
    }:
        declared["spellings"] = spellings
    if analyst_table.missing != "refuse":
        declared["missing"] = analyst_table.missing
    if analyst_table.outside == "clip":
        bounds = {column.name: [column.lower, column.upper] for column in used if not column.categories}
        declared |= {"outside": "clip", "column_bounds": bounds}
    if imputed := {column.name: column.impute for column in used if column.impute is not None}:
        declared["imputed"] = imputed
    return declared
