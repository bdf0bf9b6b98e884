"""``python -m flows.server.serve [--postgres] [--port 4200] [--server URL]``: server, worker, schedules.

Starts a Prefect server, unless one elsewhere is named, a work pool, a worker and the deployments of
``prefect.yaml``, and keeps them running until Ctrl-C. They stop in the order worker, server, database: a
worker that loses its server does not end.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from data.store import folders as store
from data.store.home_owner import require_own_home
from data.store.local_disk import require_local_disk
from flows.record.artifacts import REPORTS_URL
from flows.record.child_processes import last_lines
from flows.server import dead_runs
from flows.server.deploy import POOL, PROJECT
from flows.server.guarded_server import HOST
from flows.server.postgres import DATABASE_URL, postgres_cluster
from flows.server.private_server import (
    ServerProcess,
    answers,
    authentication_file,
    authentication_for,
    client_environment,
    client_settings,
    logging_level,
    own_authentication,
    require_access,
)
from flows.server.supervision import (
    START_TIMEOUT,
    Say,
    ServerError,
    SupervisedProcess,
    end_leftovers,
    termination_as_exit,
)
from tasks.faults import MENDABLE

WORKER_STOP_TIMEOUT = 30.0
LOOK_EVERY = 5.0


@contextlib.contextmanager
def serving(
    home: Path, *, port: int, postgres: bool = False, server_url: str = "", say: Say = print
) -> Iterator[Standing]:
    """Keep server, work pool, worker and deployments running.

    Parameters
    ----------
    home : Path
        The folder of everything that lasts (``DPCOST_HOME``).
    port : int
        The server's port on the loopback interface.
    postgres : bool
        Whether to start a private PostgreSQL cluster in ``home/postgres`` for it.
    server_url : str
        The API of a server that runs elsewhere, which is used in place of one of our own.
    say : callable
        Gets one sentence whenever something happens that the user should know.

    Yields
    ------
    Standing
        The server and its worker.

    Raises
    ------
    ServerError
        If a part could not be started; those that were are stopped.
    """
    home, lost = home.resolve(), list[str]()
    logging_level("INFO")  # refused before anything is started
    with contextlib.ExitStack() as stack:
        stack.enter_context(_alone(home))
        end_leftovers(home, say)
        if server_url:
            api_url, authentication = server_url, authentication_for(home, server_url)
            wait_for(api_url)
            require_access(api_url, authentication)
        else:
            api_url = stack.enter_context(_own_server(home, port, postgres, say, lost.append))
            authentication = own_authentication(home)
        stack.enter_context(
            client_environment(
                client_settings(home, api_url, authentication)
                | {
                    "DPCOST_HOME": str(home),
                    "PREFECT_HOME": str(home / "prefect"),
                    "PREFECT_LOGGING_LEVEL": logging_level("INFO"),
                    "PREFECT_WORKER_QUERY_SECONDS": "2",
                    REPORTS_URL: os.environ.get(REPORTS_URL) or f"{_pages(api_url)}/reports",
                }
            )
        )
        standing = Standing(home, api_url, say, lost)
        standing.mend()
        ensure_pool()
        stack.callback(lambda: standing.mark_crashed(datetime.now(UTC)))
        stack.callback(standing.worker.stop)
        standing.worker.start(ready=standing.has_worker)
        deploy_all()
        yield standing


@contextlib.contextmanager
def _own_server(home: Path, port: int, postgres: bool, say: Say, when_lost: Say) -> Iterator[str]:
    """Run the home's own server, and PostgreSQL for it if asked; give the address of its API."""
    require_free(port)
    with contextlib.ExitStack() as stack:
        cluster = postgres_cluster(home, say=say, when_lost=when_lost)
        database = {DATABASE_URL: stack.enter_context(cluster)} if postgres else {}
        server = ServerProcess(home, port, environment=os.environ | database, say=say, when_lost=when_lost)
        stack.callback(server.stop)
        server.start(ready=server.healthy)
        yield server.api_url


def wait_for(api_url: str, timeout: float = START_TIMEOUT) -> None:
    """Wait until a server elsewhere answers.

    Raises
    ------
    ServerError
        If it does not.
    """
    deadline = time.monotonic() + timeout
    while not answers(api_url):
        if time.monotonic() > deadline:
            raise ServerError(
                f"no Prefect server answers at {api_url}; --server takes the address of its API, "
                "e.g. http://127.0.0.1:4200/api"
            )
        time.sleep(0.5)


class Standing:
    """The standing server and its worker, and what becomes of the runs that die.

    Parameters
    ----------
    home : Path
        The folder of everything that lasts.
    api_url : str
        The address of the server's API.
    say : callable
        Gets one sentence whenever something happens that the user should know.
    lost : list of str
        A sentence for each part that is not started again any more.
    """

    def __init__(self, home: Path, api_url: str, say: Say, lost: list[str]) -> None:
        self.home, self.api_url, self.say, self.lost = home, api_url, say, lost
        self.worker_name = f"{socket.gethostname()}-{os.getpid()}"
        self.worker = worker_process(home, self.worker_name, say=say, when_lost=lost.append)
        self._starts: dict[UUID, int] = {}

    def mark_crashed(self, worker_ended: datetime | None = None) -> None:
        """Mark the runs that died; what the server does not answer now, the next look asks again."""
        before = worker_ended or self.worker.started or datetime.now(UTC)
        with _patience():
            dead_runs.mark_crashed(self.home, self.api_url, before, self.say)

    def mend(self) -> None:
        """Mark the runs that died, and run them again.

        Raises
        ------
        ServerError
            If a part is lost for good: whoever watches over this process, such as systemd, starts all of it.
        """
        if self.lost:
            raise ServerError(f"{self.lost[0]}; stopping the rest")
        self.mark_crashed()
        with _patience():
            dead_runs.run_again(self.say, self._starts)

    def has_worker(self) -> bool:
        """Say whether the worker has reported to the work pool."""
        from prefect.client.orchestration import get_client

        with get_client(sync_client=True) as client:
            return any(each.name == self.worker_name for each in client.read_workers_for_work_pool(POOL))


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    """Pass over what a server that is starting again, or a run that was just deleted, leads to.

    Nothing is asked twice: the next look does, and whoever ends does not wait for a database that is gone.
    """
    import httpx
    from prefect.exceptions import PrefectException
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    with (
        contextlib.suppress(httpx.HTTPError, PrefectException),
        temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
    ):
        yield


@contextlib.contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Hold the home's one place for a standing server; the kernel frees it however the process ends."""
    require_local_disk("DPCOST_HOME", home)
    require_own_home(home)
    store.private_folder(home)
    with open(home / "serve.lock", "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise ServerError(
                f"{home} has a standing server already (process {file.read().strip() or 'unknown'}); "
                "stop that one, or set DPCOST_HOME to another folder"
            ) from None
        file.truncate(0)
        print(os.getpid(), file=file, flush=True)
        yield


def worker_process(home: Path, name: str, *, say: Say, when_lost: Say) -> SupervisedProcess:
    """Return the worker, not started yet.

    Told to end, it would wait for the flows it runs; so these are told too, and report that they crashed.
    """
    return SupervisedProcess(
        home,
        "worker",
        [sys.executable, "-m", "flows.server.worker", "--pool", POOL, "--name", name],
        environment=os.environ,
        folder=PROJECT,
        stop_timeout=WORKER_STOP_TIMEOUT,
        whole_tree=True,
        say=say,
        when_lost=when_lost,
    )


def ensure_pool() -> None:
    """Create the work pool, or take back what was changed about how it runs things; the rest stays."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
    from prefect.exceptions import ObjectAlreadyExists
    from prefect.workers.process import ProcessWorker

    template = ProcessWorker.get_default_base_job_template()
    with get_client(sync_client=True) as client:
        try:
            client.create_work_pool(
                WorkPoolCreate(name=POOL, type=ProcessWorker.type, base_job_template=template)
            )
        except ObjectAlreadyExists:
            client.update_work_pool(POOL, WorkPoolUpdate(base_job_template=template))


def deploy_all() -> None:
    """Put the deployments on the server, in a process of its own: it loads all flows.

    Raises
    ------
    ServerError
        If that fails; the message holds the end of what was said.
    """
    done = subprocess.run(
        [sys.executable, "-m", "flows.server.deploy"],
        cwd=PROJECT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    if done.returncode:
        raise ServerError(f"the flows could not be deployed: {last_lines(done.stdout + done.stderr)}")


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
    parser = argparse.ArgumentParser(prog="python -m flows.server.serve", description=main.__doc__)
    parser.add_argument("--postgres", action="store_true", help="with a private PostgreSQL cluster")
    parser.add_argument("--port", type=int, default=4200, help="the server's port (default 4200)")
    parser.add_argument("--server", default="", help="use the server at this API address; start none")
    options = parser.parse_args(arguments)

    # A shell starts background jobs with Ctrl-C ignored; this is to end with it all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with termination_as_exit():
            print("starting the server, the work pool, the worker and the deployments …", flush=True)
            home = store.home()
            with serving(
                home, port=options.port, postgres=options.postgres, server_url=options.server, say=_say
            ) as standing:
                print(_welcome(standing.api_url, home, own=not options.server), flush=True)
                while True:
                    time.sleep(LOOK_EVERY)
                    standing.mend()
    except KeyboardInterrupt:
        print("stopped: worker, server, database", flush=True)
        return 0
    except (ServerError, OSError, *MENDABLE) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _welcome(api_url: str, home: Path, *, own: bool) -> str:
    program, file = Path(sys.executable).with_name("prefect"), shlex.quote(str(authentication_file(home)))
    here = f'PREFECT_API_URL={api_url} PREFECT_API_AUTH_STRING="$(cat {file})"'
    password = own_authentication(home) if sys.stdout.isatty() else f"the line in {file}"
    if not own:
        here, password = f"PREFECT_API_URL={api_url}", "the one that PREFECT_API_AUTH_STRING holds"
    pages = _pages(api_url)
    return "\n".join(
        [
            f"Prefect is at {pages} (logs in {home / 'prefect'}); Ctrl-C stops everything.",
            f"Its pages ask for a password: {password}",
            f"The reports are at {pages}/reports/; its parts beside the colon are name and password.",
            "Start a run now:",
            f"  {here} {program} deployment run study/housing --watch",
        ]
    )


def _pages(api_url: str) -> str:
    return api_url.rstrip("/").removesuffix("/api")


def _say(sentence: str) -> None:
    print(sentence, flush=True)


if __name__ == "__main__":
    sys.exit(main())
