"""Numbers, lists and codes as a person types them, and as a field shows them."""

import json
import re
from collections.abc import Iterable
from typing import Any

OPEN = "?"  # a value that a person has still to state
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_ENTRIES = {mark: re.compile(rf"\s*({_QUOTED}|[^{mark}]*?)\s*(?:{mark}|$)") for mark in ",;"}
_OF_CATEGORY = re.compile(rf"\s*({_QUOTED}|[^=]*?)\s*(?:=(.*))?", re.DOTALL)
_EITHER = re.compile(r"-?[1-9]\d{0,2}[.,]\d{3}")  # 1,500 is 1.5 or 1500
_GROUPED = re.compile(r"-?[1-9]\d{0,2}([ .,'’\xa0\u202f])\d{3}(?:\1\d{3})*(?:(?!\1)[.,]\d+)?")
_DECIMAL_COMMA = re.compile(r"-?\d+,\d+")


def number_of(text: str) -> float | int | str:
    """Return a number that a person typed; another text as it is, which the check of the file refuses.

    Marks are those of the person's language, as in 1.234,5. A point before three digits is a decimal one.
    """
    plain = text.strip().replace("−", "-")
    if not _EITHER.fullmatch(plain):
        if grouped := _GROUPED.fullmatch(plain):
            plain = plain.replace(grouped[1], "")
        if _DECIMAL_COMMA.fullmatch(plain):
            plain = plain.replace(",", ".")
    for read in (int, float):
        try:
            return read(plain)
        except ValueError:
            continue
    return plain or OPEN


def count_of(text: str) -> float | int | str:
    """Return a whole number that a person typed: 4,000 and 4.000 are 4000."""
    return number_of(re.sub(r"[.,]", "", text) if _EITHER.fullmatch(text.strip()) else text)


def numbers_of(text: str) -> list[float | int | str]:
    return [number_of(each) for each in list_of(text)]


def list_of(text: str) -> list[str]:
    """Return texts between semicolons, or else commas; one in quotation marks is as JSON writes it."""
    mark = ";" if ";" in re.sub(_QUOTED, "", text) else ","
    return [_unquoted(entry[1]) for entry in _ENTRIES[mark].finditer(text) if entry[1].strip()]


def _unquoted(entry: str) -> str:
    if entry[0] != '"':
        return entry.strip()
    try:
        return str(json.loads(entry))
    except ValueError:  # a backslash that a person typed
        return entry[1:-1]


def codes_of(text: str) -> dict[str, list[str]]:
    """Return the codes of each category, from lines such as ``female = 2, F``."""
    lines = filter(None, map(_OF_CATEGORY.fullmatch, filter(str.strip, text.splitlines())))
    return {_unquoted(line[1].strip()): list_of(line[2]) for line in lines}


def text_of_list(values: Iterable[Any]) -> str:
    return ", ".join(quoted_entry(str(each)) for each in values if each != OPEN)


def quoted_entry(text: str) -> str:
    """Return a text as an entry of a list, in quotation marks if it has marks of the list."""
    is_plain = text == text.strip() and not re.search(r'[,;="\r\n]', text)
    return text if is_plain else json.dumps(text, ensure_ascii=False)
