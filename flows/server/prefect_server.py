"""The Prefect server behind a command: the user's own if one answers, else a private one.

A private server listens on a free loopback port and lives as long as the process that needs it: Prefect
delivers its last events and logs while Python shuts down. Prefect reads its settings when it is first
imported, so this module imports it only inside functions.
"""

import contextlib
import os
import secrets
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from data.store.folders import private_folder
from flows import NO_ANALYTICS
from flows.record.progress import say
from flows.server.processes import ChildProcess, Say, ServerError, end_leftovers
from tasks.faults import SpecError

HOST = "127.0.0.1"
LOST_AFTER = 90.0
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

# With batches of 1, the default, recording costs the server three times as much CPU per task run and a
# flow of a thousand tasks waits a minute at its end.
RECORDER_SETTINGS = {
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TRIGGERS_READ_BATCH_SIZE": "200",
}

# The database may hold what `make serve` schedules and automates; a server without a worker leaves it alone.
WITHOUT_SCHEDULES = {
    "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_LATE_RUNS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_FOREMAN_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_PAUSE_EXPIRATIONS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
}


@contextlib.contextmanager
def prefect_server(
    home: Path,
    *,
    when_lost: Say = say,
    meanwhile: Callable[[], object] = lambda: None,
) -> Iterator[str]:
    """Point this process at a Prefect server, and yield the address of its API.

    `meanwhile` is called while a private server starts. `when_lost` gets one sentence, in another thread,
    when the server is gone for good: from then on Prefect waits for it in vain.
    """
    home = home.resolve()
    logging_level("WARNING")  # refused before anything is started
    end_leftovers(home)
    api_url = os.environ.get("PREFECT_API_URL", "")
    with contextlib.ExitStack() as stack:
        if api_url and answers(api_url):
            stack.enter_context(client_environment(foreign_settings(home, api_url)))
            alive = partial(answers, api_url)
            stack.enter_context(watched(f"the Prefect server at {api_url}", alive, when_lost))
            meanwhile()
        else:
            if api_url:
                say(f"no Prefect server answers at PREFECT_API_URL={api_url}; starting one for this run")
            port = free_port()
            api_url = f"http://{HOST}:{port}/api"
            settings = client_settings(home, api_url, own_authentication(home))
            inherited = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
            settings["PREFECT_HOME"] = str(home / "prefect")
            del settings["PREFECT_CLIENT_RETRY_EXTRA_CODES"]  # a database in a file does not start again
            stack.enter_context(client_environment(settings))
            server = server_process(home, port, inherited | WITHOUT_SCHEDULES)
            try:
                server.start(partial(answers, api_url), meanwhile)
            except ServerError as error:
                remedy = f"if its database is damaged, delete {home / 'prefect'}: that loses no result"
                raise ServerError(f"{error}; run the same command again, or, {remedy}") from None
            threading.Thread(target=_tell_when_dead, args=(server, when_lost), daemon=True).start()
        yield api_url


def server_process(home: Path, port: int, environment: Mapping[str, str]) -> ChildProcess:
    """Return a Prefect server on a loopback port, not started yet, with its files in ``home/prefect``."""
    settings = {
        "PREFECT_HOME": str(home / "prefect"),
        # Without it the pages look for the API at port 4200 and stay blank.
        "PREFECT_SERVER_UI_API_URL": f"http://{HOST}:{port}/api",
        # Prefect writes its pages next to its own code otherwise, and serves none if it may not.
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(home / "prefect" / "pages"),
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"http://{HOST}:{port},http://localhost:{port}",
        "PREFECT_SERVER_API_AUTH_STRING": own_authentication(home),
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "PREFECT_SERVER_API_MAX_PARAMETER_SIZE": "65536",  # bytes; what is refused is sent back
        **NO_ANALYTICS,
    }
    inherited = {name: value for name, value in environment.items() if name != "PREFECT_API_URL"}
    return ChildProcess(
        home,
        "server",
        [sys.executable, "-m", "flows.server.app", "--port", str(port)],
        environment=RECORDER_SETTINGS | inherited | settings,
        folder=home,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _tell_when_dead(server: ChildProcess, when_lost: Say) -> None:
    """Wait until a private server ends, and tell why unless it was stopped."""
    if not server.wait():
        when_lost(server.ended())


def authentication_file(home: Path) -> Path:
    return home / "prefect.authentication"


def own_authentication(home: Path) -> str:
    return own_secret(authentication_file(home), "dpcost:")


def own_secret(path: Path, prefix: str = "") -> str:
    """Return the secret in a file of the home: made once, readable by the owner alone."""
    if not path.exists():
        private_folder(path.parent)
        with tempfile.NamedTemporaryFile("w", dir=path.parent) as unfinished:  # nobody else can read it
            unfinished.write(prefix + secrets.token_urlsafe(24))
            unfinished.flush()
            with contextlib.suppress(FileExistsError):
                os.link(unfinished.name, path)
    return path.read_text()


def foreign_settings(home: Path, api_url: str) -> dict[str, str]:
    """Return the environment of a client of a server that runs already; refuse one that does not let it in.

    It authenticates with what the user chose, else, on this machine, with the home's string.
    """
    own = own_authentication(home) if _on_loopback(api_url) else ""
    authentication = os.environ.get("PREFECT_API_AUTH_STRING", "") or own
    with contextlib.suppress(httpx.HTTPError):  # it answered a moment ago; `watched` notices if it is gone
        if _get(api_url, "admin/version", authentication).status_code in (401, 403):
            raise ServerError(
                f"the Prefect server at {api_url} needs another authentication string; set "
                "PREFECT_API_AUTH_STRING to its own (`make serve` says where it is) or unset PREFECT_API_URL"
            )
    return client_settings(home, api_url, authentication)


def answers(api_url: str) -> bool:
    """Say whether a Prefect server is well at this address, and reaches its database."""
    try:
        answer = _get(api_url, "health")
        well = answer.is_success and answer.json() is True
        return well and _get(api_url, "ready").status_code != 503
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return False


def client_settings(home: Path, api_url: str, authentication: str) -> dict[str, str]:
    """Return the environment of a process that runs flows on a server; all servers find the same results."""
    hosts = [*filter(None, [os.environ.get("NO_PROXY") or os.environ.get("no_proxy")]), HOST, "localhost"]
    return {
        "PREFECT_API_URL": api_url,
        **({"PREFECT_API_AUTH_STRING": authentication} if authentication else {}),
        "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(home / "cache" / "records"),
        "PREFECT_LOGGING_LEVEL": logging_level("WARNING"),
        # What a server answers while its database starts again.
        "PREFECT_CLIENT_RETRY_EXTRA_CODES": "500,504",
        "NO_PROXY": ",".join(dict.fromkeys(hosts)),
        "no_proxy": ",".join(dict.fromkeys(hosts)),
        **NO_ANALYTICS,
    }


def logging_level(default: str) -> str:
    """Return the user's choice of Prefect's logging level, or a default; refuse an unknown one."""
    level = os.environ.get("PREFECT_LOGGING_LEVEL", default)
    if level.upper() not in LEVELS:
        raise SpecError(f"PREFECT_LOGGING_LEVEL must be one of {', '.join(LEVELS)}, got {level!r}")
    return level


@contextlib.contextmanager
def client_environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Apply settings to this process for a while, and import Prefect, which reads them now or never."""
    before = dict(os.environ)
    os.environ.update(settings)
    try:
        import prefect.settings  # noqa: F401

        yield
    finally:
        for name in settings:
            os.environ.pop(name, None)
        os.environ.update({name: before[name] for name in settings if name in before})


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


def wait_until_recorded(flow_run_id: str, n_task_runs: int, timeout: float = 30.0) -> int:
    """Wait until a flow run's task runs are on record with a final state; return how many are."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.objects import TERMINAL_STATES

    of_this_run_and_final = {
        "flow_runs": {"id": {"any_": [flow_run_id]}},
        "task_runs": {"state": {"type": {"any_": sorted(TERMINAL_STATES)}}},
    }
    deadline = time.monotonic() + timeout
    with get_client(sync_client=True) as client:
        n_recorded = 0
        while True:
            with contextlib.suppress(httpx.HTTPError):  # a server that just died may come back
                answer = client.request("POST", "/task_runs/count", json=of_this_run_and_final)
                n_recorded = int(answer.json())
            if n_recorded >= n_task_runs or time.monotonic() > deadline:
                return n_recorded
            time.sleep(0.1)


def _on_loopback(api_url: str) -> bool:
    return urlsplit(api_url).hostname in (HOST, "localhost", "::1")


def _get(api_url: str, path: str, authentication: str = "") -> httpx.Response:
    headers, auth = {}, None
    if authentication:
        name, _, password = authentication.partition(":")
        auth = (name, password)
    elif key := os.environ.get("PREFECT_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    elsewhere = not _on_loopback(api_url)  # here, without a proxy and without loading certificates
    address = f"{api_url.rstrip('/')}/{path}"
    return httpx.get(address, headers=headers, auth=auth, timeout=5, trust_env=elsewhere, verify=elsewhere)
