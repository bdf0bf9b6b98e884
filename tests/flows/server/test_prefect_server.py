import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from small_project import PROJECT, processes_of, until

from flows.record.journal import KEEP_DAYS
from flows.server import ServerError, database
from flows.server import prefect_server as client
from flows.server.database import DATABASE, make_database, migrated, script
from flows.server.prefect_server import (
    OF_ONE_COMMAND,
    SERVER_SETTINGS,
    server_settings,
    wait_until_recorded,
    watched,
)

PREFECTS = {
    name: value for name, value in (SERVER_SETTINGS | OF_ONE_COMMAND).items() if name.startswith("PREFECT_")
}


@pytest.mark.parametrize(("name", "value"), PREFECTS.items())
def test_what_a_server_is_set_to_prefect_knows(monkeypatch, name, value):
    import prefect.settings

    monkeypatch.setenv(name, value)
    setting = getattr(prefect.settings, name)
    found = setting.value_from(prefect.settings.Settings())
    assert found in (value, set(value.split(","))) or found == json.loads(value)


def test_events_are_written_in_batches_of_prefects_own_size(home, monkeypatch):
    """A batch whose writing met a locked database is lost as a whole, and few are lost with a small one."""
    import prefect.settings

    for name, value in (SERVER_SETTINGS | server_settings(home)).items():
        monkeypatch.setenv(name, value)
    assert prefect.settings.Settings().server.services.event_persister.batch_size == 20


def test_history_is_kept_for_as_many_days_as_the_one_setting_says(home, monkeypatch):
    import prefect.settings

    monkeypatch.setenv(KEEP_DAYS, "30")
    for name, value in (SERVER_SETTINGS | server_settings(home)).items():
        monkeypatch.setenv(name, value)
    server = prefect.settings.Settings().server
    assert server.services.db_vacuum.enabled == {"events", "flow_runs"}
    assert server.services.db_vacuum.retention_period.days == 30
    assert server.events.retention_period.days == 7


@pytest.mark.parametrize("url", ["nonsense", "http://127.0.0.1:1/api", "http://[::1/api"])
def test_what_is_no_server_does_not_answer(url):
    assert not client.answers(url)


@pytest.fixture
def a_server_that_says():
    """Return a function that starts a server with one answer to everything."""
    running = []

    def start(status, ready=None):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response((ready or status) if self.path.endswith("/ready") else status)
                self.end_headers()

            def log_message(self, *_):
                pass

        running.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=running[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{running[-1].server_port}/api"

    yield start
    for each in running:
        each.shutdown()
        each.server_close()


@pytest.mark.parametrize(("ready", "well"), [(200, True), (404, True), (503, False)])
def test_a_server_without_its_database_does_not_answer(a_server_that_says, ready, well):
    assert client.answers(a_server_that_says(200, ready)) is well


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_does_not_know_us_is_refused_without_telling_the_string(
    a_server_that_says, status, tmp_path
):
    with pytest.raises(ServerError, match="PREFECT_API_AUTH_STRING") as refused:
        client._authentication_at(tmp_path, a_server_that_says(status))
    assert client.own_authentication(tmp_path) not in str(refused.value)


def test_the_authentication_string_is_made_once_is_private_and_goes_to_this_machine_alone(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("PREFECT_API_AUTH_STRING", raising=False)
    string = client.own_authentication(tmp_path / "home")
    assert client.own_authentication(tmp_path / "home") == string
    assert len(string) > 30
    assert client.authentication_file(tmp_path / "home").stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(client, "_get", lambda url, auth: httpx.Response(200))
    assert client._authentication_at(tmp_path / "home", "http://127.0.0.1:4200/api") == string
    assert client._authentication_at(tmp_path / "home", "https://prefect.example.org/api") == ""
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "chosen")
    assert client._authentication_at(tmp_path / "home", "http://127.0.0.1:4200/api") == "chosen"


def test_what_is_lost_is_told_once_and_what_answers_is_not():
    lost, lives = [], [True]
    with watched("the server", lambda: lives[0], lost.append, after=0.1, every=0.01):
        lives[0] = False
        until(lambda: lost)
    assert len(lost) == 1


OWNER = """
import logging, sys
from pathlib import Path
from flows.server.prefect_server import prefect_server
with prefect_server(Path(sys.argv[1]), when_lost=print) as url:
    print(url, flush=True)
    logging.getLogger("prefect.server.api.server").error("a fault of the server")
    sys.stdin.readline()
print("over", flush=True)
"""


@pytest.mark.server
def test_a_server_in_a_thread_answers_until_its_process_ends_and_another_process_uses_it(home):
    def owner(**environment):
        return subprocess.Popen(
            [sys.executable, "-c", OWNER, str(home)],
            **{"cwd": PROJECT, "env": os.environ | environment, "text": True},
            **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE),
        )

    first = owner(PREFECT_API_URL="http://127.0.0.1:1/api")
    api_url = first.stdout.readline().strip()
    assert client.answers(api_url)
    second = owner(PREFECT_API_URL=api_url)
    assert second.stdout.readline().strip() == api_url
    second.communicate("\n", timeout=60)
    assert (second.returncode, client.answers(api_url)) == (0, True)
    out, err = first.communicate("\n", timeout=60)
    assert (first.returncode, out) == (0, "over\n")
    assert err.startswith("no Prefect server answers at PREFECT_API_URL=http://127.0.0.1:1/api")
    assert err.count("\n") == 1
    assert "a fault of the server" in (home / "prefect" / "server.log").read_text()
    assert not client.answers(api_url)
    third = owner()
    api_url = third.stdout.readline().strip()
    third.kill()
    third.communicate()
    assert not client.answers(api_url)
    assert processes_of(home) == []


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


@pytest.mark.server
@pytest.mark.slow
def test_a_new_database_is_what_the_migrations_of_the_pinned_prefect_leave(tmp_path):
    make_database(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as made:
        dumped = "\n".join(made.iterdump())

    def lines(statements):  # a table's constraints come in any order
        return sorted(line.strip(" ,\t") for line in statements.splitlines())

    assert lines(dumped) == lines(migrated())


@pytest.mark.parametrize("there", ["a database", "a setting"])
def test_no_database_is_made_where_there_is_one_or_a_setting_names_another(tmp_path, monkeypatch, there):
    if there == "a setting":
        monkeypatch.setenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", "postgresql+asyncpg://here/prefect")
    else:
        (tmp_path / DATABASE).write_bytes(b"mine")
    before = sorted(tmp_path.iterdir())
    assert not make_database(tmp_path)
    assert sorted(tmp_path.iterdir()) == before
    assert there == "a setting" or (tmp_path / DATABASE).read_bytes() == b"mine"


def test_no_database_is_made_for_another_version_of_prefect(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "version", lambda package: "3.8.7")
    make_database(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_database_of_another_schema_is_left_to_be_migrated(tmp_path):
    assert make_database(tmp_path)
    assert make_database(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'earlier'")
    assert not make_database(tmp_path)


def test_the_statements_are_those_of_the_pinned_version():
    assert script().exists(), "run: python -m flows.server.database"
