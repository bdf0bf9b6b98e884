"""Child processes that are watched, started again when they die, and never left behind."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import psutil

from data.store.processes import ProcessIdentity
from flows.record.child_processes import end, environment_of, last_lines

Say = Callable[[str], object]

START_TIMEOUT = 120.0
STOP_TIMEOUT = 10.0
MAX_RESTARTS = 5
SOUND_AFTER = 600.0  # seconds; what lived so long has started well, and what came before counts no more
LOST_AFTER = 90.0
LOG_LIMIT = 5_000_000

# Nothing is to lose its server, or its database, while it ends.
_STOP_ORDER = ("worker", "server", "postgres")
_MARK = "DPCOST_SUPERVISED"


class ServerError(RuntimeError):
    """The server, or something beside it, could not be started; the message is one sentence."""


class SupervisedProcess:
    """A child process that is started again if it dies, a bounded number of times, and stopped when unused.

    It runs in its own session, so that Ctrl-C in the terminal reaches only the process that owns it. Its
    environment tells later runs whose it is, and its standard input ends when its owner does.

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
    clear : callable
        Removes what it may have left when it died, before it is started again.
    say : callable
        Gets one sentence whenever it had to be started again.
    when_lost : callable, optional
        Gets one sentence, instead of `say`, when it is not started again any more.
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
        clear: Callable[[], object] = lambda: None,
        say: Say = print,
        when_lost: Callable[[str], object] | None = None,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.environment = dict(environment)
        self.folder = folder
        self.user = user
        self.stop_signal = int(stop_signal)
        self.stop_timeout = stop_timeout
        self.whole_tree = whole_tree
        self.clear = clear
        self.say = say
        self.when_lost = when_lost or say
        self.n_restarts = 0
        self.started: datetime | None = None
        self.log = home / "prefect" / f"{name}.log"
        self._home = str(home.resolve())
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._lock = threading.RLock()
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
        _WATCHED.add(self)
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
                if self._process is not None:
                    with contextlib.suppress(ProcessLookupError):  # it has ended already
                        child = ProcessIdentity.of(self._process.pid)
                        end(child, self.stop_signal, self.stop_timeout, whole_tree=self.whole_tree)
                    self._process.wait()
            if self._supervisor.is_alive() and self._supervisor is not threading.current_thread():
                self._supervisor.join()
            _WATCHED.discard(self)

    def _spawn(self) -> None:
        with self._lock:
            if not self._stopping.is_set():
                self._start_child()

    def _start_child(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            if log.tell() > LOG_LIMIT:
                log.truncate(0)
            self._log_start = log.tell()
            self.started = datetime.now(UTC)
            self._process = subprocess.Popen(
                self.command,
                env=self.environment | {_MARK: self._mark()},
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=self.user,
                group=None if self.user is None else pwd.getpwnam(self.user).pw_gid,
                extra_groups=None if self.user is None else [],
            )

    def _mark(self) -> str:
        owner = asdict(ProcessIdentity.of(os.getpid()))
        return json.dumps({"name": self.name, "home": self._home, "owner": owner})

    def _supervise(self) -> None:
        while not self._stopping.wait(0.2):
            if self._exit_status() is None:
                continue
            if self._seconds_since_start() > SOUND_AFTER:
                self.n_restarts = 0
            if self.n_restarts == MAX_RESTARTS:
                self.when_lost(f"the {self.name} keeps dying and is not started again; see {self.log}")
                return
            self.n_restarts += 1
            self.say(
                f"the {self.name} died (exit status {self._exit_status()}); "
                f"starting it again ({self.n_restarts} of at most {MAX_RESTARTS} times)"
            )
            self.clear()
            self._spawn()
            self._stopping.wait(0.5 * self.n_restarts)

    def _exit_status(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def _seconds_since_start(self) -> float:
        return 0.0 if self.started is None else (datetime.now(UTC) - self.started).total_seconds()

    def _log_tail(self) -> str:
        text = self.log.read_bytes()[self._log_start :].decode(errors="replace")
        return last_lines(text) or "(empty)"


_WATCHED: set[SupervisedProcess] = set()


def end_leftovers(home: Path, say: Say = print) -> int:
    """End what runs that are gone left running in `home`, and return how many processes that were."""
    n_ended = 0
    for found in supervised_processes(home):
        if not found.owner.is_alive() and found.process.is_alive():
            say(f"ending the {found.name} (process {found.process.pid}) that a killed run left behind")
            end(found.process, signal.SIGTERM, STOP_TIMEOUT, whole_tree=found.name == _STOP_ORDER[0])
            n_ended += 1
    return n_ended


def end_own_processes() -> None:
    """End what this very process started and watches, for good: nothing is started again."""
    for each in sorted(_WATCHED, key=lambda each: _place_in_stop_order(each.name)):
        each.stop()


@dataclass(frozen=True, kw_only=True)
class Supervised:
    """A process that says in its environment, which its children inherit, for whom it was started.

    Attributes
    ----------
    name : str
        What it is called in messages.
    home : str
        The folder of everything that lasts.
    process, owner : ProcessIdentity
        It, and the process that started it.
    """

    name: str
    home: str
    process: ProcessIdentity
    owner: ProcessIdentity


def supervised_processes(home: Path) -> list[Supervised]:
    """Return what runs for `home`, and what that started, in the order in which it is to end."""
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(KeyError, TypeError, ValueError, ProcessLookupError):
            mark = json.loads(environment_of(pid)[_MARK])
            owner, process = ProcessIdentity(**mark.pop("owner")), ProcessIdentity.of(pid)
            if mark["home"] == str(home.resolve()):
                found.append(Supervised(process=process, owner=owner, **mark))
    return sorted(found, key=lambda each: _place_in_stop_order(each.name))


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


def _place_in_stop_order(name: str) -> int:
    return _STOP_ORDER.index(name) if name in _STOP_ORDER else len(_STOP_ORDER)


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
