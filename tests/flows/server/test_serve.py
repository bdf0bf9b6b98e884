import base64
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from small_project import Standing, until

from flows.server import postgres, serve
from flows.server.prefect_server import answers, free_port, own_authentication, server_process
from flows.server.processes import ServerError, started_processes, stop_all

STUDY = """
import time
from pathlib import Path
from typing import Literal

from prefect import flow, task


@task
def one(number: int) -> int:
    WORK
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


GATE = "while not Path('gate').exists():\n        time.sleep(0.1)"
DEPLOYMENTS = """
deployments:
  - name: housing
    entrypoint: flows/study.py:run_study
    parameters: {study: housing, profile: standard}
    schedules: [{cron: "0 3 * * 1", timezone: UTC}]
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


def write_flow(project, work="pass", *, hooks=False):
    """Write the project's flow, whose tasks do some work first; with hooks as those of dpcost."""
    study = STUDY.replace("WORK", work)
    if hooks:
        study = f"from flows.server.dead_runs import HOOKS\n{study}".replace('"study")', '"study", **HOOKS)')
    (project / "flows" / "study.py").write_text(study)


def states(serving):
    """Return the states of the runs that somebody started."""
    return [run["state_type"] for run in serving.ask("flow_runs") if not run["auto_scheduled"]]


@pytest.fixture
def project():
    """Return a copy of the project with a tiny flow; its folder can be reached by PostgreSQL's user."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copytree(serve.PROJECT / "flows", folder / "flows", ignore=shutil.ignore_patterns("*.toml"))
        write_flow(folder)
        (folder / "flows" / "studies").mkdir(exist_ok=True)
        shutil.copy(serve.PROJECT / "flows" / "studies" / "housing.toml", folder / "flows" / "studies")
        (folder / "prefect.yaml").write_text(DEPLOYMENTS)
        yield folder


@pytest.fixture
def start(project):
    started = []

    def start(*options, up=True, **environment):
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "DPCOST_"))}
        own = {"PREFECT_HOME": str(project / "client"), "DPCOST_HOME": str(project / ".dpcost")}
        started.append(Standing(project, inherited | own | environment, *options))
        if up:
            started[-1].wait_until_up()
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.stop()


@pytest.mark.server
def test_a_deployed_study_runs_from_the_server_and_again_after_a_restart(project, start, database):
    for profile in ("standard", "smoke"):
        serving = start(*database)
        done = serving.run_deployment("study/housing", "--watch", profile=profile)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (project / "report.txt").read_text() == f"housing {profile} 3"
        assert serving.stop() == 0
        assert not answers(serving.api_url)
        assert serving.running_children() == []


@pytest.mark.server
def test_a_worker_works_for_a_server_elsewhere(project, start):
    folder = project / "elsewhere"
    port = free_port()
    server, api_url = server_process(folder, port, os.environ), f"http://127.0.0.1:{port}/api"
    server.start(ready=lambda: answers(api_url))
    try:
        serving = start(*("--server", api_url), PREFECT_API_AUTH_STRING=own_authentication(folder))
        serving.api_url = api_url
        done = serving.run_deployment("study/housing", "--watch")
        assert done.returncode == 0, done.stdout + done.stderr
        assert (project / "report.txt").read_text() == "housing standard 3"
        assert set(serving.running_children()) == {"worker"}
        assert serving.stop() == 0
        assert answers(api_url)
    finally:
        server.stop()


@pytest.mark.server
def test_a_killed_serve_leaves_nothing_and_gives_up_its_place(project, start):
    killed = start()
    second = start(up=False)
    assert "has a standing server already" in second.process.communicate(timeout=30)[0]
    assert second.process.returncode == 1
    assert set(killed.running_children()) == {"server", "worker"}
    killed.process.kill()
    killed.process.communicate()
    until(lambda: killed.running_children() == [])
    serving = start()
    assert serving.stop() == 0
    assert serving.running_children() == []


@pytest.mark.server
def test_ctrl_c_ends_a_study_that_is_running(project, start):
    write_flow(project, "time.sleep(600)")
    serving = start()
    assert serving.run_deployment().returncode == 0
    until(lambda: states(serving) == ["RUNNING"])
    assert serving.stop() == 0
    assert serving.running_children() == []


@pytest.mark.server
def test_one_command_ends_everything(project, start, database, monkeypatch, capsys):
    """A run on the standing server, and one from another terminal that brought a server of its own."""
    write_flow(project, "time.sleep(600)")
    serving = start(*database)
    assert serving.run_deployment().returncode == 0
    until(lambda: states(serving) == ["RUNNING"])
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER_RUN, str(serving.home)], cwd=project, env=serving.environment
    )
    until(lambda: serving.running_children().count("server") == 4)  # each has its watcher
    own = {found.process for found in started_processes(serving.home)}
    monkeypatch.setenv("DPCOST_HOME", str(serving.home))
    assert stop_all(serving.home) == 2
    told = capsys.readouterr().err
    assert all(
        f"ending process {pid} and what it started" in told for pid in (serving.process.pid, other.pid)
    )
    assert [process for process in own if process.is_alive()] == []
    assert (serving.process.wait(), other.wait()) == (143, 143)
    assert stop_all(serving.home) == 0


OTHER_RUN = """
import sys, time
from pathlib import Path
from flows.server.dead_runs import termination_as_exit
from flows.server.prefect_server import prefect_server
with termination_as_exit(), prefect_server(Path(sys.argv[1])):
    time.sleep(600)
"""


@pytest.mark.server
def test_the_server_answers_its_owner_alone(project, start):
    serving = start()
    known = {"Authorization": f"Basic {base64.b64encode(own_authentication(serving.home).encode()).decode()}"}
    wrong = {"Authorization": f"Basic {base64.b64encode(b'dpcost:wrong').decode()}"}
    asking = {"method": "POST", "body": b"{}", "Content-Type": "application/json"}
    assert stat.S_IMODE((serving.home / "prefect.authentication").stat().st_mode) == 0o600
    assert serving.request("deployments/filter", **asking, **known)[0] == 200
    assert serving.request("deployments/filter", **asking)[0] == 401
    assert serving.request("deployments/filter", **asking, **wrong)[0] == 401
    assert serving.request("deployments/filter", **asking, **known, Host="example.org")[0] == 400
    for path in ("openapi.json", "docs", "reports/", "api/openapi.json"):
        assert serving.request(f"../{path}")[0] == 401, path
    assert serving.request("../reports/", **known)[0] in (200, 404)
    with urllib.request.urlopen(f"http://127.0.0.1:{serving.port}/", timeout=10) as page:  # a browser
        assert page.status == 200
    until(lambda: [run["auto_scheduled"] for run in serving.ask("flow_runs")][:1] == [True])  # Monday's run


@pytest.mark.server
def test_a_run_that_nobody_started_and_that_fails_is_told_to_the_webhook(project, start, receiver):
    write_flow(project, 'raise ValueError("the value 42.5")', hooks=True)
    (project / "prefect.yaml").write_text(DEPLOYMENTS.replace("0 3 * * 1", "* * * * *"))
    serving = start(DPCOST_WEBHOOK_URL=receiver.address)
    until(lambda: receiver.bodies, timeout=240)
    told = receiver.bodies[0]
    assert told["event"] == "failed"
    assert told["text"].endswith(": the scheduled run failed")
    assert told["run"]["id"] in {
        run["id"] for run in serving.ask("flow_runs") if run["state_type"] == "FAILED"
    }
    assert "42.5" not in json.dumps(receiver.bodies)
    assert serving.stop() == 0
    assert "token" not in serving.said


@pytest.mark.server
def test_four_runs_at_once_on_one_server_all_finish(project, start, database):
    serving = start(*database)
    code = "from flows.study import run_study; run_study('housing', reps=200)"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code], cwd=project, env=serving.client, stderr=subprocess.PIPE
        )
        for _ in range(4)
    ]
    said = [process.communicate(timeout=240)[1].decode() for process in running]
    assert [process.returncode for process in running] == [0] * 4, said
    started = [run for run in serving.ask("flow_runs") if run["start_time"]]
    assert [run["state_type"] for run in started] == ["COMPLETED"] * 4
    assert serving.stop() == 0


@pytest.mark.server
@pytest.mark.parametrize("part", ["worker", "server", "postgres"])
@pytest.mark.parametrize("database", [("--postgres",)], ids=["postgresql"], indirect=True)
def test_when_a_part_dies_all_of_it_ends_and_the_next_start_runs_again_what_was_under_way(
    project, start, part, database
):
    """As systemd and compose do it: what ends with status 1 is started again."""
    write_flow(project, GATE)
    serving = start(*database)
    pages = serving.home / "prefect" / "pages"  # Prefect's own, with the modes of its package
    private = [path for path in serving.home.rglob("*") if not path.is_relative_to(pages)]
    assert {path.stat().st_mode & 0o077 for path in private} == {0}
    assert serving.run_deployment().returncode == 0
    until(lambda: states(serving) == ["RUNNING"])
    parts = sorted(each.process.pid for each in started_processes(serving.home) if each.name == part)
    for pid in parts[1:] if part == "worker" else parts[1:2]:  # the first is the watcher
        os.kill(pid, signal.SIGKILL)
    said = serving.process.communicate(timeout=120)[0]
    assert serving.process.returncode == 1
    assert f"the {part} ended with exit status" in said
    assert "Traceback" not in said
    assert serving.running_children() == []

    serving = start(*database)
    (project / "gate").touch()
    until(lambda: sorted(states(serving)) == ["COMPLETED", "CRASHED"], timeout=240)
    assert (project / "report.txt").read_text() == "housing standard 3"
    assert serving.stop() == 0


@pytest.mark.server
def test_a_run_whose_process_dies_starts_again(project, start):
    write_flow(project, GATE, hooks=True)
    serving = start()
    assert serving.run_deployment().returncode == 0
    until(lambda: states(serving) == ["RUNNING"])
    found = sorted(each.process.pid for each in started_processes(serving.home) if each.name == "worker")
    for pid in found[2:]:  # the watcher, the worker, and what it runs
        os.kill(pid, signal.SIGKILL)
    (project / "gate").touch()
    until(lambda: sorted(states(serving)) == ["COMPLETED", "CRASHED"], timeout=240)
    assert serving.stop() == 0
