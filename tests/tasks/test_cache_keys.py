"""A cache key changes with every line that its result depends on, and with no other."""

import os
import subprocess
import sys
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest

from data.store import code_digest
from data.store.folders import PROJECT_ROOT
from dpalgos.plugins import _module_of
from flows.studies.find_study import find_study
from tasks.cache import Target, digest
from tasks.errors import SpecError
from tasks.problems.kinds import modules_of
from tasks.run.compute import audited, timed_block
from tests.builders import copied_project, refused
from tests.tasks.blocks import made_block, made_cell, made_problem

BLOCK = "tasks.run.compute"


def modules_of_blocks(study, estimator):
    """Return the modules of the key of a study's blocks with an estimator."""
    return [BLOCK, *modules_of(find_study(study).head_panel.problem, [estimator])]


ROOTS = {  # the modules of each result's key
    "block": modules_of_blocks("housing", "preconditioned_regression"),
    "block of simulated rows": modules_of_blocks("glm_lowdim", "dp_glm"),
    "results": ["tasks.run.collect"],
    "audit": ["dpalgos.central.dp_linear_regression", "dpalgos.audit.lower_bound"],
    "table": ["data.fetch.ingest", "data.datasets.housing"],
    "page": ["tasks.report.write", *find_study("housing").modules()],
    "scorecard page": ["tasks.scorecard.judging"],
}


def forget():
    for each in vars(code_digest).values():
        if hasattr(each, "cache_clear"):
            each.cache_clear()


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    folder = copied_project(tmp_path_factory.mktemp("project"), "__pycache__", "*.so")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_digest, "PROJECT_ROOT", folder)
        forget()
        yield folder
    forget()


def keys(names=ROOTS):
    for content in (code_digest._code_digest, code_digest._sha256, code_digest._version):
        content.cache_clear()  # no change here adds a file or an import
    return {name: digest(ROOTS[name], of_page=name.endswith("page")) for name in names}


@pytest.fixture(scope="module")
def before(copied):
    return keys()


CHANGES = tomllib.loads(Path(__file__).with_name("cache_keys.toml").read_text())


@pytest.mark.parametrize("file", CHANGES)
def test_a_changed_file_changes_the_keys_that_depend_on_it(copied, before, file):
    path, changed, kept = copied / file, CHANGES[file]["changes"], CHANGES[file]["keeps"]
    content = path.read_bytes()
    path.write_bytes(content + b"\n# changed")
    try:
        after = keys([*changed, *kept])
    finally:
        path.write_bytes(content)
    assert {name for name in changed if after[name] == before[name]} == set()
    assert {name for name in kept if after[name] != before[name]} == set()


def called(function):
    """Return the files of this project's packages of which a call runs a function."""
    files, packages = set(), tuple(str(PROJECT_ROOT / name) + os.sep for name in ("dpalgos", "tasks", "data"))

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return {Path(file) for file in files if file.startswith(packages)}


def unseen(files, modules):
    """Return the files whose edit leaves the key of some modules as it is."""
    known, before, stay = code_digest._sha256, digest(modules), set()
    with pytest.MonkeyPatch.context() as patch:
        for file in files:
            edited = lambda path, file=file: "edited" if path == file else known(path)  # noqa: E731
            patch.setattr(code_digest, "_sha256", edited)
            code_digest._code_digest.cache_clear()
            if digest(modules) == before:
                stay.add(file)
    code_digest._code_digest.cache_clear()
    return stay


def test_an_edit_of_any_file_that_a_study_loads_changes_the_key_of_its_blocks(copied, home):
    """Files that only pages, releases and the ledger need are the exception, by folder."""
    loaded = """
import sys
import flows.study, tasks.run.compute
from flows.studies.find_study import find_study
spec = find_study("housing")
print("\\n".join(m.__file__ for m in list(sys.modules.values()) if getattr(m, "__file__", None)))
"""
    output = subprocess.run([sys.executable, "-c", loaded], check=True, capture_output=True, text=True).stdout
    packages = [PROJECT_ROOT / name for name in ("dpalgos", "tasks", "data")]
    elsewhere = [PROJECT_ROOT / name for name in (*code_digest._ELSEWHERE, *code_digest._ON_PAGES_ALONE)]
    files = {path for path in map(Path, output.splitlines()) if not set(packages).isdisjoint(path.parents)}
    files = {path for path in files if set(elsewhere).isdisjoint((path, *path.parents))}
    files |= set((PROJECT_ROOT / "dpalgos" / "central").rglob("*.py"))
    assert len(files) > 150
    forget()
    modules = ROOTS["block"]
    copies = {copied / path.relative_to(PROJECT_ROOT) for path in files if path.suffix == ".py"}
    assert unseen(copies, modules) == set()


def test_a_file_that_computes_is_none_that_only_pages_need(home):
    """A run of a study's blocks calls no function of the folders that the key leaves out."""
    left_out = [PROJECT_ROOT / name for name in (*code_digest._ELSEWHERE, *code_digest._ON_PAGES_ALONE)]
    for study in ("mean_comparison", "glm_lowdim"):
        for block in find_study(study).blocks("smoke", replicates=1, seed=1)[:1]:
            files = called(lambda block=block: timed_block(block, None))
            assert len(files) > 20
            assert {file for file in files if not set(left_out).isdisjoint((file, *file.parents))} == set()


def test_the_key_of_an_audit_follows_all_files_whose_functions_it_calls(copied, home):
    cell = made_cell("dp_linear_regression", n=40)
    files = called(lambda: audited(cell, 3, 40, 1))
    files = {file for file in files if PROJECT_ROOT / "dpalgos" in file.parents}
    assert len(files) > 15
    forget()
    assert unseen({copied / file.relative_to(PROJECT_ROOT) for file in files}, ROOTS["audit"]) == set()


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """An external package with a plugin, and a module that the plugin imports in a function."""
    folder = tmp_path / "elsewhere"
    for name in ("", "deep"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("")
    (folder / "plugin.py").write_text("def f():\n    from elsewhere.deep import third")
    monkeypatch.syspath_prepend(str(tmp_path))
    forget()
    yield folder
    forget()


def test_all_of_an_external_plugins_package_belongs_to_it(plugin):
    digests = []
    for content in ("", "X = 1"):
        (plugin / "deep" / "third.py").write_text(content)
        forget()
        digests.append(code_digest.code_digest([BLOCK, "elsewhere.plugin"]))
    assert digests[0] != digests[1]


def test_a_plugin_that_is_one_file_belongs_to_the_key(tmp_path):
    file = tmp_path / "mine.py"
    digests = []
    for content in ("X = 1", "X = 2"):
        file.write_text(content)
        forget()
        digests.append(code_digest.code_digest([BLOCK, _module_of(str(file)).__name__]))
    sys.modules.pop("with_mine")
    forget()
    assert digests[0] != digests[1]


UPGRADES = [  # a library, the keys that change with it, and keys that do not
    ("vl-convert-python", ["page", "scorecard page"], ["block", "table", "results"]),
    ("numpy", ["block", "table", "results", "audit"], []),
    ("prefect", [], list(ROOTS)),
]


@pytest.mark.parametrize(("library", "changed", "unchanged"), UPGRADES)
def test_an_upgrade_of_a_library_renews_what_it_computes(before, monkeypatch, library, changed, unchanged):
    installed = code_digest.version
    monkeypatch.setattr(code_digest, "version", lambda name: "999" if name == library else installed(name))
    now = keys([*changed, *unchanged])
    forget()
    assert [name for name in changed if now[name] == before[name]] == []
    assert [name for name in unchanged if now[name] != before[name]] == []


def test_other_code_than_the_runs_is_refused(home, monkeypatch):
    made = Target("cache/block.json", (BLOCK,), code_digest.code_digest([BLOCK]))
    made.write(b"{}")
    monkeypatch.setattr("tasks.cache.code_digest", lambda *_, **__: "other")
    refused(lambda: made.write(b"{}"), SpecError, "another version")


def changed_fields(facts, *others):
    """Return copies of a dataclass, in each of which another field is changed."""
    for field in fields(facts):
        value = getattr(facts, field.name)
        if field.name not in others:
            is_number = value is None or isinstance(value, (int, float))
            yield replace(facts, **{field.name: (value or 0) + 1 if is_number else f"{value} changed"})


def test_a_block_with_another_seed_cell_or_size_has_another_key():
    """Whatever is asked for is a part of the key: stored rows never answer another question."""
    cell = made_cell("dp_mean", n=50, value_bound=3.0)
    block = made_block(made_problem("simulation", model="gaussian_mean", d=3), cell, n=50)
    cells = [*changed_fields(cell, "params"), replace(cell, params={"value_bound": 4.0})]
    others = [
        *changed_fields(block, "replicates", "problem", "cells"),
        *(replace(block, replicates=each) for each in changed_fields(block.replicates)),
        *(replace(block, cells=each) for each in ((), *((other,) for other in cells))),
        replace(block, problem=block.problem.model_copy(update={"d": 4})),
    ]
    names = {digest([BLOCK], each.described()) for each in (block, *others)}
    assert len(names) == 1 + len(others)
