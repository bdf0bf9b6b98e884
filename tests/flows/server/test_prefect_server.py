import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest.mock import Mock

import httpx
import pytest
from small_project import server_of, until

from flows.server import prefect_server as client
from flows.server.dead_runs import termination_as_exit
from flows.server.prefect_server import (
    RECORDER_SETTINGS,
    WITHOUT_SCHEDULES,
    prefect_server,
    wait_until_recorded,
)
from flows.server.processes import ServerError, end_own_processes, started_processes


def as_in_a_terminal():
    """Heed Ctrl-C and hang-ups, which a shell's background and nohup ignore, and children with them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def python(code, *arguments, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | environment,
        preexec_fn=as_in_a_terminal,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [*RECORDER_SETTINGS.items(), *WITHOUT_SCHEDULES.items()],
)
def test_what_a_server_is_set_to_prefect_knows(monkeypatch, name, value):
    import prefect.settings

    monkeypatch.setenv(name, value)
    setting = getattr(prefect.settings, name)
    assert setting.value_from(prefect.settings.Settings()) == json.loads(value)


@pytest.mark.parametrize("url", ["", "nonsense", "http://127.0.0.1:1/api", "http://[::1/api"])
def test_what_is_no_server_does_not_answer(url):
    assert not client.answers(url)


@pytest.fixture
def a_server_that_says():
    """Return a function that starts a server with one answer to everything, and keeps the headers."""
    running, headers = [], []

    def start(status, ready=None):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                headers.append(self.headers)
                self.send_response((ready or status) if self.path.endswith("/ready") else status)
                self.end_headers()
                self.wfile.write(b"true")

            def log_message(self, *_):
                pass

        running.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=running[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{running[-1].server_port}/api", headers

    yield start
    for each in running:
        each.shutdown()
        each.server_close()


@pytest.mark.parametrize(("ready", "well"), [(200, True), (404, True), (503, False)])
def test_a_server_without_its_database_does_not_answer(a_server_that_says, ready, well):
    api_url, _ = a_server_that_says(200, ready)
    assert client.answers(api_url) is well


@pytest.mark.parametrize("status", [200, 404, 500])
def test_a_server_that_knows_us_or_not_the_question_is_used(
    a_server_that_says, status, tmp_path, monkeypatch
):
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "dpcost:secret")
    api_url, headers = a_server_that_says(status)
    assert client.foreign_settings(tmp_path, api_url)["PREFECT_API_AUTH_STRING"] == "dpcost:secret"
    assert base64.b64decode(headers[0]["Authorization"].removeprefix("Basic ")) == b"dpcost:secret"


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_does_not_know_us_is_refused_without_telling_the_string(
    a_server_that_says, status, tmp_path
):
    api_url, _ = a_server_that_says(status)
    with pytest.raises(ServerError, match="needs another authentication string") as refused:
        client.foreign_settings(tmp_path, api_url)
    assert client.own_authentication(tmp_path) not in str(refused.value)


def test_the_authentication_string_is_made_once_is_private_and_goes_to_this_machine_alone(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("PREFECT_API_AUTH_STRING", raising=False)
    string = client.own_authentication(tmp_path / "home")
    assert client.own_authentication(tmp_path / "home") == string
    assert len(string) > 30
    assert client.authentication_file(tmp_path / "home").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["prefect.authentication"]
    sent = []
    monkeypatch.setattr(client, "_get", lambda url, path, known: sent.append(known) or Mock(status_code=200))
    client.foreign_settings(tmp_path / "home", "http://127.0.0.1:4200/api")
    client.foreign_settings(tmp_path / "home", "https://prefect.example.org/api")
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "chosen")
    client.foreign_settings(tmp_path / "home", "http://127.0.0.1:4200/api")
    assert sent == [string, "", "chosen"]


def test_sigterm_unwinds_the_stack():
    with pytest.raises(SystemExit) as left, termination_as_exit():
        signal.raise_signal(signal.SIGTERM)
    assert left.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.fixture(scope="module")
def migrated(tmp_path_factory):
    """Return a folder whose database exists, which saves each test some seconds."""
    home = tmp_path_factory.mktemp("migrated")
    with prefect_server(home):
        pass
    end_own_processes()
    return home


@pytest.fixture
def home(migrated, tmp_path, monkeypatch):
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    yield shutil.copytree(migrated, tmp_path / "a home")
    end_own_processes()


OWNER = """
import sys, time
from pathlib import Path
from flows.server.dead_runs import termination_as_exit
from flows.server.prefect_server import prefect_server
with termination_as_exit(), prefect_server(Path(sys.argv[1])) as url:
    print(url, flush=True)
    time.sleep(120)
"""


@pytest.mark.server
def test_a_server_is_there_and_then_is_not(home):
    before = dict(os.environ)
    with prefect_server(home) as api_url:
        assert client.answers(api_url)
        assert os.environ["PREFECT_API_URL"] == api_url
        process = server_of(os.getpid(), home)
    assert dict(os.environ) == before
    assert client.answers(api_url)  # until Prefect has delivered its last events, at the end of the process
    end_own_processes()
    assert not client.answers(api_url)
    assert not process.is_alive()


@pytest.mark.server
def test_a_server_that_answers_is_used_and_stays(home, tmp_path, monkeypatch):
    owner = python(OWNER, home)
    outside = owner.stdout.readline().strip()
    monkeypatch.setenv("PREFECT_API_URL", outside)
    with pytest.raises(ServerError, match="needs another authentication string"), prefect_server(tmp_path):
        pass
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", client.own_authentication(home))
    with prefect_server(tmp_path / "another") as api_url:
        assert api_url == outside
        assert started_processes(tmp_path / "another") == []
    assert client.answers(outside)
    owner.send_signal(signal.SIGINT)
    owner.wait(timeout=20)
    assert not client.answers(outside)


@pytest.mark.server
def test_a_server_that_does_not_answer_is_replaced_and_that_is_said(home, monkeypatch, capsys):
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    with prefect_server(home) as api_url:
        assert client.answers(api_url)
    said = capsys.readouterr().err
    assert said.startswith("no Prefect server answers at PREFECT_API_URL=http://127.0.0.1:1/api")
    assert said.count("\n") == 1
    assert os.environ["PREFECT_API_URL"] == "http://127.0.0.1:1/api"


@pytest.mark.server
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_takes_its_server_down(home, number):
    owner = python(OWNER, home)
    owner.stdout.readline()
    process = server_of(owner.pid, home)
    owner.send_signal(number)
    owner.wait(timeout=20)
    assert not process.is_alive()


@pytest.mark.server
def test_a_server_that_dies_is_told_and_one_that_is_stopped_is_not(home):
    lost = []
    for kill in (False, True):
        with prefect_server(home, when_lost=lost.append):
            process = server_of(os.getpid(), home)
            if kill:
                os.kill(process.pid, signal.SIGKILL)
                until(lambda: lost)
        end_own_processes()
    assert len(lost) == 1
    assert lost[0].startswith("the server ended with exit status")


def test_a_run_waits_until_its_task_runs_are_on_record(monkeypatch):
    counts = iter([0, httpx.ReadTimeout("late"), 1, 3])

    class Client(contextlib.nullcontext):
        def request(self, *_, **__):
            count = next(counts)
            if isinstance(count, Exception):
                raise count
            return httpx.Response(200, text=str(count))

    monkeypatch.setattr("prefect.client.orchestration.get_client", lambda **_: Client(Client()))
    assert wait_until_recorded("the run", 3) == 3
    counts = iter([2] * 1000)
    assert wait_until_recorded("the run", 3, timeout=0.3) == 2
