"""Work on the results in a folder: options of a rerun, pages written again, runs compared."""

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from data.errors import Unreachable, nearest_name
from data.store.folders import REPORTS, home, read_json, sha256_file
from flows.history import last_run
from flows.lock import exclusive_run
from flows.progress import say
from flows.studies.find_study import check_cell, find_study, study_names
from reports.page import StudyPage
from tasks.errors import SpecError
from tasks.report.manifest import MANIFEST, report_at, was_edited
from tasks.report.write import page_of, write_index, write_report
from tasks.run.collect import read_results
from tasks.run.datasets import stored_tables
from tasks.run_options import PROFILES, TASKS, RunOptions
from tasks.study.spec import SCORECARD, StudySpec


def folder_of_run(folder: Path, study: str, profile: str) -> Path:
    """Return where a run's report goes: next to one of a richer profile, in a folder named by its own."""
    last = last_run(folder / study).get("profile")
    is_poorer = last in PROFILES and PROFILES.index(profile) < PROFILES.index(last)
    return folder / profile if is_poorer else folder


def rerun_options(
    study: str, task: str, cell: str | None, reports: Path, *, out: str | None, offline: bool
) -> tuple[RunOptions, str]:
    """Return the options and the command of a run that repeats the last one in a folder of reports."""
    spec = find_study(study)
    if task not in TASKS:
        raise SpecError(f"--task must be one of {', '.join(TASKS)}, got {task!r}{nearest_name(task, TASKS)}")
    last = last_manifest(study, spec, reports)
    if not last:
        raise SpecError(
            f"{spec.name} has not run in {reports} yet; if it ran with another --out, add that --out, else "
            f"run: {_command(study, out)}"
        )
    options = RunOptions.of_manifest(last)
    check_cell(spec, task, cell, options.profile)
    return RunOptions(**{**options.model_dump(), "out": out, "offline": offline}), last["command"]


def finished_report(study: str, options: RunOptions) -> Path | None:
    """Return the page of a run whose results are all stored, or None.

    The function compares the run with the manifest of the last run. It returns None if the user's own server
    shall show all runs.
    """
    spec = find_study(study)
    folder = folder_of_run(options.reports.resolve(), spec.name, options.profile) / spec.name
    if os.environ.get("PREFECT_API_URL") or not (folder / MANIFEST).exists():
        return None
    tables_by_name = stored_tables(spec, options)
    if tables_by_name is None:
        return None
    try:
        full_spec, tables = spec.on(tables_by_name)
    except Unreachable:  # which the run says
        return None
    return report_at(folder, full_spec, options, tables)


def headline_of(page: Path) -> str:
    return str(read_json(page.with_name(MANIFEST))["page"]["headline"])


def print_headline(page: Path) -> None:
    say(f"{headline_of(page)}\nreport: {page}")


def stored_page(study: str, out: str | Path | None) -> tuple[StudyPage, pd.DataFrame]:
    """Return the page and the results table of a study's last run; refuse a table that is damaged."""
    spec = find_study(study)
    return page_of(spec, *_stored(study, spec, out))


def compare_runs(runs: Sequence[Path]) -> list[dict[str, Any]]:
    """Compare the first run with each other one; refuse a run that has no cell in common with it.

    Copies of one study file are one study, whatever their names.
    """
    from data.results.comparison import compare_results  # no run needs it

    first, *others = (read_results(run) for run in runs)
    differences, file = [], _study_of(runs[0]).get("sha256")
    for run, other in zip(runs[1:], others, strict=True):
        names = [str(next(iter(table["study"]), "")) for table in (first, other)]
        renamed = other.assign(study=names[0]) if file and file == _study_of(run).get("sha256") else other
        change = compare_results(first, renamed)
        if not change["cells"] and not change["identical"]:
            raise SpecError(
                f"runs must have cells in common, got study {names[0]!r} in {runs[0]} and study {names[1]!r} "
                f"in {run}; pass runs of one study"
            )
        differences.append(change)
    return differences


def _study_of(run: Path) -> dict[str, Any]:
    """Return what the manifest of a run records about its study file, or nothing."""
    with suppress(ValueError, TypeError):
        return dict(last_run(run if run.is_dir() else run.parent).get("study", {}))
    return {}


def rebuild_reports(studies: list[str] | None, out: str | Path | None) -> tuple[Path, list[str]]:
    """Render the reports of studies from their stored results; return the index and their names."""
    folder = _reports(out)
    there = sorted(path.parent.name for path in folder.glob("*/manifest.json"))
    names = studies or [name for name in there if name in [*study_names(), SCORECARD]]
    if left_out := [name for name in there if not studies and name not in names]:
        say(f"note: leaving out {', '.join(left_out)}; pass the study's file to rebuild its report")
    if not names:
        which = "none of the project's studies" if left_out else "no study"
        raise SpecError(f"{which} has results in {folder}; run e.g.: {_command('housing', out)}")
    specs = {name: find_study(name) for name in names if name != SCORECARD}
    rebuilt = [spec.name for spec in specs.values()]
    with exclusive_run(home()):  # a run replaces results, and their manifest later
        for spec, stored in [(spec, _stored(name, spec, out)) for name, spec in specs.items()]:
            write_report(spec, *stored)
        if SCORECARD in names:
            from flows.studies.scorecard import write_scorecard  # a study needs none of it

            write_scorecard(folder)
            rebuilt.append(SCORECARD)
        return write_index(folder), rebuilt


def last_manifest(study: str, spec: StudySpec, out: str | Path | None) -> dict[str, Any]:
    """Return the manifest that the last run of a study left, or an empty one; refuse a damaged one."""
    path = _reports(out) / spec.name / "manifest.json"
    try:
        manifest = read_json(path)
        RunOptions.of_manifest(manifest)
        reason = "" if isinstance(manifest["command"], str) else "its command is not text"
        if was_edited(manifest):
            reason = "it changed after the run"
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        reason = str(error.strerror)
    except (ValueError, KeyError, TypeError):
        reason = "a run did not write it"
    if reason:
        raise SpecError(f"{path} cannot be used ({reason}); write it anew with: {_command(study, out)}")
    return dict(manifest)


def _stored(study: str, spec: StudySpec, out: str | Path | None) -> tuple[Path, dict[str, Any]]:
    """Return the results table and the manifest of a study's last run; refuse what is missing or damaged.

    Results of another study file of this name, or of another version of this file, are not shown as its own.
    """
    manifest, results = last_manifest(study, spec, out), _reports(out) / spec.name / "results.parquet"
    remedy = f"run: {_command(study, out)}"
    if not manifest or not results.exists():
        raise SpecError(f"{spec.name} has no stored results in {_reports(out)}; {remedy}")
    if manifest.get("study", {}).get("sha256", spec.sha256) != spec.sha256:
        raise SpecError(f"{results} has results of another study file than {study}, or it changed; {remedy}")
    if sha256_file(results) != manifest.get("results_sha256"):
        raise SpecError(f"{results} is not the table that its manifest names; {remedy}")
    read_results(results)
    return results, manifest


def _command(study: str, out: str | Path | None) -> str:
    return shlex.join(["dpcost", "run", study, *(["--out", str(out)] if out else [])])


def _reports(out: str | Path | None) -> Path:
    return Path(out or REPORTS).resolve()
