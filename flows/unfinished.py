"""Runs whose process died although Prefect shows them as running."""

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psutil

from flows import ServerError
from flows.local_server import HEARTBEAT, HOME_TAG
from flows.progress import say

SKIP_EVERY = 5.0  # seconds
MAX_STARTS = 3
AUTOMATION = "dpcost: a run without a heartbeat has crashed"
_START = "start "  # begins the tag of a run that is not the first
_BEGUN = ["PENDING", "RUNNING", "CANCELLING"]
_DEAD = "The process that ran it is gone."
_SILENT = "It sends no heartbeat."


def all_of(read: Callable[..., list[Any]], **filters: Any) -> list[Any]:
    """Return everything that a method of Prefect's client reads; the server returns one page at a time."""
    items = list[Any]()
    while more := read(**filters, offset=len(items)):
        items += more
    return items


def deployments_of(client: Any, tag: str = "") -> list[Any]:
    from prefect.client.schemas.filters import DeploymentFilter

    tagged = DeploymentFilter.model_validate({"tags": {"all_": [tag]}}) if tag else None
    return all_of(client.read_deployments, deployment_filter=tagged)


def require_own_deployments(tag: str, address: str) -> None:
    """Refuse a server that serves another home: both would take each other's runs."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        tags = {each for deployment in deployments_of(client) for each in deployment.tags}
    if homes := sorted(each for each in tags if each.startswith(HOME_TAG) and each != tag):
        raise ServerError(
            f"PREFECT_API_URL={address} must be a server without deployments of another home, got those of "
            f"{homes[0]}; unset PREFECT_API_URL, which starts a server here, or set it to another server"
        )


def require_pool(name: str) -> None:
    """Refuse a work pool that the server does not have."""
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    with get_client(sync_client=True) as client:
        try:
            client.read_work_pool(name)
        except ObjectNotFound:
            raise ServerError(
                f"--pool must be a work pool of the server, got {name!r}; create it with: "
                f"prefect work-pool create {name} --type process"
            ) from None


def kept_settings(tag: str, planned: Sequence[Any], flows: Any) -> set[UUID]:
    """Keep what people set on Prefect's pages: a pause, a concurrency limit, and parameters.

    ``flows`` is the module of the flows, which check parameters.
    Return the deployments whose schedule changed.
    """
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        known = {each.name: each for each in deployments_of(client, tag)}
    changed = set[UUID]()
    for each in planned:
        if (before := known.get(each.name)) is None:
            continue
        each.paused = before.paused
        each.parameters = _kept_parameters(each, before.parameters, getattr(flows, each.flow_name))
        if limit := before.global_concurrency_limit:
            each.concurrency_limit = limit.limit
            each.concurrency_options = before.concurrency_options
        if before.schedules and not any(schedule.active for schedule in before.schedules):
            for schedule in each.schedules or ():
                schedule.active = False
        if _crons(each) != _crons(before):
            changed.add(before.id)
    return changed


def _kept_parameters(planned: Any, edited: dict[str, Any], flow: Any) -> dict[str, Any]:
    """Return a deployment's parameters as they were edited, except the study; say what differs."""
    from prefect.exceptions import ParameterBindError, ParameterTypeError
    from prefect.utilities.annotations import freeze

    fixed = {name: each for name, each in planned.parameters.items() if isinstance(each, freeze)}
    plain = {name: each.unfreeze() for name, each in fixed.items()}
    if {**edited, **plain} == {**planned.parameters, **plain}:
        return dict(planned.parameters)
    texts = ", ".join(f"{name} = {each!r}" for name, each in edited.items() if name not in fixed)
    try:
        flow.validate_parameters({**edited, **plain})
    except (ParameterBindError, ParameterTypeError):
        say(f"{planned.name}: this version refuses the parameters of the pages, {texts}; its defaults apply")
        return dict(planned.parameters)
    say(f"{planned.name}: the parameters of the pages are kept, {texts or 'none'}")
    return {**edited, **fixed}


def _crons(deployment: Any) -> set[str]:
    return {str(getattr(each.schedule, "cron", each.schedule)) for each in deployment.schedules or ()}


def skip_late_runs(client: Any, tag: str, changed: Collection[UUID] = ()) -> None:
    """Cancel the late runs of a schedule, except the last one, and all of a removed or paused schedule."""
    from prefect.client.schemas.filters import FlowRunFilter
    from prefect.states import Cancelled

    active = {
        each.id
        for each in deployments_of(client, tag)
        if not each.paused and any(schedule.active for schedule in each.schedules)
    }
    # A retry is scheduled, too, under another name.
    states = {"name": {"any_": ["Scheduled", "Late"]}}
    scheduled: Any = {"tags": {"all_": [tag]}, "state": states}
    scheduled["expected_start_time"] = {"before_": datetime.now(UTC).isoformat()}
    runs, last = all_of(client.read_flow_runs, flow_run_filter=FlowRunFilter(**scheduled)), set[Any]()
    late = {run.id: run for run in runs}  # one may be on two pages, if another becomes late meanwhile
    for run in sorted(late.values(), key=lambda run: run.expected_start_time, reverse=True):
        if not run.auto_scheduled:
            continue
        if run.deployment_id in active and run.deployment_id not in {*changed, *last}:
            last.add(run.deployment_id)
            continue
        is_earlier = run.deployment_id in last
        reason = (
            "a later run of the same schedule is due" if is_earlier else "its schedule changed or is paused"
        )
        client.set_flow_run_state(run.id, Cancelled(message=f"Skipped: {reason}."))


@contextmanager
def skipping_late_runs(tag: str) -> Iterator[None]:
    """Skip superseded late runs while the runner is busy, which runs one at a time."""
    from prefect.client.orchestration import get_client

    ending = threading.Event()

    def skip() -> None:
        while not ending.wait(SKIP_EVERY):
            # A new client, which costs ten times as much as its requests, is opened after a failure alone.
            with suppress(Exception), get_client(sync_client=True) as client:
                while not ending.wait(SKIP_EVERY):
                    skip_late_runs(client, tag)

    thread = threading.Thread(target=skip, name="late runs", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()


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


def end_unfinished(
    tag: str,
    served: Collection[UUID],
    changed: Collection[UUID],
    *,
    commands: bool,
    workers: bool = False,
) -> None:
    """Repair the history before a home serves the deployments `served`; its runs have the tag.

    Nothing of the home runs at this time, except perhaps `commands`, and runs of `workers` of a pool, which
    end with their heartbeats. Late runs of `changed` schedules are skipped.
    """
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        for deployment in deployments_of(client, tag):
            if deployment.id not in served:  # a study that is gone, whose schedule would continue
                client.delete_deployment(deployment.id)
        if not workers:
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
