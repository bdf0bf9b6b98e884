"""Decimal marks and thousands separators of a CSV file, which its owner declares."""

import re

import pyarrow as pa
import pyarrow.compute as pc

from data.columns import Marks

_MARKED = r"^\s*[+-]?\d*[.,]\d+(?:[eE][+-]?\d+)?\s*$"
_EITHER = r"^\s*[+-]?[1-9]\d{0,2},\d{3}\s*$"  # a decimal comma, or one between thousands
# No plain number, but one with marks between thousands or a decimal comma, maybe of a currency.
_GROUPS = r"\d{1,3}([.,'’ \x{a0}\x{202f}]\d{3})+([.,]\d*)?|\d{1,2}(,\d\d)+,\d{3}|\d*,\d+"
_GROUPED = rf"^[^\d.,]{{0,4}}({_GROUPS})[^\d.,]{{0,4}}$"
REMEDY = (
    'declare them, e.g. decimal = "," and thousands = "." below [data] (dpcost init --decimal , '
    "--thousands .), or write plain numbers"
)


class NumberMarks:
    """How the numbers of a CSV file are written: as declared, or by the usage of its separator.

    Between semicolons a comma is a decimal mark, otherwise a point.
    """

    def __init__(self, declared: Marks, separator: str) -> None:
        self._is_open = declared.are_plain and separator == ";"
        self._decimal = declared.decimal or ("," if separator == ";" and declared.thousands != "," else ".")
        between = {"": "(?:)", " ": r"[ \x{a0}\x{202f}]"}.get(
            declared.thousands, re.escape(declared.thousands)
        )
        digits = rf"(?:\d{{1,3}}(?:{between}\d{{3}})+|\d*)"
        self._number = rf"^\s*[+-]?{digits}(?:{re.escape(self._decimal)}\d*)?(?:[eE][+-]?\d+)?\s*$"
        self._between = between if declared.thousands else ""

    def plain(self, column: pa.Array) -> pa.Array:
        """Return a column of text, in which numbers have decimal points and nothing between thousands."""
        plain = pc.replace_substring_regex(column, self._between, "") if self._between else column
        plain = pc.replace_substring(plain, self._decimal, ".")
        return pc.if_else(pc.match_substring_regex(column, self._number), plain, column)

    def are_unclear(self, column: pa.Array) -> bool:
        """Return whether a number of a column has other marks than these, or can be read in two ways."""
        fits, marked = (pc.match_substring_regex(column, each) for each in (self._number, _MARKED))
        odd = pc.any(pc.and_not(marked, fits)).as_py()
        return bool(odd or (self._is_open and pc.any(pc.match_substring_regex(column, _EITHER)).as_py()))


def are_grouped(texts: list[str]) -> bool:
    """Return whether texts are numbers with marks between thousands, decimal commas or a currency."""
    return bool(texts) and bool(pc.all(pc.match_substring_regex(pa.array(texts), _GROUPED)).as_py())
