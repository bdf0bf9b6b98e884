"""``python -m flows.serve [--postgres] [--port 4200]``: the standing server, its worker and the schedules.

Starts a Prefect server, a work pool, a worker and the deployments of ``prefect.yaml``, and keeps them running
until Ctrl-C. They stop in the order worker, server, database: a worker that loses its server does not end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flows.child_processes import last_lines
from flows.local_postgres import DATABASE_URL, postgres_cluster
from flows.server_process import HOST, ServerProcess, client_settings
from flows.supervision import (
    Say,
    ServerError,
    SupervisedProcess,
    end_leftover_server,
    termination_as_exit,
)

PROJECT = Path(__file__).resolve().parents[1]
POOL = "dpcost"
WORKER_STOP_TIMEOUT = 30.0


@contextlib.contextmanager
def serving(home: Path, *, port: int, postgres: bool = False, say: Say = print) -> Iterator[ServerProcess]:
    """Keep server, work pool, worker and deployments running.

    Parameters
    ----------
    home : Path
        The folder of everything that lasts (``DPCOST_HOME``).
    port : int
        The server's port on the loopback interface.
    postgres : bool
        Whether to start a private PostgreSQL cluster in ``home/postgres`` for it.
    say : callable
        Gets one sentence whenever something happens that the user should know.

    Yields
    ------
    ServerProcess
        The server; ``api_url`` and ``ui_url`` are its addresses.

    Raises
    ------
    ServerError
        If a part could not be started; those that were are stopped.
    """
    home = home.resolve()
    end_leftover_server(home, say)
    require_free(port)
    with contextlib.ExitStack() as stack:
        database = {}
        if postgres:
            database[DATABASE_URL] = stack.enter_context(postgres_cluster(home, say=say))

        server = ServerProcess(home, port, environment=os.environ | database, say=say)
        stack.callback(server.stop)
        server.start(ready=server.healthy)

        environment = os.environ | client_settings(home, server.api_url)
        environment |= {
            "DPCOST_HOME": str(home),
            "PREFECT_HOME": str(home / "prefect"),
            "PREFECT_LOGGING_LEVEL": os.environ.get("PREFECT_LOGGING_LEVEL", "INFO"),
            "PREFECT_WORKER_QUERY_SECONDS": "2",
            "PWD": str(PROJECT),  # what prefect.yaml calls $PWD
        }
        ensure_pool(server.api_url, environment)
        worker_name = f"{socket.gethostname()}-{os.getpid()}"
        worker = worker_process(home, worker_name, environment, say=say)
        stack.callback(worker.stop)
        worker.start(ready=lambda: has_worker(server.api_url, worker_name))
        prefect("--no-prompt", "deploy", "--all", environment=environment)
        yield server


def worker_process(home: Path, name: str, environment: Mapping[str, str], *, say: Say) -> SupervisedProcess:
    """Return the worker, not started yet.

    Told to end, it would wait for the flows it runs; so these are told too, and report that they crashed.
    """
    return SupervisedProcess(
        home,
        "worker",
        [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL, "--name", name],
        environment=environment,
        folder=PROJECT,
        stop_timeout=WORKER_STOP_TIMEOUT,
        whole_tree=True,
        say=say,
    )


def ensure_pool(api_url: str, environment: Mapping[str, str]) -> None:
    """Create the work pool unless it is there, so that what was changed about it stays."""
    try:
        _get(f"{api_url}/work_pools/{POOL}")
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        prefect("work-pool", "create", POOL, "--type", "process", environment=environment)


def has_worker(api_url: str, name: str) -> bool:
    """Say whether the worker of this name has reported to the work pool."""
    request = urllib.request.Request(f"{api_url}/work_pools/{POOL}/workers/filter", data=b"{}", method="POST")
    request.add_header("Content-Type", "application/json")
    try:
        return any(worker["name"] == name for worker in json.loads(_get(request)))
    except OSError:
        return False


def prefect(*arguments: str, environment: Mapping[str, str]) -> None:
    """Run one Prefect command in the project's folder.

    Raises
    ------
    ServerError
        If it fails; the message holds the end of what it said.
    """
    done = subprocess.run(
        [sys.executable, "-m", "prefect", *arguments],
        env=dict(environment),
        cwd=PROJECT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    if done.returncode:
        raise ServerError(f"`prefect {' '.join(arguments)}` failed: {last_lines(done.stdout + done.stderr)}")


def require_free(port: int) -> None:
    """Refuse a port that is taken.

    Raises
    ------
    ServerError
        If it is.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise ServerError(
                f"port {port} cannot be used ({last_lines(str(error))}); stop what listens there, "
                "or choose another, e.g. --port 4201"
            ) from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m flows.serve", description=main.__doc__)
    parser.add_argument("--postgres", action="store_true", help="with a private PostgreSQL cluster")
    parser.add_argument("--port", type=int, default=4200, help="the server's port (default 4200)")
    options = parser.parse_args(arguments)
    home = Path(os.environ.get("DPCOST_HOME") or PROJECT / ".dpcost")

    # A shell starts background jobs with Ctrl-C ignored; this is to end with it all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with termination_as_exit():
            print("starting the server, the work pool, the worker and the deployments …", flush=True)
            with serving(home, port=options.port, postgres=options.postgres, say=_say) as server:
                print(_welcome(server, home), flush=True)
                threading.Event().wait()
    except KeyboardInterrupt:
        print("stopped: worker, server, database", flush=True)
        return 0
    except (ServerError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _welcome(server: ServerProcess, home: Path) -> str:
    program = Path(sys.executable).with_name("prefect")
    return "\n".join(
        [
            f"Prefect is at {server.ui_url} (logs in {home / 'prefect'}); Ctrl-C stops everything.",
            "Start a run now:",
            f"  PREFECT_API_URL={server.api_url} {program} deployment run study/housing --watch",
        ]
    )


def _say(sentence: str) -> None:
    print(sentence, flush=True)


def _get(request: str | urllib.request.Request) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=10) as answer:
        return bytes(answer.read())


if __name__ == "__main__":
    sys.exit(main())
