"""The tasks that prepare a panel once, compute its blocks of cells, and audit and show the headline."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from typing import Any
from uuid import UUID

import httpx
from prefect import get_client, runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import Pause
from prefect.futures import PrefectFuture
from prefect.states import Completed

import dpalgos
from data.store.references import DatasetRef
from tasks.cache import CachedFile, digest, is_again, result
from tasks.cells import Cell
from tasks.problems.kinds import modules_of
from tasks.problems.problem import DatasetSource
from tasks.run import compute as run
from tasks.run import headline
from tasks.run_options import RunOptions
from tasks.study.expand import Block
from tasks.study.spec import StudySpec
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
    longest_first = sorted(blocks, key=lambda block: -block.work)
    futures = {b.key: run_block.submit(b, designs.get(b.replicates.panel)) for b in longest_first}
    return [futures[block.key] for block in blocks]


def rows_of(block: Block, design: CachedFile | None) -> CachedFile:
    code = modules_of(block.problem, {cell.estimator for cell in block.cells})
    return result("block", [run.__name__, *code], block.described(), design.name if design else None)


def run_audits(
    spec: StudySpec, blocks: list[Block], options: RunOptions
) -> list["PrefectFuture[CachedFile]"]:
    """Submit audits of the private estimators at the headline's setting, where the profile has them."""
    if options.profile not in spec.audit_trials:
        return []
    n_features = spec.head_panel.problem.sizes(spec.headline.n)["d"]
    settings = n_features, spec.audit_trials[options.profile], options.seed
    return [audit.submit(cell, *settings) for cell in spec.headline_cells(blocks)]


def exhibits_of(
    spec: StudySpec,
    tables: Mapping[str, DatasetRef],
    designs: Mapping[str, CachedFile],
    blocks: list[Block],
    parts: Sequence[CachedFile],
) -> CachedFile:
    """Write what the report shows next to the results of the headline's panel."""
    head, block = spec.head_panel, spec.headline_block(blocks)
    of_panel = [part for b, part in zip(blocks, parts, strict=True) if b.replicates.panel == head.name]
    table, design = tables.get(head.problem.source), designs.get(head.name)
    file: CachedFile = exhibit(block, table, design, of_panel, return_state=True).result()
    return file


@task(task_run_name="audit {cell.key}", retries=1, retry_condition_fn=was_killed, cache_policy=NO_CACHE)
def audit(cell: Cell, n_features: int, n_trials: int, seed: int) -> Any:
    """Try to break the estimator of a cell in a worker, unless the result is stored or shipped."""
    code = [headline.__name__, dpalgos.get_estimator(cell.estimator).function.__module__]
    bound = result("audit", code, asdict(cell), n_features, n_trials, seed, suffix=".json")
    if bound.is_stored() and not is_again("audit"):
        return Completed(name="Cached", data=bound)
    if (stored := headline.stored_audit(cell, n_features, n_trials)) and not is_again("audit"):
        headline.write_stored_audit(bound, cell, stored)
        return Completed(name="Cached", data=bound)
    what = f"the audit of {cell.key}" if (runtime.task_run.run_count or 1) > 1 else ""
    compute(headline.write_audit, bound, cell, n_features, n_trials, seed, last_try_of=what)
    return bound


@task(task_run_name="exhibits of {block.replicates.study}", cache_policy=NO_CACHE)
def exhibit(
    block: Block, table: DatasetRef | None, design: CachedFile | None, parts: Sequence[CachedFile]
) -> Any:
    """Write what a report shows next to the results of the headline's panel, unless it is stored."""
    code = modules_of(block.problem, {cell.estimator for cell in block.cells})
    made_of = [block.described(), table and table.sha256, design and design.name, [p.name for p in parts]]
    page = digest([headline.__name__, *code], of_page=True)
    output = result("exhibit", [headline.__name__, *code], *made_of, page, suffix=".json")
    if output.is_stored():
        return Completed(name="Cached", data=output)
    headline.write_exhibits(output, block, table, design, parts)
    return output
