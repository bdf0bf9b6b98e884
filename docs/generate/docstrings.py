"""Docstrings as reStructuredText: formulas keep their symbols, and those of modules their lines."""

from __future__ import annotations

import re

_MARKUP = re.compile(r"(``.+?``|:\w+:`[^`]+`|(?<!\S)\*{1,2}[^\s*][^*]*\*{1,2})")


def escaped(line: str) -> str:
    """Return a line in which ``|``, ``*`` and a last underscore are no markup."""
    parts = _MARKUP.split(line)
    parts[::2] = [re.sub(r"(?<!\\)([|*]|(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def preformatted(lines: list[str]) -> list[str]:
    """Return the docstring of a module: a sentence, and all else as it stands in the file.

    One with a list of parameters is in numpydoc form, as those of functions are.
    """
    if "Parameters" in lines:
        return [*map(escaped, lines)]
    first, rest = lines[:1], lines[1:]
    return [
        *map(escaped, first),
        "",
        *(["::", "", *(f"   {line}" for line in rest), ""] if any(rest) else []),
    ]
