"""The artifact of a run on the server's pages; the report contains the same content."""

import os
import re
from itertools import dropwhile, takewhile
from pathlib import Path

from prefect.artifacts import create_markdown_artifact

from data.store.folders import REPORTS
from flows.local_server import from_server
from flows.progress import say
from tasks.study.spec import StudySpec

REPORTS_URL = "DPCOST_REPORTS_URL"  # tells runs where the reports are shown


def attach_report(spec: StudySpec, report: Path, headline: str) -> None:
    """Attach the report's headline, unless it is about the user's own table: a team may share the server."""
    if spec.analyst_table is not None:
        return
    address = os.environ.get(REPORTS_URL) if from_server() else None
    folder = report.parent.relative_to(REPORTS.resolve()) if address else ""
    try:
        create_markdown_artifact(
            key=f"report-{re.sub('[^a-z0-9]+', '-', spec.name.lower())}",
            markdown=summary_markdown(report, headline, f"{address}/{folder}" if address else ""),
            description=spec.title,
        )
    except Exception as error:  # whatever the client raises when the server is away
        say(f"note: the server did not accept an artifact of this run ({type(error).__name__})")


def summary_markdown(report: Path, headline: str, address: str = "") -> str:
    """Return a report's headline, its first table and the location of the report.

    ``address`` is the address of its folder on a server. Without an address, the file is named but not
    linked, because browsers follow no link from a server's page to a file.
    """
    lines = report.with_name("report.md").read_text(encoding="utf-8").splitlines()
    after = dropwhile(lambda line: not line.startswith("|"), lines)
    table = "\n".join(takewhile(lambda line: line.startswith("|"), after))
    link = f"[The whole report]({address}/{report.name})" if address else f"The whole report: `{report}`"
    return f"{headline}\n\n{link}\n\n{table}\n"
