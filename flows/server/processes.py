"""Child processes that end with the process that started them, however that one ends.

Each runs below a small watcher, whose standard input is a pipe from the owner that the kernel closes even
after ``kill -9``; the watcher then ends the child and all that it started. A mark in the environment finds
what is left if the watcher was killed, too. Systemd or the container engine starts things again.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pwd
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from data.store.folders import PROJECT_ROOT
from data.store.processes import ProcessIdentity
from flows.record import journal
from flows.record.progress import say

Say = Callable[[str], object]

START_TIMEOUT = 300.0
STOP_TIMEOUT = 10.0
SERVE_STOP_TIMEOUT = 90.0  # `make serve` ends its worker, its server and its database one after another
LOG_LIMIT = 5_000_000
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MARK = "DPCOST_STARTED"
_RUNNING: list[ChildProcess] = []


class ServerError(RuntimeError):
    """A server or a process that it needs could not be started or ended; the message is one sentence."""


class ChildProcess:
    """A child process in a session of its own, so that Ctrl-C in the terminal reaches only its owner.

    `name`, one word, is what messages and log files call it; `home` is ``DPCOST_HOME``. `environment` is
    all that it gets of one, and `user` the account it runs as, empty for this process's. `stop_signal` asks
    it and what it started to end; `stop_timeout` seconds later what is left is killed.
    """

    def __init__(
        self,
        home: Path,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        user: str = "",
        stop_signal: int = signal.SIGTERM,
        stop_timeout: float = STOP_TIMEOUT,
    ) -> None:
        self.home, self.name, self.folder = home, name, folder
        self.command = [sys.executable, "-m", __name__, user, str(int(stop_signal)), *command]
        # Where a wheel installed the packages, Python finds them by this folder.
        path = [str(PROJECT_ROOT), *filter(None, [environment.get("PYTHONPATH")])]
        self.environment = {**environment, "PYTHONPATH": os.pathsep.join(path)}
        self.stop_signal, self.stop_timeout = int(stop_signal), stop_timeout
        self.log = home / "prefect" / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def exit_status(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def start(
        self, ready: Callable[[], bool] = lambda: True, meanwhile: Callable[[], object] = lambda: None
    ) -> None:
        """Start the child and wait until it is ready; if it never is, nothing is left running."""
        try:
            self._spawn()
            deadline = time.monotonic() + START_TIMEOUT
            meanwhile()
            while not ready():
                if self.exit_status is not None:
                    raise ServerError(f"{self.ended()} before it was ready")
                if time.monotonic() > deadline:
                    raise ServerError(
                        f"the {self.name} was not ready within {START_TIMEOUT:.0f} s; see {self.log}"
                    )
                time.sleep(0.05)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the child and everything it started; do nothing if nothing is left."""
        with _undisturbed():
            if self in _RUNNING:
                _RUNNING.remove(self)
            _end(self._left, self.stop_timeout, self.stop_signal)
            if self._process is not None:
                self._process.wait()

    def wait(self) -> bool:
        """Wait until the child has ended; return whether it was stopped."""
        if self._process is not None:
            self._process.wait()
        return self not in _RUNNING

    def ended(self) -> str:
        said = last_lines(self.log.read_bytes()[self._log_start :].decode(errors="replace")) or "(empty)"
        return (
            f"the {self.name} ended with exit status {self.exit_status} (its log, {self.log}, ends: {said})"
        )

    def _left(self) -> set[ProcessIdentity]:
        """Return what runs of this child: its watcher, itself and what it started."""
        left = _family(self.home, self.name, ProcessIdentity.of(os.getpid()))
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                left.add(ProcessIdentity.of(self._process.pid))  # its mark cannot be read while it starts
                left |= _descendants(self._process.pid)
        return left

    def _spawn(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        owner = asdict(ProcessIdentity.of(os.getpid()))
        mark = {"name": self.name, "home": str(self.home.resolve()), "owner": owner}
        if not _RUNNING:
            atexit.register(end_own_processes)
        _RUNNING.append(self)
        with self.log.open("ab") as log:
            if log.tell() > LOG_LIMIT:
                log.truncate(0)
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                self.command,
                env=self.environment | {_MARK: json.dumps(mark)},
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


@dataclass(frozen=True, kw_only=True)
class Started:
    """A process whose environment, which its children inherit, names the process that started it."""

    name: str
    home: str
    process: ProcessIdentity
    owner: ProcessIdentity


def started_processes(home: Path) -> list[Started]:
    """Return what runs for a home: each child, its watcher and what it started."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError, KeyError, TypeError, ValueError):
            mark = json.loads(process.environ()[_MARK])
            if mark["home"] == str(home.resolve()):
                owner = ProcessIdentity(**mark.pop("owner"))
                found.append(Started(process=ProcessIdentity.of(process.pid), owner=owner, **mark))
    return found


def _family(home: Path, name: str, owner: ProcessIdentity) -> set[ProcessIdentity]:
    """Return the processes of one child of an owner."""
    found = started_processes(home)
    return {each.process for each in found if (each.name, each.owner) == (name, owner)}


def _descendants(pid: int) -> set[ProcessIdentity]:
    """Return what a process has started; marks of another account's processes cannot always be read."""
    found = set()
    with contextlib.suppress(psutil.NoSuchProcess):
        for each in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(ProcessLookupError):
                found.add(ProcessIdentity.of(each.pid))
    return found


def _living(processes: list[ProcessIdentity]) -> Callable[[], set[ProcessIdentity]]:
    return lambda: {each for each in processes if each.is_alive()}


def _end(
    found: Callable[[], set[ProcessIdentity]], timeout: float, number: int = signal.SIGTERM
) -> set[ProcessIdentity]:
    """Tell processes to end, also those that they start meanwhile, and kill what is left after some seconds.

    Return what cannot be ended.
    """
    told: set[ProcessIdentity] = set()
    deadline = time.monotonic() + timeout
    while (left := found()) and (now := time.monotonic()) < deadline + STOP_TIMEOUT:
        late = now > deadline
        for each in left if late else left - told:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each.pid, signal.SIGKILL if late else number)
        told |= left
        time.sleep(0.05)
    return left


def end_leftovers(home: Path) -> int:
    """End what killed owners left running in a home, and return how many processes that were."""
    left = [each for each in started_processes(home) if not each.owner.is_alive()]
    for name in dict.fromkeys(each.name for each in left):
        say(f"ending the {name} that a killed run left behind")
    _end(_living([each.process for each in left]), STOP_TIMEOUT)
    return len(left)


def end_own_processes() -> None:
    """End what this very process started, the latest first."""
    for each in list(reversed(_RUNNING)):
        each.stop()


def stop_all(home: Path) -> int:
    """End the standing server and the runs of a home; return how many processes were told to."""
    here = ProcessIdentity.of(os.getpid())
    owners = [found.owner for found in started_processes(home)]
    running = [entry.process for entry in journal.history(home) if entry.ended is None]
    told = [
        process
        for process in dict.fromkeys([*owners, *running])
        if process.host == here.host and process != here and process.is_alive()
    ]
    still = set[ProcessIdentity]()
    for process in told:
        say(f"ending process {process.pid} and what it started")
        still |= _end(_living([process]), SERVE_STOP_TIMEOUT)
    if left := started_processes(home):
        say(f"ending {len(left)} processes that nobody watches")
        still |= _end(lambda: {each.process for each in started_processes(home)}, SERVE_STOP_TIMEOUT)
    if still:
        numbers = ", ".join(str(process.pid) for process in still)
        raise ServerError(f"these processes could not be ended: {numbers}; are they another user's?")
    return len(told) + len(left)


def last_lines(text: str, count: int = 5) -> str:
    return " / ".join([line.strip() for line in text.splitlines() if line.strip()][-count:])


def as_user(name: str) -> dict[str, Any]:
    """Return what makes `subprocess` run a command as a user; nothing for an empty name."""
    return {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []} if name else {}


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold back Ctrl-C and SIGTERM while something is ended, which takes bounded time."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, signal.SIG_IGN) for each in STOP_SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler or signal.SIG_DFL)


def _watch(user: str, stop_signal: str, *command: str) -> int:
    """Run a command until it ends, or until this process's owner is gone; return its exit status."""
    for each in STOP_SIGNALS:
        signal.signal(each, lambda *_: None)  # the child gets them, too, and decides
    child = psutil.Popen(command, stdin=subprocess.DEVNULL, **as_user(user))
    owner_gone = threading.Event()

    def end_with_owner() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 1):
                pass
        owner_gone.set()
        mark, me = json.loads(os.environ[_MARK]), ProcessIdentity.of(os.getpid())
        owner = ProcessIdentity(**mark["owner"])
        family = partial(_family, Path(mark["home"]), mark["name"], owner)
        _end(lambda: (family() | _descendants(me.pid)) - {me}, STOP_TIMEOUT, int(stop_signal))

    ending = threading.Thread(target=end_with_owner, daemon=True)
    ending.start()
    status = int(child.wait())
    if owner_gone.is_set():  # this process leaves only when all that the child started has been told
        ending.join()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(_watch(*sys.argv[1:]))
