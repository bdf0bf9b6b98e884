"""The real study through the standing server: from its worker, and from the command line."""

import base64
import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from small_project import PROJECT, Project

from data.store.folders import REPORTS
from flows.server import postgres
from flows.server.prefect_server import answers, free_port, own_authentication
from flows.server.processes import ServerError

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture(params=[(), ("--postgres",)], ids=["sqlite", "postgresql"])
def standing(request, tmp_path_factory):
    """Return a project whose environment names its standing server."""
    if request.param:
        try:
            postgres.postgres_programs()
        except ServerError as missing:
            pytest.skip(str(missing))
    folder = tmp_path_factory.mktemp("standing")
    project, port = Project(folder, "standing"), free_port()
    project.out = REPORTS / f"test-{port}"
    process = subprocess.Popen(
        [sys.executable, "-m", "flows.server.serve", "--port", str(port), *request.param],
        cwd=PROJECT,
        env=project.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = []
    for line in process.stdout:
        said.append(line)
        if "deployment run" in line:
            break
    else:
        pytest.fail("".join(said))
    api_url = f"http://127.0.0.1:{port}/api"
    project.environment |= {
        "PREFECT_API_URL": api_url,
        "PREFECT_API_AUTH_STRING": own_authentication(project.home),
    }
    yield project
    process.terminate()
    process.communicate(timeout=60)
    shutil.rmtree(project.out, ignore_errors=True)
    assert not answers(api_url)


def ask(project, path, body=None):
    token = base64.b64encode(project.environment["PREFECT_API_AUTH_STRING"].encode()).decode()
    request = urllib.request.Request(
        f"{project.environment['PREFECT_API_URL']}/{path if body else f'{path}/filter'}",
        data=json.dumps(body or {}).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Basic {token}"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_a_deployed_study_and_one_from_the_command_line_end_in_the_same_results(standing):
    project = standing
    parameters = {
        "profile": '"smoke"',
        "reps": "1",
        "seed": "5",
        "workers": "1",
        "out": json.dumps(project.out.name),
    }
    options = [option for name, value in parameters.items() for option in ("-p", f"{name}={value}")]
    done = subprocess.run(
        [sys.executable, "-m", "prefect", "deployment", "run", "study/housing", *options, "--watch"],
        env=project.environment,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = project.out / "housing" / "report.html"
    assert report.exists()
    artifacts = {each["key"]: each for each in ask(project, "artifacts")}
    assert {"progress-housing", "budget-housing"} < set(artifacts)
    artifact = artifacts["report-housing"]
    assert f"/reports/{project.out.name}/housing/report.html" in artifact["data"]

    said = json.dumps([ask(project, "logs"), ask(project, "artifacts")])
    assert project.environment["PREFECT_API_AUTH_STRING"].partition(":")[2] not in said

    here = ["run", "housing", "--profile", "smoke", "--reps", "1", "--seed", "5"]
    _, err = project.dpcost(*here, "--out", project.out)
    assert "all from the cache" in err
    project.environment["DPCOST_HOME"] = str(project.folder / "another home")
    project.dpcost(*here, "--out", project.folder / "computed")
    deployed, computed = (
        (folder / "housing" / "results.parquet").read_bytes()
        for folder in (project.out, project.folder / "computed")
    )
    assert deployed == computed
    assert not (project.folder / "another home" / "prefect").exists()
    states = [run["state_type"] for run in ask(project, "flow_runs") if not run["auto_scheduled"]]
    assert states == ["COMPLETED"] * 3


def deployed(project, name, **parameters):
    """Run a deployment to its end; return how it ended."""
    options = [option for key, value in parameters.items() for option in ("-p", f"{key}={json.dumps(value)}")]
    done = subprocess.run(
        [sys.executable, "-m", "prefect", "deployment", "run", name, *options, "--watch"],
        env=project.environment,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return done.returncode


def test_a_cell_runs_again_and_a_failed_run_goes_on(standing):
    """Both compute what is missing and no more."""
    project, out = standing, {"out": standing.out.name}
    smoke = {"profile": "smoke", "reps": 2, **out}
    assert deployed(project, "study/fair", **smoke) == 0
    results, first = project.out / "fair" / "results.parquet", project.computed()
    before = results.read_bytes()
    cell = {"cell": "glm:public:n=500"}
    assert deployed(project, "rerun/rerun", study="fair", task="run_block", **cell, **out) == 0
    second = project.computed()
    assert len({name.partition(".")[0] for name in second if second[name] != first[name]}) == 1
    assert results.read_bytes() == before

    (project.out / "rand_visits").write_text("a file where a folder is needed")
    (visits,) = [each for each in ask(project, "deployments") if each["name"] == "rand_visits"]
    ask(
        project,
        f"deployments/{visits['id']}/create_flow_run",
        {"parameters": smoke | {"study": "rand_visits"}},
    )
    deadline, failures = time.monotonic() + 120, []
    while not failures:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        failures = [run for run in ask(project, "flow_runs") if run["state_type"] == "FAILED"]
    (failed,), third = failures, project.computed()
    assert "a file stands where a folder is needed" in failed["state"]["message"]
    (project.out / "rand_visits").unlink()
    # What the page's button sends, pressed at once: the run's process may not have ended yet.
    retry = {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}}
    ask(project, f"flow_runs/{failed['id']}/set_state", retry)
    deadline = time.monotonic() + 120
    while not (project.out / "rand_visits" / "report.html").exists():
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert project.computed() == third


def test_wrong_parameters_are_refused_before_a_run_is_made(standing):
    project = standing
    command = [sys.executable, "-m", "prefect", "deployment", "run", "study/housing", "-p"]
    said = {}  # test_forms.py has every case
    for wrong in ("workers=-1", 'workers="all"', "color=1", 'study="fair"', 'out="../out"'):
        done = subprocess.run(
            [*command, wrong],
            env=project.environment,
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 1, wrong
        said[wrong] = " ".join((done.stdout + done.stderr).split())
    for wrong, value in (("workers=-1", "-1"), ('workers="all"', "'all'")):
        assert "for field 'workers'" in said[wrong]
        assert value in said[wrong]
    assert [run for run in ask(project, "flow_runs") if not run["auto_scheduled"]] == []


@pytest.mark.parametrize("standing", [()], ids=["sqlite"], indirect=True)
def test_what_the_server_was_asked_not_to_check_is_refused_before_anything_runs(standing):
    project, elsewhere = standing, standing.folder / "elsewhere"
    elsewhere.mkdir()
    project.out.symlink_to(elsewhere)
    smoke = {"study": "fair", "profile": "smoke"}
    (fair,) = [each for each in ask(project, "deployments") if each["name"] == "fair"]
    cases = {
        "must be a folder below reports/out, got": smoke | {"out": project.out.name},  # a link
        "study must be one of fair, got 'snp'": smoke | {"study": "snp"},
        "Input should be greater than or equal to 1": smoke | {"workers": -1},  # by the flow's types
    }
    try:
        for parameters in cases.values():
            body = {"parameters": parameters, "enforce_parameter_schema": False}
            ask(project, f"deployments/{fair['id']}/create_flow_run", body)
        deadline = time.monotonic() + 180
        ended = []
        while len(ended) < len(cases):
            assert time.monotonic() < deadline
            time.sleep(0.5)
            ended = [run for run in ask(project, "flow_runs") if run["state_type"] in ("FAILED", "COMPLETED")]
        for said in cases:
            assert sum(said in run["state"]["message"] for run in ended) == 1, said
        assert {run["state_type"] for run in ended} == {"FAILED"}
        assert list(elsewhere.iterdir()) == []
        assert project.computed() == {}
    finally:
        project.out.unlink()
