"""Compiled templates and scripts in the user's cache folder: used again, and never needed."""

import pytest
from jinja2 import Environment

from reports.environment import environment


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "dpcost" / "templates"


def _rendered(**options):
    return environment(**options).get_template("style.css").render(light={}, dark={})


@pytest.fixture
def compiled(monkeypatch):
    """The names of templates that were compiled."""
    names, compile_template = [], Environment.compile

    def counted(self, source, name=None, filename=None, *arguments, **keywords):
        names.append(name)
        return compile_template(self, source, name, filename, *arguments, **keywords)

    monkeypatch.setattr(Environment, "compile", counted)
    return names


def test_a_template_is_compiled_once_for_the_same_options(folder, compiled):
    first = _rendered()
    assert _rendered() == first
    assert compiled == ["style.css"]
    _rendered(trim_blocks=True)
    assert compiled == ["style.css"] * 2


def test_another_version_of_jinja_compiles_again(folder, compiled, monkeypatch):
    _rendered()
    monkeypatch.setattr("reports.environment.version", lambda name: "0")
    _rendered()
    assert len(compiled) == 2


@pytest.mark.parametrize("kept", [0, 4, 20, 40, 60, -1])
def test_a_damaged_file_is_compiled_again(folder, compiled, kept):
    whole = _rendered()
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:kept])
    assert _rendered() == whole
    assert len(compiled) == 2


def test_a_cache_folder_that_is_a_file_is_done_without(folder, compiled):
    folder.parent.mkdir()
    folder.write_bytes(b"")
    assert _rendered() == _rendered()
    assert len(compiled) == 2
