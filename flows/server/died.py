"""Runs of deployments that died: what becomes of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from flows.record.webhook import tell_failure
from flows.server.deploy import POOL, listed_deployments
from flows.server.processes import Say

MAX_STARTS = 3
_PAUSE = timedelta(seconds=30)  # until the worker has forgotten the process that died


def start_again(flow: Any, flow_run: Any, state: Any) -> None:
    """Put a deployment's run that crashed back into the queue: a hook of Prefect's flows.

    What it computed comes from the cache. The webhook is told of a run that has been started often enough.
    """
    from prefect.client.orchestration import get_client
    from prefect.states import AwaitingRetry

    if flow_run.deployment_id is None:
        return
    with get_client(sync_client=True) as client:
        run = client.read_flow_run(flow_run.id)
        if run.run_count >= MAX_STARTS:
            tell_failure(flow, run, state)
        else:
            again: Any = AwaitingRetry(scheduled_time=datetime.now(UTC) + _PAUSE)
            client.set_flow_run_state(run.id, again, force=True)


HOOKS: Any = {"on_failure": [tell_failure], "on_crashed": [start_again]}  # of every flow


def mark_died(say: Say) -> None:
    """Mark the work pool's unfinished runs as crashed or canceled; only for a time without a worker.

    Runs of this project's deployments start again, others stay as they are marked.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas import filters
    from prefect.client.schemas.objects import StateType
    from prefect.states import Cancelled, Crashed

    ours = {each["entrypoint"] for each in listed_deployments()}
    unfinished = filters.FlowRunFilterStateType(
        any_=[StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]
    )
    with get_client(sync_client=True) as client:
        for run in client.read_flow_runs(
            flow_run_filter=filters.FlowRunFilter(state=filters.FlowRunFilterState(type=unfinished)),
            work_pool_filter=filters.WorkPoolFilter(name=filters.WorkPoolFilterName(any_=[POOL])),
        ):
            was_canceled = run.state is not None and run.state.type == StateType.CANCELLING
            made: Any = Cancelled if was_canceled else Crashed
            state = made(message="The process that ran it is gone.")
            client.set_flow_run_state(run.id, state, force=True)
            say(f"the run {run.name} ended without saying so; it is now marked as {state.name.lower()}")
            deployment = run.deployment_id and client.read_deployment(run.deployment_id)
            if not was_canceled and deployment and deployment.entrypoint in ours:
                start_again(None, run, state)
