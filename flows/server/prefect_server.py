"""The Prefect server behind a command: the user's own if one answers, else one in a thread of this process.

A server in a thread ends with its process, however that ends. Prefect reads its settings when it is first
imported, so this module imports it only inside functions.
"""

import contextlib
import hashlib
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from logging.handlers import RotatingFileHandler
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from data.store.folders import REPORTS, atomic_write
from flows import NO_ANALYTICS
from flows.record.journal import keep_days
from flows.record.progress import say
from flows.server import Say, ServerError
from flows.server.database import make_database

HOST = "127.0.0.1"
LOST_AFTER = 90.0
START_TIMEOUT = 300.0

SERVER_SETTINGS = {
    # With batches of 1, the default, recording costs the server three times as much CPU per task run and a
    # flow of a thousand tasks waits a minute at its end.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    # The persister's own batch stays at Prefect's 20: it drops a whole one when the database was locked.
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TRIGGERS_READ_BATCH_SIZE": "200",
    # There are no work pools.
    "PREFECT_SERVER_SERVICES_FOREMAN_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
    "PREFECT_SERVER_API_CSRF_PROTECTION_ENABLED": "true",
    "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": "http://127.0.0.1",  # its pages need none; the default is anyone
    "PREFECT_SERVER_UI_API_URL": "/api",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_SERVER_API_MAX_PARAMETER_SIZE": "65536",  # bytes; what is refused is sent back
    # Of a library that Prefect uses: it would compile itself with checks of types at each start.
    "PY_KEY_VALUE_DISABLE_BEARTYPE": "true",
}

# The database may hold what `make serve` schedules and automates; a server of one command leaves it alone.
# Nobody opens its pages, and no block of Prefect's is used. Its clients have its version: they need not ask.
OF_ONE_COMMAND = {
    "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
    "PREFECT_SERVER_UI_ENABLED": "false",
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
    "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_LATE_RUNS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_PAUSE_EXPIRATIONS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_CANCELLATION_CLEANUP_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_REPOSSESSOR_ENABLED": "false",
}


@contextlib.contextmanager
def prefect_server(
    home: Path,
    *,
    when_lost: Say,
    listen: Callable[[], socket.socket] | None = None,
    hosts: Sequence[str] = (HOST, "localhost"),
    meanwhile: Callable[[], object] = lambda: None,
    starting: Callable[[], str] = lambda: "",
) -> Iterator[str]:
    """Point this process at a Prefect server, and yield the address of its API.

    A server of a command's own listens on any free port; a standing one, with schedules, on the socket that
    `listen` opens, and is reached by `hosts`. `meanwhile` is called while a server starts; its pages show
    what `starting` says. `when_lost` gets one sentence, in another thread, when the server is gone for good.
    """
    api_url = os.environ.get("PREFECT_API_URL", "").rstrip("/")
    with contextlib.ExitStack() as stack:
        if api_url and answers(api_url):
            set_client(home, api_url, _authentication_at(home, api_url))
            lives = partial(answers, api_url)
            stack.enter_context(watched(f"the Prefect server at {api_url}", lives, when_lost))
            meanwhile()
        else:
            if api_url:
                say(f"no Prefect server answers at PREFECT_API_URL={api_url}; starting one here")
            own = stack.enter_context(listen() if listen else socket.create_server((HOST, 0)))
            host = _bound_host(own)
            api_url, hosts = f"http://{host}:{own.getsockname()[1]}/api", [*hosts, host]
            for name, value in SERVER_SETTINGS.items():
                os.environ.setdefault(name, value)
            os.environ.update(server_settings(home) | ({} if listen else OF_ONE_COMMAND))
            set_client(home, api_url, own_authentication(home), host.strip("[]"))
            if make_database(home / "prefect"):
                os.environ["PREFECT_API_DATABASE_MIGRATE_ON_START"] = "false"  # saves loading what migrates
            stack.enter_context(_in_thread(home, own, hosts, when_lost, starting))
            meanwhile()
            _wait_until_up(api_url, home)
        yield api_url


def _bound_host(listening: socket.socket) -> str:
    """Return the address to reach a socket of this process by, as it stands in a URL."""
    host = str(listening.getsockname()[0])
    host = {"0.0.0.0": HOST, "::": "::1"}.get(host, host)
    return f"[{host}]" if ":" in host else host


def server_settings(home: Path) -> dict[str, str]:
    """Return the settings of a server that follow from the home, and for how long history is kept."""
    return {
        "PREFECT_HOME": str(home / "prefect"),
        # SQLite's own temporary files lie in TMPDIR otherwise, however full that is.
        "SQLITE_TMPDIR": str(home / "prefect"),
        # Prefect writes its pages next to its own code otherwise, and serves none if it may not.
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(home / "prefect" / "pages"),
        "PREFECT_SERVER_API_AUTH_STRING": own_authentication(home),
        "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(keep_days() * 86_400),
        "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": f"P{min(keep_days(), 7)}D",
    }


def set_client(home: Path, api_url: str, authentication: str, *own: str) -> None:
    """Make this process, and those it starts, clients of a server; all servers find the same results.

    No proxy is asked for this machine, nor for its `own` addresses.
    """
    known = [os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or "", HOST, "localhost", *own]
    direct = ",".join(dict.fromkeys(filter(None, known)))
    _ignore_unusable_proxies()
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "WARNING")
    os.environ |= {
        "PREFECT_API_URL": api_url,
        "PREFECT_API_AUTH_STRING": authentication,
        "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(home / "cache" / "records"),
        # What a server answers while its database starts again.
        "PREFECT_CLIENT_RETRY_EXTRA_CODES": "500,504",
        "NO_PROXY": direct,
        "no_proxy": direct,
        **NO_ANALYTICS,
    }


def _ignore_unusable_proxies() -> None:
    """Drop proxies that Prefect's client cannot use, since it fails even where it asks none of them."""
    names = [name for name in os.environ if name.lower() in ("http_proxy", "https_proxy", "all_proxy")]
    for name in sorted(names):
        proxy = os.environ[name] if "://" in os.environ[name] else f"http://{os.environ[name]}"
        try:
            httpx.Client(proxy=proxy, trust_env=False, verify=False).close()
        except (ImportError, ValueError, httpx.InvalidURL):
            del os.environ[name]
            say(f"note: {name} is ignored, since Prefect's client cannot use it; give an http:// address")


@contextlib.contextmanager
def _in_thread(
    home: Path,
    listening: socket.socket,
    hosts: Sequence[str],
    when_lost: Say,
    starting: Callable[[], str],
) -> Iterator[None]:
    """Run Prefect's server in a thread until the body ends, after its last logs have arrived."""
    import uvicorn
    from prefect.server.api.server import create_app

    from flows.server.app import guarded_app

    # `create_app` sets handlers of its own, so that these come after it.
    application = guarded_app(create_app(), REPORTS, own_authentication(home), hosts, starting=starting)
    log = RotatingFileHandler(_log_file(home), maxBytes=5_000_000, backupCount=1)
    log.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("prefect.server", "uvicorn", "fastapi", "docket"):
        logging.getLogger(name).handlers = [log]
        logging.getLogger(name).propagate = False
    config = uvicorn.Config(application, log_config=None, access_log=False, timeout_graceful_shutdown=1)
    server, ending = uvicorn.Server(config), threading.Event()

    def run() -> None:
        with contextlib.suppress(SystemExit):  # uvicorn's word for a server that did not start
            server.run(sockets=[listening])
        if not ending.is_set():
            when_lost(f"the server has ended; see {_log_file(home)}")

    thread = threading.Thread(target=run, name="Prefect's server", daemon=True)
    thread.start()
    try:
        yield
    finally:
        for handler in logging.getLogger("prefect.flow_runs").handlers:
            handler.flush()
        ending.set()
        server.should_exit = True
        thread.join(10)


def _wait_until_up(api_url: str, home: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while not answers(api_url):
        if time.monotonic() > deadline:
            raise ServerError(
                f"the server was not ready within {START_TIMEOUT:.0f} s; see {_log_file(home)}; if its "
                f"database is damaged, delete {home / 'prefect'}: that loses no result"
            )
        time.sleep(0.05)


def _log_file(home: Path) -> Path:
    (home / "prefect").mkdir(parents=True, exist_ok=True)
    return home / "prefect" / "server.log"


def answers(api_url: str) -> bool:
    """Say whether a Prefect server is well at this address, and reaches its database."""
    try:
        return _get(f"{api_url}/health").is_success and _get(f"{api_url}/ready").status_code != 503
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
    """Return the string of the home's server: the one of the environment, or one made once for the home."""
    chosen = os.environ.get("PREFECT_SERVER_API_AUTH_STRING")
    if not chosen and not authentication_file(home).exists():
        string = f"dpcost:{secrets.token_urlsafe(24)}"
        atomic_write(authentication_file(home), string.encode(), private=True)
    return chosen or authentication_file(home).read_text()


def _authentication_at(home: Path, api_url: str) -> str:
    """Return the authentication string for a server that runs already: the user's or, here, the home's."""
    own = own_authentication(home) if _on_loopback(api_url) else ""
    string = os.environ.get("PREFECT_API_AUTH_STRING", own)
    name, _, password = string.partition(":")
    with contextlib.suppress(httpx.HTTPError):  # it answered a moment ago; `watched` notices if it is gone
        if _get(f"{api_url}/admin/version", (name, password)).status_code in (401, 403):
            raise ServerError(
                f"the Prefect server at {api_url} needs another authentication string; set "
                "PREFECT_API_AUTH_STRING to its own (`make serve` says where it is) or unset PREFECT_API_URL"
            )
    return string


def home_tag(home: Path) -> str:
    """Return the tag that the server shows at every run started from this home."""
    return "home-" + hashlib.sha256(own_authentication(home).encode()).hexdigest()[:12]


def wrong_setting(error: Exception) -> str:
    """Return a sentence about a variable that Prefect refuses at its import; empty for other errors."""
    import pydantic

    if not isinstance(error, pydantic.ValidationError) or not error.title.endswith("Settings"):
        return ""
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"])) or "a value"
    return f"a PREFECT_ variable is wrong: {name}: {first['msg']}; correct or unset it"


@contextlib.contextmanager
def watched(
    what: str, lives: Callable[[], bool], when_lost: Say, after: float = LOST_AFTER, every: float = 5.0
) -> Iterator[None]:
    """Call `when_lost`, once and in another thread, if `lives` has not been true for `after` seconds."""
    over = threading.Event()

    def watch() -> None:
        last_answer = time.monotonic()
        while not over.wait(every):
            if lives():
                last_answer = time.monotonic()
            elif time.monotonic() - last_answer > after and not over.is_set():
                when_lost(f"{what} has not answered for {after:.0f} s")
                return

    threading.Thread(target=watch, name=f"watch of {what}", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def wait_until_recorded(flow_run_id: str, timeout: float = 30.0) -> None:
    """Wait until the server has recorded the end of a flow run's last task, and thus of all before it."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter
    from prefect.client.schemas.sorting import TaskRunSort

    this, deadline = FlowRunFilter.model_validate({"id": {"any_": [flow_run_id]}}), time.monotonic() + timeout
    with get_client(sync_client=True) as client:
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.HTTPError):  # a server that just died may come back
                runs = client.read_task_runs(flow_run_filter=this, sort=TaskRunSort.END_TIME_DESC)
                if runs and all(run.state is not None and run.state.is_final() for run in runs):
                    return
            time.sleep(0.1)
