"""Servers that tests start, a PostgreSQL cluster among them: they end with the test, and with pytest."""

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psutil
import pytest

_SEND_AT_THE_PARENTS_END = 1  # PR_SET_PDEATHSIG of Linux


def end_with_parent():
    """Let a process that begins get Ctrl-C as its parent ends, killed or not, and not ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(AttributeError, OSError):  # Linux only
        ctypes.CDLL(None).prctl(_SEND_AT_THE_PARENTS_END, signal.SIGINT)


@contextlib.contextmanager
def own_process(command, *, patience=60, **options):
    """Start a process; end it with Ctrl-C, and kill it and its children if that is not enough."""
    process = subprocess.Popen(list(map(str, command)), preexec_fn=end_with_parent, **options)
    try:
        yield process
    finally:
        end(process, patience)


def end(process, patience=60):
    if process.poll() is not None:
        return
    begun = psutil.Process(process.pid).children(recursive=True)
    try:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=patience)
    except (subprocess.TimeoutExpired, ValueError):  # what it says may be read elsewhere
        pass
    finally:
        for each in (process, *begun) if process.poll() is None else ():
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()


def programs():
    """Return the folder of PostgreSQL's programs, the newest where Debian puts them; skip without any."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    packaged = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if not packaged:
        pytest.skip("no PostgreSQL; e.g. apt-get install postgresql")
    return max(packaged, key=lambda path: int(path.parent.name.split(".")[0]))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def private_postgres():
    """Run a cluster in a folder of its own; give its address."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)  # for the account that runs it
        with _cluster(Path(name) / "cluster") as address:
            yield address


@contextlib.contextmanager
def _cluster(data):
    place, port = programs(), free_port()
    data.mkdir(mode=0o700)
    user = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        account = pwd.getpwnam("postgres")
        os.chown(data, account.pw_uid, account.pw_gid)
        user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    quiet = {"check": True, "cwd": "/", "stdout": subprocess.DEVNULL, **user}
    subprocess.run([place / "initdb", "-D", data, "-U", "dpcost", "-E", "UTF8", "--auth=trust"], **quiet)
    server = [place / "postgres", "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1"]
    server += ["-c", "unix_socket_directories="]
    asked = [place / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
    with open(data / "log", "wb") as log, own_process(server, stdout=log, stderr=log, cwd="/", **user) as run:
        while subprocess.run(asked, check=False).returncode:
            assert run.poll() is None, (data / "log").read_text()
            time.sleep(0.1)
        yield f"postgresql://dpcost@127.0.0.1:{port}/postgres"
