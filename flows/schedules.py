"""The deployments of a home on a Prefect server: whose they are, settings that people chose, late runs."""

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from flows import ServerError
from flows.local_server import HOME_TAG
from flows.progress import say

SKIP_EVERY = 5.0  # seconds


def all_of(read: Callable[..., list[Any]], **filters: Any) -> list[Any]:
    """Return everything that a method of Prefect's client reads; the server returns one page at a time."""
    found = list[Any]()
    while more := read(**filters, offset=len(found)):
        found += more
    return found


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
