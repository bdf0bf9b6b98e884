"""A broken plugin is named with its file and all its faults, and everything else works."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
    "flows/studies/half_a_study.toml": 'title = "?"\ntask = "mean"\nmotto = 3\n',
}
ESTIMATORS = """
import dpalgos

print([entry.name for entry in dpalgos.catalog()])
"""
STUDIES = """
from flows.studies.find_study import readable_studies

print([study.name for study in readable_studies()])
"""
HOUSING = """
import dpalgos
from flows.studies.find_study import find_study

assert find_study("housing").blocks("smoke", replicates=1, seed=0)
try:
    dpalgos.get_estimator("no_python")
except dpalgos.InputError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def run_in_broken_project(tmp_path_factory):
    """A function that runs a script in a copy of the project with a broken plugin of each kind."""
    folder = tmp_path_factory.mktemp("project")
    for package in ("flows", "tasks", "dpalgos", "data", "reports"):
        # With its bytecode, which holds for copies as well: they keep the time of the source.
        shutil.copytree(PROJECT / package, folder / package, ignore=shutil.ignore_patterns("out"))
    for path, content in BROKEN.items():
        assert not (folder / path).exists(), path
        (folder / path).write_text(content)

    def run(script, *words):
        environment = {"PATH": "", "HOME": str(folder), "DPCOST_HOME": str(folder / "home")}
        done = subprocess.run(
            [sys.executable, "-c", script, *words],
            cwd=folder,
            env={**environment, "PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done

    return run


NAMED = {
    (ESTIMATORS, "dp_mean"): {
        "dpalgos/comparators/no_python.py": ["line 1"],
        "dpalgos/central/without_keywords.py": ["params", "annotated"],
        "dpalgos/central/half_an_estimator.py": ["'dp_mean'", "title", "reference", "witnesses"],
    },
    (STUDIES, "housing"): {
        "flows/studies/half_a_study.toml": ["question", "panels", "motto"],
        "tasks/problems/sources/half_a_source.py": [
            "'group_differences'",
            "'half_a_kind' must define cost, draws, sizes, source, traits",
        ],
        "tasks/problems/sources/no_names.py": ["KINDS"],
    },
}


@pytest.mark.parametrize(("script", "known"), NAMED, ids=["estimators", "studies"])
def test_a_broken_plugin_is_left_out_and_all_its_faults_are_named(run_in_broken_project, script, known):
    done = run_in_broken_project(script)
    assert known in done.stdout
    for path, faults in NAMED[script, known].items():
        assert path in done.stderr
        assert [fault for fault in faults if fault not in done.stderr] == []


def test_a_study_file_that_cannot_be_listed_is_named(run_in_broken_project):
    done = run_in_broken_project(
        "import sys; sys.argv[1:] = ['studies']\nfrom flows.cli.main import main; main()"
    )
    assert "housing" in done.stdout
    assert "half_a_study.toml" in done.stderr


def test_studies_run_beside_broken_plugins(run_in_broken_project):
    assert "dpalgos/comparators/no_python.py" in run_in_broken_project(HOUSING).stdout
