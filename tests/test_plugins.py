"""Plugins in their folders and from outside: found, seen by keys, marked on pages, named with faults."""

import os
import subprocess
import sys

from tests.builders import HASTY_MEAN, copied_project, run_there

BROKEN = {
    "dpalgos/comparators/no_python.py": "def no_python(:\n",
    "dpalgos/central/half_an_estimator.py": """
from dpalgos.catalog import register
from dpalgos.params import Params

@register(title="", order=6, task="mean", reference="", summary="x")
def dp_mean(sample, params: Params, transcript):
    return sample.X
""",
    "dpalgos/central/without_keywords.py": """
from dpalgos.catalog import register

@register(title="x", order=991, task="mean", reference="x", summary="x")
def without_keywords(sample, params, transcript):
    return sample.X
""",
    "tasks/problems/sources/half_a_source.py": """
from tasks.problems.measures.estimation import ESTIMATION
from tasks.problems.problem import Kind, RowSource

class HalfASource(RowSource):
    d: int

KINDS = {"group_differences": Kind(HalfASource, ESTIMATION), "half_a_kind": Kind(HalfASource, ESTIMATION)}
""",
    "tasks/problems/sources/no_names.py": "KINDS = 3\n",
    "data/datasets/half_a_table.py": """
from dataclasses import replace
from data.dataset import Source
from data.datasets.fair import DATASET as fair

DATASET = replace(fair, n_rows="many", source=Source("a", "ftp://", "", sha256="z"))
""",
    "data/datasets/empty.py": "",
    "data/datasets/another.py": "from data.datasets.housing import DATASET, PARSERS\n",
    "flows/studies/half_a_study.toml": 'title = "?"\ntask = "mean"\nmotto = 3\n',
}
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
NAMED = {
    "dpalgos/comparators/no_python.py": ["line 1"],
    "dpalgos/central/without_keywords.py": ["params", "annotated"],
    "dpalgos/central/half_an_estimator.py": ["'dp_mean'", "title", "reference", "releases"],
    "flows/studies/half_a_study.toml": ["question", "panels", "motto"],
    "tasks/problems/sources/half_a_source.py": [
        "'group_differences'",
        "'half_a_kind' must define cost, draws, sizes, source, traits",
    ],
    "tasks/problems/sources/no_names.py": ["KINDS"],
    "data/datasets/half_a_table.py": ["n_rows: ", "source.url: ", "source.sha256: "],
    "data/datasets/another.py": ["'housing'"],
    "data/datasets/empty.py": ["PARSERS", "DATASET"],
}


def test_broken_plugins_are_left_out_with_all_their_faults_and_all_else_works(tmp_path):
    copied_project(tmp_path)
    for path, content in BROKEN.items():
        assert not (tmp_path / path).exists(), path
        (tmp_path / path).write_text(content)
    done = run_there(tmp_path, "-c", SCRIPT)
    lists, refused, *listed = done.stdout.splitlines()
    assert "'dp_mean'" in lists
    assert "'housing'" in lists
    assert "dpalgos/comparators/no_python.py" in refused
    assert any("housing" in line for line in listed)
    for path, faults in NAMED.items():
        assert path in done.stderr
        assert [fault for fault in faults if fault not in done.stderr] == []


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
