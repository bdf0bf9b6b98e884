"""A private PostgreSQL cluster for the standing server."""

import contextlib
import hashlib
import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path

from flows.server.prefect_server import HOST, free_port, own_secret
from flows.server.processes import ChildProcess, ServerError, as_user, last_lines

DATABASE_URL = "PREFECT_API_DATABASE_CONNECTION_URL"
USER = "dpcost"
ROOTS_CLUSTERS = Path("/var/lib/dpcost-postgres")


def start_postgres(home: Path) -> tuple[ChildProcess, str]:
    """Start the home's PostgreSQL cluster, created at the first use; return it and its address for Prefect.

    It listens on a free loopback port, on no other address and no socket file, and asks for a password that
    only the owner of the home can read. The address holds that password: it is not for printing.
    """
    programs, user, password = postgres_programs(), _postgres_user(), own_secret(home / "postgres.password")
    # PostgreSQL refuses to run as root, and another account may not enter the home.
    folder = home / "postgres"
    if user:
        ROOTS_CLUSTERS.mkdir(mode=0o755, exist_ok=True)
        ROOTS_CLUSTERS.chmod(0o755)
        folder = ROOTS_CLUSTERS / hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:16]
    if not (folder / "PG_VERSION").exists():
        _create_cluster(programs, folder, user, password)
    port = free_port()
    command = [str(programs / "postgres"), "-D", str(folder), "-p", str(port)]
    server = ChildProcess(
        home,
        "postgres",
        [*command, "-c", f"listen_addresses={HOST}", "-c", "unix_socket_directories="],
        environment=os.environ,
        folder=Path("/"),
        user=user,
        stop_signal=signal.SIGINT,  # a "fast" stop: it does not wait for its clients to leave
    )
    place = ["-h", HOST, "-p", str(port), "-U", USER]
    server.start(lambda: not _postgres(programs, "pg_isready", *place, password=password))
    problem = _postgres(programs, "createdb", *place, "prefect", password=password)
    if problem and "already exists" not in problem:
        server.stop()
        raise ServerError(f"the database could not be created: {problem}")
    return server, f"postgresql+asyncpg://{USER}:{password}@{HOST}:{port}/prefect"


def postgres_programs() -> Path:
    """Return the folder of PostgreSQL's server programs: on PATH, or the newest where Debian puts them."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    packaged = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if not packaged:
        raise ServerError(
            "--postgres needs initdb and postgres, and none are on PATH or in /usr/lib/postgresql; get it, "
            f"e.g. `apt-get install postgresql`, or set {DATABASE_URL} to a database that runs already"
        )
    return max(packaged, key=lambda path: [int(part) for part in path.parent.name.split(".")])


def _create_cluster(programs: Path, folder: Path, user: str, password: str) -> None:
    """Create the cluster under a temporary name, so that one left unfinished is never used."""
    unfinished, password_file = folder.with_name(f"{folder.name}.new"), folder.with_name(f"{folder.name}.pw")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    password_file.touch(mode=0o600)
    try:
        password_file.write_text(password)
        if user:
            shutil.chown(unfinished, user)
            shutil.chown(password_file, user)
        options = ["-U", USER, "-E", "UTF8", "--no-locale", "-A", "scram-sha-256"]
        place = ["-D", str(unfinished), f"--pwfile={password_file}"]
        problem = _postgres(programs, "initdb", *place, *options, user=user)
    finally:
        password_file.unlink()
    if problem:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise ServerError(f"initdb could not create {folder}{f' as user {user}' if user else ''}: {problem}")
    unfinished.rename(folder)


def _postgres(programs: Path, program: str, *arguments: str, password: str = "", user: str = "") -> str:
    """Run one of PostgreSQL's programs and return what went wrong; nothing if nothing did."""
    done = subprocess.run(
        [str(programs / program), *arguments],
        env=os.environ | {"PGPASSWORD": password},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        **as_user(user),
    )
    return "" if not done.returncode else last_lines(done.stdout + done.stderr) or f"status {done.returncode}"


def _postgres_user() -> str:
    """Return the user that PostgreSQL runs as, empty for this one; it refuses to run as root."""
    if os.geteuid() != 0:
        return ""
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise ServerError("PostgreSQL refuses to run as root, and there is no user postgres or nobody")
