"""The types of the columns of a file, from which `dpcost init` writes a study; no value is kept or shown."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data.columns import PLAIN, Marks
from data.errors import DataError
from data.formats.canonical import MOMENT, NUMBER, CanonicalBatch, Cells, storage_type, written_text
from data.tables.marks import FileMarks, has_words
from data.tables.reading import cells_of, opened_table
from data.tables.sources import Source

ColumnType = Literal["number", "whole number", "text", "empty", "nested"]
# Dates in other notations than ISO's, such as 31.12.2020, 12/31/20, 31-Dec-2020 or 31DEC2020.
_DATE = re.compile(
    r"\d{1,2}([./-])\d{1,2}\1\d{2}(\d\d)?|\d{4}([./])\d{1,2}\3\d{1,2}"
    r"|\d{1,2}[- ]?[^\W\d]{3,9}\.?[- ]?\d{2}(\d\d)?"
)
_MOST_COLUMNS = 1_000  # that a study file can declare
# A wider one comes later.
_TYPES: tuple[ColumnType, ...] = ("empty", "whole number", "number", "text", "nested")


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """The columns of a file and its number of rows; no value is kept."""

    types: dict[str, ColumnType]
    n_rows: int
    codes: tuple[str, ...]  # columns of numbers some of which are written with leading zeros, as codes are
    dates: tuple[str, ...]  # columns of text all of which are dates


def table_schema(path: Source, marks: Marks = PLAIN) -> TableSchema:
    """Return the type of each column of a file, and its number of rows; no value is kept or shown."""
    file_marks, words = FileMarks(marks), set[str]()
    with opened_table(path, file_marks) as (names, batches):
        _check_header(path, names)
        types: dict[str, ColumnType] = dict.fromkeys(names, "empty")
        codes, not_dates, n_rows = set[str](), set[str](), 0
        for rows in batches:
            batch = CanonicalBatch(rows)
            n_rows += rows.num_rows
            for name in names:
                if pa.types.is_nested(storage_type(rows.column(name).type)):
                    types[name] = "nested"
                    continue
                cells = cells_of(path, batch, name)
                file_marks.notice(name, cells)
                if has_words(cells):
                    words.add(name)
                type_here = "text" if _is_period(rows.schema.field(name)) else _type_of(cells)
                types[name] = max(types[name], type_here, key=_TYPES.index)
                if _has_leading_zeros(rows.column(name)):
                    codes.add(name)
                are_dates = all(map(_is_date, cells.values)) and not np.isfinite(cells.numbers).any()
                if not are_dates and not _is_period(rows.schema.field(name)):
                    not_dates.add(name)
    if marks.are_plain:
        file_marks.refuse_unclear(path, [name for name in names if name not in words])
    types |= {name: "text" for name in names if file_marks.is_unclear(name)}
    return TableSchema(
        types=types,
        n_rows=n_rows,
        codes=tuple(name for name in names if name in codes and types[name] == "whole number"),
        dates=tuple(name for name in names if name not in not_dates and types[name] == "text"),
    )


def _has_leading_zeros(column: pa.Array) -> bool:
    text = written_text(column)
    return text is not None and bool(pc.any(pc.match_substring_regex(text, r"^\s*0\d+\s*$")).as_py())


def _is_period(field: pa.Field) -> bool:
    """Return whether a field holds periods of pandas, whose numbers are counted from 1970."""
    names = (
        getattr(field.type, "extension_name", ""),
        (field.metadata or {}).get(b"ARROW:extension:name", b""),
    )
    return names[0] == "pandas.period" or names[1] == b"pandas.period"


def _is_date(text: str) -> bool:
    match = MOMENT.fullmatch(text)
    return bool((match and match[1]) or _DATE.fullmatch(text))


def _check_header(path: Source, names: Sequence[str]) -> None:
    if len(names) > _MOST_COLUMNS:
        raise DataError(
            f"{path} has {len(names):,} columns, and a study declares at most {_MOST_COLUMNS:,}; keep those "
            "that you need"
        )
    blank = next((position for position, name in enumerate(names, 1) if not name.strip()), None)
    if blank:
        raise DataError(f"{path}: column number {blank} has no name; name it in the header")
    are_numbers = pc.match_substring_regex(pa.array([name.strip().lower() for name in names]), NUMBER)
    if 2 * sum(are_numbers.to_pylist()) > len(names):
        raise DataError(
            f"{path} seems to lack a header: most of its column names are numbers; write names above the rows"
        )


def _type_of(cells: Cells) -> ColumnType:
    if (cells.texts >= 0).any():
        return "text"
    numbers = cells.numbers[np.isfinite(cells.numbers)]
    if not len(numbers):
        return "number" if np.isinf(cells.numbers).any() else "empty"
    return "whole number" if (numbers == np.rint(numbers)).all() else "number"
