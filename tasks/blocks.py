"""The tasks that prepare the data of a panel, once, and compute its blocks of cells in workers."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any
from uuid import UUID

import httpx
from prefect import get_client, runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import Pause
from prefect.futures import PrefectFuture
from prefect.states import Completed

from data.store.references import DatasetRef
from tasks.cache import CachedFile, is_again, result
from tasks.problems.kinds import modules_of
from tasks.problems.problem import DatasetSource
from tasks.run import compute as run
from tasks.study.expand import Block
from tasks.workers import compute, was_killed


@task(task_run_name="prepare {table.name} {panel}", cache_policy=NO_CACHE)
def prepare(problem: DatasetSource, table: DatasetRef, panel: str) -> Any:
    """Prepare a dataset for the problem of a panel, unless that is stored."""
    columns = [[each.name, each.lower, each.upper, each.center, each.scale] for each in problem.columns()]
    code = [run.__name__, *modules_of(problem)]
    plain = problem.model_dump(mode="json")
    design = result("design", code, table.sha256, plain, columns, suffix=".npz")
    if design.is_stored() and not is_again("prepare"):
        return Completed(name="Cached", data=design)
    run.write_design(design, problem, table)
    return design


@task(task_run_name="{block.title}", retries=1, retry_condition_fn=was_killed, cache_policy=NO_CACHE)
def run_block(block: Block, design: CachedFile | None) -> Any:
    """Compute a block, unless it is stored; where its worker was killed, once more, alone."""
    if os.environ.get("DPCOST_SERVED_BY"):
        _heed_pause(str(runtime.flow_run.id))
    rows = rows_of(block, design)
    if rows.is_stored() and not is_again("run_block", [cell.key for cell in block.cells]):
        return Completed(name="Cached", data=rows)
    what = f"{block.replicates.study} {block.title}" if (runtime.task_run.run_count or 1) > 1 else ""
    compute(run.write_block, rows, block, design, n_bytes=block.n_bytes, last_try_of=what)
    return rows


def _heed_pause(flow_run_id: str) -> None:
    """Wait between blocks while a person pauses the run on Prefect's pages; leave a run that is suspended."""
    while (state := _state_of_run(flow_run_id, int(time.monotonic()))) and state.is_paused():
        if state.state_details.pause_reschedule:
            raise Pause(state=state)
        time.sleep(1)


@lru_cache(maxsize=1)
def _state_of_run(flow_run_id: str, second: int) -> Any:
    """Return the state of a run, asked once a second; None if it does not respond."""
    with suppress(httpx.HTTPError), get_client(sync_client=True) as client:
        return client.read_flow_run(UUID(flow_run_id)).state
    return None


def run_blocks(
    blocks: Sequence[Block], designs: Mapping[str, CachedFile]
) -> list["PrefectFuture[CachedFile]"]:
    """Submit blocks, the longest first; return their futures in the order of the blocks."""
    futures = {}
    for index in sorted(range(len(blocks)), key=lambda index: -blocks[index].work):
        block = blocks[index]
        futures[index] = run_block.submit(block, designs.get(block.replicates.panel))
    return [futures[index] for index in range(len(blocks))]


def rows_of(block: Block, design: CachedFile | None) -> CachedFile:
    code = modules_of(block.problem, {cell.estimator for cell in block.cells})
    return result("block", [run.__name__, *code], block.described(), design.name if design else None)
