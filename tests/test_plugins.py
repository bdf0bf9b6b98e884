"""Plugins in their folders and from outside: found, seen by keys, marked on pages, named with faults."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.builders import HASTY_MEAN, copied_project, run_there

BROKEN = tomllib.loads(Path(__file__).with_name("broken_plugins.toml").read_text())
SCRIPT = """
import sys
import dpalgos
from data.datasets import get_dataset, load_registry
from flows.cli.main import main
from flows.studies.find_study import find_study, readable_studies

print([entry.name for entry in dpalgos.catalog()], [study.name for study in readable_studies()])
assert find_study("housing").blocks("smoke", replicates=1, seed=0)
try:
    dpalgos.get_estimator("no_python")
except dpalgos.InputError as error:
    print(error)
assert "housing" in load_registry()
assert not {"half_a_table", "another"} & set(load_registry())
try:
    get_dataset("another")
except Exception as error:
    assert "another.py" in str(error)
sys.argv[1:] = ["studies"]
main()
"""


def test_broken_plugins_are_left_out_with_all_their_faults_and_all_else_works(tmp_path):
    copied_project(tmp_path)
    for path, about in BROKEN.items():
        assert not (tmp_path / path).exists(), path
        (tmp_path / path).write_text(about["content"])
    done = run_there(tmp_path, "-c", SCRIPT)
    lists, refused, *listed = done.stdout.splitlines()
    assert "'dp_mean'" in lists
    assert "'housing'" in lists
    assert "dpalgos/comparators/no_python.py" in refused
    assert any("housing" in line for line in listed)
    for path, about in BROKEN.items():
        assert [words for words in (path, *about["names"]) if words not in done.stderr] == []


DATASET = """
from data.dataset import Column, Dataset, Source
DATASET = Dataset(name={name!r}, title="t", description="d", privacy_unit="a row", n_rows=3, license="l",
    citation="c", source=Source("x.csv", "", "csv", note="none"),
    columns=(Column("x", "float64", "", 0.0, 1.0, "law", 0.0, 1.0),))
PARSERS = {{}}
"""
FOUND = "from dpalgos.catalog import from_outside; print([entry.name for entry in from_outside()])"
MARKED = (
    f"{FOUND}; import dpalgos; from reports.pages.study import origin_of;"
    "print(origin_of(dpalgos.get_estimator('hasty_mean')));"
    "import tasks.problems.kinds; from data.datasets import _names; print('theirs' in _names())"
)


def said(code, *files):
    environment = {**os.environ, "DPCOST_WITH": os.pathsep.join(map(str, files))}
    asked = {"capture_output": True, "text": True, "env": environment, "check": False}
    done = subprocess.run([sys.executable, "-c", code], **asked)
    return done.stdout.strip(), done.stderr


def test_an_estimator_and_a_dataset_of_files_are_found_and_take_no_name_that_is_there(tmp_path):
    files = [tmp_path / f"their_{name}.py" for name in ("theirs", "housing")]
    for file, name in zip(files, ("theirs", "housing"), strict=True):
        file.write_text(DATASET.format(name=name))
    out, warned = said(MARKED, HASTY_MEAN, *files)
    found, marked, added = out.splitlines()
    assert (found, added) == ("['hasty_mean']", "True")
    assert "hasty_mean.py, sha256" in marked
    assert "'housing'" in warned


LEAVING = ["import sys; sys.exit(0)", "raise GeneratorExit", "raise BaseException('no')"]
ESTIMATOR = HASTY_MEAN.read_text()
LAST_LINE = ESTIMATOR.count("\n") + 2


def test_broken_files_are_named_with_their_lines_and_take_no_name(tmp_path):
    broken = []
    for number, last in enumerate([*LEAVING, "raise KeyError('x')"]):
        broken.append(tmp_path / f"broken_{number}.py")
        broken[-1].write_text(f"{ESTIMATOR}\n{last}\n")
    out, warned = said(FOUND, *broken, HASTY_MEAN)
    assert out == "['hasty_mean']"
    for file in broken[:-1]:
        assert f"line {LAST_LINE} of {file}" in warned
    assert f"{broken[-1]} is skipped: KeyError" in warned
