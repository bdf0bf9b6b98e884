"""Run a part of a study again, or rebuild its report, from what its last run left."""

import difflib
import json
from pathlib import Path
from typing import Any

import pandas as pd

from flows.catalogue import find_study
from tasks.spec import SpecError, StudySpec

TASKS = ("fetch", "parquet", "prepare", "run_block", "data_limit", "collect", "render")


def rerun_options(
    study: str,
    task: str,
    cell: str | None,
    out: Path | None,
    *,
    profile: str | None,
    reps: int | None,
    seed: int | None,
) -> dict[str, Any]:
    """Return the options of a run that repeats the last one but for one task or cell.

    Raises
    ------
    SpecError
        If the task or the cell is unknown; the message names the nearest match.
    """
    spec = find_study(study)
    last = last_manifest(spec, out)
    chosen: dict[str, Any] = {
        "profile": profile or last.get("profile", "standard"),
        "reps": reps or (last.get("replicates") if profile is None else None),
        "seed": last.get("seed") if seed is None else seed,
    }
    if task not in TASKS:
        raise SpecError(f"--task must be one of {', '.join(TASKS)}, got {task!r}{_nearest(task, TASKS)}")
    if cell is not None and task != "run_block":
        raise SpecError(f"--cell goes with --task run_block, got --task {task}; leave --cell out")
    if cell is not None:
        blocks = spec.blocks(chosen["profile"], replicates=1, seed=0, data_source="real")
        keys = [item.key for block in blocks for item in block.cells]
        if cell not in keys:
            raise SpecError(
                f"--cell must be a cell of {study} at this profile, got {cell!r}{_nearest(cell, keys)}"
            )
    return {
        **chosen,
        "refresh_task": task,
        "refresh_cell": cell,
        "command": last.get("command", f"dpcost run {study} --profile {chosen['profile']}"),
    }


def rebuild_reports(studies: list[str] | None, out: Path | None) -> tuple[Path, list[str]]:
    """Render the reports of studies from their stored results; return the index and their names."""
    from tasks.render import write_index, write_report

    folder = _reports(out)
    names = studies or sorted(path.parent.name for path in folder.glob("*/manifest.json"))
    for name in names:
        spec = find_study(name)
        manifest, results = last_manifest(spec, out), folder / spec.name / "results.parquet"
        if not manifest or not results.exists():
            raise SpecError(f"{name} has no stored results in {folder}; run: dpcost run {name}")
        write_report(spec, results, manifest)
    return write_index(folder), names


def last_manifest(spec: StudySpec, out: Path | None) -> dict[str, Any]:
    """Return the manifest that the last run of a study left, or an empty one."""
    path = _reports(out) / spec.name / "manifest.json"
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SpecError(
            f"{path} cannot be read ({type(error).__name__}); run: dpcost run {spec.name}"
        ) from None
    return found


def read_results(run: Path) -> pd.DataFrame:
    """Return the results table of a run: its folder, or the Parquet file itself."""
    path = run / "results.parquet" if run.is_dir() else run
    try:
        return pd.read_parquet(path)
    except FileNotFoundError:
        raise SpecError(
            f"{run} holds no results.parquet; pass a folder such as reports/out/housing"
        ) from None
    except (OSError, ValueError) as error:
        raise SpecError(f"{path} is not a readable Parquet file ({type(error).__name__})") from None


def _reports(out: Path | None) -> Path:
    from data.store import PROJECT_ROOT

    return out.resolve() if out is not None else PROJECT_ROOT / "reports" / "out"


def _nearest(name: str, known: Any) -> str:
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.3)
    return f"; did you mean {found[0]!r}?" if found else ""
