"""Names of coefficients as people write them: bare, in back-quotes, or in ``Q("…")``.

Put a name with marks, such as ``pre-post``, in quotes, as in formulas. Both kinds of quotes mean the same. A
bare name is accepted if the text is unambiguous.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from dpalgos.errors import InputError

_QUOTED = re.compile(
    r"`([^`]*)`" + r"|\bQ\(\s*" + r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""" + r"\s*\)"
)
_WORD = re.compile(r"[^\W\d]\w*")
_OTHER = re.compile(r"\s+|[-+*/=(),]|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])")
_MARK = "\0"  # stands on both sides of a quoted name; no column has it
_MOST_READINGS = 100


def marked(text: str) -> str:
    """Return text in one Unicode form, with a mark around each quoted name; a quoted word becomes bare."""
    return re.sub(_QUOTED, lambda quoted: _mark(_inside(quoted)), _composed(text))


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def find_name(text: str, known: Iterable[str], columns: Sequence[str] = ()) -> str | None:
    """Return the known name that a text means, with any quotes; None if there is none.

    ``columns`` are names that may be quoted within a name, as in ``C(`my group`)[T.a]``.
    """
    names, spelling = list(known), marked(text)
    if text in names:
        return text
    matches = [name for name in names if spelling in spellings(name, columns)]
    if len(matches) > 1:
        raise InputError(f"{text!r} may be {' or '.join(map(repr, matches))}; rename a column")
    return matches[0] if matches else None


def spellings(name: str, columns: Sequence[str] = ()) -> set[str]:
    """Return all ways to write a name, with marks in place of quotes."""
    name = _composed(name)
    bare = re.sub(_QUOTED, _inside, name)
    return {bare, marked(name), marked_columns(bare, columns), _mark(bare), _mark(name)}


def marked_columns(text: str, columns: Sequence[str]) -> str:
    """Return a bare text with marks around each column whose name is not a word."""
    odd = sorted(
        (each for each in map(_composed, columns) if _mark(each) != each and each), key=len, reverse=True
    )
    return re.sub("|".join(map(re.escape, odd)), lambda one: _mark(one[0]), text) if odd else text


def readings(text: str, terms: Sequence[str], columns: Sequence[str] = ()) -> list[list[int | str]]:
    """Return all ways to read an expression: numbers of terms, and the other parts unchanged."""
    numbers_of: dict[str, set[int]] = {}
    for number, term in enumerate(terms):
        for spelling in spellings(term, columns):
            numbers_of.setdefault(spelling, set()).add(number)
    numbers_of.pop("", None)
    all_readings = list(islice(_read(marked(text), 0, numbers_of, set()), _MOST_READINGS + 1))
    if len(all_readings) > _MOST_READINGS:
        raise InputError(f"{text[:60]!r} is ambiguous; write names in back-quotes")
    return all_readings


def _read(
    text: str, start: int, numbers_of: dict[str, set[int]], dead_ends: set[int]
) -> Iterator[list[int | str]]:
    """Yield all readings from a position on; note the position if there is none."""
    if start == len(text):
        yield []
    if start == len(text) or start in dead_ends:
        return
    steps: list[tuple[int, set[int] | str]] = [
        (start + len(spelling), numbers)
        for spelling, numbers in numbers_of.items()
        if text.startswith(spelling, start) and _is_whole(text, start, start + len(spelling))
    ]
    if other := _OTHER.match(text, start):
        steps.append((other.end(), other[0]))
    is_dead = True
    for end, part in steps:
        for rest in _read(text, end, numbers_of, dead_ends):
            is_dead = False
            yield from ([each, *rest] for each in ([part] if isinstance(part, str) else part))
    if is_dead:
        dead_ends.add(start)


def _is_whole(text: str, start: int, end: int) -> bool:
    """Return whether a name ends at the end of a word."""
    words = [text[place - 1 : place + 1] for place in (start, end) if 0 < place < len(text)]
    return not any(re.fullmatch(r"\w\w", each) for each in words)


def _inside(quoted: re.Match[str]) -> str:
    return quoted[1] if quoted[1] is not None else str(ast.literal_eval(quoted[2]))


def _mark(name: str) -> str:
    return name if _WORD.fullmatch(name) else f"{_MARK}{name}{_MARK}"
