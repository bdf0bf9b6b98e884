"""The artifact of a run on the server's pages: its headline, and where the report is."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from prefect.artifacts import create_markdown_artifact

from data.store.folders import REPORTS
from flows.local_server import from_server
from flows.progress import say
from tasks.study.spec import StudySpec

REPORTS_URL = "DPCOST_REPORTS_URL"  # tells runs where the reports are shown


def attach_report(spec: StudySpec, report: Path, headline: str, notes: Sequence[str] = ()) -> None:
    """Attach the report's headline and notes, unless it is about the user's own table: teams share servers.

    Without an address of the reports, the file is not linked: browsers follow no link from a server's page to
    a file.
    """
    if spec.analyst_table is not None:
        return
    address = os.environ.get(REPORTS_URL) if from_server() else None
    place = f"<{address}/{report.relative_to(REPORTS.resolve())}>" if address else f"`{report}`"
    try:
        create_markdown_artifact(
            key=f"report-{re.sub('[^a-z0-9]+', '-', spec.name.lower())}",
            markdown="\n\n".join([headline, *notes, f"The whole report: {place}\n"]),
            description=spec.title,
        )
    except Exception as error:  # whatever the client raises when the server is away
        say(f"note: the server did not accept an artifact of this run ({type(error).__name__})")
