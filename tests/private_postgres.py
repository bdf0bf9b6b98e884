"""A PostgreSQL cluster of a test's own, on a free loopback port; for root, as the user ``postgres``."""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
from pathlib import Path

import pytest


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
def private_postgres(folder):
    """Run a cluster below a folder that others can enter; give its address."""
    place, data, port = programs(), folder / "cluster", free_port()
    data.mkdir(mode=0o700)
    user = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        account = pwd.getpwnam("postgres")
        os.chown(data, account.pw_uid, account.pw_gid)
        user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    quiet = {"check": True, "cwd": "/", "stdout": subprocess.DEVNULL, **user}
    subprocess.run([place / "initdb", "-D", data, "-U", "dpcost", "-E", "UTF8", "--auth=trust"], **quiet)
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
    log = data / "log"
    subprocess.run([place / "pg_ctl", "-D", data, "-w", "-l", log, "-o", options, "start"], **quiet)
    try:
        yield f"postgresql://dpcost@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run([place / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **quiet)
