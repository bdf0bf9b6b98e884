"""Who may ask a local server and its pages: the string of a home, names of hosts, the password of reports."""

import base64
import contextlib
import errno
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from functools import partial
from unittest.mock import Mock

import httpx
import psutil
import pytest
from small_project import PROJECT, processes_of, until
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from flows import ServerError, launch, server_process
from flows import local_server as client
from flows.guard import Guarded
from flows.serve import with_reports
from tasks.errors import SpecError
from tasks.run.watch import watched
from tests.builders import refused


@pytest.mark.parametrize(("ready", "well"), [(b"yes", True), (404, True), (503, False)])
def test_a_server_without_its_database_does_not_answer(web, ready, well):
    web.serve("/api/health", b"yes")
    web.serve("/api/ready", ready)
    assert client.answers(f"{web.address}/api") is well
    assert not any(map(client.answers, ("nonsense", "http://[::1/api")))


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_does_not_know_us_is_refused_without_telling_the_string(web, status, tmp_path):
    web.serve("/api/admin/version", status)
    ask = partial(client.authentication_at, tmp_path, f"{web.address}/api")
    own = client.own_authentication(tmp_path)
    refused(ask, ServerError, "PREFECT_API_AUTH_STRING", hidden=[own])


def test_the_authentication_string_is_made_once_and_goes_to_this_machine_alone(tmp_path, monkeypatch):
    monkeypatch.delenv("PREFECT_API_AUTH_STRING", raising=False)
    string = client.own_authentication(tmp_path / "home")
    assert client.own_authentication(tmp_path / "home") == string
    assert len(string) > 30
    assert client.authentication_file(tmp_path / "home").stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(client, "_get", lambda url, auth: httpx.Response(200))
    assert client.authentication_at(tmp_path / "home", "http://127.0.0.1:4200/api") == string
    assert client.authentication_at(tmp_path / "home", "https://prefect.example.org/api") == ""
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "chosen")
    assert client.authentication_at(tmp_path / "home", "http://127.0.0.1:4200/api") == "chosen"


def test_a_machine_that_cannot_reach_itself_is_refused_within_seconds(home, monkeypatch):
    def unreachable(address, timeout):
        assert timeout <= 10
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(client.socket, "create_connection", unreachable)
    client.loopback.cache_clear()
    refused(client.prefect_server(home).__enter__, ServerError, "127.0.0.1", "unreachable", "loopback")


def test_a_machine_with_ipv6_alone_reaches_itself_there(monkeypatch):
    create = client.socket.create_server

    def create_server(address, **keywords):
        if address[0] == "127.0.0.1":
            raise OSError(99, "Cannot assign requested address")
        return create(address, **keywords)

    monkeypatch.setattr(client.socket, "create_server", create_server)
    client.loopback.cache_clear()
    try:
        assert client.loopback() == "::1"
        with client.listening_at(client.loopback(), 0) as listening:
            assert client.bound_host(listening) == "[::1]"
        own = Guarded(None, 8799)._hosts
        assert own == {"[::1]:8799", "localhost:8799"}
    finally:
        client.loopback.cache_clear()


def test_a_disk_without_a_free_inode_is_named(home, monkeypatch, tmp_path):
    """It has space, and "No space left on device" is what the system says of it."""
    home.mkdir(exist_ok=True)
    assert client.full_disk(home) == ""
    files = Mock(f_files=1000, f_favail=0, f_bavail=10**6, f_frsize=4096, f_blocks=10**6, f_bfree=10**6)
    monkeypatch.setattr(client.os, "statvfs", lambda _: files)
    assert str(home) in client.full_disk(home)
    assert "inode" in client.full_disk(home)

    def no_space(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(launch, "atomic_write", no_space)
    refused(lambda: launch.check_folder("--out", tmp_path, 1), SpecError, "--out", str(tmp_path), "inode")
    files.f_files = 0
    assert client.full_disk(home) == ""


NOTHING = "CREATE TABLE alembic_version (version_num TEXT)"
UNUSABLE = {
    "damaged": b"no database" * 1000,
    "newer": [NOTHING, "INSERT INTO alembic_version VALUES ('ffffffffffff')"],
    "cannot be opened": None,
}


@pytest.fixture
def history(home, monkeypatch):
    for name in ("PREFECT_API_DATABASE_CONNECTION_URL", "PREFECT_SERVER_DATABASE_CONNECTION_URL"):
        monkeypatch.delenv(name, raising=False)
    (home / "prefect").mkdir(parents=True)
    return home / "prefect" / "prefect.db"


def fill(history, statements):
    with contextlib.closing(sqlite3.connect(history)) as rows:
        for each in statements:
            rows.execute(each)
        rows.commit()


@pytest.mark.parametrize("fault", UNUSABLE)
def test_a_history_that_no_restart_makes_usable_is_named_before_a_server_starts(home, history, fault):
    content = UNUSABLE[fault]
    if content is None:
        history.mkdir()
    elif isinstance(content, bytes):
        history.write_bytes(content)
    else:
        fill(history, content)
    refused(client.prefect_server(home).__enter__, ServerError, fault, str(history), "move it away")


def test_a_history_that_is_new_or_busy_or_known_is_used_and_closed_to_others(home, history):
    history.touch(0o644)
    client.prepare_history(home)
    fill(history, [NOTHING, "INSERT INTO alembic_version VALUES ('27d8f4e1a6c9')"])
    client.prepare_history(home)
    assert history.stat().st_mode & 0o777 == 0o600
    with contextlib.closing(sqlite3.connect(history, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        client.prepare_history(home)


def test_what_is_lost_is_told_once_and_what_answers_is_not():
    lost, lives = [], [True]
    with watched("the server", lambda: lives[0], lost.append, after=0.1, every=0.01):
        lives[0] = False
        until(lambda: lost)
    assert len(lost) == 1


FROZEN = """
import os, sys, time
from tasks.run.watch import watched
began, probes = time.monotonic(), []

def lives():
    probes.append(time.monotonic())
    print("probe", flush=True)
    woke = len(probes) > 1 and probes[-1] - probes[-2] > 1
    return not woke  # the first probe after waking fails, as one that was under way does

def lost(sentence):
    print(sentence, flush=True)
    os._exit(1)

with watched("the server", lives, lost, after=1.0, every=0.2):
    sys.stdin.readline()
"""


def test_a_process_that_was_frozen_longer_than_its_watch_goes_on():
    """Ctrl-Z, a container's pause, a laptop's sleep: one failed probe after waking says nothing."""
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    process = subprocess.Popen([sys.executable, "-c", FROZEN], cwd=PROJECT, text=True, **pipes)
    for _ in range(3):
        assert process.stdout.readline() == "probe\n"
    time.sleep(0.1)  # between two probes
    process.send_signal(signal.SIGSTOP)
    time.sleep(2)
    process.send_signal(signal.SIGCONT)
    process.stdout.readline()
    process.stdout.readline()
    said, _ = process.communicate("\n", timeout=60)
    assert process.returncode == 0
    assert set(said.split("\n")) <= {"probe", ""}


def test_connections_to_the_database_share_a_bounded_cache(tmp_path, monkeypatch):
    """Prefect allows each connection 80 MB; the server's memory would grow with the history."""
    monkeypatch.setattr("prefect.server.api.server.create_app", lambda: None)
    monkeypatch.setattr(server_process, "DATABASE_CACHE", 5_000_000)
    for name in ("prefect.server", "uvicorn", "fastapi", "docket"):  # their logs stay as they are
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
        monkeypatch.setattr(logging.getLogger(name), "propagate", False)
    rows = sqlite3.connect(tmp_path / "history.db")
    rows.execute("CREATE TABLE log (message BLOB)")
    rows.executemany("INSERT INTO log VALUES (?)", ((bytes(2_000),) for _ in range(15_000)))
    rows.commit()
    rows.close()
    before = psutil.Process().memory_info().rss
    server_process.server_of(str(tmp_path / "server.log"))
    connections = [sqlite3.connect(tmp_path / "history.db") for _ in range(4)]
    for each in connections:
        each.execute("PRAGMA cache_size = 20000")  # as Prefect does
        assert each.execute("SELECT count(DISTINCT length(message)) FROM log").fetchone() == (1,)
        assert each.execute("SELECT sum(length(message)) FROM log").fetchone() == (30_000_000,)
    assert psutil.Process().memory_info().rss - before < 40_000_000
    connections[0].execute("PRAGMA soft_heap_limit = 0")
    for each in connections:
        each.close()


def test_a_locked_database_has_one_line_a_minute_with_a_count(monkeypatch, caplog):
    """Hundreds of tracebacks rotated the rest of the log away."""
    log, clock = logging.getLogger("test_of_locks"), [0.0]
    monkeypatch.setattr(server_process.time, "monotonic", lambda: clock[0])
    log.addFilter(server_process.LocksCounted())
    with caplog.at_level(logging.INFO):
        for clock[0] in (100.0, 110.0, 120.0, 170.0):
            try:
                raise sqlite3.OperationalError("database is locked")
            except sqlite3.OperationalError:
                log.exception("Exception in ASGI application")
        log.error("another fault")
    said = [each.getMessage() for each in caplog.records]
    assert ["locked" in each for each in said] == [True, True, False]
    assert " 3 times" in said[1]
    assert all(each.exc_info is None for each in caplog.records)


OWNER = """
import sys
from pathlib import Path
from flows.local_server import prefect_server
with prefect_server(Path(sys.argv[1])) as url:
    print(url, flush=True)
    sys.stdin.readline()
print("over", flush=True)
"""


@pytest.mark.server
def test_a_server_of_a_command_answers_until_the_command_ends_and_another_process_uses_it(home):
    def owner(**environment):
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        place = {"cwd": PROJECT, "env": os.environ | environment, "text": True}
        return subprocess.Popen([sys.executable, "-c", OWNER, str(home)], **place, **pipes)

    first = owner()
    api_url = first.stdout.readline().strip()
    assert client.answers(api_url)
    second = owner(PREFECT_API_URL=api_url)
    assert second.stdout.readline().strip() == api_url
    second.communicate("\n", timeout=60)
    assert (second.returncode, client.answers(api_url)) == (0, True)
    out, err = first.communicate("\n", timeout=60)
    assert (first.returncode, out, err) == (0, "over\n", "")
    assert (home / "prefect" / "server.log").exists()
    assert not client.answers(api_url)
    third = owner()
    api_url = third.stdout.readline().strip()
    third.kill()
    third.communicate()
    until(lambda: processes_of(home) == [])
    assert not client.answers(api_url)


HOSTS = ["127.0.0.1", "localhost", "dpcost.example.org"]


def known(password="dpcost:right", scheme="Basic"):
    return {"authorization": f"{scheme} {base64.b64encode(password.encode()).decode()}"}


@pytest.fixture
def reports(tmp_path):
    folder = tmp_path / "out"
    (folder / "housing").mkdir(parents=True)
    (folder / "housing" / "report.html").write_text("<h1>A report</h1>")
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "circle").symlink_to(folder / "circle")
    return folder


@pytest.fixture
def ask(reports):
    """Return a function that sends a GET request to a guarded application that says yes to everything."""

    def ask(path, base="http://127.0.0.1:4200", **headers):
        guarded = with_reports(PlainTextResponse("yes"), reports, "dpcost:right", HOSTS)
        return TestClient(guarded, base_url=base, follow_redirects=False).get(path, headers=headers)

    return ask


CALLED = dict.fromkeys(("127.0.0.1:4200", "localhost:4200", "dpcost.example.org"), 200)
CALLED |= dict.fromkeys(("rebound.example.org:4200", "example.org"), 400)


@pytest.mark.parametrize("host", CALLED)
def test_a_request_has_to_call_the_server_by_one_of_its_names(ask, host):
    assert ask("/api/health", f"http://{host}").status_code == CALLED[host]


def test_pages_load_nothing_from_elsewhere(ask):
    policy = ask("/").headers["content-security-policy"]
    sources = {word for rule in policy.split(";") for word in rule.split()[1:]}
    assert not [source for source in sources if "://" in source or "*" in source]


@pytest.mark.parametrize("path", ["/reports", "/reports/", "/reports/housing/report.html"])
@pytest.mark.parametrize("password", [None, "dpcost:wrong", "dpcost:", "right", "", "dpcost:right2"])
def test_reports_need_name_and_password(ask, path, password):
    answer = ask(path, **({} if password is None else known(password)))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")  # a browser asks for both
    assert "A report" not in answer.text


@pytest.mark.parametrize("scheme", ["basic", "BASIC", "Basic", "Bearer"])
def test_who_knows_the_password_sees_the_reports(ask, scheme):
    answer = ask("/reports/housing/report.html", **known(scheme=scheme))
    assert answer.status_code == (401 if scheme == "Bearer" else 200)
    redirected = ask("/reports", **known())
    assert (redirected.status_code, redirected.headers["location"]) == (307, "/reports/")


def test_no_request_outside_the_reports_makes_a_browser_ask_for_the_password(ask):
    """Or it would send it with every request to Prefect's API, those of other sites included."""
    for path in ("/", "/api/deployments/filter", "/docs", "/openapi.json", "/reportsx"):
        assert "www-authenticate" not in ask(path).headers, path


def test_a_report_is_neither_kept_by_a_browser_nor_framed_or_loaded_by_another_site(ask):
    for path in ("/reports/", "/reports/housing/report.html", "/reports/missing"):
        headers = ask(path, **known()).headers
        assert headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "no-store" not in ask("/api/health").headers.get("cache-control", "")
