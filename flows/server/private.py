"""The Prefect server behind a command: the user's own if one answers, else a private one.

A private server listens on a free port of the loopback interface, keeps its database in ``home/prefect``
and lives as long as the process that needs it: Prefect delivers its last events and logs while Python shuts
down, so the server ends only after that, or once its owner is gone.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from flows import NO_ANALYTICS
from flows.server.client import (
    HOST,
    answers,
    authentication_for,
    client_environment,
    client_settings,
    logging_level,
    own_authentication,
    require_access,
    watched,
)
from flows.server.processes import ChildProcess, Say, ServerError, end_leftovers, termination_as_exit

MAX_RESTARTS = 5

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
    meanwhile: Callable[[], object] = lambda: None,
) -> Iterator[str]:
    """Provide a Prefect server and point this process at it.

    Parameters
    ----------
    home : Path
        The folder of everything that lasts (``DPCOST_HOME``).
    say : callable
        Gets one sentence whenever something happens that the user should know.
    when_lost : callable, optional
        Gets one sentence, in another thread, when the server is gone for good: from then on Prefect waits
        for it in vain. By default `say`.
    meanwhile : callable
        What there is to do before the server is needed, such as importing flows.

    Yields
    ------
    str
        The address of the server's API.

    Raises
    ------
    ServerError
        If a private server had to be started and did not answer in time.
    """
    home, when_lost = home.resolve(), when_lost or say
    logging_level("WARNING")  # refused before anything is started
    end_leftovers(home, say)
    api_url = os.environ.get("PREFECT_API_URL", "")
    with termination_as_exit(), contextlib.ExitStack() as stack:
        if api_url and answers(api_url):
            authentication = authentication_for(home, api_url)
            require_access(api_url, authentication)
            stack.enter_context(client_environment(client_settings(home, api_url, authentication)))
            alive = partial(answers, api_url)
            stack.enter_context(watched(f"the Prefect server at {api_url}", alive, when_lost))
            meanwhile()
        else:
            if api_url:
                say(f"no Prefect server answers at PREFECT_API_URL={api_url}; starting one for this run")
            port = free_port()
            api_url = f"http://{HOST}:{port}/api"
            settings = client_settings(home, api_url, own_authentication(home))
            inherited = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
            settings["PREFECT_HOME"] = str(home / "prefect")
            stack.enter_context(client_environment(settings))
            server = server_process(home, port, inherited | WITHOUT_SCHEDULES)
            try:
                server.start(partial(answers, api_url), meanwhile)
            except ServerError as error:
                remedy = f"if its database is damaged, delete {home / 'prefect'}: that loses no result"
                raise ServerError(f"{error}; run the same command again, or, {remedy}") from None
            threading.Thread(target=_keep, args=(server, say, when_lost), daemon=True).start()
        yield api_url


def server_process(home: Path, port: int, environment: Mapping[str, str]) -> ChildProcess:
    """Return a Prefect server on a loopback port, not started yet, with its files in ``home/prefect``."""
    settings = {
        "PREFECT_HOME": str(home / "prefect"),
        # Without it the pages look for the API at port 4200 and stay blank.
        "PREFECT_SERVER_UI_API_URL": f"http://{HOST}:{port}/api",
        # Prefect writes its pages next to its own code otherwise, and serves none if it may not.
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(home / "prefect" / "pages"),
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"http://{HOST}:{port},http://localhost:{port}",
        "PREFECT_SERVER_API_AUTH_STRING": own_authentication(home),
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "PREFECT_SERVER_API_MAX_PARAMETER_SIZE": "65536",  # bytes; what is refused is sent back
        **NO_ANALYTICS,
    }
    inherited = {name: value for name, value in environment.items() if name != "PREFECT_API_URL"}
    return ChildProcess(
        home,
        "server",
        [sys.executable, "-m", "flows.server.app", "--port", str(port)],
        environment=RECORDER_SETTINGS | inherited | settings,
        folder=home,
    )


def free_port() -> int:
    """Return a loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _keep(server: ChildProcess, say: Say, when_lost: Say) -> None:
    """Start a server again that died, on the same port: no supervisor stands behind a command's server."""
    for number in range(1, MAX_RESTARTS + 1):
        if server.wait():
            return
        how = server.ended()
        server.stop()  # what its watcher left, if that was killed
        say(f"{how}; starting it again ({number} of at most {MAX_RESTARTS} times)")
        server.start()
    if not server.wait():
        when_lost("the server keeps dying and is not started again")
