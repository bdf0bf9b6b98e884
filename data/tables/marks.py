"""Decimal marks and thousands separators of a CSV file: declared, or the only ones that a column can have."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from data.columns import PLAIN, Marks
from data.errors import DataError
from data.formats.canonical import Cells
from data.tables.sources import Source

_MARKED = r"^\s*[+-]?\d*[.,]\d+(?:[eE][+-]?\d+)?\s*$"
_EITHER = r"^\s*[+-]?[1-9]\d{0,2}[.,]\d{3}\s*$"  # its mark is a decimal one, or stands between thousands
# No plain number, but one with marks between thousands or a decimal comma, maybe of a currency.
_GROUPS = r"\d{1,3}([.,'’ \x{a0}\x{202f}]\d{3})+([.,]\d*)?|\d{1,2}(,\d\d)+,\d{3}|\d*,\d+"
_GROUPED = rf"^[^\d.,]{{0,4}}({_GROUPS})[^\d.,]{{0,4}}$"


class FileMarks:
    """How one file writes numbers. A column speaks for itself only, and a column of text not at all.

    Between semicolons a comma is a decimal mark, unless marks are declared. Numbers with two readings are a
    question: their owner declares the marks.
    """

    def __init__(self, declared: Marks = PLAIN) -> None:
        self._declared = declared
        self._kinds: dict[tuple[str, str], set[bool]] = defaultdict(set)  # (column, mark) → can it be either
        self._unclear = set[str]()
        self.set_separator("")

    @property
    def separator(self) -> str:
        """The declared separator of cells, or ""."""
        return self._declared.separator

    def set_separator(self, separator: str) -> None:
        """Set what separates cells; "" for a file that stores numbers instead of text."""
        marks = self._declared if separator else PLAIN
        self._is_declared, self._is_open = not marks.are_plain, marks.are_plain and separator == ";"
        self._decimal = marks.decimal or ("," if separator == ";" and marks.thousands != "," else ".")
        between = {"": "(?:)", " ": r"[ \x{a0}\x{202f}]"}.get(marks.thousands, re.escape(marks.thousands))
        digits = rf"(?:\d{{1,3}}(?:{between}\d{{3}})+|\d*)"
        self._number = rf"^\s*[+-]?{digits}(?:{re.escape(self._decimal)}\d*)?(?:[eE][+-]?\d+)?\s*$"
        self._between = between if marks.thousands else ""

    def plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a piece with plain decimal points, and remember the marks of each column."""
        if not (self._is_declared or self._is_open):
            return batch
        columns = [
            self._translated(name, column)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def plain_codes(self, path: Source, name: str, codes: Sequence[str]) -> list[str]:
        """Return codes for a missing number with plain decimal points; refuse one that no cell can equal."""
        texts = pa.array(codes, pa.string())
        of_file = rf"{self._number}|{_MARKED}" if self._is_open else self._number
        is_number = pc.match_substring_regex(texts, rf"{_MARKED}|{_GROUPED}")
        if odd := texts.filter(pc.and_not(is_number, pc.match_substring_regex(texts, of_file))).to_pylist():
            raise DataError(
                f"{path}: missing of {name!r} must be written as the file writes numbers, got {odd[0]!r}; "
                'correct it, or declare decimal = "," or thousands = "." below [data]'
            )
        is_plain = not (self._is_declared or self._is_open)
        return list((texts if is_plain else self._translated(name, texts)).to_pylist())

    def notice(self, name: str, cells: Cells) -> None:
        """Remember a column some of whose cells are text only for their marks."""
        texts = pa.array(cells.values, pa.string())
        if not self._is_declared and pc.any(pc.match_substring_regex(texts, _GROUPED)).as_py():
            self._unclear.add(name)

    def is_unclear(self, name: str) -> bool:
        """Return whether the numbers of a column have two readings, or other marks than the declared ones."""
        by_mark = [kinds for mark in ".," if (kinds := self._kinds.get((name, mark)))]
        return name in self._unclear or len(by_mark) > 1 or any(False not in kinds for kinds in by_mark)

    def refuse_unclear(self, path: Source, names: Iterable[str]) -> None:
        if any(map(self.is_unclear, names)):
            raise DataError(
                f"{path} has a column of numbers whose points or commas may be decimal marks or stand "
                'between thousands; declare them, e.g. decimal = "," and thousands = "." below [data] '
                "(dpcost init --decimal , --thousands .), or write plain numbers"
            )

    def _translated(self, name: str, column: pa.Array) -> pa.Array:
        fits, marked = (pc.match_substring_regex(column, each) for each in (self._number, _MARKED))
        if self._is_declared and pc.any(pc.and_not(marked, fits)).as_py():
            self._unclear.add(name)
        for mark in ".," if self._is_open else "":
            marked_texts = column.filter(pc.and_(marked, pc.match_substring(column, mark)))
            self._kinds[name, mark].update(
                pc.match_substring_regex(marked_texts, _EITHER).unique().to_pylist()
            )
        plain = pc.replace_substring_regex(column, self._between, "") if self._between else column
        return pc.if_else(fits, pc.replace_substring(plain, self._decimal, "."), column)


def has_words(cells: Cells) -> bool:
    """Return whether some text of a column is no number, whatever its marks mean."""
    texts = pa.array(cells.values, pa.string())
    return bool(pc.any(pc.invert(pc.match_substring_regex(texts, _GROUPED))).as_py())
