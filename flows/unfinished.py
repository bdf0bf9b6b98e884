"""Runs whose process died although Prefect shows them as running."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psutil

from flows.local_server import HEARTBEAT
from flows.progress import say
from flows.schedules import all_of, deployments_of, skip_late_runs

MAX_STARTS = 3
AUTOMATION = "dpcost: a run without a heartbeat has crashed"
_START = "start "  # begins the tag of a run that is not the first
_BEGUN = ["PENDING", "RUNNING", "CANCELLING"]
_DEAD = "The process that ran it is gone."
_SILENT = "It sends no heartbeat."


def start_again(flow: Any, flow_run: Any, state: Any) -> None:
    """End the task runs of a crashed run, and start its deployment again: a hook of Prefect's flows.

    The crashed run stays on record. Its results come from the cache. A run with an unknown parameter crashes
    before it begins, and is marked as failed.
    """
    from prefect.client.orchestration import get_client
    from prefect.states import Failed

    allowed = flow.parameters.properties if flow else flow_run.parameters
    unknown = sorted(set(flow_run.parameters) - set(allowed))
    starts = next((int(tag.removeprefix(_START)) for tag in flow_run.tags if tag.startswith(_START)), 1)
    with get_client(sync_client=True) as client:
        _end_task_runs(client, {"id": {"any_": [flow_run.id]}})
        if unknown:
            reason = (
                f"parameters must be of {', '.join(allowed)}, got {', '.join(unknown)[:200]}; leave them out"
            )
            client.set_flow_run_state(flow_run.id, Failed(message=reason))  # it never began
            return
        if flow_run.deployment_id is None or starts >= MAX_STARTS:
            return
        if all(each.id != flow_run.deployment_id for each in deployments_of(client)):  # its study is gone
            return
        client.create_flow_run_from_deployment(
            flow_run.deployment_id,
            parameters=flow_run.parameters,
            tags=[*(tag for tag in flow_run.tags if not tag.startswith(_START)), f"{_START}{starts + 1}"],
            idempotency_key=f"{flow_run.id} again",
        )


def end_unfinished(tag: str, served: Collection[UUID], changed: Collection[UUID], *, commands: bool) -> None:
    """Repair the history before a home serves the deployments `served`; its runs have the tag.

    Nothing of the home runs at this time, except perhaps `commands`. Late runs of `changed` schedules are
    skipped.
    """
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        for deployment in deployments_of(client, tag):
            if deployment.id not in served:  # a study that is gone, whose schedule would continue
                client.delete_deployment(deployment.id)
        _end_dead_runs(client, tag, commands=commands)
        skip_late_runs(client, tag, changed)
        automation = _watch_over_heartbeats(tag)
        known = client.find_automation(automation.name)
        if known is None:
            client.create_automation(automation)
        elif known.actions != automation.actions:
            client.update_automation(known.id, automation)


def _end_dead_runs(client: Any, tag: str, *, commands: bool) -> None:
    """Mark unfinished runs, and task runs of ended runs, as crashed; start deployed runs again."""
    from prefect.states import Cancelled, Crashed

    ended: Any = {"tags": {"all_": [tag]}, "state": {"type": {"any_": ["CRASHED", "FAILED", "CANCELLED"]}}}
    _end_task_runs(client, ended)
    for run in _flow_runs(client, tag, _BEGUN):
        if run.deployment_id is None and commands:
            continue
        canceled = run.state is not None and run.state.is_cancelling()
        state: Any = Cancelled(message=_DEAD) if canceled else Crashed(message=_DEAD)
        client.set_flow_run_state(run.id, state)
        say(f"the run {run.name} ended without a final state; it is now marked as {state.name.lower()}")
        if not canceled:
            start_again(None, run, state)
    # After a longer break, Prefect's automation may have marked it already.
    begun = datetime.fromtimestamp(psutil.Process().create_time(), UTC)
    for run in _flow_runs(client, tag, ["CRASHED"]):
        if run.state and run.state.message == _SILENT and run.state.timestamp >= begun:
            start_again(None, run, run.state)


def _watch_over_heartbeats(tag: str) -> Any:
    """Return Prefect's documented automation that marks runs without heartbeats as crashed.

    It never overwrites a final state: Prefect may count an event late, and call a finished run silent.
    """
    from prefect.client.schemas.objects import StateType
    from prefect.events.actions import ChangeFlowRunState
    from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
    from prefect.events.schemas.events import ResourceSpecification

    ended = ("Completed", "Failed", "Cancelled", "Crashed", "Suspended", "Paused")
    return AutomationCore(
        name=f"{AUTOMATION} ({tag})",
        trigger=EventTrigger(
            after={"prefect.flow-run.Running", "prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.heartbeat", *(f"prefect.flow-run.{state}" for state in ended)},
            match=ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]}),
            match_related=ResourceSpecification(
                {"prefect.resource.role": "tag", "prefect.resource.id": f"prefect.tag.{tag}"}
            ),
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=3 * HEARTBEAT),
        ),
        actions=[ChangeFlowRunState(name="Crashed", state=StateType.CRASHED, force=False, message=_SILENT)],
    )


def _flow_runs(client: Any, tag: str, states: Collection[str]) -> list[Any]:
    from prefect.client.schemas.filters import FlowRunFilter

    run_filter: Any = {"tags": {"all_": [tag]}, "state": {"type": {"any_": list(states)}}}
    return all_of(client.read_flow_runs, flow_run_filter=FlowRunFilter(**run_filter))


def _end_task_runs(client: Any, of_flow_runs: dict[str, Any]) -> None:
    """Mark unfinished task runs of ended flow runs as crashed."""
    from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
    from prefect.states import Crashed

    flow_runs, begun = FlowRunFilter.model_validate(of_flow_runs), {"type": {"any_": _BEGUN}}
    task_runs = TaskRunFilter.model_validate({"state": begun})
    for each in all_of(client.read_task_runs, flow_run_filter=flow_runs, task_run_filter=task_runs):
        client.set_task_run_state(each.id, Crashed(message=_DEAD))
