"""A run of which everything is stored: it ends at once, without Prefect and without its server.

The same steps are taken; at the first result that is missing, damaged or made by other code the run begins
anew, with a server.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

from data.errors import DataError
from data.store.folders import home
from flows.record.progress import blocks, say
from flows.studies.find_study import SCORECARD, find_study
from flows.studies.results import folder_of_run, judged
from flows.studies.steps import Job, Outcome, StudySteps
from tasks.cache import Record, at_hand, find_record, records_folder
from tasks.ingest import fetch, parquet, stored_parquet
from tasks.run_options import RunOptions


class NotStored(Exception):
    """Something has to be computed or fetched."""


class StoredResults:
    """Reads results from the cache, and keeps notes; raises `NotStored` where a result is missing."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def say(self, sentence: str) -> None:
        self.notes.append(sentence)

    def tell(self) -> None:
        for note in self.notes:
            say(note)

    def bring(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Return data as stored; raise `NotStored` where there are none, or real ones can be had by now."""
        if options.pop("again", False) or not any(records_folder(home()).glob("*")):
            raise NotStored
        if function is parquet:
            table = stored_parquet(*arguments, **options)
            if table is None:
                raise NotStored
            return table
        if function is not fetch:
            return function(*arguments, **options)
        dataset, offline = arguments
        try:
            raw = fetch(dataset, offline=True)
            by_now = raw if offline or not raw.is_stand_in else fetch(dataset, last_try=False)
        except DataError:
            raise NotStored from None
        if raw.is_stand_in and not by_now.is_stand_in:
            raise NotStored
        return by_now

    def run(self, function: Callable[..., Record], *arguments: Any, again: bool) -> Record:
        record = None if again else find_record(str(arguments[0]))
        if record is None or not at_hand(record):
            raise NotStored
        return record

    def run_all(self, function: Callable[..., Record], jobs: Sequence[Job], study: str = "") -> list[Record]:
        records = [self.run(function, *job.arguments, again=job.again) for job in jobs]
        if study:
            self.say(f"{blocks(len(jobs))}, all from the cache")
        return records


def run_from_store(options: RunOptions, command: str = "") -> Outcome | None:
    """Finish a run of which everything is stored; None if something has to be computed or fetched.

    No run ends here where the user's own server is to show all runs.
    """
    if os.environ.get("PREFECT_API_URL"):
        return None
    stored, reports = StoredResults(), options.reports.resolve()
    try:
        if options.study == SCORECARD:
            outcome = judged(reports, stored, options, command)
        else:
            spec = find_study(options.study)
            reports = folder_of_run(reports, spec.name, options.profile)
            if not (reports / spec.name / "manifest.json").exists():  # the last file that a run writes
                return None
            outcome = StudySteps(spec, reports, options, stored, command).run()
    except NotStored:
        return None
    stored.tell()
    return outcome
