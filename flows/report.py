"""The story of reports written again: from stored results, without any estimator."""

from typing import Any

from prefect import flow, runtime

from flows.last_run import rebuild_reports
from flows.record.journal import recorded
from flows.server.dead_runs import HOOKS
from flows.studies.parameters import OutFolder, ReportChoices, check_studies, reports_folder, run_name
from tasks.faults import guarded


@flow(name="report", flow_run_name=run_name, persist_result=False, **HOOKS)
@guarded
def run_report(
    studies: ReportChoices = [],  # noqa: B006 (a tuple is no default of the server's form)
    out: OutFolder = None,
) -> dict[str, Any]:
    """Write the reports of studies again, of all that have results if none is named; return the index."""
    check_studies(*studies)
    with recorded("report"):
        index, rebuilt = rebuild_reports(studies or None, reports_folder(out))
    return {"index": str(index), "rebuilt": rebuilt, "flow_run_id": str(runtime.flow_run.id)}
