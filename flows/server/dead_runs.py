"""Runs that are interrupted, and runs whose process is gone.

Ctrl-C and SIGTERM end a run in order, and by force where that takes too long: Python waits for its threads
and Prefect for its server for as long as it takes. Nothing is lost by ending a run hard: files appear whole
or not at all, and the next start marks the run as crashed. Crashed runs of deployments start again.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from data.store.processes import ProcessIdentity
from flows.record import journal
from flows.record.progress import say
from flows.record.webhook import tell_failure
from flows.server.deploy import POOL, listed_deployments
from flows.server.prefect_server import answers
from flows.server.processes import STOP_SIGNALS, Say, end_own_processes

MAX_STARTS = 3
GRACE = 8.0
_TELL_TIMEOUT = 5.0
_RECORDED = 1.5  # seconds: the server writes down every second which task runs have begun
_START = "start "  # begins the tag of a run that is not the first
_BEGUN: Any = {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}  # and not ended


def start_again(flow: Any, flow_run: Any, state: Any) -> None:
    """Start the deployment of a run that crashed again, as a new run: a hook of Prefect's flows.

    The crashed run stays on record: the worker would take back any other state. What it computed comes from
    the cache. The webhook is called for a run that will not be started again.
    """
    from prefect.client.orchestration import get_client

    if flow_run.deployment_id is None:
        return
    starts = next((int(tag.removeprefix(_START)) for tag in flow_run.tags if tag.startswith(_START)), 1)
    if starts >= MAX_STARTS:
        tell_failure(flow, flow_run, state)
        return
    others = [tag for tag in flow_run.tags if not tag.startswith(_START)]
    with get_client(sync_client=True) as client:
        client.create_flow_run_from_deployment(
            flow_run.deployment_id,
            parameters=flow_run.parameters,
            tags=[*others, f"{_START}{starts + 1}"],
            idempotency_key=f"{flow_run.id} again",
        )


HOOKS: Any = {"on_failure": [tell_failure], "on_crashed": [start_again]}  # of every flow


def mark_dead_runs(home: Path, *, own: bool = False) -> None:
    """Mark dead runs of commands as crashed, on the server and in the journal, and tell of them.

    With `own` these are the runs of this process, which is about to end; it does so without a word.
    """
    from prefect.states import Completed, Crashed

    tell: Say = (lambda sentence: None) if own else say
    me = ProcessIdentity.of(os.getpid())
    entries = {entry.flow_run_id: entry for entry in journal.history(home)}
    dead = {
        key: entry
        for key, entry in entries.items()
        if (entry.process == me if own else not entry.process.is_alive())
    }
    # Only the holder of the home's place knows that a run without an entry died before it wrote one.
    alone = journal.holds_place(home)
    try:
        for client, run in _unfinished(tags={"all_": [journal.home_tag(home)]}):
            entry = dead.get(str(run.id))
            if run.deployment_id is not None or not (entry or (alone and str(run.id) not in entries)):
                continue
            completed = entry is not None and entry.status == journal.COMPLETED
            _end(client, run, Completed() if completed else Crashed(message="Its process is gone."))
            if entry is None:
                tell(f"the run {run.name} ended before it began; it is now marked as {journal.CRASHED}")
    except Exception as error:  # whatever the client raises: this must never stop the run that calls it
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        tell(f"the server could not be informed about runs that died: {reason}")
    for entry in dead.values():
        if entry.ended is None:
            journal.end(home, entry, journal.INTERRUPTED if own else journal.CRASHED)
            tell(
                f"the {entry.study} run of {entry.started} (process {entry.process.pid}) ended without "
                f"saying so; it is now marked as {journal.CRASHED}"
            )


def mark_deployed_runs() -> None:
    """Mark the pool's unfinished runs as crashed or canceled, while no worker runs, and start ours again."""
    from prefect.states import Cancelled, Crashed

    ours = {each["entrypoint"] for each in listed_deployments()}
    for client, run in _unfinished(POOL):
        was_canceled = run.state is not None and run.state.is_cancelling()
        made: Any = Cancelled if was_canceled else Crashed
        state = made(message="The process that ran it is gone.")
        _end(client, run, state)
        say(f"the run {run.name} ended without saying so; it is now marked as {state.name.lower()}")
        deployment = run.deployment_id and client.read_deployment(run.deployment_id)
        if not was_canceled and deployment and deployment.entrypoint in ours:
            start_again(None, run, state)


def _unfinished(pool: str = "", **wanted: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each run that has begun and not ended, with a client of its server."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas import filters

    name: Any = {"any_": [pool]}
    with get_client(sync_client=True) as client:
        for run in client.read_flow_runs(
            flow_run_filter=filters.FlowRunFilter(state=_BEGUN, **wanted),
            work_pool_filter=filters.WorkPoolFilter(name=name) if pool else None,
        ):
            yield client, run


def _end(client: Any, run: Any, state: Any) -> None:
    """Give a run, and its task runs in flight, their last state."""
    from prefect.client.schemas import filters

    this: Any = {"any_": [run.id]}
    for task_run in client.read_task_runs(
        flow_run_filter=filters.FlowRunFilter(id=this),
        task_run_filter=filters.TaskRunFilter(state=_BEGUN),
    ):
        client.set_task_run_state(task_run.id, state, force=True)
    client.set_flow_run_state(run.id, state, force=True)


@contextlib.contextmanager
def termination_as_exit() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack like Ctrl-C does, so that what was started is ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def exit_now(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    ours = [s for s in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) is signal.SIG_DFL]
    try:
        for each in ours:
            signal.signal(each, exit_now)
        yield
    finally:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)


def leave(home: Path, sentence: str) -> NoReturn:
    """Say why, mark this process's unfinished runs, end what it started, and end it with status 1."""
    try:
        say(f"\ndpcost: {sentence}; finished blocks are stored, run the same command again to go on")
        if answers(os.environ.get("PREFECT_API_URL", "")):
            time.sleep(_RECORDED)
            own_runs = {"home": home, "own": True}
            telling = threading.Thread(target=mark_dead_runs, kwargs=own_runs, daemon=True)
            telling.start()
            telling.join(_TELL_TIMEOUT)
        end_own_processes()
        sys.stdout.flush()
    finally:
        os._exit(1)


@contextlib.contextmanager
def prompt_end(leave: Callable[[str], object], grace: float = GRACE) -> Iterator[None]:
    """Call `leave` once Ctrl-C or SIGTERM has not ended the body within `grace` seconds, or comes again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=_count_signals, args=(reading, leave, grace), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        writing.close()
        watcher.join()
        reading.close()


def _count_signals(signals: socket.socket, leave: Callable[[str], object], grace: float) -> None:
    """Read the numbers of the signals that arrive, until the body has ended and its end is closed."""
    interruptions = 0
    try:
        while received := signals.recv(64):
            interruptions += sum(number in STOP_SIGNALS for number in received)  # several may arrive at once
            if interruptions > 1:
                leave("interrupted twice, so not waiting for the blocks in flight")
                return
            if interruptions:
                signals.settimeout(grace)
    except TimeoutError:
        leave(f"interrupted, and not waiting longer than {grace:.0f} s for the blocks in flight")
