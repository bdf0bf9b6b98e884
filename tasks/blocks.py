"""The task that computes a block of cells in a worker."""

from collections.abc import Mapping, Sequence
from typing import Any

from prefect import runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture
from prefect.states import Completed

from tasks.cache import CachedFile, is_again, result
from tasks.problems.kinds import modules_of
from tasks.run import block as run
from tasks.study.block import Block
from tasks.workers import compute, was_killed


@task(task_run_name="{block.title}", retries=1, retry_condition_fn=was_killed, cache_policy=NO_CACHE)
def run_block(block: Block, design: CachedFile | None) -> Any:
    """Compute a block, unless it is stored; where its worker was killed, once more, alone."""
    rows = rows_of(block, design)
    if rows.is_stored() and not is_again("run_block", [cell.key for cell in block.cells]):
        return Completed(name="Cached", data=rows)
    what = f"{block.replicates.study} {block.title}" if (runtime.task_run.run_count or 1) > 1 else ""
    compute(run.write_block, rows, block, design, n_bytes=block.n_bytes, last_try_of=what)
    return rows


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
    """Return the file of a block's rows."""
    code = modules_of(block.problem, {cell.estimator for cell in block.cells})
    return result("block", [run.__name__, *code], block.described(), design.name if design else None)
