"""A cache key changes with every line that its result depends on, and with no other."""

import shutil
from dataclasses import fields, replace
from pathlib import Path

import pytest

from data.store import code_digest
from data.store.folders import PROJECT_ROOT
from flows.studies.find_study import find_study
from tasks.cache import cache_key, is_current, is_key
from tasks.problems.problem import DatasetProblem, modules_of
from tasks.problems.simulation import Simulation
from tests.tasks.blocks import made_block, made_cell

BLOCK, COLLECT = "tasks.run.block", "tasks.run.collect"
AUDIT, PREPARE = "tasks.run.audit_cell", "tasks.run.prepare"
PAGES = {"page": "tasks.report.write", "scorecard": "tasks.scorecard.judging"}


def roots():
    """Return the modules of each result's key: blocks, designs, tables and pages of the studies."""
    found = {"results": [COLLECT], "audits": [AUDIT]}
    for name in ("housing", "snp", "swarm", "tracing_attack", "glm_lowdim"):
        spec = find_study(name)
        for panel in spec.panels:
            for item in spec.estimators_of(panel):
                code = [BLOCK, *modules_of(panel.problem, [item.name])]
                found.setdefault(f"{name} {item.name}", []).extend(code)
            if isinstance(panel.problem, DatasetProblem):
                found[f"{name} design"] = [PREPARE, *modules_of(panel.problem)]
        found[f"{name} page"] = [PAGES["page"], *spec.modules()]
        for dataset in spec.datasets:
            found[f"{dataset} table"] = ["data.fetch.ingest", f"data.datasets.{dataset}"]
    return {**found, "scorecard page": [PAGES["scorecard"]]}


ROOTS = roots()
MODULE_CODE = code_digest.module_code


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """Return a copy of the project whose digests are taken."""
    folder = tmp_path_factory.mktemp("project")
    for package in code_digest.PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "out", "*.so")
        shutil.copytree(PROJECT_ROOT / package, folder / package, ignore=ignored)
    parse, parsed, current = MODULE_CODE.__wrapped__, {}, {}

    def module_code(name):
        """Parse a module again only if its content has changed."""
        if name not in current:
            path = folder.joinpath(*name.split("."))
            content = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_bytes()
            if (name, content) not in parsed:
                parsed[name, content] = parse(name)
            current[name] = parsed[name, content]
        return current[name]

    module_code.cache_clear = current.clear
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_digest, "PROJECT_ROOT", folder)
        patch.setattr(code_digest, "module_code", module_code)
        code_digest.forget()
        yield folder
    code_digest.forget()


def keys(names=ROOTS):
    code_digest.forget()
    return {name: str(cache_key("x", ROOTS[name], of_page=name.endswith("page"))) for name in names}


@pytest.fixture(scope="module")
def before(copied):
    return keys()


# File, a line of it and what stands there instead ("return " and "return 0 or " if left out), keys that must
# change, keys that must not.
CHANGES = """
data/fetch/genotypes.py | snp design, snp_hapmap3 table | housing ols, swarm zero
dpalgos/audit/lower_bound.py | return  | return 2 *  | audits | housing ols, snp zero
tasks/run/collect.py | ignore_index=True) | ignore_index=True)[::2] | results | housing ols, audits
tasks/run/audit_cell.py | bound = found | bound = 2 * found | audits | housing ols, results
tasks/run/block.py | certified =  | certified = 2 *  | housing ols, swarm zero | housing design
tasks/work_units.py | >> 1 | >> 2 | housing ols, swarm iht_glm | housing table
tasks/problems/subsamples.py | first=0 | first=1 | housing ols, housing design | swarm zero, snp zero
tasks/problems/group_differences.py | / wanted.sum() | / 2 | snp zero | housing ols, swarm zero
tasks/problems/membership.py | times=2 | times=3 | tracing_attack dp_mean | housing ols, snp zero
tasks/problems/simulation.py | 2 * np.log | 3 * np.log | glm_lowdim dp_glm | housing ols
tasks/problems/problem.py | axis=0 | axis=1 | housing ols, snp zero, swarm zero | housing table
data/prepare/table_design.py | std[:d] / scale | std[:d] * scale | housing design | snp zero, housing table
data/prepare/frame_features.py | CLIP = 3.0 | CLIP = 2.0 | swarm design, swarm zero | snp design
data/prepare/genotype_groups.py | CENTER = 1 | CENTER = 2 | snp design, snp zero | housing ols
data/formats/archives.py | raise  | return  | housing table, swarm table | housing ols
data/datasets/housing.py | 0.45 | 0.46 | housing table | swarm table
data/simulations/glms.py | glm_lowdim dp_glm | housing ols, tracing_attack dp_mean
dpalgos/central/dp_linear_regression.py | housing dp_linear_regression | housing ols, housing adassp
dpalgos/comparators/adassp.py | housing adassp | housing ols
dpalgos/release/transcript.py | housing ols, swarm dp_sparse_glm | housing table
dpalgos/models/families/logistic.py | swarm iht_glm, glm_lowdim dp_glm | housing ols
dpalgos/tuning/sparsity.py | snp dp_sparse_mean, snp page | housing table
reports/analysis/results.py | housing ols, results, housing page | housing table
tasks/scorecard/judging.py | scorecard page | housing page, housing ols
tasks/report/build_page.py | housing page | housing ols, scorecard page
dpalgos/theory.py | np.sqrt( | np.cbrt( | housing page, glm_lowdim page | housing ols, glm_lowdim dp_glm
reports/exhibits/genome.py | snp page | snp zero
reports/templates/style.css | { | {  | housing page, scorecard page | housing ols, results
flows/claims.toml | = |  = | scorecard page | housing ols, housing page
"""


def changes():
    for line in CHANGES.strip("\n").split("\n"):
        file, *code, changed, kept = line.split(" | ")
        old, new = code or ("return ", "return 0 or ")
        yield pytest.param(file, old, new, changed.split(", "), kept.split(", "), id=file)


@pytest.mark.parametrize(("file", "old", "new", "changed", "kept"), changes())
def test_a_changed_line_changes_the_keys_that_depend_on_it(copied, before, file, old, new, changed, kept):
    path = copied / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    try:
        after = keys([*changed, *kept])
    finally:
        path.write_text(text)
    assert {name for name in changed if after[name] == before[name]} == set()
    assert {name for name in kept if after[name] != before[name]} == set()


def test_comments_docstrings_and_layout_change_no_key(copied, before):
    for name in ("dpalgos/central/dp_glm.py", "tasks/run/block.py", "dpalgos/api.py"):
        path = copied / name
        path.write_text(
            "# a comment\n" + path.read_text().replace('"""', '"""Otherwise said. ', 1) + "\n\n# more\n"
        )
    assert keys() == before


def test_what_was_parsed_is_kept_for_a_file_of_the_same_bytes(copied, home, monkeypatch):
    def digest():
        code_digest.forget()
        return code_digest.code_digest(["data.errors"])

    monkeypatch.setattr(code_digest, "module_code", MODULE_CODE)
    (home / "cache").mkdir(parents=True)
    before = digest()
    with monkeypatch.context() as patch:
        patch.setattr(code_digest.ast, "parse", None)
        assert digest() == before
    path = copied / "data" / "errors.py"
    text = path.read_text()
    path.write_text(f"{text}\nANOTHER = 1\n")
    changed = digest()
    path.write_text(text)
    assert changed != before
    (home / "cache" / "code_digests.json").write_text("{")
    assert digest() == before


@pytest.mark.parametrize(
    ("library", "changed", "unchanged"),
    [
        ("altair", ["housing page", "scorecard page"], ["housing ols", "housing table", "results"]),
        ("scikit-learn", ["swarm l1_glm"], ["housing ols", "housing design", "housing table"]),
        ("numpy", ["housing ols", "housing design", "housing table", "results", "audits"], []),
        ("prefect", [], list(ROOTS)),
        ("dask", [], list(ROOTS)),
    ],
)
def test_an_upgrade_of_a_library_invalidates_what_its_code_passes_through(
    before, monkeypatch, library, changed, unchanged
):
    installed = code_digest.version
    monkeypatch.setattr(code_digest, "version", lambda name: "999" if name == library else installed(name))
    now = keys([*changed, *unchanged])
    code_digest.forget()
    assert [name for name in changed if now[name] == before[name]] == []
    assert [name for name in unchanged if now[name] != before[name]] == []


def test_modules_that_import_by_name_are_all_accounted_for():
    known = {*code_digest.NAMED_IN_KEYS, *code_digest.FOUND_BY_NAME}
    found = set()
    for package in code_digest.PACKAGES:
        for path in (PROJECT_ROOT / package).rglob("*.py"):
            if "importlib.import_module" in path.read_text():
                module = ".".join(path.relative_to(PROJECT_ROOT).with_suffix("").parts)
                found.add(module.removesuffix(".__init__"))
    # A deployment's flow, and a mechanism that is not ours: neither is kept under a key.
    elsewhere = {"flows.server.deploy", "flows.cli.audit"}
    assert found - known <= elsewhere


def test_a_key_holds_every_input():
    made = [
        cache_key("block", [BLOCK], {"n": 100}, "sha"),
        cache_key("limit", [BLOCK], {"n": 100}, "sha"),
        cache_key("block", [BLOCK], {"n": 101}, "sha"),
        cache_key("block", [BLOCK], {"n": 100}, "another"),
        cache_key("block", [COLLECT], {"n": 100}, "sha"),
    ]
    assert len(set(made)) == len(made)
    assert cache_key("block", [BLOCK], {"a": 1, "b": 2}) == cache_key("block", [BLOCK], {"b": 2, "a": 1})
    assert all(is_key(key.name) for key in made)
    assert not is_key("7156a137c9b244ab9cf6b872bcc3edb0")


def test_a_record_is_current_while_its_code_is(copied):
    record = {"code": cache_key("block", [BLOCK]).code()}
    assert is_current(record)
    path = copied / "tasks" / "run" / "block.py"
    text = path.read_text()
    path.write_text(text.replace("certified = ", "certified = 2 * ", 1))
    code_digest.forget()
    assert not is_current(record)
    path.write_text(text)
    code_digest.forget()
    assert is_current(record)
    for damaged in ({}, {"code": "x"}, {"code": {**record["code"], "modules": ["tasks.nowhere"]}}):
        assert not is_current(damaged)


def test_a_copied_project_has_the_same_keys(copied, before, monkeypatch):
    monkeypatch.setattr(code_digest, "PROJECT_ROOT", Path(PROJECT_ROOT))
    monkeypatch.setattr(code_digest, "module_code", MODULE_CODE)
    assert keys() == before
    code_digest.forget()


def _changed(value):
    return (value or 0) + 1 if value is None or isinstance(value, (int, float)) else f"{value} changed"


def _facts(of):
    cell = made_cell("dp_mean", n=50, value_bound=3.0)
    block = made_block(Simulation(kind="simulation", model="gaussian_mean", d=3), cell, n=50)
    if of == "replicates":
        return block.replicates, lambda new: replace(block, replicates=new)
    if of == "cell":
        return cell, lambda new: replace(block, cells=(new,))
    return block, lambda new: new


@pytest.mark.parametrize("of", ["block", "replicates", "cell"])
def test_a_block_with_another_seed_cell_or_size_has_another_key(of):
    """Whatever is asked for is a part of the key: stored rows never answer another question."""
    facts, block_with = _facts(of)
    others = [
        field.name
        for field in fields(facts)
        if field.name not in ("replicates", "problem", "cells", "params")
    ]
    changes = [{name: _changed(getattr(facts, name))} for name in others]
    if of == "block":
        changes += [{"cells": ()}, {"problem": facts.problem.model_copy(update={"d": 4})}]
    if of == "cell":
        changes.append({"params": {"value_bound": 4.0}})
    blocks = [block_with(facts), *(block_with(replace(facts, **change)) for change in changes)]
    keys = {cache_key("block", [BLOCK], block.described()) for block in blocks}
    assert len(keys) == 1 + len(changes)
