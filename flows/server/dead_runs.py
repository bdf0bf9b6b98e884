"""Runs whose process is gone: they are marked as crashed, and those of deployments start again."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data.store.processes import ProcessIdentity
from flows.record import journal
from flows.record.webhook import tell_failure
from flows.server.deploy import POOL, listed_deployments
from flows.server.processes import Say

MAX_STARTS = 3
_START = "start "  # begins the tag of a run that is not the first
_BEGUN: Any = {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}  # and not ended


def start_again(flow: Any, flow_run: Any, state: Any) -> None:
    """Start the deployment of a run that crashed again, as a new run: a hook of Prefect's flows.

    The crashed run stays on record: the worker would take back any other state. What it computed comes from
    the cache. The webhook is told of a run that has been started often enough.
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


def mark_dead_runs(home: Path, say: Say, *, own: bool = False) -> None:
    """Mark dead runs of commands (`own`: of this process) as crashed, on the server and in the journal."""
    from prefect.states import Completed, Crashed

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
            if entry is None and not own:
                say(f"the run {run.name} ended before it began; it is now marked as {journal.CRASHED}")
    except Exception as error:  # whatever the client raises: this must never stop the run that calls it
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        say(f"the server could not be told of runs that died: {reason}")
    for entry in dead.values():
        if entry.ended is None:
            journal.end(home, entry, journal.INTERRUPTED if own else journal.CRASHED)
            say(
                f"the {entry.study} run of {entry.started} (process {entry.process.pid}) ended without "
                f"saying so; it is now marked as {journal.CRASHED}"
            )


def mark_deployed_runs(say: Say) -> None:
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
