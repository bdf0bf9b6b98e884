"""The structure of the project: sizes, one name for one thing, no branches on the kind of a problem."""

import ast
import re
import subprocess
import sys
from collections import Counter
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

import dpalgos
from tasks.problems.kinds import kinds

PROJECT = Path(__file__).resolve().parents[1]
PACKAGES = ("flows", "tasks", "dpalgos", "data", "reports")
FILES = [path for package in PACKAGES for path in sorted((PROJECT / package).rglob("*.py"))]


@cache
def parsed(path):
    return ast.parse(path.read_text())


def relative(path):
    return path.relative_to(PROJECT).as_posix()


# Where a plugin is a file, more are welcome.
PLUGINS = {"dpalgos/central", "dpalgos/comparators", "dpalgos/nonprivate", "dpalgos/local"}
PLUGINS |= {"dpalgos/user_level", "tasks/problems/sources", "data/datasets", "reports/exhibits"}
MOST_FILES, MOST_LINES = 15, 80


def test_no_folder_holds_many_files():
    counted = Counter(relative(path.parent) for path in FILES)
    assert {folder: n for folder, n in counted.items() if n > MOST_FILES and folder not in PLUGINS} == {}


def test_a_function_fits_on_a_screen():
    """From its docstring to its end: frameworks and users read signatures."""
    long = [
        (relative(path), node.name, lines)
        for path in FILES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (lines := node.end_lineno - node.body[0].lineno + 1) > MOST_LINES
    ]
    assert long == []


def test_no_two_classes_share_a_name():
    names = [
        node.name
        for path in FILES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert [name for name, n in Counter(names).items() if n > 1] == []


def test_nobody_outside_asks_which_kind_a_problem_is_or_imports_its_source_or_measure():
    sources = "|".join(kind.source.__name__ for kind in kinds().values())
    modules = {
        re.escape(module)
        for kind in kinds().values()
        for module in (kind.source.__module__, kind.measure.measure.__module__)
    }
    asks = rf"isinstance\([^)]*\b({sources})\b|problem\.kind ==|problem\[\"kind\"\]|kind in \("
    pattern = re.compile(rf"{asks}|(from|import) ({'|'.join(modules)})\b")
    outside = [path for path in FILES if "tasks/problems/" not in relative(path)]
    assert [
        (relative(path), found[0]) for path in outside if (found := pattern.search(path.read_text()))
    ] == []


OWN = {"_publish", "_bound", "_fresh", "_read"}  # of objects that our own classes make


def test_no_private_name_of_another_library_is_imported_or_read():
    pytest.importorskip("ruff")
    check = [sys.executable, "-m", "ruff", "check", "--isolated", "--preview", "--select", "PLC2701,SLF001"]
    command = [*check, "--output-format=concise", *PACKAGES]
    said = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False).stdout
    found = re.findall(r"^(\S+): (?:PLC2701|private|SLF001|import-private).*`(\w+)`", said, re.MULTILINE)
    assert {name for _, name in found} >= OWN
    assert [each for each in found if each[1] not in OWN and "tasks/external/methods/" not in each[0]] == []


NEEDED_FROM_CALLERS = {
    "row_bound": "paper C, where rows are known to be shorter than their box allows",
    "response_moment": "paper C's bound of responses with heavy tails",
}


def test_a_setting_is_used_by_a_study_the_league_a_page_or_a_command():
    """A setting that nothing sets is a constant with its reason beside it."""
    places = [(package, "*.py") for package in PACKAGES if package != "dpalgos"]
    places += [("flows", "*.toml"), ("docs", "*.md")]
    used = {
        word
        for folder, pattern in places
        for path in (PROJECT / folder).rglob(pattern)
        for word in re.findall(r"\w+", path.read_text())
    }
    settings = {item.name for entry in dpalgos.catalog() for item in fields(entry.parameters)}
    assert settings - used == set(NEEDED_FROM_CALLERS)
