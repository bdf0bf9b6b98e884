"""The real study through the standing server: from its worker, and from the command line."""

import json
import shutil

import pytest
from small_project import PROJECT, Project, Standing, until

from data.store.folders import REPORTS
from flows.local_server import answers

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture
def standing(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("standing"), "standing")
    with Standing(PROJECT, project.environment) as server:
        server.wait_until_up()
        project.out = REPORTS / f"test-{server.port}"
        project.environment, project.server = server.client, server
        yield project
    shutil.rmtree(project.out, ignore_errors=True)
    assert not answers(server.api_url)


def test_a_deployed_study_and_one_from_the_command_line_end_in_the_same_results(standing):
    project = standing
    server, smoke = project.server, {"profile": "smoke", "reps": 1, "seed": 5}
    asked = {**smoke, "workers": 1, "out": project.out.name}
    done = server.run_deployment("study/housing", "--watch", options=asked)
    assert done.returncode == 0, done.stdout + done.stderr
    report = project.out / "housing" / "report.html"
    assert report.exists()
    artifacts = {each["key"]: each for each in project.server.ask("artifacts")}
    artifact = artifacts["report-housing"]
    assert f"/reports/{project.out.name}/housing/report.html" in artifact["data"]

    said = json.dumps([project.server.ask("logs"), project.server.ask("artifacts")])
    assert project.environment["PREFECT_API_AUTH_STRING"].partition(":")[2] not in said

    here = ["run", "housing", "--profile", "smoke", "--reps", "1", "--seed", "5"]
    _, err = project.dpcost(*here, "--out", project.out)
    assert "all from the cache" in err
    project.environment["DPCOST_HOME"] = str(project.folder / "another home")
    project.dpcost(*here, "--out", project.folder / "computed")
    folders = project.out, project.folder / "computed"
    deployed, computed = ((each / "housing" / "results.parquet").read_bytes() for each in folders)
    assert deployed == computed
    assert not (project.folder / "another home" / "prefect").exists()
    states = [run["state_type"] for run in project.server.ask("flow_runs") if not run["auto_scheduled"]]
    assert states == ["COMPLETED"] * 3


def test_a_cell_runs_again_and_a_failed_run_goes_on(standing):
    """Both compute what is missing and no more."""
    project, server, out = standing, standing.server, {"out": standing.out.name}
    smoke = {"profile": "smoke", "reps": 2, **out}
    assert server.run_deployment("study/fair", "--watch", options=smoke).returncode == 0
    results, first = project.out / "fair" / "results.parquet", project.computed()
    before = results.read_bytes()
    rerun = {"study": "fair", "task": "run_block", "cell": "glm:public:n=500", **out}
    assert server.run_deployment("rerun/rerun", "--watch", **rerun).returncode == 0
    second = project.computed()
    assert len({name.partition(".")[0] for name in second if second[name] != first[name]}) == 1
    assert results.read_bytes() == before

    (project.out / "rand_visits").write_text("a file where a folder is needed")
    (visits,) = [each for each in project.server.ask("deployments") if each["name"] == "rand_visits"]
    asked = {"parameters": {"study": "rand_visits", "options": smoke}}
    server.ask(f"deployments/{visits['id']}/create_flow_run", asked)
    failures = until(lambda: [run for run in server.ask("flow_runs") if run["state_type"] == "FAILED"], 120)
    (failed,), third = failures, project.computed()
    assert "a file is in the place of the folder" in failed["state"]["message"]
    (project.out / "rand_visits").unlink()
    # What the page's button sends, pressed at once: the run's process may not have ended yet.
    retry = {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}}
    project.server.ask(f"flow_runs/{failed['id']}/set_state", retry)
    until((project.out / "rand_visits" / "report.html").exists, 120)
    assert project.computed() == third


def test_what_the_server_was_asked_not_to_check_is_refused_before_anything_runs(standing):
    project, server, elsewhere = standing, standing.server, standing.folder / "elsewhere"
    elsewhere.mkdir()
    project.out.symlink_to(elsewhere)
    smoke, fair = {"profile": "smoke"}, {"study": "fair"}
    link = smoke | {"out": project.out.name}
    (deployment,) = [each for each in project.server.ask("deployments") if each["name"] == "fair"]
    cases = {
        "must be a folder below reports/out, got": fair | {"options": link},
        "study must be one of fair, got 'snp'": {"study": "snp", "options": smoke},
        "Input should be greater than or equal to 1": fair | {"options": smoke | {"workers": -1}},  # by types
        "nonsense": fair | {"nonsense": 1},
    }
    try:
        for parameters in cases.values():
            body = {"parameters": parameters, "enforce_parameter_schema": False}
            project.server.ask(f"deployments/{deployment['id']}/create_flow_run", body)

        def ended():
            found = [run for run in server.ask("flow_runs") if run["state_type"] in ("FAILED", "COMPLETED")]
            return found if len(found) == len(cases) else []

        runs = until(ended, 180)
        for said in cases:
            assert sum(said in run["state"]["message"] for run in runs) == 1, said
        assert {run["state_type"] for run in runs} == {"FAILED"}
        assert list(elsewhere.iterdir()) == []
        assert project.computed() == {}
    finally:
        project.out.unlink()


def running(project):
    return {each["id"] for each in project.server.ask("flow_runs") if each["state_type"] == "RUNNING"}


@pytest.fixture
def under_way(standing):
    """A run of many short blocks from the command line, and its id on the server."""
    project, study = standing, standing.study
    text = study.read_text().replace("n = [100, 5000, 20000]", f"n = {[*range(600, 20001, 200)]}")
    study.write_text(text.replace("standard = 4", "standard = 200"))
    before = running(project)  # a run of another test may have been killed
    process = project.start(
        *("run", study, "--profile", "standard", "--out", project.folder / "out", "--workers", "1")
    )
    stored = lambda: list((project.home / "cache").glob("run_block-*.parquet"))  # noqa: E731
    until(lambda: len(stored()) > 2 or process.poll() is not None, 200)
    (run,) = running(project) - before
    yield process, run, stored
    process.kill()
    process.communicate()


def state_of(server, run):
    return server.request_json(f"flow_runs/{run}")["state"]["type"]


@pytest.mark.parametrize("state", ["CANCELLING", "CANCELLED"])
def test_a_run_from_the_command_line_that_a_person_cancels_ends_between_blocks(standing, under_way, state):
    process, run, stored = under_way
    standing.server.ask(f"flow_runs/{run}/set_state", {"state": {"type": state}, "force": True})
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "canceled" in err.splitlines()[-1]
    assert state_of(standing.server, run) == "CANCELLED"
    assert 2 < len(stored()) < 150


@pytest.mark.parametrize("name", ["Suspended", "Paused"])
def test_a_run_from_the_command_line_that_a_person_pauses_ends_and_says_how_it_goes_on(
    standing, under_way, name
):
    """It waited and kept the lock of the home, so no other run could begin."""
    process, run, stored = under_way
    details = {"pause_timeout": "2100-01-01T00:00:00Z", "pause_reschedule": name == "Suspended"}
    paused = {"type": "PAUSED", "name": name, "state_details": details}
    standing.server.ask(f"flow_runs/{run}/set_state", {"state": paused, "force": True})
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "paused" in err.splitlines()[-1]
    assert "same command" in err.splitlines()[-1]
    assert state_of(standing.server, run) == "CANCELLED"
    assert 2 < len(stored()) < 150
