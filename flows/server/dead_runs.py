"""Runs of deployments that died with their worker or the standing server: told apart, and run again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from flows.record import journal
from flows.record.webhook import tell_failure
from flows.server.supervision import Say

MAX_STARTS = 3
JUST_NOW = timedelta(minutes=1)  # or else an earlier `make serve` has told
RETRIED_WITHIN = timedelta(days=7)  # the schedule's period: the next run takes its place


def mark_crashed(home: Path, api_url: str, worker_started: datetime, say: Say) -> None:
    """Mark the deployments' runs whose process is gone as crashed.

    Parameters
    ----------
    home : Path
        The folder of everything that lasts.
    api_url : str
        The server's address, ending in ``/api``.
    worker_started : datetime
        When the worker that is there now was started: a run that was under way before, and that no living
        process has in the journal, died with the worker before it.
    say : callable
        Gets one sentence for each run marked.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.objects import StateType
    from prefect.states import Cancelled, Crashed

    journal.mark_dead_runs(home, api_url, say)
    living = {entry.flow_run_id for entry in journal.history(home) if entry.process.is_alive()}
    with get_client(sync_client=True) as client:
        for run in _deployed(client, StateType.PENDING, StateType.RUNNING, StateType.CANCELLING):
            if str(run.id) in living or run.state.timestamp > worker_started:
                continue
            cancelled = run.state.type == StateType.CANCELLING
            state: Any = Cancelled if cancelled else Crashed
            client.set_flow_run_state(run.id, state(message="The process that ran it is gone."), force=True)
            say(f"the run {run.name} ended without saying so; it is now marked as {state.__name__.lower()}")


def run_again(say: Say, starts: dict[UUID, int]) -> None:
    """Put crashed runs of deployments back into the queue; what they computed comes from the cache.

    The webhook is told of a scheduled run that is not started again any more.

    Parameters
    ----------
    say : callable
        Gets one sentence for each run.
    starts : dict
        How often each run was put back, counted here; one that crashes again and again stays crashed.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.objects import StateType
    from prefect.states import AwaitingRetry

    now = datetime.now(UTC)
    with get_client(sync_client=True) as client:
        for run in _deployed(client, StateType.CRASHED):
            n_starts = max(run.run_count, starts.get(run.id, 0) + 1)
            crashed_since = now - run.state.timestamp
            if n_starts >= MAX_STARTS and crashed_since < JUST_NOW and starts.get(run.id) != MAX_STARTS:
                starts[run.id] = MAX_STARTS
                tell_failure(None, run, run.state)
            elif n_starts < MAX_STARTS and crashed_since < RETRIED_WITHIN:
                starts[run.id] = n_starts
                client.set_flow_run_state(run.id, AwaitingRetry(scheduled_time=now), force=True)
                say(f"the run {run.name} crashed; it runs again ({n_starts + 1} of at most {MAX_STARTS})")


def _deployed(client: Any, *types: Any) -> list[Any]:
    """Return the flow runs of deployments that are in one of these states, the latest first."""
    from prefect.client.schemas import filters
    from prefect.client.schemas.sorting import FlowRunSort

    state = filters.FlowRunFilterState(type=filters.FlowRunFilterStateType(any_=list(types)))
    found = client.read_flow_runs(
        flow_run_filter=filters.FlowRunFilter(state=state), sort=FlowRunSort.EXPECTED_START_TIME_DESC
    )
    return [run for run in found if run.deployment_id is not None and run.state is not None]
