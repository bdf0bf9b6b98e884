"""Names of coefficients as people write them: bare, in back-quotes, or in ``Q("…")``.

A name with marks, such as ``pre-post``, must be quoted, as in formulas. Both kinds of quotes mean the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from dpalgos.errors import InputError, shown
from dpalgos.spelling import composed

_QUOTED = re.compile(
    r"`([^`]*)`" + r"|\bQ\(\s*" + r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""" + r"\s*\)"
)
_WORD = re.compile(r"[^\W\d]\w*")
_OTHER = re.compile(r"\s+|[-+*/=(),]|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])")
_MARK = "\0"  # stands on both sides of a quoted name; no column has it
_FACTOR = r"(?:\0[^\0]*\0|[^\W\d]\w*|[^\W\d][\w.]*\(.*?\))(?:\[.*?\])?"
_TERM = re.compile(f"{_FACTOR}(?::{_FACTOR})*")  # a term of a formula, such as C(region)[T.south]


def marked(text: str) -> str:
    """Return text in one Unicode form, with a mark around each quoted name; a quoted word becomes bare."""
    return re.sub(_QUOTED, lambda quoted: _mark(_inside(quoted)), composed(text))


@cache
def cut_names(cuts: tuple[float, ...]) -> tuple[str, ...]:
    """Return different names of cut points, with as few digits as that needs, but at least 6."""
    names = (tuple(f"{cut:.{digits}g}" for cut in cuts) for digits in range(6, 18))
    return next(each for each in names if len(set(each)) == len(cuts))


def check_names(argument: str, names: Any) -> list[str]:
    """Return a list of names; refuse one text, and others than text."""
    is_list = np.iterable(names) and not isinstance(names, str)
    if not is_list or not all(isinstance(each, str) for each in names):
        raise InputError(f"{argument} must be a list of names, got {shown(names)}")
    return list(names)


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
    name = composed(name)
    bare = re.sub(_QUOTED, _inside, name)
    written = {marked_columns(bare, columns), *({marked(name)} if bare != name else ())}
    return {_mark(bare), _mark(name), *filter(_TERM.fullmatch, written)}


def marked_columns(text: str, columns: Sequence[str]) -> str:
    """Return a bare text with marks around each column whose name is not a word."""
    odd = sorted(
        (each for each in map(composed, columns) if _mark(each) != each and each), key=len, reverse=True
    )
    return re.sub("|".join(map(re.escape, odd)), lambda one: _mark(one[0]), text) if odd else text


def reading_of(text: str, terms: Sequence[str], columns: Sequence[str] = ()) -> list[int | str] | None:
    """Return an expression as numbers of terms and other parts; None if it cannot be read."""
    _check_quotes(text, {*terms, *columns}, columns)
    spelled = {spelling for each in terms for spelling in spellings(each, columns)}
    names = sorted(filter(None, spelled), key=len, reverse=True)
    left, parts = text, list[int | str]()
    while left:
        reading = marked(left)
        known = next((one for one in names if re.match(rf"{re.escape(one)}(?![\w.(:\[])", reading)), "")
        part = known or (other[0] if (other := _OTHER.match(reading)) else "")
        written = _beginning(left, part, reading[len(part) :])
        if not part or not written:
            return None
        term = find_name(written, terms, columns) if known else None
        parts.append(part if term is None else terms.index(term))
        left = left[len(written) :]
    return parts


def _beginning(text: str, part: str, others: str) -> str:
    """Return the beginning of a text that reads as ``part``, before what reads as ``others``."""
    beginnings = (text[:end] for end in range(1, len(text) + 1))
    return next((one for one in beginnings if marked(one) == part and marked(text[len(one) :]) == others), "")


def _check_quotes(text: str, names: Iterable[str], columns: Sequence[str]) -> None:
    """Refuse a name with marks outside quotes: it may be arithmetic."""
    outside = re.sub(f"{_MARK}[^{_MARK}]*{_MARK}", " ", marked(text))
    for name in names:
        bare = composed(re.sub(_QUOTED, _inside, name))
        whole = rf"(?<![\w.]){re.escape(bare)}(?![\w.])"
        if bare and bare not in spellings(name, columns) and re.search(whole, outside):
            raise InputError(
                f"r_matrix has the name {bare!r} without quotes, got {text!r}; write `{bare}` or "
                f'Q("{bare}"), or put blanks around - for a difference'
            )


def _inside(quoted: re.Match[str]) -> str:
    return quoted[1] if quoted[1] is not None else str(ast.literal_eval(quoted[2]))


def _mark(name: str) -> str:
    return name if _WORD.fullmatch(name) else f"{_MARK}{name}{_MARK}"
