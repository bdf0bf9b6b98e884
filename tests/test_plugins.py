"""A broken plugin is named with its file and all its faults, and everything else works."""

import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
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
    "data/datasets/another.py": "from data.datasets.housing import DATASET, PARSERS, stand_in\n",
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
    "data/datasets/empty.py": ["PARSERS", "stand_in", "DATASET"],
}


def test_broken_plugins_are_left_out_with_all_their_faults_and_all_else_works(tmp_path):
    for package in ("flows", "tasks", "dpalgos", "data", "reports"):
        # With its bytecode, which holds for copies as well: they keep the time of the source.
        shutil.copytree(PROJECT / package, tmp_path / package, ignore=shutil.ignore_patterns("out"))
    for path, content in BROKEN.items():
        assert not (tmp_path / path).exists(), path
        (tmp_path / path).write_text(content)
    places = {"HOME": tmp_path, "DPCOST_HOME": tmp_path / "home", "PYTHONPATH": tmp_path}
    own = {"PATH": "", **{name: str(place) for name, place in places.items()}}
    asked = {"cwd": tmp_path, "env": own, "capture_output": True, "text": True, "check": False}
    done = subprocess.run([sys.executable, "-c", SCRIPT], **asked)
    assert done.returncode == 0, done.stderr[-3000:]
    lists, refused, *listed = done.stdout.splitlines()
    assert "'dp_mean'" in lists
    assert "'housing'" in lists
    assert "dpalgos/comparators/no_python.py" in refused
    assert any("housing" in line for line in listed)
    for path, faults in NAMED.items():
        assert path in done.stderr
        assert [fault for fault in faults if fault not in done.stderr] == []
