"""Docstrings of modules as reStructuredText: the text stays readable in the source."""

from __future__ import annotations

import re

_KEPT = re.compile(r"(``.+?``|:\w+:`[^`]+`)")
_QUOTED = re.compile(r"``(.+?)``")
_EMPHASIS = re.compile(r"(?<!\S)(\*{1,2}[^\s*][^*]*\*{1,2})")
_ITEM = re.compile(r"([-*•]|\d+\.) ")
_TABLE = re.compile(r"={2,}( +={2,})+$")


def to_rst(text: str) -> str:
    """Return a docstring, without its indentation, whose indented blocks keep their lines."""
    lines = text.splitlines()
    written: list[str] = []
    number = 0
    while number < len(lines):
        if _TABLE.match(lines[number].strip()):
            end = _end_of_table(lines, number)
            written += ["", *_table(lines[number:end]), ""]
            number = end
        elif _starts_block(lines, number):
            end = _end_of_block(lines, number)
            # Without backquotes, and no column moves.
            written += ["::", "", *(_QUOTED.sub(r"\1    ", line).rstrip() for line in lines[number:end]), ""]
            number = end
        else:
            if written and lines[number].strip() and _indent(written[-1]) > _indent(lines[number]):
                written.append("")  # a definition ends with a blank line
            written.append(escaped(lines[number]))
            number += 1
    return "\n".join([*written, ""])


def escaped(line: str) -> str:
    """Return a line in which ``|``, ``*`` and a last underscore are no markup."""
    parts = _KEPT.split(line)
    return "".join(part if number % 2 else _plain(part) for number, part in enumerate(parts))


def _plain(text: str) -> str:
    parts = _EMPHASIS.split(text.replace("|", r"\|"))
    parts[::2] = [re.sub(r"(?<!\\)\*", r"\*", part) for part in parts[::2]]
    return re.sub(r"(\w)_(?!\w)", r"\1\_", "".join(parts))


def _starts_block(lines: list[str], number: int) -> bool:
    before = ["", "", *lines][number : number + 2]  # the two lines before
    alone = not before[1].strip()
    after_paragraph = all(line[:1].strip() and not _ITEM.match(line) for line in before)
    return lines[number].startswith(" " if after_paragraph else "    ") and (alone or after_paragraph)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _end_of_block(lines: list[str], number: int) -> int:
    while number < len(lines) and (not lines[number].strip() or lines[number].startswith(" ")):
        number += 1
    return number


def _end_of_table(lines: list[str], number: int) -> int:
    borders = 0
    while number < len(lines) and borders < 3:
        borders += bool(_TABLE.match(lines[number].strip()))
        number += 1
    return number


def _table(lines: list[str]) -> list[str]:
    """Return a table as it stands, or, where a cell holds markup, as preformatted text."""
    plain = all(escaped(line) == line for line in lines)
    return lines if plain else ["::", "", *("    " + line for line in lines)]
