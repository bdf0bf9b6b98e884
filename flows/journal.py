"""The durable journal: which runs began, which ended, and which died without saying so.

Every run has one small file, ``home/journal/<flow run id>.json``, written when the run begins and replaced
when it ends. A run that was killed leaves its file without an end; because the file names the process by
more than its number, the next start can tell a dead run from a slow one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

RUNNING = "running"
CRASHED = "crashed"


@dataclass(frozen=True, kw_only=True)
class ProcessIdentity:
    """One process, told apart from a later one that got the same number.

    Attributes
    ----------
    pid : int
        The process number.
    start_time : str
        When the process started, in the system's own notation; compared, never interpreted.
    boot_id : str
        Which boot of the machine the two above belong to.
    host : str
        The machine's name.
    """

    pid: int
    start_time: str
    boot_id: str
    host: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Return the identity of the process that has this number now.

        Raises
        ------
        ProcessLookupError
            If there is no such process, or it has exited.
        """
        start_time = _start_time(pid)
        if start_time is None:
            raise ProcessLookupError(f"no process has the number {pid}")
        return cls(pid=pid, start_time=start_time, boot_id=_boot_id(), host=socket.gethostname())

    def is_alive(self) -> bool:
        """Say whether this very process is still there; one on another machine is taken to be alive."""
        if self.host != socket.gethostname():
            return True
        return self.boot_id == _boot_id() and self.start_time == _start_time(self.pid)


@dataclass(frozen=True, kw_only=True)
class JournalEntry:
    """What is known of one run.

    Attributes
    ----------
    flow_run_id : str
        The run's identifier on the Prefect server.
    study : str
        The study's name.
    process : ProcessIdentity
        The process that runs it.
    started, ended : str, str or None
        Times in UTC, ISO 8601; ``ended`` is ``None`` until the run, or whoever found it dead, says so.
    status : str
        ``"running"``, ``"crashed"`` (found dead), or what the run itself said on ending.
    details : dict
        Whatever else the run wrote down; anything JSON can hold.
    """

    flow_run_id: str
    study: str
    process: ProcessIdentity
    started: str
    ended: str | None = None
    status: str = RUNNING
    details: dict[str, Any] = field(default_factory=dict)


def begin(home: Path, flow_run_id: UUID | str, study: str, **details: Any) -> JournalEntry:
    """Write down that this process begins a run.

    Parameters
    ----------
    home : Path
        The folder of everything that lasts (``DPCOST_HOME``).
    flow_run_id : UUID or str
        The run's identifier on the Prefect server.
    study : str
        The study's name.
    **details
        Whatever else is worth keeping, e.g. ``profile="standard"``.
    """
    entry = JournalEntry(
        flow_run_id=str(UUID(str(flow_run_id))),
        study=study,
        process=ProcessIdentity.of(os.getpid()),
        started=_now(),
        details=details,
    )
    _write(home, entry)
    return entry


def end(home: Path, flow_run_id: UUID | str, status: str = "completed", **details: Any) -> JournalEntry:
    """Write down how a run ended; `details` are added to those given at its beginning.

    Raises
    ------
    KeyError
        If no run with this identifier was begun here.
    """
    path = _path(home, flow_run_id)
    entry = _read(path)
    if entry is None:
        raise KeyError(f"no run {flow_run_id} was begun in {home}; call begin() before end()")
    entry = replace(entry, ended=_now(), status=status, details=entry.details | details)
    _write(home, entry)
    return entry


def history(home: Path) -> list[JournalEntry]:
    """Return every run in the journal, the newest first; a damaged file is passed over."""
    entries = [_read(path) for path in _folder(home).glob("*.json")]
    return sorted((e for e in entries if e is not None), key=lambda e: e.started, reverse=True)


def dead_runs(home: Path) -> list[JournalEntry]:
    """Return the runs that have no end and whose process is gone, the newest first."""
    return [entry for entry in history(home) if entry.ended is None and not entry.process.is_alive()]


def mark_dead_runs(home: Path, api_url: str, say: Callable[[str], object] = print) -> list[JournalEntry]:
    """Mark the runs that died as crashed, on the Prefect server and in the journal.

    A run that the server does not know (another database) is marked in the journal alone. One that the
    server saw finish keeps the server's word. If the server does not answer, nothing is marked and the
    next start tries again.

    Parameters
    ----------
    home : Path
        The folder of everything that lasts.
    api_url : str
        The Prefect server's address, ending in ``/api``.
    say : callable
        Gets one sentence for each run marked.

    Returns
    -------
    list of JournalEntry
        The entries as they are now.
    """
    marked = []
    for entry in dead_runs(home):
        try:
            status = _mark_on_server(api_url, entry)
        except Exception as error:  # whatever the client raises: this must never stop the run that calls it
            say(f"run {entry.flow_run_id} died, but {api_url} could not be told: {_one_line(error)}")
            continue
        marked.append(end(home, entry.flow_run_id, status))
        say(
            f"the {entry.study} run of {entry.started} (process {entry.process.pid}) ended without "
            f"saying so; it is now marked as {status}"
        )
    return marked


@contextlib.contextmanager
def exclusive_run(home: Path, say: Callable[[str], object] = print) -> Iterator[None]:
    """Hold the one place in `home` for a run; wait for it if another process has it.

    The lock belongs to the open file, so the kernel frees it however the process ends. Ctrl-C ends
    the wait.
    """
    home.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(home / "run.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            say(f"another run (process {holder}) is using {home}; waiting for it to end (Ctrl-C to give up)")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def write_json(path: Path, content: object) -> None:
    """Write a small JSON file so that a reader sees the old one or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _mark_on_server(api_url: str, entry: JournalEntry) -> str:
    """Set a dead run, and its task runs in flight, to Crashed; return how the run is to be remembered."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas import filters
    from prefect.client.schemas.objects import TERMINAL_STATES, StateType
    from prefect.exceptions import ObjectNotFound
    from prefect.settings import PREFECT_API_URL, temporary_settings
    from prefect.states import Crashed

    flow_run_id = UUID(entry.flow_run_id)
    state: Any = Crashed(message=f"Process {entry.process.pid} on {entry.process.host} is gone.")
    with temporary_settings({PREFECT_API_URL: api_url}), get_client(sync_client=True) as client:
        try:
            flow_run = client.read_flow_run(flow_run_id)
        except ObjectNotFound:
            return CRASHED
        if flow_run.state is not None and flow_run.state.is_final():
            return str(flow_run.state.type.value).lower()
        in_flight = client.read_task_runs(
            flow_run_filter=filters.FlowRunFilter(id=filters.FlowRunFilterId(any_=[flow_run_id])),
            task_run_filter=filters.TaskRunFilter(
                state=filters.TaskRunFilterState(
                    type=filters.TaskRunFilterStateType(any_=sorted(set(StateType) - TERMINAL_STATES))
                )
            ),
        )
        for task_run in in_flight:
            client.set_task_run_state(task_run.id, state, force=True)
        client.set_flow_run_state(flow_run_id, state, force=True)
    return CRASHED


def _folder(home: Path) -> Path:
    return home / "journal"


def _path(home: Path, flow_run_id: UUID | str) -> Path:
    return _folder(home) / f"{UUID(str(flow_run_id))}.json"


def _write(home: Path, entry: JournalEntry) -> None:
    write_json(_path(home, entry.flow_run_id), asdict(entry))


def _read(path: Path) -> JournalEntry | None:
    try:
        content = json.loads(path.read_bytes())
        return JournalEntry(**{**content, "process": ProcessIdentity(**content["process"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _one_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _start_time(pid: int) -> str | None:
    """Return when a process started; ``None`` if it is gone or has exited and waits to be collected."""
    if Path("/proc/self/stat").exists():
        try:
            # The command name, in brackets, may itself hold blanks and brackets.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, started = answer.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
