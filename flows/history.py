"""The history of runs: reports of studies, and the runs of a Prefect server, if one responds."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from data.store.folders import read_json
from flows.lock import holder

_MANY = 200  # runs that a server is asked for: Prefect's own limit


def recent_runs(home: Path, reports: Path, limit: int = 10) -> list[dict[str, str]]:
    """Return the latest runs as ``dpcost status`` shows them, newest first.

    A report is the last finished run of its study. The Prefect server at ``PREFECT_API_URL`` knows failed,
    crashed and unfinished runs. Without a server, an unfinished run is named by its process.
    """
    address = os.environ.get("PREFECT_API_URL", "").rstrip("/")
    of_server = list(_of_server(home, address)) if address else []
    known = {(run["study"], run["ended"][:16]) for run in of_server}
    runs = [run for run in _of_reports(reports) if (run["study"], run["ended"][:16]) not in known]
    newest = sorted([*of_server, *runs], key=lambda run: run["started"], reverse=True)[:limit]
    process = "" if address else holder(home)
    return [_row(study=f"process {process}", status="running"), *newest] if process else newest


def _of_reports(reports: Path) -> Iterator[dict[str, str]]:
    for path in reports.glob("*/manifest.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):  # skip a damaged one
            manifest = read_json(path)
            yield _row(
                started=str(manifest["started"]),
                ended=str(manifest["finished"]),
                study=path.parent.name,
                profile=str(manifest["profile"]),
                status="completed",
                publication="not for publication" if manifest.get("warning") else "",
            )


def _of_server(home: Path, address: str) -> Iterator[dict[str, str]]:
    from flows.local_server import answers, authentication_at, home_tag, set_client

    if not answers(address):
        return
    set_client(address, authentication_at(home, address))
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter
    from prefect.client.schemas.sorting import FlowRunSort

    begun = FlowRunFilter.model_validate(
        {"tags": {"all_": [home_tag(home)]}, "start_time": {"is_null_": False}}
    )
    newest = FlowRunSort.START_TIME_DESC
    with get_client(sync_client=True) as client:
        for run in client.read_flow_runs(flow_run_filter=begun, sort=newest, limit=_MANY):
            parameters = run.parameters
            studies = parameters.get("studies") or [parameters.get("study", run.name)]
            yield _row(
                started=run.start_time.isoformat(timespec="seconds") if run.start_time else "",
                ended=run.end_time.isoformat(timespec="seconds") if run.end_time else "",
                study=", ".join(Path(str(study)).stem for study in studies),
                profile=str((parameters.get("options") or {}).get("profile", "")),
                status=(run.state_name or "unknown").lower(),
                flow_run_id=str(run.id),
            )


def _row(**facts: str) -> dict[str, str]:
    names = ("started", "ended", "study", "profile", "status", "publication", "flow_run_id")
    return dict.fromkeys(names, "") | facts
