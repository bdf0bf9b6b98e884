"""Runs whose process is gone: marked as crashed on the server, and those of deployments started again."""

from typing import Any

from flows.record.journal import CRASHED
from flows.record.progress import say

MAX_STARTS = 3
_START = "start "  # begins the tag of a run that is not the first
_BEGUN: Any = {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}  # and not ended


def start_again(flow: Any, flow_run: Any, state: Any) -> None:
    """Start the deployment of a run that crashed again, as a new run: a hook of Prefect's flows.

    The crashed run stays on record. What it computed comes from the cache.
    """
    from prefect.client.orchestration import get_client

    starts = next((int(tag.removeprefix(_START)) for tag in flow_run.tags if tag.startswith(_START)), 1)
    if flow_run.deployment_id is None or starts >= MAX_STARTS:
        return
    others = [tag for tag in flow_run.tags if not tag.startswith(_START)]
    with get_client(sync_client=True) as client:
        client.create_flow_run_from_deployment(
            flow_run.deployment_id,
            parameters=flow_run.parameters,
            tags=[*others, f"{_START}{starts + 1}"],
            idempotency_key=f"{flow_run.id} again",
        )


def end_dead_runs(tag: str, *, deployed: bool) -> None:
    """Mark a home's runs that have begun and not ended as crashed, and start those of deployments again.

    The home's runs carry the tag. These are runs of commands, by a process that holds the home's lock for a
    run, or runs of deployments, by the process that holds its lock for a standing server: nobody else can be
    running them.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
    from prefect.states import Cancelled, Crashed

    wanted: Any = {"tags": {"all_": [tag]}, "state": _BEGUN}
    with get_client(sync_client=True) as client:
        for run in client.read_flow_runs(flow_run_filter=FlowRunFilter(**wanted)):
            if deployed != (run.deployment_id is not None):
                continue
            canceled = deployed and run.state is not None and run.state.is_cancelling()
            ended: Any = Cancelled if canceled else Crashed
            state, this = ended(message="The process that ran it is gone."), {"any_": [run.id]}
            for each in client.read_task_runs(
                flow_run_filter=FlowRunFilter.model_validate({"id": this}),
                task_run_filter=TaskRunFilter(state=_BEGUN),
            ):
                client.set_task_run_state(each.id, state, force=True)
            client.set_flow_run_state(run.id, state, force=True)
            say(f"the run {run.name} ended without saying so; it is now marked as {CRASHED}")
            if not canceled:
                start_again(None, run, state)
