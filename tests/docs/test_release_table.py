"""README's table of a release is what the commands of the tutorial write now, besides its noise."""

import importlib
import os

import pytest

from data.store.folders import PROJECT_ROOT


def words_of(table):
    """Return the first cell of each row, and what is no row: all but the numbers, which are drawn anew."""
    lines = [line for line in table.splitlines() if line]
    return [line.split("|")[1].strip() if line.startswith("|") else line for line in lines]


@pytest.mark.slow
def test_the_table_of_the_readme_is_what_a_release_writes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(PROJECT_ROOT / "docs"))
    generate = importlib.import_module("generate.release_table")
    monkeypatch.chdir(tmp_path)
    for name in ("DPCOST_HOME", "PATH"):  # which the tutorial sets
        monkeypatch.setenv(name, os.environ.get(name, ""))
    readme = generate.README.read_text(encoding="utf-8")
    shown = readme.split(generate.START)[1].split(generate.END)[0]
    written = generate.table_of_the_tutorial()
    assert words_of(written) == words_of(shown)
    heads = [next(line for line in table.splitlines() if line.startswith("|")) for table in (written, shown)]
    assert heads[0] == heads[1]
