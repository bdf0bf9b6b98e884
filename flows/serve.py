"""``python -m flows.serve [--postgres] [--port 4200]``: the standing server, its worker and the schedules.

Starts a Prefect server, a work pool, a worker and the deployments of ``prefect.yaml``, and keeps them running
until Ctrl-C. They stop in the order worker, server, database: a worker that loses its server does not end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flows.server import (
    HOST,
    Say,
    ServerError,
    ServerProcess,
    SupervisedProcess,
    client_settings,
    end_leftover_server,
    free_port,
    termination_as_exit,
)

PROJECT = Path(__file__).resolve().parents[1]
POOL = "dpcost"
DATABASE_URL = "PREFECT_API_DATABASE_CONNECTION_URL"
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
        raise ServerError(f"`prefect {' '.join(arguments)}` failed: {_ending(done.stdout + done.stderr)}")


@contextlib.contextmanager
def postgres_cluster(home: Path, *, say: Say) -> Iterator[str]:
    """Run the private PostgreSQL cluster in ``home/postgres``, created at the first use.

    It listens on a free loopback port, on no other address and no socket file, and asks for a password
    that only the owner of `home` can read.

    Yields
    ------
    str
        The connection address for Prefect, password included: not for printing.

    Raises
    ------
    ServerError
        If PostgreSQL is missing, or cannot be started.
    """
    programs = postgres_programs()
    user = _postgres_user()
    password = _password(home)
    folder = home / "postgres"
    if not (folder / "PG_VERSION").exists():
        _create_cluster(programs, folder, user, password)

    port = free_port()
    server = SupervisedProcess(
        home,
        "postgres",
        [
            *(str(programs / "postgres"), "-D", str(folder), "-p", str(port)),
            *("-c", f"listen_addresses={HOST}", "-c", "unix_socket_directories="),
        ],
        environment=os.environ,
        folder=Path("/"),
        user=user,
        stop_signal=signal.SIGINT,  # a "fast" stop: it does not wait for its clients to leave
        say=say,
    )
    place = ["-h", HOST, "-p", str(port), "-U", POOL]
    try:
        server.start(ready=lambda: not _postgres(programs, "pg_isready", *place, password=password))
        problem = _postgres(programs, "createdb", *place, "prefect", password=password)
        if problem and "already exists" not in problem:
            raise ServerError(f"the database could not be created: {problem}")
        yield f"postgresql+asyncpg://{POOL}:{password}@{HOST}:{port}/prefect"
    finally:
        server.stop()


def postgres_programs() -> Path:
    """Return the folder of PostgreSQL's server programs: on PATH, or the newest where Debian puts them.

    Raises
    ------
    ServerError
        If there is none.
    """
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    packaged = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if not packaged:
        raise ServerError(
            "--postgres needs PostgreSQL's server programs (initdb, postgres), and none are on PATH or in "
            "/usr/lib/postgresql; install them, e.g. `apt-get install postgresql`, or set "
            f"{DATABASE_URL} to a database that runs already"
        )
    return max(
        packaged, key=lambda path: [int(part) for part in path.parent.name.split(".") if part.isdigit()]
    )


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
                f"port {port} cannot be used ({_ending(str(error))}); stop what listens there, "
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


def _create_cluster(programs: Path, folder: Path, user: str | None, password: str) -> None:
    """Create the cluster under a temporary name, so that one left unfinished is never used."""
    unfinished = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700, parents=True)
    password_file = folder.with_name(f"{folder.name}.initial")
    password_file.touch(mode=0o600)
    try:
        password_file.write_text(password)
        if user is not None:
            shutil.chown(unfinished, user)
            shutil.chown(password_file, user)
        problem = _postgres(
            programs,
            "initdb",
            *("-D", str(unfinished), "-U", POOL, "-E", "UTF8", "--no-locale"),
            *("-A", "scram-sha-256", f"--pwfile={password_file}"),
            user=user,
        )
    finally:
        password_file.unlink()
    if problem:
        shutil.rmtree(unfinished, ignore_errors=True)
        as_user = f" as user {user}, who must be able to reach that folder" if user else ""
        raise ServerError(f"initdb could not create {folder}{as_user}: {problem}")
    unfinished.rename(folder)


def _postgres(
    programs: Path, program: str, *arguments: str, password: str = "", user: str | None = None
) -> str:
    """Run one of PostgreSQL's programs and return what went wrong; nothing if nothing did."""
    done = subprocess.run(
        [str(programs / program), *arguments],
        env=os.environ | {"PGPASSWORD": password},
        cwd="/",
        user=user,
        group=None if user is None else pwd.getpwnam(user).pw_gid,
        extra_groups=None if user is None else [],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if not done.returncode else _ending(done.stdout + done.stderr) or f"status {done.returncode}"


def _postgres_user() -> str | None:
    """Return whom PostgreSQL runs as: this user, but for root, whom it refuses."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise ServerError(
        "PostgreSQL refuses to run as root, and there is no user postgres or nobody; be another user"
    )


def _password(home: Path) -> str:
    path = home / "postgres.password"
    home.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(24))
    return path.read_text()


def _ending(text: str) -> str:
    return " / ".join([line.strip() for line in text.splitlines() if line.strip()][-5:])


if __name__ == "__main__":
    sys.exit(main())
