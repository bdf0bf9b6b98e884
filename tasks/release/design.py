"""All public facts that decide which rows an estimator gets, and the question that the ledger stores.

The rows of a release are computed from a `RowDesign` and from nothing else that is public. The estimator runs
with its `Params`. The ledger hashes every field of the two, so two requests are one question only if they
draw from the same inputs. Columns have an order in the question, except for estimators of means: these return
the same numbers for columns in another order.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from data.dataset import Declaration, Marks
from data.formats.canonical import MISSING
from data.ledger.charges import canonical_json
from dpalgos.catalog import Estimator
from dpalgos.formula.allowed import plain_code
from dpalgos.formula.design import FormulaDesign
from dpalgos.params import Params
from dpalgos.typing import FloatArray


@dataclass(frozen=True, kw_only=True)
class UnitColumn:
    """A column of the table that was read, in public units."""

    name: str
    center: float = 0.0
    scale: float = 1.0

    def values(self, table: Any) -> FloatArray:
        return np.asarray((table[self.name] - self.center) / self.scale)


@dataclass(frozen=True, kw_only=True)
class RowDesign:
    """How rows are made from a file.

    Without a ``declaration`` the columns are the numbers of the file. ``intercept``: the last column is 1.
    ``formula`` describes the formula that computes the columns, and names the coefficients.
    """

    columns: tuple[UnitColumn, ...]
    response: UnitColumn | None = None
    user_id: str = ""
    intercept: bool = False
    declaration: Declaration | None = None
    formula: Mapping[str, Any] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def rows(self, table: Any) -> FloatArray:
        """Return the rows, (n, k), of a table: columns (n,) by name."""
        columns = np.column_stack([column.values(table) for column in self.columns])
        return np.column_stack([columns, np.ones(len(columns))]) if self.intercept else columns


def canonical_declaration(declaration: Declaration) -> Declaration:
    """Return the same declaration for all spellings of it: the order of markers, for instance, is free."""
    columns = tuple(
        replace(column, missing=_markers(column.missing), spellings=tuple(sorted(column.spellings)))
        for column in declaration.columns
    )
    return replace(declaration, columns=columns)


def _markers(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({each.strip() for each in words if each.strip().lower() not in MISSING}))


def question_parameters(estimator: Estimator, params: Params, design: RowDesign) -> dict[str, Any]:
    """Return every field that a release is drawn from, next to the data, as plain data."""
    n_columns = len(design.columns) + design.intercept
    order = list(range(n_columns))
    if estimator.task == "mean":
        order.sort(key=lambda j: design.names[j])
        design = _sorted(design, order)
    keywords: dict[str, Any] = {}
    for item in fields(params):
        value = getattr(params, item.name)
        if item.metadata.get("per_column") and value is not None:
            of_column = value * n_columns if len(value) == 1 else value
            value = [of_column[j] for j in order]
        keywords[item.name] = value
    return {"keywords": _plain(keywords), "rows": _plain(design)}


def model_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
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
    if isinstance(value, Marks):
        return value.of_numbers
    if isinstance(value, FormulaDesign):
        return hashlib.sha256(canonical_json(_plain(value.described)).encode()).hexdigest()
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(each) for each in value]
    return value
