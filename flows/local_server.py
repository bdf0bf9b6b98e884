"""The Prefect server of a command: the one that the user states, or else one in a process of its own.

The permanent server is a thread of its process. Prefect reads its settings at its first import. This module
therefore imports Prefect only inside functions.
"""

import hashlib
import importlib.util
import logging
import os
import secrets
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import httpx

from data.errors import StoreError
from data.store.folders import PROJECT_ROOT, atomic_write
from flows import ENDS_WITH, NO_ANALYTICS, ServerError
from flows.empty_history import start_history
from flows.progress import say, stored_blocks
from flows.server_process import server_of
from tasks.run.watch import watched

FROM_OUTSIDE = (
    *("PREFECT_HOME", "PREFECT_PROFILE", "PREFECT_SERVER_", "PREFECT_UI_"),
    *("PREFECT_CLIENT_", "PREFECT_LOGGING_"),
    *("PREFECT_API_URL", "PREFECT_API_KEY", "PREFECT_API_AUTH_STRING", "PREFECT_API_REQUEST_TIMEOUT"),
    *("PREFECT_API_TLS_", "PREFECT_API_SSL_", "PREFECT_API_DATABASE_", "PREFECT_API_ENABLE_HTTP2"),
)
HOST = "127.0.0.1"
START_TIMEOUT = 300.0
ANSWERS_WITHIN = 60.0  # seconds, of a server that the user states
HEARTBEAT = 30  # seconds; Prefect's minimum
HOME_TAG = "home-"  # begins the tag of a home's deployments and runs
SERVED = "DPCOST_SERVED_STUDIES"  # tells runs what is served, as JSON: names of studies, and paths of files
KEEP_DAYS = "DPCOST_KEEP_DAYS"  # how long Prefect keeps its history
_AS_GOOD_AS_FULL = 1_000_000  # bytes of a disk
SETTINGS = {
    # With batches of 1, the default, recording costs the server three times as much CPU per task run and a
    # flow of a thousand tasks waits a minute at its end.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    # The persister's own batch stays at Prefect's 20: it drops a whole one when the database was locked.
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TRIGGERS_READ_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_FOREMAN_ENABLED": "false",  # there are no work pools
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
    "PREFECT_SERVER_API_CSRF_PROTECTION_ENABLED": "true",
    "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": "http://127.0.0.1",  # its pages need none; default: any
    "PREFECT_SERVER_UI_API_URL": "/api",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_SERVER_API_MAX_PARAMETER_SIZE": "65536",  # bytes; a refused request is sent back
}
# The database may contain runs scheduled by `make serve`; the server of one command starts none of them.
OF_ONE_COMMAND = {
    "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
    "PREFECT_SERVER_UI_ENABLED": "false",
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
    "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_LATE_RUNS_ENABLED": "false",
    # Nobody sees the events of a command: four fifths of what a run adds to the database.
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
}
# Faults that stay until a person acts; a database that is busy, or on a slow disk, is waited for.
_DAMAGED = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
_CLOSED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY)


def drop_other_variables() -> None:
    """Drop variables of the environment that are not allowed; before this program sets its own."""
    for name in sorted(each for each in os.environ if each.startswith("PREFECT_")):
        if not name.startswith(FROM_OUTSIDE):
            del os.environ[name]
            say(f"note: {name} is ignored: dpcost decides this setting itself")


def refuse_other_files() -> None:
    """Refuse files that set more than is allowed; call it after this program has set its own."""
    from prefect.settings import get_current_settings

    variables = get_current_settings().to_environment_variables(exclude_unset=True)
    if wrong := sorted(
        each for each in variables if each not in os.environ and not each.startswith(FROM_OUTSIDE)
    ):
        raise ServerError(
            "a file of Prefect's settings (a profile, or prefect.toml, pyproject.toml, .env of this folder) "
            f"sets {', '.join(wrong)}, which dpcost decides itself; take it out, or work in another folder"
        )


@contextmanager
def prefect_server(home: Path, meanwhile: Callable[[], object] = lambda: None) -> Iterator[str]:
    """Connect this process to a Prefect server, and yield the address of its API.

    `meanwhile` is called while a server starts. If the server disappears, the process ends with a message.
    """
    if address := stated_address():
        with connected_to(address, home):
            meanwhile()
            yield address
        return
    with (
        listening_at(loopback(), 0) as listening,
        running_server(home, listening, OF_ONE_COMMAND, meanwhile=meanwhile) as address,
    ):
        yield address


def stated_address() -> str:
    """Return the address of a server in ``PREFECT_API_URL`` once it responds; "" if there is none.

    A server that stays silent is refused: with another one in its place, a team would not see the run.
    """
    address = os.environ.get("PREFECT_API_URL", "").rstrip("/")
    if not address or answers(address):
        return address
    say(f"waiting for the Prefect server at PREFECT_API_URL={address}")
    deadline = time.monotonic() + ANSWERS_WITHIN
    while time.monotonic() <= deadline:
        time.sleep(1)
        if answers(address):
            return address
    raise ServerError(
        f"no Prefect server responds at PREFECT_API_URL={address}; start it, or unset PREFECT_API_URL, which "
        "starts a server here"
    )


@contextmanager
def connected_to(address: str, home: Path) -> Iterator[str]:
    """Connect this process to the user's server; if it disappears, the process ends with a message."""
    set_client(address, authentication_at(home, address))
    refuse_other_files()
    with watched(f"the Prefect server at {address}", lambda: answers(address), leave):
        yield address


@contextmanager
def running_server(
    home: Path,
    listening: socket.socket,
    settings: dict[str, str],
    compose: Callable[[Any], Any] | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> Iterator[str]:
    """Run Prefect's server on a socket until the body ends.

    It runs in a process of its own, or in a thread if `compose` wraps its application.
    """
    host = bound_host(listening)
    address = f"http://{host}:{listening.getsockname()[1]}/api"
    prepare_history(home)
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    os.environ.update(settings_of_home(home) | settings)
    set_client(address, own_authentication(home), host.strip("[]"))

    def lives() -> bool:
        return answers(address) and not full_disk(home)

    with _in_thread(home, listening, compose) if compose else _in_process(home, listening):
        refuse_other_files()
        meanwhile()
        deadline = time.monotonic() + START_TIMEOUT
        while not answers(address):
            if full_disk(home) or time.monotonic() > deadline:
                leave(f"the server was not ready within {START_TIMEOUT:.0f} s; see {_log_file(home)}")
            time.sleep(0.05)
        with watched(f"the Prefect server, or its database {_database(home)},", lives, leave):
            yield address


def _database(home: Path) -> str:
    """Return the address of the server's database, without its password."""
    from sqlalchemy.engine import make_url

    url = os.environ.get("PREFECT_API_DATABASE_CONNECTION_URL", "")
    url = url or os.environ.get("PREFECT_SERVER_DATABASE_CONNECTION_URL", "")
    return make_url(url).render_as_string() if url else str(home / "prefect" / "prefect.db")


def bound_host(listening: socket.socket) -> str:
    """Return the address of a socket of this process, as written in a URL."""
    host = str(listening.getsockname()[0])
    return in_url({"0.0.0.0": HOST, "::": "::1"}.get(host, host))


def in_url(host: str) -> str:
    """Return an address as written in a URL."""
    return f"[{host}]" if ":" in host else host


def listening_at(host: str, port: int) -> socket.socket:
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


@cache
def loopback() -> str:
    """Return the address at which this machine reaches itself, 127.0.0.1 or ::1; refuse one without any."""
    faults = []
    for host in (HOST, "::1"):
        try:
            with listening_at(host, 0) as listening:
                socket.create_connection((host, listening.getsockname()[1]), timeout=5).close()
            return host
        except OSError as error:
            faults.append(f"{host} ({error.strerror or error})")
    raise ServerError(
        f"this machine cannot reach its own address {' or '.join(faults)}; bring the loopback interface up, "
        "for example with: ip link set lo up"
    )


def prepare_history(home: Path) -> None:
    """Start Prefect's history in a new home, or refuse one that no restart makes usable."""
    file = home / "prefect" / "prefect.db"
    if _database(home) != str(file):
        return
    if not file.exists():
        start_history(file)
        return
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True, timeout=1)) as history:
            history.execute("PRAGMA query_only = 1")
            versions = history.execute("SELECT version_num FROM alembic_version").fetchall()
        fault = "is of a newer version of Prefect" if any(not _is_known(each) for (each,) in versions) else ""
    except sqlite3.DatabaseError as error:
        code = error.sqlite_errorcode & 0xFF
        damaged = "is damaged" if code in _DAMAGED else ""
        fault = damaged or ("cannot be opened for writing" if code in _CLOSED else "")
    if fault:
        raise ServerError(
            f"Prefect's history {file} {fault}; no results and no charges are in it: move it away, which "
            "starts a new history, or restore it, and run the same command again"
        )
    file.chmod(0o600)


def _is_known(version: str) -> bool:
    """Return whether the installed Prefect knows this version of its SQLite database."""
    spec = importlib.util.find_spec("prefect")  # without its import, which reads settings
    versions = Path(str(spec and spec.origin)).parent / "server" / "database" / "_migrations" / "versions"
    names = [each.name for each in versions.glob("sqlite/*.py")]
    return not names or any(f"_{version}_" in name for name in names)


def settings_of_home(home: Path) -> dict[str, str]:
    days = keep_days()
    return {
        "PREFECT_HOME": str(home / "prefect"),
        # Otherwise SQLite writes its temporary files to TMPDIR, even if that is full.
        "SQLITE_TMPDIR": str(home / "prefect"),
        # Otherwise Prefect writes its pages next to its code, and serves none if it lacks permission.
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(home / "prefect" / "pages"),
        "PREFECT_SERVER_API_AUTH_STRING": own_authentication(home),
        "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(days * 86_400),
        "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": f"P{min(days, 7)}D",
    }


def keep_days() -> int:
    """Return how many days the history is kept: ``DPCOST_KEEP_DAYS``, or 90."""
    text = os.environ.get(KEEP_DAYS, "90")
    if not text.isdigit() or not 1 <= int(text) <= 36_500:
        raise StoreError(f"{KEEP_DAYS} must be a number of days from 1 to 36500, got {text!r}; pass e.g. 90")
    return int(text)


def set_client(address: str, authentication: str, *own: str) -> None:
    """Connect this process and its children to a Prefect server, without a proxy for this machine."""
    known = [os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or "", HOST, "localhost", *own]
    direct = ",".join(dict.fromkeys(filter(None, known)))
    _ignore_unusable_proxies()
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "WARNING")
    os.environ |= {
        "PREFECT_API_URL": address,
        "PREFECT_API_AUTH_STRING": authentication,
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT),
        # Responses of a server while its database restarts.
        "PREFECT_CLIENT_RETRY_EXTRA_CODES": "500,504",
        "NO_PROXY": direct,
        "no_proxy": direct,
        **NO_ANALYTICS,
    }


def _ignore_unusable_proxies() -> None:
    """Drop proxies that Prefect's client cannot use: it fails even if it does not need them."""
    for name in sorted(os.environ):
        if name.lower() in ("http_proxy", "https_proxy", "all_proxy"):
            proxy = os.environ[name] if "://" in os.environ[name] else f"http://{os.environ[name]}"
            try:
                httpx.Client(proxy=proxy, trust_env=False, verify=False).close()
            except (ImportError, ValueError, httpx.InvalidURL):
                del os.environ[name]
                say(f"note: {name} is ignored, because Prefect cannot use it; set it to an http:// address")


@contextmanager
def _in_process(home: Path, listening: socket.socket) -> Iterator[None]:
    """Run the server in a process, which also ends if this one is killed; Ctrl-C is for this one alone."""
    log, path = _log_file(home), [str(PROJECT_ROOT), os.environ.get("PYTHONPATH")]
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "flows.server_process", str(listening.fileno()), str(log)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path)), ENDS_WITH: str(os.getpid())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=[listening.fileno()],
            start_new_session=True,
            umask=0o077,
        )
    listening.close()
    with _running(home, process.wait, process.terminate):
        yield


@contextmanager
def _in_thread(home: Path, listening: socket.socket, compose: Callable[[Any], Any]) -> Iterator[None]:
    """Run the server in a thread; `compose` wraps its application."""
    server = server_of(str(_log_file(home)), compose)

    def run() -> None:
        with suppress(SystemExit):  # of a server that did not start
            server.run(sockets=[listening])

    with _running(home, run, partial(setattr, server, "should_exit", True)):
        yield


@contextmanager
def _running(home: Path, run: Callable[[], object], end: Callable[[], object]) -> Iterator[None]:
    """Call `run` in a thread until the body has ended and its last logs have arrived; then call `end`."""
    ending = threading.Event()

    def watch() -> None:
        run()
        if not ending.is_set():
            leave(f"the server has ended; see {_log_file(home)}")

    thread = threading.Thread(target=watch, name="Prefect's server", daemon=True)
    thread.start()
    try:
        yield
    finally:
        for handler in logging.getLogger("prefect.flow_runs").handlers:
            handler.flush()
        ending.set()
        end()
        thread.join(10)


def _log_file(home: Path) -> Path:
    (home / "prefect").mkdir(parents=True, exist_ok=True)
    return home / "prefect" / "server.log"


def leave(sentence: str) -> NoReturn:
    """Print the reason and end this process at once; finished blocks are stored."""
    from data.store.folders import home

    if full := full_disk(home()):
        sentence = full
    again = f"{stored_blocks()}, run the same command again to continue"
    with suppress(OSError):
        os.write(2, f"\ndpcost: {sentence}; {again}\n".encode())  # even in the middle of printing
    os._exit(2 if full else 1)


def full_disk(home: Path) -> str:
    """Say which disk of a home has no space or no free inode: neither Prefect nor its server does."""
    for folder in (home / "prefect", home / "cache", home):  # they may be on other disks
        if folder.exists():
            if shutil.disk_usage(folder).free < _AS_GOOD_AS_FULL:
                return f"the disk of {folder} is full; free some space"
            if not has_free_inode(folder):
                return f"the disk of {folder} has no free inode; delete some files"
    return ""


def has_free_inode(folder: Path) -> bool:
    disk = os.statvfs(folder)
    return disk.f_favail > 0 or not disk.f_files  # some file systems count none


def answers(address: str) -> bool:
    """Return whether a healthy Prefect server with a reachable database responds at this address."""
    try:
        return _get(f"{address}/health").is_success and _get(f"{address}/ready").status_code != 503
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return False


def _get(address: str, auth: tuple[str, str] | None = None) -> httpx.Response:
    elsewhere = not _on_loopback(address)  # here, without a proxy and without loading certificates
    return httpx.get(address, auth=auth, timeout=5, trust_env=elsewhere, verify=elsewhere)


def _on_loopback(address: str) -> bool:
    return urlsplit(address).hostname in (HOST, "localhost", "::1")


def authentication_file(home: Path) -> Path:
    return home / "prefect.authentication"


def own_authentication(home: Path) -> str:
    """Return the authentication string of the home's server, from the environment or created once."""
    chosen = os.environ.get("PREFECT_SERVER_API_AUTH_STRING")
    if not chosen and not authentication_file(home).exists():
        string = f"dpcost:{secrets.token_urlsafe(24)}"
        atomic_write(authentication_file(home), string.encode(), private=True)
    return chosen or authentication_file(home).read_text()


def authentication_at(home: Path, address: str) -> str:
    """Return the authentication string of a running server: the user's or, on this machine, the home's."""
    secret = own_authentication(home) if _on_loopback(address) else ""
    string = os.environ.get("PREFECT_API_AUTH_STRING", secret)
    name, _, password = string.partition(":")
    with suppress(httpx.HTTPError):  # it responded a moment ago; `watched` notices if it disappears
        if _get(f"{address}/admin/version", (name, password)).status_code in (401, 403):
            raise ServerError(
                f"the Prefect server at {address} needs another authentication string; set "
                "PREFECT_API_AUTH_STRING to its own (`make serve` prints its place) or unset PREFECT_API_URL"
            )
    return string


def home_tag(home: Path) -> str:
    """Return the tag that the server shows for every run started from this home."""
    chosen = os.environ.get("PREFECT_SERVER_API_AUTH_STRING")  # other homes may have it, too
    own = f"{home.resolve()} {chosen}" if chosen else own_authentication(home)
    return HOME_TAG + hashlib.sha256(own.encode()).hexdigest()[:12]


def from_server() -> bool:
    """Return whether this flow run belongs to a deployment rather than the command line."""
    from prefect import runtime

    return _is_deployed(str(runtime.flow_run.id))


@cache
def _is_deployed(flow_run_id: str) -> bool:
    from prefect import runtime

    return runtime.deployment.id is not None  # a request to the server each time


def wrong_setting(error: Exception) -> str:
    """Return a message about a variable that Prefect rejects at its import; empty for other errors."""
    import pydantic

    if not isinstance(error, pydantic.ValidationError) or not error.title.endswith("Settings"):
        return ""
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"])) or "a value"
    return f"a PREFECT_ variable is wrong: {name}: {first['msg']}; correct or unset it"


def wait_until_recorded(flow_run_id: str) -> None:
    """Wait until the server has recorded the end of a flow run's last task, at most half a minute."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter
    from prefect.client.schemas.sorting import TaskRunSort

    this, deadline = FlowRunFilter.model_validate({"id": {"any_": [flow_run_id]}}), time.monotonic() + 30.0
    with get_client(sync_client=True) as client:
        while time.monotonic() < deadline:
            with suppress(httpx.HTTPError):  # a server that just died may restart
                runs = client.read_task_runs(flow_run_filter=this, sort=TaskRunSort.END_TIME_DESC)
                if runs and all(run.state is not None and run.state.is_final() for run in runs):
                    return
            time.sleep(0.1)
