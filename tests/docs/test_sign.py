"""The reading list of a reviewer of privacy is complete: its files import nothing that it does not name."""

import ast
import re
import sys

import numpy as np
import pytest

from dpalgos.hardened_release import draw_release, release_plan
from dpalgos.rows.sample import Sample
from tests.builders import PROJECT

PAGE = (PROJECT / "docs" / "contributing" / "sign.md").read_text(encoding="utf-8")
READ, SKIPPED = PAGE.split("## What they import")
UNUSED = SKIPPED.partition("enters no function of these")[2]
FILES = re.findall(r"^\| `([\w/]+\.py)`", READ, re.MULTILINE)


def modules_named(text):
    return set(re.findall(r"`((?:dpalgos|data)\.[\w.]+)`", text))


NAMED = {name.removesuffix(".py").replace("/", ".") for name in FILES} | modules_named(SKIPPED)


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


def modules_entered(call):
    """Return the modules of which a function or a method is entered."""
    entered = set()

    def note(frame, event, _):
        if event == "call":
            entered.add(frame.f_globals.get("__name__", ""))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered


@pytest.mark.parametrize("options", [{}, {"interval": 0.95}], ids=["mean", "interval"])
def test_a_release_of_the_example_enters_no_module_that_is_for_others(options):
    keywords = {"epsilon": 1.0, "delta": 1e-6, "value_bound": 1.0, **options}
    X = np.random.default_rng(0).uniform(-1, 1, (400, 2))

    def release():
        draw_release(release_plan("dp_mean", 400, 2, keywords), Sample(X))

    release()  # imports what is needed
    entered = modules_entered(release)
    assert "dpalgos.core.hardened_noise" in entered
    assert len(modules_named(UNUSED)) > 10
    assert entered & modules_named(UNUSED) == set()
    assert {name for name in entered if name.startswith("dpalgos.")} - NAMED == set()
