"""Work on the results in a folder: options of a rerun, pages written again, verdicts on the claims."""

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from data.store.folders import REPORTS, read_json, sha256_file
from flows.record.progress import say
from flows.studies.find_study import (
    SCORECARD,
    check_cell,
    find_study,
    nearest_name,
    readable_studies,
    study_names,
)
from flows.studies.steps import Outcome, Tasks
from reports.analysis.results import compare_results
from reports.charts.picture import NO_SPACE, can_draw
from reports.page import StudyPage
from tasks.cache import cache_key
from tasks.errors import SpecError
from tasks.report.manifest import now
from tasks.report.write import page_of, share_report, write_index, write_report
from tasks.run.collect import read_results
from tasks.run_options import PROFILES, TASKS, RunOptions
from tasks.scorecard.claims import load_scorecard
from tasks.scorecard.judging import read_evidence, score, write_scorecard
from tasks.study.spec import StudySpec

COMMAND = f"dpcost run {SCORECARD}"


def folder_of_run(folder: Path, study: str, profile: str) -> Path:
    """Return where a run's report goes: next to one of a richer profile, in a folder named by its own."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        last = read_json(folder / study / "manifest.json")["profile"]
        if PROFILES.index(profile) < PROFILES.index(last):
            return folder / profile
    return folder


def rerun_options(study: str, task: str, cell: str | None, given: dict[str, Any]) -> tuple[RunOptions, str]:
    """Return the options and the command of a run that repeats the last one but for one task or cell."""
    spec = find_study(study)
    if task not in TASKS:
        raise SpecError(f"--task must be one of {', '.join(TASKS)}, got {task!r}{nearest_name(task, TASKS)}")
    check_cell(spec, task, cell, None)
    out, profile = given.get("out"), given.get("profile")
    last = last_manifest(spec, out)
    if not last and profile is None:
        raise SpecError(f"{spec.name} has not run in {_reports(out)} yet; run: {_command(study, out)}")
    options: dict[str, Any] = {"study": study} | (last and RunOptions.of_manifest(study, last).model_dump())
    if profile is not None:
        options.pop("reps", None)  # those of the last run's profile
    options |= {name: value for name, value in given.items() if value is not None}
    options |= {"refresh_task": task, "refresh_cell": cell}
    check_cell(spec, task, cell, options.get("profile"))
    return RunOptions(**options), last.get("command", "")


def stored_page(study: str, out: str | Path | None) -> tuple[StudyPage, pd.DataFrame]:
    """Return the page and the results table of a study's last run; refuse a table that is damaged."""
    spec, results, manifest = _stored(find_study(study), _reports(out), out)
    return page_of(spec, results, manifest)


def file_of_report(study: str, out: str | Path | None) -> str:
    """Return the file of a study of one's own that is named as its report is; any other name as it is."""
    if study.endswith(".toml") or study in study_names() or not re.fullmatch(r"[\w-]+", study):
        return study
    files = [f"{study}.toml"]
    with suppress(OSError, ValueError, TypeError, KeyError, IndexError):
        manifest = read_json(_reports(out) / study / "manifest.json")
        files.insert(0, shlex.split(manifest["rerun_commands"][0])[2])
    return next((file for file in files if file.endswith(".toml") and Path(file).is_file()), study)


def report_of(run: Path) -> Path:
    """Return the folder of a report that is named by itself or by its results.parquet."""
    return run if run.is_dir() else run.parent


def compare_runs(runs: Sequence[Path]) -> list[dict[str, Any]]:
    """Compare the first run with each other one; refuse a run that has no cell in common with it.

    Copies of one study file are one study, whatever their names.
    """
    first, *others = (read_results(run) for run in runs)
    differences, file = [], _digest_of_study(runs[0])
    for run, other in zip(runs[1:], others, strict=True):
        names = [str(next(iter(table["study"]), "")) for table in (first, other)]
        renamed = other.assign(study=names[0]) if file and file == _digest_of_study(run) else other
        change = compare_results(first, renamed)
        if not change["cells"] and not change["identical"]:
            raise SpecError(
                f"runs must have cells in common, got study {names[0]!r} in {runs[0]} and study {names[1]!r} "
                f"in {run}; pass runs of one study"
            )
        differences.append(change)
    return differences


def _digest_of_study(run: Path) -> str:
    """Return the digest of a run's study file, "" where no manifest says it."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(read_json(report_of(run) / "manifest.json")["study"]["sha256"])
    return ""


def comparison_page(runs: Sequence[Path]) -> bytes:
    """Return the page of runs in their folders; refuse runs of different studies."""
    from reports.pages.compare import ComparedRun, render_comparison

    compared: list[ComparedRun] = []
    names = _distinct_names(runs)
    for run, name in zip(runs, names, strict=True):
        folder = report_of(run)
        try:
            manifest = read_json(folder / "manifest.json")
            study = str(manifest["study"]["name"])
        except (OSError, ValueError, KeyError, TypeError):
            raise SpecError(
                f"{folder} must hold the manifest.json of a run; pass folders of reports"
            ) from None
        if compared and compared[0].page.name != study:
            raise SpecError(f"runs must be of one study, got {compared[0].page.name} and {study}")
        compared.append(ComparedRun(name, *page_of(find_study(study), folder / "results.parquet", manifest)))
    return render_comparison(compared)


def _distinct_names(runs: Sequence[Path]) -> list[str]:
    """Return the shortest ends of paths that tell the runs apart."""
    parts = [report_of(run).resolve().parts for run in runs]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [f"run {i}" for i in range(1, len(runs) + 1)]


def rebuild_reports(studies: list[str] | None, out: str | None) -> tuple[Path, list[str]]:
    """Render the reports of studies from their stored results; return the index and their names."""
    if not can_draw():
        raise SpecError(NO_SPACE)
    folder = _reports(out)
    there = sorted(path.parent.name for path in folder.glob("*/manifest.json"))
    names = studies or [name for name in there if name in [*study_names(), SCORECARD]]
    if left_out := [name for name in there if not studies and name not in names]:
        say(f"note: leaving out {', '.join(left_out)}; pass the study's file to rebuild its report")
    if not names:
        which = "none of the project's studies" if left_out else "no study"
        raise SpecError(f"{which} has results in {folder}; run e.g.: {_command('housing', out)}")
    stored = [_stored(find_study(name), folder, out) for name in names if name != SCORECARD]
    for spec, results, manifest in stored:
        write_report(spec, results, manifest)
    rebuilt = [spec.name for spec, _, _ in stored]
    if SCORECARD in names:
        _rebuild_scorecard(folder)
        rebuilt.append(SCORECARD)
    index = write_index(folder)
    for name in rebuilt:
        share_report(folder / name)
    return index, rebuilt


def reports_of_scorecard(studies: list[str], profile: str, out: str | None) -> str | None:
    """Return the folder of a scorecard, one named after its profile next to reports of another."""
    if profile == "smoke":
        say(
            "note: profile smoke only checks that everything works; three repetitions decide few claims, so "
            "take --profile standard to judge them"
        )
    folder, others = _reports(out), []
    for study in studies:
        with suppress(OSError, ValueError, TypeError, KeyError):
            if read_json(folder / study / "manifest.json")["profile"] != profile:
                others.append(study)
    if not others:
        return out
    say(f"note: {folder} has reports of another profile, of {others[0]} for example; see {folder / profile}")
    return str(folder / profile)


def last_manifest(spec: StudySpec, out: str | Path | None) -> dict[str, Any]:
    """Return the manifest that the last run of a study left, or an empty one; refuse a damaged one."""
    path = _reports(out) / spec.name / "manifest.json"
    try:
        manifest = read_json(path)
        RunOptions.of_manifest(spec.name, manifest)
        reason = "" if isinstance(manifest["command"], str) else "its command is no text"
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        reason = str(error.strerror)
    except (ValueError, KeyError, TypeError):
        reason = "it is not what a run writes"
    if reason:
        raise SpecError(f"{path} cannot be used ({reason}); write it anew with: {_command(spec.name, out)}")
    return dict(manifest)


def _stored(spec: StudySpec, folder: Path, out: str | Path | None) -> tuple[StudySpec, Path, dict[str, Any]]:
    manifest, results = last_manifest(spec, out), folder / spec.name / "results.parquet"
    remedy = f"run: {_command(spec.name, out)}"
    if not manifest or not results.exists():
        raise SpecError(f"{spec.name} has no stored results in {folder}; {remedy}")
    if sha256_file(results) != manifest.get("results_sha256"):
        raise SpecError(f"{results} is not the table that its manifest names; {remedy}")
    read_results(results)
    return spec, results, manifest


def _command(study: str, out: str | Path | None) -> str:
    return shlex.join(["dpcost", "run", study, *(["--out", str(out)] if out else [])])


def _reports(out: str | Path | None) -> Path:
    return Path(out or REPORTS).resolve()


def judged(folder: Path, tasks: Tasks, options: RunOptions, command: str = "") -> Outcome:
    """Judge every claim on the results in a folder, and write the scorecard; the rest is for the record."""
    settings = options.model_dump(include={"profile", "seed"})
    specs, tables, context = _evidence_in(folder, settings | {"command": command or COMMAND})
    plain = [spec.model_dump(mode="json") for spec in specs]
    inputs = [plain, context["evidence"], str(folder), *settings.values()]
    code = [score.__module__, *{module for spec in specs for module in spec.modules()}]
    key = cache_key("scorecard", code, *inputs, of_page=True)
    paths = {name: str(path) for name, path in tables.items()}
    record = tasks.run(score, key, specs, paths, str(folder / SCORECARD), context, again=False)
    index = write_index(folder)
    share_report(folder / SCORECARD)
    return Outcome(
        report=Path(record["report"]),
        index=index,
        headline=record["headline"],
        results=folder / SCORECARD / "results.parquet",
        headline_cells=[],
    )


def _rebuild_scorecard(folder: Path) -> None:
    """Judge every claim again on the results in a folder, without a server."""
    context = {"profile": "", "seed": RunOptions(study=SCORECARD).seed, "command": COMMAND}
    with suppress(OSError, ValueError):  # it has not been judged before
        last = read_json(folder / SCORECARD / "manifest.json")
        context |= {name: last[name] for name in context if name in last}
    specs, tables, context = _evidence_in(folder, context)
    write_scorecard(load_scorecard(), read_evidence(specs, tables), folder / SCORECARD, context)


def _evidence_in(
    folder: Path, context: dict[str, Any]
) -> tuple[list[StudySpec], dict[str, Path], dict[str, Any]]:
    """Return the claims' studies, the whole results in a folder, and a context that names them."""
    readable = {spec.name: spec for spec in readable_studies()}
    specs = [readable[name] for name in load_scorecard().studies if name in readable]
    evidence, tables = dict[str, dict[str, Any]](), dict[str, Path]()
    for name in (spec.name for spec in specs):
        table = folder / name / "results.parquet"
        try:
            manifest, sha256 = read_json(folder / name / "manifest.json"), sha256_file(table)
        except (OSError, ValueError):
            continue
        if manifest.get("results_sha256") == sha256:
            evidence[name] = {"sha256": sha256, **{key: manifest.get(key) for key in ("profile", "commit")}}
            tables[name] = table
    return specs, tables, {"study": SCORECARD, **context, "started": now(), "evidence": evidence}
