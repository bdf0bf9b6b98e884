"""The question that the ledger stores of a release: two requests are one if they draw from the same inputs.

The ledger hashes everything of the rows' design and of the estimator's keywords that decides the estimate. A
question has one form for all spellings:

- Columns are in order of their names, as long as no formula names the coefficients.
- Marks of numbers have their default: the numbers that were read with them are in the digest of the content.
- Cut points of a time are stated once, by the columns that are computed from it.
- Spellings of a category that mean the same code, such as 7 and 7.0, are stated once.
- A constant for missing cells is left out where they are counted.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from data.columns import Derived
from data.formats.canonical import meanings
from data.ledger.charges import canonical_json
from dpalgos.catalog import Estimator
from dpalgos.core.estimator import AnyEstimator
from dpalgos.formula.allowed import plain_code
from tasks.own_table.row_design import RowDesign
from tasks.study.estimators import OFFSET


def _spellings(pairs: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the texts of categories with their categories, without other notations of one code."""
    texts, levels = [text for text, _ in pairs], [level for _, level in pairs]
    meant = zip(meanings(texts, has_codes=True), meanings(levels, has_codes=True), levels, strict=True)
    codes = {(str(text).removesuffix(".0"), level) for text, of_level, level in meant if text != of_level}
    return sorted(map(list, codes))


# Keywords that version 2.1 or 3.0 lacks, at values that mean what it did: questions stay the same questions.
_LATER = {
    **{"person_weight": "equal", "max_rows": None, "max_weight": None},  # since 3.0
    **{"single_event": False, "with_times": False},  # since 4.0
}


def question_parameters(
    estimator: Estimator, params: AnyEstimator, design: RowDesign, *, as_in_3_0: bool = False
) -> dict[str, Any]:
    """Return every field that a release is drawn from, next to the data, as plain data.

    ``as_in_3_0``: in the form of version 3.0, which depends on spellings.
    """
    n_columns, task = design.n_columns, estimator.task
    order = list(range(n_columns))
    if task == "mean" or (not as_in_3_0 and design.formula is None and task not in ("counts", "sums")):
        first = int(getattr(params, OFFSET, None) is not None)  # an offset stays the first column
        last = len(design.names) - int(bool(getattr(params, "intercept", False)) and not design.intercept)
        order[first:last] = sorted(order[first:last], key=lambda j: design.names[j])
        design = _sorted(design, [j for j in order if j < len(design.names)])
    keywords: dict[str, Any] = {}
    for item in fields(params):
        value = getattr(params, item.name)
        if item.metadata.get("per_column") and value is not None:
            of_column = value * n_columns if len(value) == 1 else value
            value = [of_column[j] for j in order]
        keywords[item.name] = value
    keywords = {name: each for name, each in keywords.items() if name not in _LATER or each != _LATER[name]}
    rows = _plain(design.described)
    if not as_in_3_0 and (declaration := rows["declaration"]):
        declaration["marks"] = {"decimal": "", "thousands": ""}
        counted = {name for each in design.columns if each.derived for name in each.derived.counts_missing}
        for column in declaration["columns"]:
            column.pop("periods", None)
            column["spellings"] = _spellings(column["spellings"])
            if column["name"] in counted:
                column["impute"] = None
    return {"keywords": _plain(keywords), "rows": rows}


def model_of_question(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is left of a question with a formula if spelling and order of terms do not count."""
    rows = parameters["rows"]
    if not (formula := rows.get("formula")) or not (declaration := rows.get("declaration")):
        return {}
    columns = [each for each in declaration["columns"] if each.get("derived") is None]
    return {
        "keywords": parameters["keywords"],
        "declaration": {**declaration, "columns": sorted(columns, key=lambda each: str(each["name"]))},
        "columns": formula["columns"],
        "sides": [plain_code(formula[side]) for side in ("response", "offset")],
        "factors": sorted(sorted(map(plain_code, term)) for term in formula["factors"]),
    }


def _sorted(design: RowDesign, order: Sequence[int]) -> RowDesign:
    """Return a design with its columns in another order, and those of the file by name."""
    declaration = design.declaration
    if declaration:
        by_name = sorted(declaration.columns, key=lambda column: column.name)
        declaration = replace(declaration, columns=tuple(by_name))
    return replace(design, columns=tuple(design.columns[j] for j in order), declaration=declaration)


def _plain(value: Any) -> Any:
    """Return a value with all its fields as plain data; a formula, which many columns share, is a digest."""
    if isinstance(value, Derived):
        return hashlib.sha256(canonical_json(_plain(value.described)).encode()).hexdigest()
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(each) for each in value]
    return value
