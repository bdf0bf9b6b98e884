"""The wheel, installed in an environment next to another package `data`, runs and serves from any folder."""

import os
import shutil
import signal
import subprocess
import sys
import venv
import zipfile

import pytest

from tests.builders import PROJECT, copied_project, documented_imports
from tests.own_processes import free_port, own_process

pytest.importorskip("setuptools", minversion="77", reason="builds the wheel")
pytestmark = [pytest.mark.slow, pytest.mark.server]


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


def test_what_the_documentation_imports_can_be_imported(python, environment, tmp_path):
    """In plain Python, next to a foreign package `data`: what users import is in dpalgos or below dpcost."""
    code = "import traceback\n"
    for line in documented_imports():
        code += f"try:\n    {line}\nexcept ImportError:\n    traceback.print_exc()\n"
    code += "from dpcost.data.columns import Column\nassert Column.__module__ == 'data.columns'\n"
    ran = subprocess.run(
        [python, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


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
