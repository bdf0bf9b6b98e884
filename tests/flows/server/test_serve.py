"""``make serve`` as a process: on SQLite and PostgreSQL, killed, interrupted, and under load."""

import base64
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from datetime import UTC, datetime
from unittest.mock import MagicMock, Mock

import pytest
from small_project import Standing, processes_of, until

from flows import ServerError, serve, unfinished
from flows.local_server import answers
from flows.lock import LOCK, locked
from tests.builders import copied_project
from tests.own_processes import own_process, private_postgres

STUDY = """
import time
from pathlib import Path

from prefect import flow, task

from flows.unfinished import start_again
from tasks.run_options import RunOptions


@task
def one(number: int) -> int:
    WORK
    return number


@flow(on_crashed=[start_again])
def study(study: str, options: RunOptions = RunOptions()) -> int:
    total = sum(one.map(range(options.reps or 3)).result())
    Path("report.txt").write_text(f"{study} {options.profile} {total}")
    return total


OTHERS = "ingest", "rerun", "report", "scorecard"
ingest, rerun, report, scorecard = (study.with_options(name=name) for name in OTHERS)
"""
GATE = "while not Path('gate').exists():\n        time.sleep(0.1)"


def test_a_taken_port_is_one_sentence(capsys, home):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert serve.main(["--port", str(port)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"port {port} of 127.0.0.1 cannot be used")
    assert said.count("\n") == 1
    assert "--port" in said


def write_flow(project, work="pass", before="total", after=""):
    """Write the flow, whose tasks do some work first, with lines before its sum and after all else."""
    text = STUDY.replace("WORK", work).replace("    total =", f"    {before} =")
    (project / "flows" / "study.py").write_text(text + after)


def states(serving):
    """Return the states of the runs that somebody started."""
    return sorted(run["state_type"] for run in serving.ask("flow_runs") if not run["auto_scheduled"])


@pytest.fixture
def project(tmp_path):
    """Return a copy of the project with a tiny flow and one study."""
    folder = copied_project(tmp_path / "project", "__pycache__")
    for study in folder.glob("flows/**/*.toml"):
        if study.stem != "housing":
            study.unlink()
    write_flow(folder)
    return folder


@pytest.fixture
def start(project):
    started = contextlib.ExitStack()

    def start(*options, up=True, **environment):
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "DPCOST_"))}
        own = {"PREFECT_HOME": str(project / "client"), "DPCOST_HOME": str(project / ".dpcost")}
        server = started.enter_context(Standing(project, inherited | own | environment, *options))
        return server.wait_until_up() if up else server

    with started:
        yield start


@pytest.fixture
def running(project, start):
    """A function that returns a standing server with a run under way, which waits for a gate."""

    def running(**flow):
        write_flow(project, **{"work": GATE, **flow})
        serving = start()
        assert serving.run_deployment().returncode == 0
        until(lambda: states(serving) == ["RUNNING"])
        return serving

    return running


pytestmark = pytest.mark.server


def history_at(address):
    return {"PREFECT_API_DATABASE_CONNECTION_URL": address.replace("postgresql", "postgresql+asyncpg")}


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request):
    if request.param == "sqlite":
        yield {}
        return
    with private_postgres() as address:
        yield history_at(address)


def test_a_deployed_study_runs_from_the_server_and_again_after_a_restart(project, start, database):
    for profile in ("standard", "smoke"):
        serving = start(**database)
        done = serving.run_deployment("study/housing", "--watch", options={"profile": profile})
        assert done.returncode == 0, done.stdout + done.stderr
        assert (project / "report.txt").read_text() == f"housing {profile} 3"
        assert serving.stop() == 0
        assert not answers(serving.api_url)
        assert processes_of(serving.home) == []
    assert "Traceback" not in serving.said


PLAIN = """
import sys
from pathlib import Path
from flows.local_server import own_authentication, prefect_server
with prefect_server(Path(sys.argv[1])) as url:
    print(url, own_authentication(Path(sys.argv[1])), flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def elsewhere(project):
    """The address and the sign-in of a server of another home, as variables."""
    words = [sys.executable, "-c", PLAIN, str(project / "elsewhere")]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "DPCOST_"))}
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    server = subprocess.Popen(words, cwd=project, env=inherited, text=True, **pipes)
    api_url, password = server.stdout.readline().split()
    yield {"PREFECT_API_URL": api_url, "PREFECT_API_AUTH_STRING": password}
    server.communicate("\n", timeout=60)


def test_runs_are_served_to_a_server_elsewhere(start, elsewhere):
    api_url = elsewhere["PREFECT_API_URL"]
    serving = start(**elsewhere)
    assert api_url.removesuffix("/api") in serving.said
    assert str(serving.home) not in serving.said  # the sign-in is not that of the home
    assert not answers(serving.api_url)
    assert serving.stop() == 0
    assert answers(api_url)


def test_workers_of_a_pool_run_what_is_served(project, start, elsewhere):
    def prefect(*words):
        return {"command": [sys.executable, "-m", "prefect", *words], "cwd": project, "env": serving.client}

    serving = start("--pool", "local", up=False, **elsewhere)
    said = serving.process.communicate(timeout=60)[0]
    assert serving.process.returncode == 1
    assert "prefect work-pool create local --type process" in said
    serving.api_url = elsewhere["PREFECT_API_URL"]
    with own_process(**prefect("work-pool", "create", "local", "--type", "process")) as creating:
        assert creating.wait(60) == 0
    serving = start("--only", "housing", "--pool", "local", **elsewhere)
    serving.api_url = elsewhere["PREFECT_API_URL"]
    with own_process(**prefect("worker", "start", "--pool", "local")):
        done = serving.run_deployment("study/housing", "--watch", options={"profile": "smoke"})
        assert done.returncode == 0, done.stdout + done.stderr
    assert (project / "report.txt").read_text() == "housing smoke 3"
    (run,) = serving.ask("flow_runs")
    assert run["work_pool_name"] == "local"
    assert serving.stop() == 0


def test_a_home_does_not_take_over_the_server_of_another(project, start):
    """Where ``PREFECT_API_URL`` is exported, as the operations page advises."""
    first = start(DPCOST_HOME=str(project / "first"))
    before = {each["id"]: each["tags"] for each in first.ask("deployments")}
    known = {"PREFECT_API_URL": first.api_url, "PREFECT_API_AUTH_STRING": first.password}
    for options, named in (((), "another home"), (("--port", "4201"), "--port 4201")):
        second = start(*options, up=False, **known)
        said = second.process.communicate(timeout=60)[0]
        assert second.process.returncode == 1
        assert named in said
        assert "Traceback" not in said
    assert {each["id"]: each["tags"] for each in first.ask("deployments")} == before


def send(serving, method, path, body):
    """Send a change, as Prefect's pages do."""
    known = {**serving.known, "Content-Type": "application/json", "Prefect-Csrf-Client": "test"}
    known["Prefect-Csrf-Token"] = serving.request_json("csrf-token?client=test")["token"]
    change = json.dumps(body).encode()
    until(lambda: serving.request(path, method=method, body=change, **known)[0] < 300)  # 503: a busy database


WATCHED = "UPDATE automation_bucket SET count = count"
A_WHILE_AGO = WATCHED.replace(
    "count = count", "start = datetime('now', '-100 seconds'), \"end\" = datetime('now', '-10 seconds')"
)


def test_a_finished_run_keeps_its_state_although_prefect_counts_a_heartbeat_late(project, start):
    serving = start()
    assert serving.stop() == 0
    # As version 2.1 left it.
    forced = "UPDATE automation SET actions = replace(actions, '\"force\": false', '\"force\": true')"
    assert change_history(serving, forced) == 1
    serving = start()
    (automation,) = serving.ask("automations")
    assert [each["force"] for each in automation["actions"]] == [False]
    assert serving.run_deployment("study/housing", "--watch").returncode == 0
    (run,) = [each for each in serving.ask("flow_runs") if not each["auto_scheduled"]]
    key, role = "prefect.resource.id", {"prefect.resource.role": "tag"}
    event = {"id": str(uuid.uuid4()), "occurred": datetime.now(UTC).isoformat()}
    event |= {"event": "prefect.flow-run.heartbeat", "resource": {key: f"prefect.flow-run.{run['id']}"}}
    event["related"] = [{key: f"prefect.tag.{tag}", **role} for tag in run["tags"]]
    send(serving, "POST", "events", [event])
    until(lambda: change_history(serving, WATCHED))
    assert serving.stop() == 0
    change_history(serving, A_WHILE_AGO)
    serving = start()
    executed = {"filter": {"event": {"prefix": ["prefect.automation.action"]}}}
    until(lambda: serving.ask("events/filter", executed)["events"])
    assert states(serving) == ["COMPLETED"]


def test_a_pause_and_a_limit_that_a_person_set_are_kept_by_a_restart(start):
    serving = start()

    def housing():
        (found,) = [each for each in serving.ask("deployments") if each["name"] == "housing"]
        return found

    (schedule,) = housing()["schedules"]
    place = f"deployments/{housing()['id']}"
    send(serving, "PATCH", f"{place}/schedules/{schedule['id']}", {"active": False})
    strategy = {"collision_strategy": "CANCEL_NEW"}
    send(serving, "PATCH", place, {"concurrency_limit": 3, "concurrency_options": strategy})
    assert serving.stop() == 0
    serving = start()
    assert [each["active"] for each in housing()["schedules"]] == [False]
    assert housing()["global_concurrency_limit"]["limit"] == 3
    assert housing()["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"
    assert serving.stop() == 0


def test_parameters_that_a_person_edited_are_kept_by_a_restart_which_says_so(project, start):
    serving = start()
    assert "of the pages" not in serving.said

    def parameters():
        (found,) = [each for each in serving.ask("deployments") if each["name"] == "housing"]
        return found["id"], found["parameters"]

    edited = {"study": "housing", "options": {"profile": "smoke", "reps": 7}}
    send(serving, "PATCH", f"deployments/{parameters()[0]}", {"parameters": edited})
    assert serving.stop() == 0
    serving = start()
    assert "housing: the parameters of the pages are kept" in serving.said
    assert "'reps': 7" in serving.said
    assert parameters()[1] == edited
    assert serving.run_deployment("study/housing", "--watch").returncode == 0
    assert (project / "report.txt").read_text() == "housing smoke 21"
    assert serving.stop() == 0
    with contextlib.closing(sqlite3.connect(project / ".dpcost" / "prefect" / "prefect.db")) as database:
        gone = json.dumps({"study": "other", "options": {"of_an_earlier_version": 1}})
        database.execute("UPDATE deployment SET parameters = ? WHERE name = 'housing'", [gone])
        database.commit()
    serving = start()
    assert "housing: this version refuses the parameters of the pages" in serving.said
    assert parameters()[1] == {"study": "housing", "options": {"profile": "standard"}}
    assert serving.stop() == 0


LATE = (
    "UPDATE flow_run SET expected_start_time = datetime(expected_start_time, '-1 day'), "
    "next_scheduled_start_time = datetime(next_scheduled_start_time, '-1 day') WHERE auto_scheduled"
)

LATE_STATES = (  # a process waits for the time that its run's state has
    "UPDATE flow_run_state SET state_details = json_set(state_details, '$.scheduled_time', strftime("
    "'%Y-%m-%dT%H:%M:%SZ', json_extract(state_details, '$.scheduled_time'), '-1 day')) "
    "WHERE flow_run_id IN (SELECT id FROM flow_run WHERE auto_scheduled)"
)


def test_while_the_runner_is_busy_only_the_last_late_run_is_kept(project, running):
    study = project / "flows" / "studies" / "housing.toml"
    minute = (datetime.now(UTC).minute + 30) % 60  # so that none is due before the run that keeps it busy
    study.write_text(study.read_text().replace("0 3 * * 1", f"{minute} * * * *"))
    serving = running()

    def planned():  # on a Sunday, what is planned for Monday is late, too
        return [run for run in serving.ask("flow_runs") if run["auto_scheduled"] and "housing" in run["tags"]]

    until(planned)
    assert change_history(serving, LATE) >= 3
    assert change_history(serving, LATE_STATES) >= 3

    def late():
        now = datetime.now(UTC).isoformat()
        scheduled = (run for run in planned() if run["state_type"] == "SCHEDULED")
        return [run for run in scheduled if run["expected_start_time"] < now]

    until(lambda: len(late()) == 1)
    (project / "gate").touch()

    def begun():
        kinds = [run["state_type"] for run in planned()]
        return [kind for kind in kinds if kind not in ("SCHEDULED", "CANCELLED")]

    until(begun, timeout=180)
    until(lambda: begun() == ["COMPLETED"], timeout=180)
    time.sleep(3)
    assert begun() == ["COMPLETED"]
    assert serving.stop() == 0


def test_one_client_skips_late_runs_until_a_request_fails(monkeypatch):
    """Each new client loads certificates and writes a token to the database."""
    opened, calls, enough = MagicMock(), itertools.count(1), threading.Event()

    def skip(*_):
        match next(calls):
            case 3:
                raise ServerError("busy")
            case 6:
                enough.set()

    monkeypatch.setattr("prefect.client.orchestration.get_client", opened)
    monkeypatch.setattr(unfinished, "SKIP_EVERY", 0.01)
    monkeypatch.setattr(unfinished, "skip_late_runs", skip)
    with unfinished.skipping_late_runs("home-1"):
        assert enough.wait(20)
    assert opened.call_count == 2


def test_a_run_that_waits_for_the_lock_says_so_on_its_page(project, start):
    waits = "from flows.lock import exclusive_run\n    from data.store.folders import home\n"
    write_flow(project, before=f"{waits}    with exclusive_run(home()):\n        pass\n    total")
    serving = start()
    with locked(serving.home, LOCK, print):
        assert serving.run_deployment().returncode == 0
        until(lambda: [log for log in serving.ask("logs") if "waiting for it to end" in log["message"]])
        assert states(serving) == ["RUNNING"]
    until(lambda: states(serving) == ["COMPLETED"])
    assert serving.stop() == 0


def test_a_second_one_is_refused(start):
    start()
    second = start(up=False)
    assert "already has a permanent server" in second.process.communicate(timeout=30)[0]
    assert second.process.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_when_it_ends_nothing_is_left_and_the_next_start_repeats_runs_under_way(
    project, start, running, number
):
    """As systemd and compose do it: what dies is started again."""
    serving = running()
    pages = serving.home / "prefect" / "pages"  # Prefect's own, with the modes of its package
    private = [path for path in serving.home.rglob("*") if not path.is_relative_to(pages)]
    assert {path.stat().st_mode & 0o077 for path in private} == {0}
    serving.process.send_signal(number)
    said = serving.process.communicate(timeout=20)[0]
    assert serving.process.returncode == (-number if number == signal.SIGKILL else 0)
    assert "Traceback" not in said
    assert ("stopped: server, schedules and runs" in said) == (number != signal.SIGKILL)
    until(lambda: processes_of(serving.home) == [], 6)

    serving = start()
    (project / "gate").touch()
    until(lambda: states(serving) == ["COMPLETED", "CRASHED"], timeout=120)
    assert (project / "report.txt").read_text() == "housing standard 3"
    assert serving.stop() == 0


IGNORES = f"import signal\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    {GATE}\n    total"


def test_a_run_that_does_not_heed_a_signal_ends_with_the_server_all_the_same(running):
    serving = running(work="pass", before=IGNORES)
    time.sleep(2)
    serving.process.send_signal(signal.SIGTERM)
    said = serving.process.communicate(timeout=20)[0]  # Prefect's runner would wait for 30 s
    assert (serving.process.returncode, "Traceback" in said) == (0, False)
    until(lambda: processes_of(serving.home) == [], 6)


@pytest.mark.parametrize("host", ["127.0.0.2", "::1", "0.0.0.0", "::"])
def test_the_address_that_was_bound_is_the_one_that_is_asked(start, host):
    serving = start("--host", host)
    at = {"127.0.0.2": host, "0.0.0.0": "127.0.0.1"}.get(host, "[::1]")
    serving.api_url = f"http://{at}:{serving.port}/api"
    assert serving.api_url in serving.said
    assert serving.request("health")[0] == 200
    assert serving.stop() == 0


@pytest.mark.slow
def test_a_served_run_that_is_frozen_with_its_server_goes_on(project, running):
    """Ctrl-Z, `docker pause` or a laptop's sleep, longer than a minute of silence."""
    serving = running()
    both = [serving.process.pid, *(each.pid for each in serving.runs_under_way())]
    for pid in both:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(75)
    for pid in both:
        os.kill(pid, signal.SIGCONT)
    time.sleep(15)  # a watch that took the server for lost would end it within three probes
    assert serving.process.poll() is None
    (project / "gate").touch()
    until(lambda: states(serving) == ["COMPLETED"])
    assert serving.stop() == 0


def test_a_run_whose_process_dies_starts_again_but_not_for_ever(running):
    serving = running()
    for n_crashed in range(3):
        until(lambda n=n_crashed: states(serving) == ["CRASHED"] * n + ["RUNNING"], timeout=120)
        until(lambda: "RUNNING" in {run["state_type"] for run in serving.ask("task_runs")})
        for each in serving.runs_under_way():
            each.kill()
    until(lambda: states(serving) == ["CRASHED"] * 3)
    time.sleep(5)
    assert states(serving) == ["CRASHED"] * 3
    until(lambda: {run["state_type"] for run in serving.ask("task_runs")} == {"CRASHED"})


def test_the_server_answers_its_owner_alone_and_shows_the_schedule(start):
    serving = start()
    known = serving.known
    wrong = {"Authorization": f"Basic {base64.b64encode(b'dpcost:wrong').decode()}"}
    asking = {"method": "POST", "body": b"{}", "Content-Type": "application/json"}
    assert stat.S_IMODE((serving.home / "prefect.authentication").stat().st_mode) == 0o600
    assert serving.request("deployments/filter", **asking)[0] == 403  # without Prefect's token
    assert serving.request("deployments/filter", **asking, **known)[0] == 403
    for who in ({}, wrong):
        assert serving.request("admin/version", **who)[0] == 401
    assert serving.request("deployments/filter", **asking, **known, Host="example.org")[0] == 400
    assert {"housing", "rerun"} < {each["name"] for each in serving.ask("deployments")}
    for path in ("reports/", "api/openapi.json"):
        assert serving.request(f"../{path}")[0] == 401, path
    assert serving.request("../reports/", **known)[0] in (200, 404)
    with urllib.request.urlopen(f"http://127.0.0.1:{serving.port}/", timeout=10) as page:  # a browser
        assert page.status == 200
    wanted = {"housing"}  # Monday's run
    until(lambda: [run for run in serving.ask("flow_runs") if wanted < set(run["tags"])])


def change_history(serving, statement):
    with contextlib.closing(sqlite3.connect(serving.home / "prefect" / "prefect.db")) as history, history:
        return history.execute(statement).rowcount


def test_a_run_that_prefect_marks_as_crashed_while_the_server_comes_back_starts_again(
    project, start, running
):
    """After a break of minutes Prefect's automation may be faster than what a start puts in order."""
    (project / "deploy").touch()  # for which the server waits when it imports the flow to deploy it
    serving = running(after="\nwhile not Path('deploy').exists():\n    time.sleep(0.1)\n")
    until(lambda: change_history(serving, WATCHED) == 1)
    serving.process.kill()
    until(lambda: processes_of(serving.home) == [], 6)
    assert change_history(serving, A_WHILE_AGO) == 1
    (project / "deploy").unlink()
    serving = start(up=False)
    until(lambda: answers(serving.api_url))
    until(lambda: states(serving) == ["CRASHED"])
    (project / "deploy").touch()
    serving.wait_until_up()
    (project / "gate").touch()
    until(lambda: states(serving) == ["COMPLETED", "CRASHED"], timeout=120)
    assert (project / "report.txt").read_text() == "housing standard 3"
    assert serving.stop() == 0


def test_a_study_that_is_gone_keeps_no_schedule(project, start):
    study = project / "flows" / "studies" / "housing.toml"
    shutil.copy(study, study.with_name("gone.toml"))
    serving = start()
    until(lambda: {"housing", "gone"} <= {tag for run in serving.ask("flow_runs") for tag in run["tags"]})
    assert serving.stop() == 0
    study.with_name("gone.toml").unlink()
    serving = start()
    assert "gone" not in {each["name"] for each in serving.ask("deployments")}
    assert serving.stop() == 0


def test_a_run_of_a_study_that_is_gone_is_not_started_again(project, start, running):
    assert running().stop() == 0
    study = project / "flows" / "studies" / "housing.toml"
    study.rename(study.with_name("other.toml"))
    serving = start()
    assert states(serving) == ["CRASHED"]
    assert serving.stop() == 0


@pytest.mark.parametrize("name", ["Suspended", "Paused"])
def test_a_suspended_or_paused_run_ends_and_goes_on_when_it_is_resumed(project, running, name):
    """Paused, it kept its place and the lock of the home, and all other runs waited."""
    heeds = f"{GATE}\n    from tasks.steps import heed_person\n    heed_person()"
    serving = running(work=heeds, before="one.submit(0).result()\n    total")
    (run,) = (run["id"] for run in serving.ask("flow_runs") if not run["auto_scheduled"])
    details = {"pause_timeout": "2100-01-01T00:00:00Z", "pause_key": "a person"}
    details["pause_reschedule"] = name == "Suspended"
    suspended = {"type": "PAUSED", "name": name, "state_details": details}  # as Prefect's page does
    assert serving.ask(f"flow_runs/{run}/set_state", {"state": suspended})["status"] == "ACCEPT"
    time.sleep(2)  # a run asks once a second whether it is paused
    (project / "gate").touch()
    until(lambda: serving.runs_under_way() == [])
    assert states(serving) == ["PAUSED"]
    assert serving.ask(f"flow_runs/{run}/resume", {"run_input": {}})["status"] == "ACCEPT"
    until(lambda: states(serving) == ["COMPLETED"])
    assert serving.stop() == 0
    assert [word for word in ("memory", "killed", "Traceback") if word in serving.said] == []


def test_history_older_than_the_days_to_keep_is_deleted(project, start):
    serving = start()
    assert serving.run_deployment("study/housing", "--watch").returncode == 0
    assert serving.stop() == 0
    assert change_history(serving, "UPDATE flow_run SET end_time = datetime(end_time, '-3 days')") >= 1
    serving = start(DPCOST_KEEP_DAYS="1", PREFECT_SERVER_SERVICES_DB_VACUUM_LOOP_SECONDS="2")
    until(lambda: states(serving) == [])
    assert serving.ask("task_runs") == []


@pytest.mark.parametrize("error", [OSError(30, "Read-only file system", "/srv/home"), ServerError("gone")])
def test_what_keeps_it_from_starting_is_one_sentence(monkeypatch, capsys, home, error):
    monkeypatch.setattr(serve, "_serve", Mock(side_effect=error))
    assert serve.main([]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "Errno" not in said


@pytest.mark.slow
def test_without_its_database_it_ends_with_a_sentence_that_names_it(start):
    with private_postgres() as address:
        serving = start(**history_at(address))
    said = serving.process.communicate(timeout=240)[0]
    assert serving.process.returncode == 1  # systemd starts it again
    assert "Traceback" not in said
    assert "its database postgresql+asyncpg://" in said


AT_ONCE = 4  # commands that use one server


@pytest.mark.slow
def test_no_request_of_two_hundred_runs_fails(project, start, database):
    serving = start(PREFECT_API_LOG_RETRYABLE_ERRORS="true", **database)
    runs = 200 // AT_ONCE
    code = f"from flows.study import study\nfor _ in range({runs}): study('housing', dict(reps=5))"
    command = [sys.executable, "-c", code]
    running = [subprocess.Popen(command, cwd=project, env=serving.client) for _ in range(AT_ONCE)]
    assert [process.wait(900) for process in running] == [0] * AT_ONCE
    ended = {"flow_runs": {"state": {"type": {"any_": ["COMPLETED"]}}}}
    assert serving.ask("flow_runs/count", ended) == 200
    assert serving.stop() == 0
    log = (serving.home / "prefect" / "server.log").read_text()
    # SQLite may be locked, which the server answers with a status that its clients repeat.
    failed = "Encountered exception" if not database else "retryable exception|Encountered exception"
    assert re.findall(failed, log) == []
