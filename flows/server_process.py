"""The Prefect server behind a run: the user's own if one answers, else a private one while it is needed.

This module imports Prefect only inside its functions: Prefect reads part of its settings when it is first
imported, so the environment has to be complete by then.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

from flows import NO_ANALYTICS
from flows.supervision import (
    Say,
    ServerError,
    SupervisedProcess,
    end_leftover_server,
    termination_as_exit,
)

HOST = "127.0.0.1"
SEND_TIMEOUT = 5.0
LOST_AFTER = 90.0

# With batches of 1, the default, recording costs the server three times as much CPU per task run and a
# flow of a thousand tasks waits a minute at its end.
RECORDER_SETTINGS = {
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TRIGGERS_READ_BATCH_SIZE": "200",
}

# The database may hold the schedules of `make serve`; a server without a worker leaves them alone.
WITHOUT_SCHEDULES = {
    "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_LATE_RUNS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_FOREMAN_ENABLED": "false",
}


@contextlib.contextmanager
def prefect_server(home: Path, *, say: Say = print, when_lost: Say | None = None) -> Iterator[str]:
    """Provide a Prefect server and point this process at it.

    The server at ``PREFECT_API_URL`` is used as it is if it answers. Otherwise a private one is started on a
    free loopback port, with its database in ``home/prefect``, watched, and taken down at the end, however
    the end comes about. The environment and Prefect's settings are as before afterwards.

    Parameters
    ----------
    home : Path
        The folder of everything that lasts (``DPCOST_HOME``).
    say : callable
        Gets one sentence whenever something happens that the user should know.
    when_lost : callable, optional
        Gets one sentence, in another thread, when the server is gone for good: from then on Prefect waits
        for it in vain. By default `say`.

    Yields
    ------
    str
        The address of the server's API.

    Raises
    ------
    ServerError
        If a private server had to be started and did not answer in time.
    """
    home = home.resolve()
    end_leftover_server(home, say)
    outside = os.environ.get("PREFECT_API_URL", "")
    if outside and answers(outside):
        with watched(outside, when_lost or say), client_environment(client_settings(home, outside)):
            yield outside
        return
    if outside:
        say(f"PREFECT_API_URL is {outside}, but no Prefect server answers there; starting one for this run")

    with termination_as_exit(), _environment({"PREFECT_HOME": str(home / "prefect")}):
        server = start_private_server(home, say, when_lost)
        try:
            with (
                watched(server.api_url, when_lost or say),
                client_environment(client_settings(home, server.api_url)),
            ):
                yield server.api_url
        finally:
            server.stop()


@contextlib.contextmanager
def watched(api_url: str, when_lost: Say, after: float = LOST_AFTER, every: float = 5.0) -> Iterator[None]:
    """Call `when_lost`, once and in another thread, if a server does not answer for `after` seconds."""
    over = threading.Event()

    def watch() -> None:
        last_answer = time.monotonic()
        while not over.wait(every):
            if answers(api_url):
                last_answer = time.monotonic()
            elif time.monotonic() - last_answer > after and not over.is_set():
                when_lost(f"the Prefect server at {api_url} has not answered for {after:.0f} s")
                return

    threading.Thread(target=watch, name="server watch", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def start_private_server(home: Path, say: Say, when_lost: Say | None = None) -> ServerProcess:
    """Start a server that serves one run; a port that was taken in the meantime is given up for another."""
    for attempts_left in (2, 1, 0):
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
        server = ServerProcess(
            home, free_port(), environment=inherited | WITHOUT_SCHEDULES, say=say, when_lost=when_lost
        )
        try:
            server.start(ready=server.healthy, meanwhile=lambda: importlib.import_module("prefect"))
        except ServerError as error:
            if not attempts_left or "already in use" not in str(error):
                remedy = f"if its database is damaged, delete {home / 'prefect'}: that loses no result"
                raise ServerError(f"{error}; {remedy}") from None
        else:
            return server
    raise AssertionError("unreachable")


def wait_until_recorded(
    api_url: str, flow_run_id: UUID | str, n_task_runs: int, timeout: float = 30.0
) -> int:
    """Wait until a flow run's task runs are on record with a final state.

    A server that is taken down earlier loses those that are still on their way.

    Parameters
    ----------
    api_url : str
        The server's address, ending in ``/api``.
    flow_run_id : UUID or str
        The flow run.
    n_task_runs : int
        How many task runs it made.
    timeout : float
        Seconds to wait at most.

    Returns
    -------
    int
        How many are on record; fewer than `n_task_runs` if time ran out.
    """
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.objects import TERMINAL_STATES
    from prefect.settings import PREFECT_API_URL, temporary_settings

    of_this_run_and_final = {
        "flow_runs": {"id": {"any_": [str(flow_run_id)]}},
        "task_runs": {"state": {"type": {"any_": sorted(TERMINAL_STATES)}}},
    }
    deadline = time.monotonic() + timeout
    with temporary_settings({PREFECT_API_URL: api_url}), get_client(sync_client=True) as client:
        n_recorded = 0
        while True:
            with contextlib.suppress(httpx.HTTPError):  # a server that just died may come back
                answer = client.request("POST", "/task_runs/count", json=of_this_run_and_final)
                n_recorded = int(answer.json())
            if n_recorded >= n_task_runs or time.monotonic() > deadline:
                return n_recorded
            time.sleep(0.1)


class ServerProcess(SupervisedProcess):
    """A Prefect server on a loopback port, its files in ``home/prefect``.

    Parameters
    ----------
    home : Path
        The folder of everything that lasts.
    port : int
        The port; another process may still take it before the server does.
    environment : mapping of str to str
        What the server's own settings are added to.
    say, when_lost : callable
        As in :class:`SupervisedProcess`.
    """

    def __init__(
        self,
        home: Path,
        port: int,
        *,
        environment: Mapping[str, str],
        say: Say = print,
        when_lost: Say | None = None,
    ) -> None:
        self.api_url = f"http://{HOST}:{port}/api"
        self.ui_url = f"http://{HOST}:{port}"
        settings = {
            "PREFECT_HOME": str(home / "prefect"),
            # Without it the pages look for the API at port 4200 and stay blank.
            "PREFECT_SERVER_UI_API_URL": self.api_url,
            **NO_ANALYTICS,
        }
        inherited = {k: v for k, v in environment.items() if k != "PREFECT_API_URL"}
        super().__init__(
            home,
            "server",
            [sys.executable, "-m", "prefect", "server", "start", "--host", HOST, "--port", str(port)],
            environment=RECORDER_SETTINGS | inherited | settings,
            folder=home / "prefect",
            say=say,
            when_lost=when_lost,
        )

    def healthy(self) -> bool:
        """Say whether the API answers."""
        return answers(self.api_url)


def client_settings(home: Path, api_url: str) -> dict[str, str]:
    """Return the environment of a process that runs flows against the server at `api_url`.

    Where results are kept does not depend on the server, so that every server finds the same cache. The
    user's own choice of a logging level holds.
    """
    return {
        "PREFECT_API_URL": api_url,
        "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(home / "cache" / "records"),
        "PREFECT_LOGGING_LEVEL": os.environ.get("PREFECT_LOGGING_LEVEL", "WARNING"),
        **NO_ANALYTICS,
        **_no_proxy_on_loopback(),
    }


@contextlib.contextmanager
def client_environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Apply `settings` to this process and its children, whether or not Prefect is imported already."""
    try:
        with _environment(settings), _settings_follow_environment():
            try:
                yield
            finally:
                _send_what_is_queued()
    finally:
        _settings_follow_environment()


def answers(api_url: str) -> bool:
    """Say whether a Prefect server is well at this address."""
    try:
        local = urlsplit(api_url).hostname in (HOST, "localhost", "::1")
        opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if local else []))
        request = urllib.request.Request(f"{api_url.rstrip('/')}/health")
        if key := os.environ.get("PREFECT_API_KEY"):
            request.add_header("Authorization", f"Bearer {key}")
        with opener.open(request, timeout=5) as answer:
            return bool(answer.status == 200 and json.load(answer) is True)
    except (OSError, ValueError):
        return False


def free_port() -> int:
    """Return a loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _send_what_is_queued() -> None:
    """Let Prefect's background senders finish and be forgotten.

    They keep the address they began with: left alone, they would hold up this process at its exit, trying to
    reach a server that is gone, and serve no other server in the same process.
    """
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for sender in (EventsWorker, APILogWorker):
        sender.drain_all(timeout=SEND_TIMEOUT, at_exit=False)


def _settings_follow_environment() -> contextlib.AbstractContextManager[object]:
    """Let Prefect read the environment again; return what also puts a caller's temporary settings aside."""
    import prefect.context
    import prefect.logging.configuration

    prefect.context.refresh_global_settings_context()
    prefect.logging.configuration.setup_logging()
    return prefect.context.root_settings_context()


def _no_proxy_on_loopback() -> dict[str, str]:
    hosts = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    missing = [host for host in (HOST, "localhost") if host not in hosts.split(",")]
    value = ",".join([*filter(None, [hosts]), *missing])
    return {"NO_PROXY": value, "no_proxy": value}
