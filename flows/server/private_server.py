"""The Prefect server behind a run: the user's own if one answers, else a private one while it is needed.

This module imports Prefect only inside its functions: Prefect reads part of its settings when it is first
imported, so the environment has to be complete by then.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import json
import os
import secrets
import socket
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

from data.store.folders import PROJECT_ROOT, private_folder
from flows import NO_ANALYTICS
from flows.server.guarded_server import HOST
from flows.server.supervision import (
    Say,
    ServerError,
    SupervisedProcess,
    end_leftovers,
    termination_as_exit,
    watched,
)
from tasks.faults import SpecError

SEND_TIMEOUT = 5.0
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

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

# Runs here neither pause nor queue their clean-up; looked for every 5 s, the default, both cost a server that
# has nothing else to do a tenth of its processor time.
SELDOM = {
    "PREFECT_SERVER_SERVICES_PAUSE_EXPIRATIONS_LOOP_SECONDS": "60",
    "PREFECT_SERVER_SERVICES_CLEANUP_RECONCILER_LOOP_SECONDS": "60",
}

# The database may hold what `make serve` schedules and automates; a server without a worker leaves it alone.
WITHOUT_SCHEDULES = {
    "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_LATE_RUNS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_FOREMAN_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_PAUSE_EXPIRATIONS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
}


@contextlib.contextmanager
def prefect_server(
    home: Path,
    *,
    say: Say = print,
    when_lost: Say | None = None,
    needed: Sequence[str] = ("prefect",),
) -> Iterator[str]:
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
    needed : sequence of str
        Modules to import while a private server starts, which takes as long.

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
    logging_level("WARNING")  # refused before anything is started
    end_leftovers(home, say)
    outside = os.environ.get("PREFECT_API_URL", "")
    if outside and answers(outside):
        authentication = authentication_for(home, outside)
        require_access(outside, authentication)
        settings = client_settings(home, outside, authentication)
        with _watched(outside, when_lost or say), client_environment(settings):
            yield outside
        return
    if outside:
        say(f"PREFECT_API_URL is {outside}, but no Prefect server answers there; starting one for this run")

    with termination_as_exit(), _environment({"PREFECT_HOME": str(home / "prefect")}):
        server = start_private_server(home, say, when_lost, needed)
        try:
            with (
                _watched(server.api_url, when_lost or say),
                client_environment(client_settings(home, server.api_url, own_authentication(home))),
            ):
                yield server.api_url
        finally:
            server.stop()


def start_private_server(
    home: Path, say: Say, when_lost: Say | None = None, needed: Sequence[str] = ("prefect",)
) -> ServerProcess:
    """Start a server that serves one run; a port that was taken in the meantime is given up for another."""
    for attempts_left in (2, 1, 0):
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
        server = ServerProcess(
            home, free_port(), environment=inherited | WITHOUT_SCHEDULES, say=say, when_lost=when_lost
        )
        try:
            server.start(
                ready=server.healthy, meanwhile=lambda: [importlib.import_module(each) for each in needed]
            )
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
            "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"{self.ui_url},http://localhost:{port}",
            "PREFECT_SERVER_API_AUTH_STRING": own_authentication(home),
            "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
            "PREFECT_SERVER_API_MAX_PARAMETER_SIZE": "65536",  # bytes; what is refused is sent back
            "PYTHONPATH": os.pathsep.join(filter(None, [str(PROJECT_ROOT), environment.get("PYTHONPATH")])),
            **NO_ANALYTICS,
        }
        inherited = {k: v for k, v in environment.items() if k != "PREFECT_API_URL"}
        super().__init__(
            home,
            "server",
            [sys.executable, "-m", "flows.server.guarded_server", "--port", str(port)],
            environment=RECORDER_SETTINGS | SELDOM | inherited | settings,
            folder=home / "prefect",
            say=say,
            when_lost=when_lost,
        )

    def healthy(self) -> bool:
        """Say whether the API answers."""
        return answers(self.api_url)


def authentication_file(home: Path) -> Path:
    """Return the file that holds the home's authentication string."""
    return home / "prefect.authentication"


def own_authentication(home: Path) -> str:
    """Return the string that the home's servers ask for: made once, readable by the owner alone."""
    path = authentication_file(home)
    if not path.exists():
        private_folder(home)
        with tempfile.NamedTemporaryFile("w", dir=home) as unfinished:  # nobody else can read it
            unfinished.write(f"dpcost:{secrets.token_urlsafe(24)}")
            unfinished.flush()
            with contextlib.suppress(FileExistsError):
                os.link(unfinished.name, path)
    return path.read_text()


def authentication_for(home: Path, api_url: str) -> str:
    """Return what to authenticate with at a server: the user's choice, else the home's string."""
    chosen = os.environ.get("PREFECT_API_AUTH_STRING", "")
    return chosen or (own_authentication(home) if _on_loopback(api_url) else "")


def require_access(api_url: str, authentication: str) -> None:
    """Refuse a server that does not take the authentication string.

    Raises
    ------
    ServerError
        If so.
    """
    try:
        _get(f"{api_url.rstrip('/')}/admin/version", authentication)
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise ServerError(
                f"the Prefect server at {api_url} asks for another authentication string; set "
                "PREFECT_API_AUTH_STRING to its own (`make serve` says where it is) or unset PREFECT_API_URL"
            ) from None
    except OSError:  # it answered a moment ago; the watch tells if it is gone
        pass


def client_settings(home: Path, api_url: str, authentication: str) -> dict[str, str]:
    """Return the environment of a process that runs flows against the server at `api_url`.

    Where results are kept does not depend on the server, so that every server finds the same cache. The
    user's own choice of a logging level holds.
    """
    return {
        "PREFECT_API_URL": api_url,
        **({"PREFECT_API_AUTH_STRING": authentication} if authentication else {}),
        "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(home / "cache" / "records"),
        "PREFECT_LOGGING_LEVEL": logging_level("WARNING"),
        **NO_ANALYTICS,
        **_no_proxy_on_loopback(),
    }


def logging_level(default: str) -> str:
    """Return the user's choice of Prefect's logging level, or a default.

    Raises
    ------
    SpecError
        If it is none; Prefect prints many lines about it.
    """
    level = os.environ.get("PREFECT_LOGGING_LEVEL", default)
    if level.upper() not in LEVELS:
        raise SpecError(
            f"PREFECT_LOGGING_LEVEL must be one of {', '.join(LEVELS)}, got {level!r}; or unset it"
        )
    return level


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
        return json.loads(_get(f"{api_url.rstrip('/')}/health")) is True
    except (OSError, ValueError):
        return False


def _watched(api_url: str, when_lost: Say) -> contextlib.AbstractContextManager[None]:
    return watched(f"the Prefect server at {api_url}", partial(answers, api_url), when_lost)


def free_port() -> int:
    """Return a loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _on_loopback(api_url: str) -> bool:
    return urlsplit(api_url).hostname in (HOST, "localhost", "::1")


def _get(address: str, authentication: str = "") -> bytes:
    opener = urllib.request.build_opener(
        *([urllib.request.ProxyHandler({})] if _on_loopback(address) else [])
    )
    request = urllib.request.Request(address)
    if authentication:
        request.add_header("Authorization", f"Basic {base64.b64encode(authentication.encode()).decode()}")
    elif key := os.environ.get("PREFECT_API_KEY"):
        request.add_header("Authorization", f"Bearer {key}")
    with opener.open(request, timeout=5) as answer:
        return bytes(answer.read())


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
    from pydantic import ValidationError

    try:
        import prefect.context
        import prefect.logging.configuration

        prefect.context.refresh_global_settings_context()
        prefect.logging.configuration.setup_logging()
        return prefect.context.root_settings_context()
    except ValidationError as error:
        first = error.errors()[0]
        raise SpecError(
            f"a setting of Prefect, {'.'.join(map(str, first['loc']))}, is wrong: {first['msg']}, got "
            f"{first['input']!r}; mend or unset it among the variables PREFECT_…"
        ) from None


def _no_proxy_on_loopback() -> dict[str, str]:
    hosts = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    missing = [host for host in (HOST, "localhost") if host not in hosts.split(",")]
    value = ",".join([*filter(None, [hosts]), *missing])
    return {"NO_PROXY": value, "no_proxy": value}
