"""Prose in a file: paragraphs of a page or template, docstrings and messages of a module, texts of a TOML."""

from __future__ import annotations

import ast
import itertools
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from data.store.output_files import texts_in

_MESSAGE_WORDS = 4  # a shorter string is a key or a label
_FOUND_BY = 6  # words by which a value is found in its file, perhaps on several lines
_EXTERNAL = {
    "citation",
    "file",
    "url",
    "member",
    "label",
    "labels",
}  # keywords: names that keep their spelling
_NOT_PROSE = re.compile(
    r"\A---\n.*?^---$"  # front matter
    r"|^ *(?P<fence>`{3,}).*?^ *(?P=fence)$"
    r"|<!-- (?P<written>\w+): start -->.*?<!-- (?P=written): end -->"  # written by a program
    r"|<!--.*?-->"
    r"|^\|[ :|-]+\|$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"!?\[([^\[\]]*)\](\([^()\s]*\)|\[[^\]]*\])")
_CODE = re.compile(r"(?:\{[\w-]+\})?(?<!`)(`{1,2})(?!`)(?:(?!\n\n)[\s\S])+?(?<!`)\1(?!`)")
_BREAK = re.compile(r"^\s*$|^#+ .*$|^\s*(?:[-*]|\d+\.) |(?<!\\)\|", re.MULTILINE)
_RST_TABLE = re.compile(
    r"^ *=+(?: +=+)+ *$\n(?:.*\n)*? *=+(?: +=+)+ *$\n(?:(?:.*\n)*? *=+(?: +=+)+ *$)?", re.MULTILINE
)
_NUMPYDOC = re.compile(r"^.*\n *-{3,} *$|^ *[\w, *]+ : .*$", re.MULTILINE)
_JINJA_TAG = re.compile(r"\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_JINJA_VALUE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_HTML_TAG = re.compile(r"</?\w[^<>\n]*>")
_FORMULA = re.compile(r"^ {4,}.*[=≤≥∈·√].*$", re.MULTILINE)


@dataclass(frozen=True)
class Passage:
    """A paragraph, a table cell, a docstring's paragraph or a message, with its first line."""

    line: int
    text: str


def passages(path: Path) -> list[Passage]:
    """Return the prose of a Markdown, Python or TOML file, or of a template."""
    text = path.read_text(encoding="utf-8")
    readers = {".py": _of_python, ".jinja": _of_template, ".toml": _of_toml}
    found = readers.get(path.suffix, _of_markdown)(text)
    return [each for each in found if re.search(r"[a-z]{2}", each.text)]


def _of_markdown(text: str, first_line: int = 1) -> Iterator[Passage]:
    text = _NOT_PROSE.sub(_blank, text)
    text = _LINK.sub(lambda found: f" {found[1]} ".ljust(len(found[0])), text)
    text = _CODE.sub(lambda found: re.sub(r"[^\n]", "X", found[0]), text)
    breaks = [0, *(place for found in _BREAK.finditer(text) for place in found.span()), len(text)]
    for start, end in itertools.pairwise(breaks):
        part = text[start:end]
        if not part.lstrip("\n").startswith("    "):  # a formula
            yield Passage(first_line + text.count("\n", 0, start), part)


def _of_template(text: str) -> Iterator[Passage]:
    """Yield the text between tags; a value counts as one word."""
    names = itertools.count()  # a repeated word is a fault
    value = lambda found: f"X{next(names)}" + "\n" * found[0].count("\n")  # noqa: E731
    text = _JINJA_VALUE.sub(value, _HTML_TAG.sub(" ", text))
    text = _JINJA_TAG.sub(lambda tag: "|" + "\n" * tag[0].count("\n"), text)
    return _of_markdown("\n".join(line.strip() for line in text.split("\n")))


def _of_python(text: str) -> Iterator[Passage]:
    nodes = list(ast.walk(ast.parse(text)))
    docstrings = {doc for node in nodes if (doc := _docstring(node))}
    parts = {part for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node)} - {
        node for node in nodes if isinstance(node, ast.JoinedStr)
    }
    for doc in docstrings:
        yield from _of_docstring(str(doc.value), doc.lineno)
    external = {part for node in nodes if isinstance(node, ast.keyword) and node.arg in _EXTERNAL
                for part in ast.walk(node)}  # fmt: skip
    for node in nodes:
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and node not in docstrings | parts | external:
            message = _CODE.sub("X", _message(node)).replace("; ", ". ")  # a remedy follows a semicolon
            if len(re.findall(r"[a-z]{2,}", message)) >= _MESSAGE_WORDS and "\n" not in message.strip():
                yield Passage(node.lineno, message)


def _of_toml(text: str) -> Iterator[Passage]:
    """Yield the values that are sentences or parts of them, such as those that a study's page shows."""
    for value in texts_in(tomllib.loads(text)):
        if len(re.findall(r"[a-z]{2,}", value)) >= _MESSAGE_WORDS:
            begin = re.search(r"[\s\\]+".join(map(re.escape, value.split()[:_FOUND_BY])), text)
            yield Passage(1 + text.count("\n", 0, begin.start() if begin else 0), value)


def _docstring(node: ast.AST) -> ast.Constant | None:
    """Return the string that begins a module, class or function, or follows an attribute."""
    body = getattr(node, "body", None)
    first = body[0] if isinstance(body, list) and body else None
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        return first.value
    return None


def _of_docstring(text: str, line: int) -> Iterator[Passage]:
    """Yield paragraphs; tables, numpydoc's headings and fields, and indented formulas are left out."""
    for pattern in (_RST_TABLE, _NUMPYDOC, _FORMULA):
        text = pattern.sub(_blank, text)
    yield from _of_markdown("\n".join(each.strip() for each in text.split("\n")), line)


def _message(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    parts = enumerate(node.values)
    return "".join(str(part.value) if isinstance(part, ast.Constant) else f"X{i}" for i, part in parts)


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])
