"""Which task or cell of a study is to be run again."""

import difflib
from collections.abc import Iterable
from functools import cache
from typing import Any, Literal, get_args

from tasks.faults import SpecError
from tasks.limits import PROFILES, Profile
from tasks.study.spec import StudySpec

TaskName = Literal["fetch", "parquet", "prepare", "run_block", "data_limit", "audit", "collect", "render"]
TASKS: tuple[str, ...] = get_args(TaskName)


def check_cell(spec: StudySpec, task: str | None, cell: str | None, profile: Profile | None) -> None:
    """Refuse a cell that goes with another task, or that the study does not have at this profile.

    Raises
    ------
    SpecError
        If so; the message names the nearest match.
    """
    if cell is None:
        return
    if task != "run_block":
        got = f"--task {task}" if task else "no --task"
        raise SpecError(f"--cell goes with --task run_block, got {got}; leave --cell out")
    if profile not in PROFILES:
        return
    keys = [item.key for block in spec.blocks(profile, replicates=1, seed=0) for item in block.cells]
    if cell not in keys:
        raise SpecError(
            f"--cell must be a cell of {spec.name} at profile {profile}, got {cell!r}"
            f"{nearest_name(cell, keys) or '; the column cell of its summary.csv lists them'}"
        )


@cache
def refreshing(task: Any, again: bool) -> Any:
    """Return a task that computes its result again although it is stored, or one that looks for it there."""
    return task.with_options(refresh_cache=again)


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that suggests the nearest known name; empty where none is near."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {found[0]!r}?" if found else ""
