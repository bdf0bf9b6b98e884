"""The wheel, installed in an environment next to another package `data`, runs and serves from any folder."""

import json
import os
import shutil
import signal
import subprocess
import sys
import venv
import zipfile

import pytest

from tests.builders import PROJECT, copied_project, release_file
from tests.own_processes import free_port, own_process

pytest.importorskip("setuptools", minversion="77", reason="builds the wheel")
pytestmark = [pytest.mark.slow, pytest.mark.server]

MAIN = "import sys; from dpcost.flows.cli.start import main; sys.argv[0] = 'dpcost'; main()"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel from a copy, so that nothing is written to the project."""
    copy, built = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("wheel")
    copied_project(copy, "__pycache__")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, copy)
    build = f"from setuptools.build_meta import build_wheel; build_wheel({str(built)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=copy, check=True, capture_output=True)
    return next(built.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """Return the interpreter of a fresh environment with the wheel and a foreign package `data`."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    site = next(folder.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    known = [path for path in sys.path if path.endswith("site-packages")]
    (site / "dependencies.pth").write_text("\n".join(known))
    (site / "data").mkdir()
    (site / "data" / "__init__.py").write_text("raise ImportError('this is the foreign package')")
    return folder / "bin" / "python"


@pytest.fixture
def environment(tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "PYTHON"))}
    kept.pop("DPCOST_HOME", None)
    return kept | {"HOME": str(tmp_path / "user"), "XDG_DATA_HOME": str(tmp_path / "share")}


def test_two_names_are_installed(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"dpalgos", "dpcost"}
    assert "dpcost/data/embedded/housing/cal_housing.tgz" in names


def test_a_study_runs_from_another_folder(python, environment, tmp_path):
    words = [python, "-c", MAIN, "run", "rand_visits", "--profile", "smoke", "--offline"]
    subprocess.run(words, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=600)
    share = tmp_path / "share" / "dpcost"
    assert (share / "reports" / "rand_visits" / "report.html").exists()
    assert (share / "home" / "store").is_dir()


def test_a_release_is_charged_drawn_and_set_into_a_table(python, environment, tmp_path):
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(map(str, range(20, 80))))
    release_file(tmp_path, "people", ["age"], bounds="value_bound = 100.0")
    ask = "release dp_mean --data people.csv --config release.toml --epsilon 1 --delta 1e-4 --yes --json"
    said = []
    for words in ("ledger open people --epsilon 2 --delta 1e-3", ask, ask, "ledger verify", "estimators"):
        command = [python, "-c", MAIN, *words.split()]
        said.append(subprocess.check_output(command, cwd=tmp_path, env=environment, text=True))
    first, second = (json.loads(each)["release"] for each in said[1:3])
    assert (first["ledger"]["replayed"], second["ledger"]["replayed"]) == (False, True)
    assert first["answer"] == second["answer"]
    assert (tmp_path / "share" / "dpcost" / "home" / "ledger.sqlite").exists()


def test_it_serves(python, environment, tmp_path):
    said, pipes = [], {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    command = [python, "-m", "dpcost.flows.serve", "--port", free_port()]
    with own_process(command, cwd=tmp_path, env=environment, **pipes) as process:
        for line in process.stdout:
            said.append(line)
            if "deployment run" in line:
                break
        process.send_signal(signal.SIGINT)
        said += process.communicate(timeout=120)[0]
    assert "Ctrl-C stops everything" in "".join(said)
