"""``python -m flows.server.serve [--postgres] [--port 4200] [--server URL]``: server, worker and schedules.

All of them end at Ctrl-C, or when one of them dies, in the order worker, server, database: systemd or the
container engine starts them again.
"""

import argparse
import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from data.store import folders as store
from flows.record.journal import locked
from flows.server import prefect_server
from flows.server.dead_runs import mark_dead_runs, mark_deployed_runs, termination_as_exit
from flows.server.deploy import POOL, PROJECT
from flows.server.postgres import DATABASE_URL, start_postgres
from flows.server.processes import (
    START_TIMEOUT,
    ChildProcess,
    Say,
    ServerError,
    end_leftovers,
    end_own_processes,
    last_lines,
)
from tasks.faults import MENDABLE

WORKER_STOP_TIMEOUT = 30.0
_say: Say = partial(print, flush=True)


@contextlib.contextmanager
def serving(
    home: Path, *, port: int, postgres: bool = False, server_url: str = ""
) -> Iterator[tuple[str, list[ChildProcess]]]:
    """Start server, deployments and worker; give the API's address and the processes.

    With `postgres` a private PostgreSQL cluster is started, too; `server_url` is the API of a server that
    runs elsewhere, which is used in place of one of our own.
    """
    home, started = home.resolve(), list[ChildProcess]()
    level = prefect_server.logging_level("INFO")  # refused before anything is started
    with contextlib.ExitStack() as stack:
        stack.enter_context(_alone(home))
        end_leftovers(home)
        stack.callback(end_own_processes)
        api_url = server_url or f"http://{prefect_server.HOST}:{port}/api"
        if server_url:
            _wait_for(api_url)
            settings = prefect_server.foreign_settings(home, api_url)
        else:
            _require_free(port)
            environment = dict(os.environ)
            if postgres:
                database, environment[DATABASE_URL] = start_postgres(home)
                started.append(database)
            started.append(prefect_server.server_process(home, port, environment))
            started[-1].start(partial(prefect_server.answers, api_url))
            own = prefect_server.own_authentication(home)
            settings = prefect_server.client_settings(home, api_url, own)
        settings |= {
            "DPCOST_HOME": str(home),
            "PREFECT_HOME": str(home / "prefect"),
            "PREFECT_LOGGING_LEVEL": level,
            "PREFECT_WORKER_QUERY_SECONDS": "2",
            # Tells runs where the reports are shown.
            "DPCOST_REPORTS_URL": os.environ.get("DPCOST_REPORTS_URL") or f"{_pages(api_url)}/reports",
        }
        stack.enter_context(prefect_server.client_environment(settings))
        _deploy_all()
        mark_deployed_runs()
        mark_dead_runs(home)
        started.append(_worker(home))
        started[-1].start()
        yield api_url, started


def _worker(home: Path) -> ChildProcess:
    """Return Prefect's process worker, not started yet.

    Told to end, it would wait for the flows it runs; `ChildProcess` tells these, too, so that they report
    that they crashed, and their hook starts them again.
    """
    name = f"{socket.gethostname()}-{os.getpid()}"
    command = ["-m", "prefect", "worker", "start", "--pool", POOL, "--type", "process", "--name", name]
    return ChildProcess(
        home,
        "worker",
        [sys.executable, *command],
        environment=os.environ,
        folder=PROJECT,
        stop_timeout=WORKER_STOP_TIMEOUT,
    )


def _deploy_all() -> None:
    """Put the deployments on the server, in a process of its own: it loads all flows."""
    done = subprocess.run(
        [sys.executable, "-m", "flows.server.deploy"],
        cwd=PROJECT,  # which Python puts on its path
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    if done.returncode:
        raise ServerError(f"the flows could not be deployed: {last_lines(done.stdout + done.stderr)}")


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((prefect_server.HOST, port))
        except (OSError, OverflowError) as error:
            raise ServerError(
                f"port {port} cannot be used ({last_lines(str(error))}); stop what listens there, "
                "or choose another, e.g. --port 4201"
            ) from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m flows.server.serve", description=main.__doc__)
    parser.add_argument("--postgres", action="store_true", help="with a private PostgreSQL cluster")
    parser.add_argument("--port", type=int, default=4200, help="the server's port (default 4200)")
    parser.add_argument("--server", default="", help="use the server at this API address; start none")
    options = parser.parse_args(arguments)

    os.umask(0o077)
    # A shell starts background jobs with Ctrl-C ignored; this is to end with it all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with termination_as_exit():
            _say("starting the server, the deployments and the worker …")
            home = store.home()
            with serving(home, port=options.port, postgres=options.postgres, server_url=options.server) as (
                api_url,
                started,
            ):
                _say(_welcome(api_url, home, own=not options.server))
                while all(each.exit_status is None for each in started):
                    time.sleep(1)
                dead = next(each for each in started if each.exit_status is not None)
                raise ServerError(f"{dead.ended()}; ending the rest")
    except KeyboardInterrupt:
        _say("stopped: worker, server, database")
        return 0
    except Exception as error:
        explained = isinstance(error, (ServerError, OSError, *MENDABLE))
        sentence = prefect_server.wrong_setting(error) or (str(error) if explained else "")
        if not sentence:
            raise
        print(sentence, file=sys.stderr)
        return 1


def _alone(home: Path) -> contextlib.AbstractContextManager[None]:
    """Hold the home's one place for a standing server."""

    def refuse(holder: str) -> None:
        raise ServerError(
            f"{home} has a standing server already (process {holder}); stop it, or set another DPCOST_HOME"
        )

    return locked(home, "serve.lock", refuse)


def _wait_for(api_url: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while not prefect_server.answers(api_url):
        if time.monotonic() > deadline:
            raise ServerError(
                f"no Prefect server answers at {api_url}; --server takes e.g. http://127.0.0.1:4200/api"
            )
        time.sleep(0.5)


def _welcome(api_url: str, home: Path, *, own: bool) -> str:
    program = Path(sys.executable).with_name("prefect")
    file = shlex.quote(str(prefect_server.authentication_file(home)))
    here = f'PREFECT_API_URL={api_url} PREFECT_API_AUTH_STRING="$(cat {file})"'
    password = prefect_server.own_authentication(home) if sys.stdout.isatty() else f"the line in {file}"
    if not own:
        here, password = f"PREFECT_API_URL={api_url}", "the one that PREFECT_API_AUTH_STRING holds"
    pages = _pages(api_url)
    site = "make docs builds the documentation."
    if own and (store.SITE / "index.html").exists():
        site = f"The documentation is at {pages}/site/."
    return f"""\
Prefect is at {pages} (logs in {home / "prefect"}); Ctrl-C stops everything.
Its pages ask for a password: {password}
The reports are at {pages}/reports/; its parts around the colon are name and password.
{site}
Start a run now:
  {here} {program} deployment run study/housing --watch"""


def _pages(api_url: str) -> str:
    return api_url.rstrip("/").removesuffix("/api")


if __name__ == "__main__":
    sys.exit(main())
