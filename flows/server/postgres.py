"""A private PostgreSQL cluster for the standing server."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil

from data.store.folders import private_folder
from data.store.processes import ProcessIdentity
from flows.record.child_processes import end, last_lines
from flows.server.guarded_server import HOST
from flows.server.private_server import free_port
from flows.server.supervision import Say, ServerError, SupervisedProcess

DATABASE_URL = "PREFECT_API_DATABASE_CONNECTION_URL"
USER = "dpcost"


@contextlib.contextmanager
def postgres_cluster(home: Path, *, say: Say, when_lost: Say | None = None) -> Iterator[str]:
    """Run the private PostgreSQL cluster in ``home/postgres``, created at the first use.

    It listens on a free loopback port, on no other address and no socket file, and asks for a password
    that only the owner of `home` can read. `say` and `when_lost` are those of :class:`SupervisedProcess`.

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
    if user is not None:
        home.chmod(home.stat().st_mode | 0o011)  # that user must reach the cluster, and may list nothing
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
        clear=partial(_end_sessions, folder),
        say=say,
        when_lost=when_lost,
    )
    place = ["-h", HOST, "-p", str(port), "-U", USER]
    try:
        server.start(ready=lambda: not _postgres(programs, "pg_isready", *place, password=password))
        problem = _postgres(programs, "createdb", *place, "prefect", password=password)
        if problem and "already exists" not in problem:
            raise ServerError(f"the database could not be created: {problem}")
        yield f"postgresql+asyncpg://{USER}:{password}@{HOST}:{port}/prefect"
    finally:
        server.stop()


def _end_sessions(folder: Path) -> None:
    """End the sessions of a cluster whose server is dead: while one works on, no other server can start."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.name() == "postgres" and process.cwd() == str(folder):
                end(ProcessIdentity.of(process.pid), signal.SIGQUIT, timeout=5.0)


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
            *("-D", str(unfinished), "-U", USER, "-E", "UTF8", "--no-locale"),
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
    return "" if not done.returncode else last_lines(done.stdout + done.stderr) or f"status {done.returncode}"


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
    private_folder(home)
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(24))
    return path.read_text()
