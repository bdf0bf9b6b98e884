"""The site and the guide: written from catalog, commands and results; it builds and asks no network."""

import importlib
import os
import re
import subprocess
import sys

import pytest
import typer

from data.store.folders import PROJECT_ROOT as PROJECT
from flows.cli.main import app
from flows.studies.evidence import facts

REQUEST = re.compile(
    r"""(?:<(?:script|img|iframe|source|video)[^>]+src=|<link[^>]+href=|url\(|@import\s)\s*["']?(?:https?:)?//[^"')\s]+"""
)


def test_what_the_prose_quotes_was_measured():
    quoted = {
        name
        for path in (PROJECT / "docs").rglob("*.md")
        for name in re.findall(r"\{evidence\}`([^`]+)`", path.read_text(encoding="utf-8"))
    }
    assert quoted
    assert quoted <= set(facts())


@pytest.mark.slow
@pytest.mark.server
def test_the_site_builds_without_a_warning_and_requests_nothing(tmp_path):
    pytest.importorskip("sphinx")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    command += ["-d", str(tmp_path / "doctrees"), "docs", str(tmp_path / "html")]
    asked = {"capture_output": True, "text": True, "check": False, "timeout": 3000}
    done = subprocess.run(command, cwd=PROJECT, **asked)
    assert done.returncode == 0, done.stderr[-3000:]
    pages = [path for path in (tmp_path / "html").rglob("*") if path.suffix in (".html", ".css")]
    found = {path.name: REQUEST.findall(path.read_text(encoding="utf-8")) for path in pages}
    assert {name: requests for name, requests in found.items() if requests} == {}


WRITTEN = "\n".join(
    page.read_text(encoding="utf-8")
    for folder in ("guide", "tutorials", ".")
    for page in (PROJECT / "docs" / folder).glob("*.md")
)


def commands(command, name=""):
    if not hasattr(command, "commands"):
        yield name, command
        return
    for each, inner in command.commands.items():
        yield from commands(inner, f"{name} {each}".strip())


def test_every_command_and_option_stands_in_the_guide():
    lost = []
    for name, command in commands(typer.main.get_command(app)):
        if f"dpcost {name}" not in WRITTEN:
            lost.append(name)
        for option in (each for one in command.params for each in one.opts if each.startswith("--")):
            if not re.search(rf"{option}\b", WRITTEN):
                lost.append(f"{name} {option}")
    assert lost == []


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
