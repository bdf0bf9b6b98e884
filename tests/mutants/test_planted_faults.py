"""Faults that someone could make, planted one by one in a copy of the project: fast tests must see each.

The tables next to this file list faults by source file and by name, which says what is wrong. A line holds

- ``place``: the function, method or constant that changes;
- ``change``: new text by old text, which stands there once;
- ``tests``: the tests, or files of tests, of which one must fail.

Run one by ``pytest tests/mutants -m slow -k "part of its name"``.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.mutants.changes import changed

PROJECT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(".venv", ".git", ".dpcost", "out", "__pycache__", ".*_cache")
MARKS = "not slow and not server and not browser and not audit"
TABLES = [tomllib.loads(path.read_text()) for path in sorted(Path(__file__).parent.glob("*.toml"))]


@dataclass(frozen=True)
class Fault:
    name: str
    file: str
    place: str
    change: dict[str, str]
    tests: list[str]


FAULTS = [
    Fault(name, file, **line)
    for table in TABLES
    for file, lines in table.items()
    for name, line in lines.items()
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("copy") / "project"
    shutil.copytree(PROJECT, folder, ignore=LEFT_OUT)
    return folder


def run_tests(folder, tests, timeout=None):
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", MARKS, *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=timeout
    )
    return ran.returncode, ran.stdout + ran.stderr


def planted(source, fault):
    return changed(source, fault.place, fault.change)


@cache
def named_tests():
    """Map each test and file of tests, by its name where no other has it, to what pytest calls it."""
    found = defaultdict(list)
    for path in (PROJECT / "tests").rglob("test_*.py"):
        file = path.relative_to(PROJECT).as_posix()
        found[path.stem].append(file)
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE):
            found[name].append(f"{file}::{name}")
    single = {name: ids[0] for name, ids in found.items() if len(ids) == 1}
    return single | {each: each for ids in found.values() for each in ids}


def ids_of(fault):
    split = (name.partition("[") for name in fault.tests)
    return tuple(named_tests()[name] + mark + variant for name, mark, variant in split)


def test_every_fault_has_its_place_and_its_tests():
    lost = []
    for fault in FAULTS:
        try:
            planted((PROJECT / fault.file).read_text(), fault)
            ids_of(fault)
        except (OSError, LookupError) as error:
            lost.append(f"{fault.file}: {fault.name}: {error}")
    assert lost == []
    assert len(FAULTS) == len({fault.name for fault in FAULTS})


@pytest.mark.slow
def test_the_tests_pass_where_nothing_is_planted(copy):
    tests = sorted({test for fault in FAULTS for test in ids_of(fault)})
    status, printed = run_tests(copy, tests)
    assert status == 0, printed[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_caught(copy, fault):
    path = copy / fault.file
    whole = path.read_text()
    path.write_text(planted(whole, fault))
    try:
        status, printed = run_tests(copy, ids_of(fault), timeout=600)  # or it loops for ever
    finally:
        path.write_text(whole)
    assert status == 1, f"not caught (exit status {status}):\n{printed[-3000:]}"
