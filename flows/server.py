"""The Prefect server behind a run: the user's own if one answers, else a private one while it is needed.

This module imports Prefect only inside its functions: Prefect reads part of its settings when it is first
imported, so the environment has to be complete by then.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit
from uuid import UUID

from flows.journal import ProcessIdentity, write_json

Say = Callable[[str], object]

HOST = "127.0.0.1"
START_TIMEOUT = 120.0
STOP_TIMEOUT = 10.0
SEND_TIMEOUT = 5.0
MAX_RESTARTS = 5
LOG_LIMIT = 5_000_000

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
NO_ANALYTICS = {"PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}

# The database may hold the schedules of `make serve`; a server without a worker leaves them alone.
WITHOUT_SCHEDULES = {
    "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_LATE_RUNS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_FOREMAN_ENABLED": "false",
}


class ServerError(RuntimeError):
    """The server, or something beside it, could not be started; the message is one sentence."""


@contextlib.contextmanager
def prefect_server(home: Path, *, say: Say = print) -> Iterator[str]:
    """Provide a Prefect server and point this process at it.

    The server at ``PREFECT_API_URL`` is used as it is if it answers. Otherwise a private one is started on a
    free loopback port, with its database in ``home/prefect``, watched, and taken down at the end, however
    the end comes about. The environment and Prefect's settings are as before afterwards.

    Parameters
    ----------
    home : Path
        The folder of everything that lasts (``DPCOST_HOME``).
    say : callable
        Gets one sentence whenever something happens that the user should know.

    Yields
    ------
    str
        The address of the server's API.

    Raises
    ------
    ServerError
        If a private server had to be started and did not answer in time.
    """
    home = home.resolve()
    end_leftover_server(home, say)
    outside = os.environ.get("PREFECT_API_URL", "")
    if outside and answers(outside):
        with client_environment(client_settings(home, outside)):
            yield outside
        return
    if outside:
        say(f"PREFECT_API_URL is {outside}, but no Prefect server answers there; starting one for this run")

    with termination_as_exit(), _environment({"PREFECT_HOME": str(home / "prefect")}):
        server = start_private_server(home, say)
        try:
            with client_environment(client_settings(home, server.api_url)):
                yield server.api_url
        finally:
            server.stop()


def start_private_server(home: Path, say: Say) -> ServerProcess:
    """Start a server that serves one run; a port that was taken in the meantime is given up for another."""
    for attempts_left in (2, 1, 0):
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
        server = ServerProcess(home, free_port(), environment=inherited | WITHOUT_SCHEDULES, say=say)
        try:
            server.start(ready=server.healthy, meanwhile=lambda: importlib.import_module("prefect"))
        except ServerError as error:
            if not attempts_left or "already in use" not in str(error):
                raise
        else:
            return server
    raise AssertionError("unreachable")


def wait_until_recorded(
    api_url: str, flow_run_id: UUID | str, n_task_runs: int, timeout: float = 30.0
) -> int:
    """Wait until a flow run's task runs are on record with a final state.

    A server that is taken down earlier loses those that are still on their way.

    Parameters
    ----------
    api_url : str
        The server's address, ending in ``/api``.
    flow_run_id : UUID or str
        The flow run.
    n_task_runs : int
        How many task runs it made.
    timeout : float
        Seconds to wait at most.

    Returns
    -------
    int
        How many are on record; fewer than `n_task_runs` if time ran out.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.objects import TERMINAL_STATES
    from prefect.settings import PREFECT_API_URL, temporary_settings

    of_this_run_and_final = {
        "flow_runs": {"id": {"any_": [str(flow_run_id)]}},
        "task_runs": {"state": {"type": {"any_": sorted(TERMINAL_STATES)}}},
    }
    deadline = time.monotonic() + timeout
    with temporary_settings({PREFECT_API_URL: api_url}), get_client(sync_client=True) as client:
        while True:
            answer = client.request("POST", "/task_runs/count", json=of_this_run_and_final)
            n_recorded = int(answer.json())
            if n_recorded >= n_task_runs or time.monotonic() > deadline:
                return n_recorded
            time.sleep(0.1)


def end_leftover_server(home: Path, say: Say = print) -> int:
    """End what killed runs left running in `home`, and return how many processes that were.

    A process is ended only if the run that started it is gone and it is still that very process, by number,
    start time, boot and command line. Files about processes that are gone are removed.
    """
    n_ended = 0
    for path in sorted((home / "prefect").glob("*-*.json"), key=_place_in_stop_order):
        try:
            record = json.loads(path.read_bytes())
            process, owner = ProcessIdentity(**record["process"]), ProcessIdentity(**record["owner"])
            name, command = record["name"], record["command"]
            stop_signal, whole_tree = record["stop_signal"], record["whole_tree"]
        except FileNotFoundError:
            continue
        except (ValueError, TypeError, KeyError):
            path.unlink(missing_ok=True)
            continue
        if owner.is_alive():
            continue
        if process.is_alive() and _command_line(process.pid)[1:] == command[1:]:
            say(f"ending the {name} (process {process.pid}) that a killed run left behind")
            _end(process, stop_signal, STOP_TIMEOUT, whole_tree=whole_tree)
            n_ended += 1
        path.unlink(missing_ok=True)
    return n_ended


class SupervisedProcess:
    """A child process that outlives neither its use nor, without a successor, its own death.

    It runs in its own session, so that Ctrl-C in the terminal reaches only the process that owns it; a file
    ``home/prefect/<name>-<owner's pid>.json`` tells later runs whose it is. If it dies it is started again,
    a bounded number of times.

    Parameters
    ----------
    home : Path
        The folder of everything that lasts.
    name : str
        What it is called in messages and file names: one word.
    command : sequence of str
        The command line.
    environment : mapping of str to str
        Its whole environment.
    folder : Path
        Its working folder.
    user : str, optional
        The user it runs as, if not this process's.
    stop_signal : int
        The signal that asks it to end.
    stop_timeout : float
        Seconds it gets to follow that signal, before it and all that it started are killed.
    whole_tree : bool
        Whether that signal also goes to every process that it started.
    say : callable
        Gets one sentence whenever it had to be started again.
    """

    def __init__(
        self,
        home: Path,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        user: str | None = None,
        stop_signal: int = signal.SIGTERM,
        stop_timeout: float = STOP_TIMEOUT,
        whole_tree: bool = False,
        say: Say = print,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.environment = dict(environment)
        self.folder = folder
        self.user = user
        self.stop_signal = int(stop_signal)
        self.stop_timeout = stop_timeout
        self.whole_tree = whole_tree
        self.say = say
        self.n_restarts = 0
        self.log = home / "prefect" / f"{name}.log"
        self._record = home / "prefect" / f"{name}-{os.getpid()}.json"
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._identity: ProcessIdentity | None = None
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._supervisor = threading.Thread(target=self._supervise, name=f"{name} supervisor", daemon=True)

    @property
    def pid(self) -> int | None:
        """The child's number, if it was started."""
        return None if self._process is None else self._process.pid

    def start(
        self,
        *,
        ready: Callable[[], bool],
        meanwhile: Callable[[], object] = lambda: None,
        timeout: float = START_TIMEOUT,
    ) -> None:
        """Start the child, wait until it is ready, and watch it from then on.

        Parameters
        ----------
        ready : callable
            Says whether it is ready.
        meanwhile : callable
            What there is to do while it starts.
        timeout : float
            Seconds to wait at most.

        Raises
        ------
        ServerError
            If it exits, or is not ready in time. Nothing is left running then.
        """
        try:
            self._spawn()
            deadline = time.monotonic() + timeout
            meanwhile()
            while not ready():
                if self._exit_status() is not None or time.monotonic() > deadline:
                    what = (
                        f"was not ready within {timeout:.0f} s"
                        if self._exit_status() is None
                        else f"ended with exit status {self._exit_status()} before it was ready"
                    )
                    raise ServerError(
                        f"the {self.name} {what}; its log, {self.log}, ends: {self._log_tail()}"
                    )
                time.sleep(0.05)
            self._supervisor.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the child and everything it started; do nothing if it has ended."""
        with _undisturbed():
            self._stopping.set()
            with self._lock:
                if self._identity is not None:
                    _end(self._identity, self.stop_signal, self.stop_timeout, whole_tree=self.whole_tree)
                if self._process is not None:
                    self._process.wait()
            if self._supervisor.is_alive():
                self._supervisor.join()
            self._record.unlink(missing_ok=True)

    def _spawn(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            if log.tell() > LOG_LIMIT:
                log.truncate(0)
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                self.command,
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=self.user,
                group=None if self.user is None else pwd.getpwnam(self.user).pw_gid,
                extra_groups=None if self.user is None else [],
            )
        try:
            self._identity = ProcessIdentity.of(self._process.pid)
        except ProcessLookupError:  # it has ended already
            self._identity = None
            return
        record = {
            "name": self.name,
            "process": asdict(self._identity),
            "owner": asdict(ProcessIdentity.of(os.getpid())),
            "command": self.command,
            "stop_signal": self.stop_signal,
            "whole_tree": self.whole_tree,
        }
        write_json(self._record, record)

    def _supervise(self) -> None:
        while not self._stopping.wait(0.2):
            if self._exit_status() is None:
                continue
            if self.n_restarts == MAX_RESTARTS:
                self.say(f"the {self.name} keeps dying and is not started again; see {self.log}")
                return
            self.n_restarts += 1
            self.say(
                f"the {self.name} died (exit status {self._exit_status()}); "
                f"starting it again ({self.n_restarts} of at most {MAX_RESTARTS} times)"
            )
            with self._lock:
                if not self._stopping.is_set():
                    self._spawn()
            self._stopping.wait(0.5 * self.n_restarts)

    def _exit_status(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def _log_tail(self) -> str:
        text = self.log.read_bytes()[self._log_start :].decode(errors="replace")
        return " / ".join([line.strip() for line in text.splitlines() if line.strip()][-5:]) or "(empty)"


class ServerProcess(SupervisedProcess):
    """A Prefect server on a loopback port, its files in ``home/prefect``.

    Parameters
    ----------
    home : Path
        The folder of everything that lasts.
    port : int
        The port; another process may still take it before the server does.
    environment : mapping of str to str
        What the server's own settings are added to.
    say : callable
        Gets one sentence whenever it had to be started again.
    """

    def __init__(self, home: Path, port: int, *, environment: Mapping[str, str], say: Say = print) -> None:
        self.api_url = f"http://{HOST}:{port}/api"
        self.ui_url = f"http://{HOST}:{port}"
        settings = {
            "PREFECT_HOME": str(home / "prefect"),
            # Without it the pages look for the API at port 4200 and stay blank.
            "PREFECT_SERVER_UI_API_URL": self.api_url,
            **NO_ANALYTICS,
        }
        inherited = {k: v for k, v in environment.items() if k != "PREFECT_API_URL"}
        super().__init__(
            home,
            "server",
            [sys.executable, "-m", "prefect", "server", "start", "--host", HOST, "--port", str(port)],
            environment=RECORDER_SETTINGS | inherited | settings,
            folder=home / "prefect",
            say=say,
        )

    def healthy(self) -> bool:
        """Say whether the API answers."""
        return answers(self.api_url)


def client_settings(home: Path, api_url: str) -> dict[str, str]:
    """Return the environment of a process that runs flows against the server at `api_url`.

    Where results are kept does not depend on the server, so that every server finds the same cache. The
    user's own choice of a logging level holds.
    """
    return {
        "PREFECT_API_URL": api_url,
        "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(home / "cache" / "records"),
        "PREFECT_LOGGING_LEVEL": os.environ.get("PREFECT_LOGGING_LEVEL", "WARNING"),
        **NO_ANALYTICS,
        **_no_proxy_on_loopback(),
    }


@contextlib.contextmanager
def client_environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Apply `settings` to this process and its children, whether or not Prefect is imported already."""
    try:
        with _environment(settings), _settings_follow_environment():
            try:
                yield
            finally:
                _send_what_is_queued()
    finally:
        _settings_follow_environment()


@contextlib.contextmanager
def termination_as_exit() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack like Ctrl-C does, so that what was started is taken down."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    ours = [s for s in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) is signal.SIG_DFL]
    try:
        for each in ours:
            signal.signal(each, leave)
        yield
    finally:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)


def answers(api_url: str) -> bool:
    """Say whether a Prefect server is well at this address."""
    try:
        local = urlsplit(api_url).hostname in (HOST, "localhost", "::1")
        opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if local else []))
        request = urllib.request.Request(f"{api_url.rstrip('/')}/health")
        if key := os.environ.get("PREFECT_API_KEY"):
            request.add_header("Authorization", f"Bearer {key}")
        with opener.open(request, timeout=5) as answer:
            return bool(answer.status == 200 and json.load(answer) is True)
    except (OSError, ValueError):
        return False


def free_port() -> int:
    """Return a loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _place_in_stop_order(path: Path) -> int:
    """Rank a process's file: nothing is to lose its server, or its database, while it ends."""
    order = ("worker", "server", "postgres")
    name = path.name.partition("-")[0]
    return order.index(name) if name in order else len(order)


def _send_what_is_queued() -> None:
    """Let Prefect's background senders finish and be forgotten.

    They keep the address they began with: left alone, they would hold up this process at its exit, trying to
    reach a server that is gone, and serve no other server in the same process.
    """
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for sender in (EventsWorker, APILogWorker):
        sender.drain_all(timeout=SEND_TIMEOUT, at_exit=False)


def _settings_follow_environment() -> contextlib.AbstractContextManager[object]:
    """Let Prefect read the environment again; return what also puts a caller's temporary settings aside."""
    import prefect.context
    import prefect.logging.configuration

    prefect.context.refresh_global_settings_context()
    prefect.logging.configuration.setup_logging()
    return prefect.context.root_settings_context()


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold back Ctrl-C and SIGTERM while something is taken down, which takes bounded time."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.signal(each, signal.SIG_IGN) for each in held}
    try:
        yield
    finally:
        for each, handler in before.items():
            if handler is not None:
                signal.signal(each, handler)


def _end(process: ProcessIdentity, stop_signal: int, timeout: float, *, whole_tree: bool) -> None:
    """Ask a process to end, wait, and kill what is left of it and of everything it started."""
    family = [process, *_descendants(process.pid)]
    for each in family if whole_tree else family[:1]:
        _send(each, stop_signal)
    deadline = time.monotonic() + timeout
    while any(each.is_alive() for each in family) and time.monotonic() < deadline:
        time.sleep(0.02)
    for each in {*family, *_descendants(process.pid)}:
        _send(each, signal.SIGKILL)


def _send(process: ProcessIdentity, number: int) -> None:
    if process.is_alive():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def _descendants(pid: int) -> list[ProcessIdentity]:
    """Return every process that `pid` started, directly or not; sessions and groups do not matter."""
    children: dict[int, list[int]] = {}
    for each, parent in _parents():
        children.setdefault(parent, []).append(each)
    found: list[ProcessIdentity] = []
    waiting = list(children.get(pid, []))
    while waiting:
        each = waiting.pop()
        waiting += children.get(each, [])
        with contextlib.suppress(ProcessLookupError):
            found.append(ProcessIdentity.of(each))
    return found


def _parents() -> Iterator[tuple[int, int]]:
    """Yield every process number with its parent's."""
    if not Path("/proc/self/stat").exists():
        table = subprocess.run(
            ["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=False
        ).stdout
        for line in table.splitlines():
            pid, parent = line.split()
            yield int(pid), int(parent)
        return
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            yield int(path.parent.name), int(path.read_text().rpartition(")")[2].split()[1])


def _command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        answer = subprocess.run(
            ["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return answer.stdout.split()


def _no_proxy_on_loopback() -> dict[str, str]:
    hosts = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    missing = [host for host in (HOST, "localhost") if host not in hosts.split(",")]
    value = ",".join([*filter(None, [hosts]), *missing])
    return {"NO_PROXY": value, "no_proxy": value}
