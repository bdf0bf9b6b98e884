"""A cache key changes with every line that its result depends on, and with no other."""

import os
import sys
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest

from data.store import code_digest
from data.store.folders import PROJECT_ROOT
from flows.studies.find_study import find_study
from tasks.cache import Target, digest
from tasks.errors import SpecError
from tasks.problems.kinds import modules_of
from tasks.problems.problem import DatasetSource
from tasks.run.compute import timed_block
from tasks.run.datasets import fetch, parquet
from tests.builders import copied_project, refused
from tests.tasks.blocks import made_block, made_cell, made_problem, prepared_data

BLOCK = "tasks.run.compute"


def roots():
    """Return the modules of each result's key: blocks, designs, tables and pages of the studies."""
    found = {"results": ["tasks.run.collect"], "audits": ["tasks.run.headline"]}
    for name in ("housing", "snp", "swarm", "tracing_attack", "glm_lowdim"):
        spec = find_study(name)
        for panel in spec.panels:
            for item in spec.estimators_of(panel):
                code = [BLOCK, *modules_of(panel.problem, [item.name])]
                found.setdefault(f"{name} {item.name}", []).extend(code)
            if isinstance(panel.problem, DatasetSource):
                found[f"{name} design"] = [BLOCK, *modules_of(panel.problem)]
        found[f"{name} page"] = ["tasks.report.write", *spec.modules()]
        for dataset in spec.datasets_at("paper"):
            found[f"{dataset} table"] = ["data.fetch.ingest", f"data.datasets.{dataset}"]
    return {**found, "scorecard page": ["tasks.scorecard.judging"]}


ROOTS = roots()


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
    known, stay = code_digest._sha256, set()
    before = digest(modules)
    with pytest.MonkeyPatch.context() as patch:
        for file in files:
            edited = lambda path, file=file: "edited" if path == file else known(path)  # noqa: E731
            patch.setattr(code_digest, "_sha256", edited)
            code_digest._code_digest.cache_clear()
            if digest(modules) == before:
                stay.add(file)
    code_digest._code_digest.cache_clear()
    return stay


@pytest.mark.parametrize("study", ["mean_comparison", "user_selection", "glm_lowdim", "housing"])
def test_an_edit_of_any_file_that_computes_a_block_changes_its_key(copied, study, home, tmp_path):
    """All files of the own estimator's package belong to it, for the constants in them."""
    forget()
    spec = find_study(study)
    names = spec.datasets_at("smoke")
    tables = {name: parquet(fetch(name, offline=True)) for name in names}
    sources = {name: table.data_source for name, table in tables.items()}
    for block in spec.blocks("smoke", replicates=1, seed=1, data_sources=sources)[:2]:
        problem, prepared = block.problem, None
        if isinstance(problem, DatasetSource):
            prepared = prepared_data(problem, tables[problem.source], tmp_path)
        files = called(lambda block=block, prepared=prepared: timed_block(block, prepared))
        packages = {file.parent for file in files if file.parent.name == "preconditioned"}
        files |= {file for package in packages for file in package.rglob("*.py")}
        assert len(files) > 20
        modules = [BLOCK, *modules_of(problem, {cell.estimator for cell in block.cells})]
        assert unseen({copied / file.relative_to(PROJECT_ROOT) for file in files}, modules) == set()


@pytest.mark.parametrize(
    "text",
    [
        "import dpalgos.comparators.third\nimport dpalgos.comparators.first",
        "import math, dpalgos.comparators.third",
        "import math; import dpalgos.comparators.third",
        "from dpalgos.comparators import (  # one (or more)\n    third,\n)",
        "from dpalgos.comparators import \\\n    third",
    ],
)
def test_a_plugin_that_another_one_imports_belongs_to_it(copied, text):
    """However deep, and wherever in the file: inside a function, too."""
    folder = copied / "dpalgos" / "comparators"
    (folder / "first.py").write_text("def f():\n    from dpalgos.comparators import second")
    (folder / "second.py").write_text(text)
    digests = []
    for content in ("", "X = 1"):
        (folder / "third.py").write_text(content)
        forget()
        digests.append(code_digest.code_digest(["tasks.run.compute", "dpalgos.comparators.first"]))
    assert digests[0] != digests[1]
    for name in ("first", "second", "third"):
        (folder / f"{name}.py").unlink()


UPGRADES = [  # a library, the keys that change with it, and keys that do not
    ("vl-convert-python", ["housing page", "scorecard page"], ["housing ols", "housing table", "results"]),
    ("numpy", ["housing ols", "housing design", "housing table", "results", "audits"], []),
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
