"""The reading list of a reviewer of privacy is complete: its files import nothing that it does not name."""

import ast
import re

import pytest

from tests.builders import PROJECT

PAGE = (PROJECT / "docs" / "contributing" / "sign.md").read_text(encoding="utf-8")
READ, SKIPPED = PAGE.split("## What they import")
FILES = re.findall(r"^\| `([\w/]+\.py)`", READ, re.MULTILINE)
NAMED = {name.removesuffix(".py").replace("/", ".") for name in FILES} | set(
    re.findall(r"`((?:dpalgos|data)\.[\w.]+)`", SKIPPED)
)


def imports_of(name):
    for node in ast.walk(ast.parse((PROJECT / name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module in ("data.ledger", "data.store"):
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module.startswith(("dpalgos.", "data.")):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.startswith(("dpalgos", "data.")))


def test_what_a_listed_file_imports_is_on_the_page():
    assert len(FILES) > 20
    assert {each for name in FILES for each in imports_of(name)} - NAMED == set()


def test_the_page_states_the_length_of_what_it_lists():
    lines = sum(len((PROJECT / name).read_text(encoding="utf-8").splitlines()) for name in FILES)
    assert int(re.search(r"about ([\d,]+) lines", PAGE)[1].replace(",", "")) == pytest.approx(lines, rel=0.1)
