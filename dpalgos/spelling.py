"""The one form in which names, levels and ids are compared: texts that look the same are the same."""

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from dpalgos.errors import InputError

_MICRO, _MU = "\u00b5", "\u03bc"  # the micro sign and the Greek letter, which fonts draw alike


def composed(text: str) -> str:
    """Return a text with composed accents (NFC) and one of the two forms of µ."""
    return unicodedata.normalize("NFC", text).replace(_MICRO, _MU)


def as_spelled(declared: Mapping[str, Any], columns: Iterable[Any]) -> dict[str, Any]:
    """Return what is declared by column under the names of ``columns``; other names stay."""
    spelled = {composed(each): each for each in columns if isinstance(each, str)}
    check_look_different("names of declared columns", filter(lambda each: isinstance(each, str), declared))
    return {
        spelled.get(composed(name), name) if isinstance(name, str) else name: value
        for name, value in declared.items()
    }


def check_look_different(what: str, names: Iterable[str]) -> None:
    """Refuse two different names that look the same."""
    known: dict[str, str] = {}
    for name in names:
        first = known.setdefault(composed(name), name)
        if first != name:
            raise InputError(f"{what} must look different, got {first!a} and {name!a}; rename one")


def quoted(name: str) -> str:
    """Return a column's name as formulas write it."""
    return name if name.isidentifier() else f"Q({name!r})"
