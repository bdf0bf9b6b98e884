import os
import subprocess
import sys
from functools import partial

import httpx
import pytest
from small_project import PROJECT, processes_of, until

from flows import ServerError
from flows import local_server as client
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
    refused(client.prefect_server(home).__enter__, ServerError, "127.0.0.1", "unreachable", "loopback")


def test_what_is_lost_is_told_once_and_what_answers_is_not():
    lost, lives = [], [True]
    with watched("the server", lambda: lives[0], lost.append, after=0.1, every=0.01):
        lives[0] = False
        until(lambda: lost)
    assert len(lost) == 1


OWNER = """
import logging, sys
from pathlib import Path
from flows.local_server import prefect_server
with prefect_server(Path(sys.argv[1])) as url:
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
