"""Every block of code in README and site runs; the site is written from results, and builds."""

import importlib
import os
import pkgutil
import re
import shlex
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
import typer

from flows.cli.main import app
from tests.builders import DPCOST, PROJECT

NOT_WRITTEN = {"_build", "generated", "changes"}
PAGES = [path for path in sorted((PROJECT / "docs").rglob("*.md")) if not NOT_WRITTEN & set(path.parts)]
SOURCES = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *PAGES]
BLOCK = re.compile(r"^```(\S+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CELL = "{code-cell}"  # runs when the site is built
DIRECTIVES = {"{toctree}", "{include}", "{literalinclude}", "{eval-rst}", "{csv-table}"}
ADDING = PROJECT / "docs" / "contributing" / "adding"  # its examples run in tests/test_adding.py
# What the blocks call that needs other machines, a running server, a terminal or an hour.
ELSEWHERE = ("make", "prefect", "docker", "dask", "pip", "ipython")
MECHANISM = """
import numpy as np


def my_mechanism(table, seed):
    noise = np.random.default_rng(seed).laplace(0, 2 * table.shape[1], table.shape[1])
    return table.clip(-1, 1).sum(axis=0) + noise
"""


def blocks(path, *languages):
    found = BLOCK.findall(path.read_text(encoding="utf-8"))
    return [code for language, code in found if language in languages]


def having(language):
    return [pytest.param(path, id=path.stem) for path in SOURCES if blocks(path, language)]


def commands(code):
    joined = re.sub(r"\\\n", " ", code)
    lines = [shlex.split(line, comments=True) for line in joined.splitlines()]
    return [words for words in lines if words]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the tables that the pages name, and a home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPCOST_HOME", str(tmp_path / "home"))
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"age": rng.integers(20, 90, 4000), "weight": rng.normal(75, 10, 4000).round(1)})
    people["cost"] = (people.age + rng.normal(20, 5, 4000)).round(1)
    people.to_csv("people.csv", index=False)
    people.to_csv("patients.csv", index=False)
    with closing(sqlite3.connect("clinic.sqlite")) as clinic:
        people.to_sql("people", clinic)
    with duckdb.connect("school.duckdb") as school:
        school.execute("CREATE TABLE students AS SELECT age / 30 AS colgpa, 10 * weight AS sat FROM people")
    people.assign(age=people.age / 90, weight=people.weight / 200, person=range(4000)).to_csv("rows.csv")
    return tmp_path


def test_every_block_says_what_it_is():
    known = {"python", "console", "toml", CELL, *DIRECTIVES}
    for path in SOURCES:
        assert {kind for kind, _ in BLOCK.findall(path.read_text(encoding="utf-8"))} <= known, path


def test_cells_are_as_wide_as_a_page_of_the_site():
    cells = [(path, code) for path in PAGES for code in blocks(path, CELL) if "[remove-cell]" not in code]
    assert [(path.name, line) for path, code in cells for line in code.splitlines() if len(line) > 88] == []


@pytest.mark.parametrize("path", having(CELL))
def test_cells_that_are_shown_import_what_they_use(path):
    cells = [code for code in blocks(path, CELL) if "[remove-cell]" not in code]
    code = re.sub(r"^:tags: .*$", "", "\n".join(cells), flags=re.MULTILINE)
    code = re.sub(r"^(\s*)((\w+ = )?)!.*$", r"\1\2None", code, flags=re.MULTILINE)  # a shell command
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "-"]
    found = subprocess.run(ruff, input=code, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("path", [each for each in having("python") if each.values[0].parent != ADDING])
def test_python_runs(path, folder):
    names: dict[str, object] = {}
    for code in blocks(path, "python"):
        exec(compile(code, path.name, "exec"), names)


@pytest.mark.parametrize("path", having("console"))
def test_every_command_exists(path):
    targets = re.findall(r"^([\w-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    known = set(typer.main.get_command(app).commands)
    for code in blocks(path, "console"):
        for program, *words in commands(code):
            if program == "make":
                assert words[0] in targets
            elif program.endswith("dpcost") and not words[0].startswith("-"):
                assert words[0] in known


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize("path", having("console"))
def test_shell_blocks_run(path, folder):
    here = Path(__file__)
    dpcost, editor, python = (
        here.with_name(f"{name}.sh").read_text() for name in ("dpcost", "editor", "python")
    )
    scripts = {f"bin/{name}": "#!/bin/sh\nexit 0\n" for name in ELSEWHERE} | {"my_file.py": MECHANISM}
    scripts |= {".venv/bin/dpcost": dpcost, "bin/dpcost": dpcost, "bin/editor": editor}
    scripts |= {"bin/python": python}
    for name, text in scripts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(stat.S_IRWXU)
    (folder / "tests").symlink_to(PROJECT / "tests")  # as in a clone
    for code in blocks(path, "toml"):
        (folder / code.splitlines()[0].removeprefix("# ")).write_text(code)
    programs = folder / "bin"
    variables = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "MAIN": DPCOST}
    variables |= {"PYTHONPATH": str(PROJECT), "EDITOR": str(programs / "editor"), "PYTHON": sys.executable}
    asked = {"input": "y\n" * 20}  # to what a release asks
    asked |= {"cwd": folder, "env": variables, "capture_output": True, "text": True, "timeout": 600}
    for code in blocks(path, "console"):
        done = subprocess.run(["bash", "-eu", "-c", code], **asked)
        assert done.returncode == 0, (code + done.stdout + done.stderr)[-3000:]


def test_every_name_on_the_pages_of_the_library_exists():
    pages = [path for path in (PROJECT / "docs" / "api").iterdir() if path.suffix in (".md", ".rst")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in pages)
    names = re.findall(r"(?:^   |auto\w+:: )(dpalgos[\w.]*)$", text, re.MULTILINE)
    assert len(names) > 6
    for name in names:
        pkgutil.resolve_name(name)


def test_what_the_prose_quotes_was_measured(monkeypatch):
    monkeypatch.syspath_prepend(str(PROJECT / "docs"))
    pages = "".join(path.read_text(encoding="utf-8") for path in (PROJECT / "docs").rglob("*.md"))
    facts = importlib.import_module("generate.measured").facts
    quoted = set(re.findall(r"\{evidence\}`([^`]+)`", pages))
    assert quoted
    assert quoted <= set(facts())


def test_the_site_lists_every_command_and_option_with_a_help_text(monkeypatch):
    monkeypatch.syspath_prepend(str(PROJECT / "docs"))
    generate = importlib.import_module("generate.commands")
    sections = generate.pages()["commands.txt"].split("\n## ")
    assert len(sections) == len(list(generate.commands()))
    for section, (name, command) in zip(sections, generate.commands(), strict=True):
        assert section.removeprefix("## ").startswith(f"{name}\n")
        assert command.help
        assert not command.hidden, name
        for each in command.params:
            assert each.help, (name, each.name)
            assert any(f"`{word}" in section for word in (*each.opts, each.metavar or each.name.upper()))


def words_of_table(table):
    """Return the first cell of each row, and what is no row: all but the numbers, which are drawn anew."""
    lines = [line for line in table.splitlines() if line]
    return [line.split("|")[1].strip() if line.startswith("|") else line for line in lines]


@pytest.mark.slow
def test_the_table_of_the_readme_is_what_a_release_writes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(PROJECT / "docs"))
    generate = importlib.import_module("generate.release_table")
    monkeypatch.chdir(tmp_path)
    for name in ("DPCOST_HOME", "PATH"):  # which the tutorial sets
        monkeypatch.setenv(name, os.environ.get(name, ""))
    readme = generate.README.read_text(encoding="utf-8")
    shown = readme.split(generate.START)[1].split(generate.END)[0]
    written = generate.table_of_the_tutorial()
    assert words_of_table(written) == words_of_table(shown)
    heads = [next(line for line in table.splitlines() if line.startswith("|")) for table in (written, shown)]
    assert heads[0] == heads[1]
