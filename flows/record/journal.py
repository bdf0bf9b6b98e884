"""The durable journal: which runs began, which ended, and which died without saying so.

Every run has one small file, ``home/journal/<flow run id>.json``, written when the run begins and replaced
when it ends. A run that was killed leaves its file without an end; because the file names the process by
more than its number, the next start can tell a dead run from a slow one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from data.store.folders import atomic_write, private_folder, read_json
from data.store.home_owner import LOCK, account, require_own_home
from data.store.local_disk import require_local_disk
from data.store.processes import ProcessIdentity

RUNNING = "running"
COMPLETED = "completed"
CRASHED = "crashed"
INTERRUPTED = "interrupted"

_HELD: set[Path] = set()  # the homes that this process has the place in


@dataclass(frozen=True, kw_only=True)
class JournalEntry:
    """The journal's record of one run.

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
    reported : bool
        Whether the Prefect server is known to know how the run ended.
    """

    flow_run_id: str
    study: str
    process: ProcessIdentity
    started: str
    ended: str | None = None
    status: str = RUNNING
    details: dict[str, Any] = field(default_factory=dict)
    reported: bool = False


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


def end(home: Path, flow_run_id: UUID | str, status: str = COMPLETED, **details: Any) -> JournalEntry:
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


def reported(home: Path, flow_run_id: UUID | str) -> None:
    """Write down that the Prefect server knows how a run ended."""
    entry = _read(_path(home, flow_run_id))
    if entry is not None:
        _write(home, replace(entry, reported=True))


def history(home: Path) -> list[JournalEntry]:
    """Return every run in the journal, the newest first; a damaged file is passed over."""
    entries = [_read(path) for path in _folder(home).glob("*.json")]
    return sorted((e for e in entries if e is not None), key=lambda e: e.started, reverse=True)


def dead_runs(home: Path) -> list[JournalEntry]:
    """Return the runs that have no end and whose process is gone, the newest first."""
    return [entry for entry in history(home) if entry.ended is None and not entry.process.is_alive()]


def mark_dead_runs(home: Path, api_url: str, say: Callable[[str], object] = print) -> list[JournalEntry]:
    """Mark the runs that died as crashed, on the Prefect server and in the journal.

    A run that ended here, but died before it had told the server, gets its end there, too.

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
    unreported = [entry for entry in history(home) if not entry.reported and not entry.process.is_alive()]
    for entry in unreported:
        try:
            status = _mark_on_server(api_url, entry)
        except Exception as error:  # whatever the client raises: this must never stop the run that calls it
            say(f"run {entry.flow_run_id} died, but {api_url} could not be told: {_one_line(error)}")
            continue
        if entry.ended is None:
            marked.append(end(home, entry.flow_run_id, status))
            say(
                f"the {entry.study} run of {entry.started} (process {entry.process.pid}) ended without "
                f"saying so; it is now marked as {status}"
            )
        reported(home, entry.flow_run_id)
    return marked


def home_tag(home: Path) -> str:
    """Return the tag that the server shows at every run started from this home, on this machine."""
    place = f"{socket.gethostname()}:{home.resolve()}"
    return "home-" + hashlib.sha256(place.encode()).hexdigest()[:12]


def mark_unregistered_runs(home: Path, api_url: str, say: Callable[[str], object] = print) -> None:
    """Mark runs that died between their entry on the Prefect server and the one in the journal as crashed.

    Only for a process that holds the home's one place for a run (`exclusive_run`) and has none of its own
    yet: whatever of this home is unfinished then, is dead. Deployments' runs are left to their worker.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas import filters
    from prefect.settings import PREFECT_API_URL, temporary_settings
    from prefect.states import Crashed

    unfinished = filters.FlowRunFilter(
        tags=filters.FlowRunFilterTags(all_=[home_tag(home)]),
        state=filters.FlowRunFilterState(type=filters.FlowRunFilterStateType(any_=_unfinished_states())),
    )
    known = {entry.flow_run_id for entry in history(home)}
    dead: Any = Crashed(message="Its process ended before the run began.")
    try:
        with temporary_settings({PREFECT_API_URL: api_url}), get_client(sync_client=True) as client:
            for run in client.read_flow_runs(flow_run_filter=unfinished):
                if str(run.id) not in known and run.deployment_id is None:
                    client.set_flow_run_state(run.id, dead, force=True)
                    say(f"the run {run.name} ended before it began; it is now marked as {CRASHED}")
    except Exception as error:  # whatever the client raises: this must never stop the run that calls it
        say(f"{api_url} could not be asked for runs that died: {_one_line(error)}")


def mark_own_runs(home: Path, api_url: str) -> None:
    """Mark the unfinished runs of this very process, which is about to end, as crashed."""
    me = ProcessIdentity.of(os.getpid())
    for entry in history(home):
        if entry.process == me and not entry.reported:
            _mark_on_server(api_url, entry)
            if entry.ended is None:
                end(home, entry.flow_run_id, INTERRUPTED)
            reported(home, entry.flow_run_id)


@contextlib.contextmanager
def exclusive_run(home: Path, say: Callable[[str], object] = print) -> Iterator[None]:
    """Hold the one place in `home` for a run; wait for it if another process has it, root's or its owner's.

    The lock belongs to the open file, so the kernel frees it however the process ends. Ctrl-C ends
    the wait. Inside the body the same process may ask for it again.

    Raises
    ------
    StoreError
        If `home` is on a network file system, where locks are not to be trusted, or another account's.
    """
    if home.resolve() in _HELD:
        yield
        return
    require_local_disk("DPCOST_HOME", home)
    require_own_home(home)
    private_folder(home)
    descriptor = _locked(home, say)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} of {account(os.getuid())}\n".encode(), 0)
        _HELD.add(home.resolve())
        yield
    finally:
        _HELD.discard(home.resolve())
        os.close(descriptor)


def _locked(home: Path, say: Callable[[str], object]) -> int:
    """Return the open lock file of a home, locked; one that was deleted during the wait keeps nobody out."""
    while True:
        descriptor = os.open(home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 100, 0).decode(errors="replace").strip() or "unknown"
                say(
                    f"another run (process {holder}) is using {home}; waiting for it to end "
                    "(Ctrl-C to give up)"
                )
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), os.stat(home / LOCK)):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        private_folder(home)


def _mark_on_server(api_url: str, entry: JournalEntry) -> str:
    """Set a run that did not tell its end, and its task runs in flight; return how it is to be remembered.

    They are crashed, but for a run that is known to have completed, and one of a deployment that is to start
    again: whoever put it back saw its end.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas import filters
    from prefect.exceptions import ObjectNotFound
    from prefect.settings import PREFECT_API_URL, temporary_settings
    from prefect.states import Completed, Crashed

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
                    type=filters.TaskRunFilterStateType(any_=_unfinished_states())
                )
            ),
        )
        for task_run in in_flight:
            client.set_task_run_state(task_run.id, state, force=True)
        if entry.status == COMPLETED:
            state = Completed()
        waits = flow_run.state is not None and (flow_run.state.is_scheduled() or flow_run.state.is_pending())
        if not (waits and flow_run.deployment_id):
            client.set_flow_run_state(flow_run_id, state, force=True)
    return COMPLETED if entry.status == COMPLETED else CRASHED


def _unfinished_states() -> list[Any]:
    """Return the states of runs that may still go on, as Prefect names them."""
    from prefect.client.schemas.objects import TERMINAL_STATES, StateType

    return sorted(set(StateType) - TERMINAL_STATES)


def _folder(home: Path) -> Path:
    return home / "journal"


def _path(home: Path, flow_run_id: UUID | str) -> Path:
    return _folder(home) / f"{UUID(str(flow_run_id))}.json"


def _write(home: Path, entry: JournalEntry) -> None:
    atomic_write(_path(home, entry.flow_run_id), json.dumps(asdict(entry), indent=1).encode())


def _read(path: Path) -> JournalEntry | None:
    try:
        content = read_json(path)
        return JournalEntry(**{**content, "process": ProcessIdentity(**content["process"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _one_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
