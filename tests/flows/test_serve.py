import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import yaml

from flows import local_postgres as postgres
from flows import serve
from flows.server_process import answers, free_port
from flows.supervision import ServerError

STUDY = """
from pathlib import Path
from typing import Literal

from prefect import flow, task


@task
def one(number: int) -> int:
    return number


@flow(name="study")
def run_study(
    study: str,
    profile: Literal["smoke", "standard", "paper"] = "standard",
    reps: int | None = None,
    seed: int = 0,
) -> int:
    total = sum(one.map(range(reps or 3)).result())
    Path("report.txt").write_text(f"{study} {profile} {total}")
    return total
"""


def test_a_taken_port_is_one_sentence(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("DPCOST_HOME", str(tmp_path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert serve.main(["--port", str(port)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"port {port} cannot be used")
    assert said.count("\n") == 1
    assert "--port" in said


def test_missing_postgresql_says_what_to_install(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda program: None)
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(()))
    with pytest.raises(ServerError, match="apt-get install postgresql"):
        postgres.postgres_programs()


def test_the_newest_postgresql_is_taken(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda program: None)
    found = [Path(f"/usr/lib/postgresql/{version}/bin/initdb") for version in ("9.6", "15", "14")]
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(found))
    assert postgres.postgres_programs() == Path("/usr/lib/postgresql/15/bin")


def test_the_password_is_made_once_and_kept_private(tmp_path):
    password = postgres._password(tmp_path)
    assert len(password) >= 32
    assert postgres._password(tmp_path) == password
    assert stat.S_IMODE((tmp_path / "postgres.password").stat().st_mode) == 0o600


def test_the_deployment_is_the_one_promised():
    content = yaml.safe_load((serve.PROJECT / "prefect.yaml").read_text())
    (housing,) = [each for each in content["deployments"] if each["name"] == "housing"]
    assert housing["entrypoint"] == "flows/study.py:run_study"
    assert housing["parameters"] == {"study": "housing", "profile": "standard"}
    assert housing["work_pool"] == {"name": serve.POOL}
    (schedule,) = housing["schedules"]
    assert (schedule["cron"], schedule["timezone"]) == ("0 3 * * 1", "UTC")


@pytest.fixture
def project():
    """Return a copy of the project with a tiny flow; its folder can be reached by PostgreSQL's user."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "flows").mkdir()
        for module in ("__init__", "journal", "postgres", "processes", "serve", "server", "supervision"):
            shutil.copy(serve.PROJECT / "flows" / f"{module}.py", folder / "flows")
        (folder / "flows" / "study.py").write_text(STUDY)
        shutil.copy(serve.PROJECT / "prefect.yaml", folder)
        yield folder


class Serving:
    """``python -m flows.serve`` in a project, until Ctrl-C."""

    def __init__(self, project, *options):
        self.project = project
        self.port = free_port()
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "DPCOST_"))}
        self.environment = inherited | {"PREFECT_HOME": str(project / "client")}
        self.api_url = f"http://127.0.0.1:{self.port}/api"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "flows.serve", "--port", str(self.port), *options],
            cwd=project,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_until_up(self):
        for line in self.process.stdout:
            if "deployment run" in line:
                return
        raise AssertionError("it ended before it was up")

    def run_deployment(self, *options):
        command = [sys.executable, "-m", "prefect", "deployment", "run", "study/housing", *options]
        environment = self.environment | {"PREFECT_API_URL": self.api_url}
        return subprocess.run(
            command,
            env=environment,
            cwd=self.project,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=60)
        return self.process.returncode

    def running_children(self):
        return [p.name for p in (self.project / ".dpcost" / "prefect").glob("*-*.json")]


@pytest.fixture
def start(project):
    started = []

    def start(*options):
        started.append(Serving(project, *options))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.stop()


@pytest.mark.server
@pytest.mark.parametrize("options", [(), ("--postgres",)], ids=["sqlite", "postgresql"])
def test_a_deployed_study_runs_from_the_server_and_again_after_a_restart(project, start, options):
    if options:
        try:
            postgres.postgres_programs()
        except ServerError as missing:
            pytest.skip(str(missing))
    for profile in ("standard", "smoke"):
        serving = start(*options)
        serving.wait_until_up()
        done = serving.run_deployment("-p", f"profile={profile}", "--watch")
        assert done.returncode == 0, done.stdout + done.stderr
        assert (project / "report.txt").read_text() == f"housing {profile} 3"
        assert serving.stop() == 0
        assert not answers(serving.api_url)
        assert serving.running_children() == []


@pytest.mark.server
def test_a_killed_serve_is_cleaned_up_by_the_next(project, start):
    killed = start()
    killed.wait_until_up()
    killed.process.kill()
    killed.process.communicate()
    assert answers(killed.api_url)
    assert len(killed.running_children()) == 2
    serving = start()
    serving.wait_until_up()
    assert not answers(killed.api_url)
    assert serving.stop() == 0
    assert serving.running_children() == []


@pytest.mark.server
def test_ctrl_c_ends_a_study_that_is_running(project, start):
    study = STUDY.replace("    return number", "    import time\n\n    time.sleep(600)\n    return number")
    (project / "flows" / "study.py").write_text(study)
    serving = start()
    serving.wait_until_up()
    done = serving.run_deployment()
    assert done.returncode == 0, done.stdout + done.stderr
    log = project / ".dpcost" / "prefect" / "worker.log"
    deadline = time.monotonic() + 60
    while "Beginning flow run" not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)
    assert serving.stop() == 0
    assert serving.running_children() == []
