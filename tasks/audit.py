"""Tasks about the headline's setting: audits of private estimators, exhibits."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from prefect import runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture
from prefect.states import Completed

import dpalgos
from data.store.references import DatasetRef
from tasks.cache import CachedFile, digest, is_again, result
from tasks.cells import Cell
from tasks.problems.kinds import modules_of
from tasks.run import headline
from tasks.run.stored_audits import stored_audit
from tasks.run_options import RunOptions
from tasks.study.expand import Block
from tasks.study.spec import StudySpec
from tasks.workers import compute, was_killed


def run_audits(
    spec: StudySpec, blocks: list[Block], options: RunOptions
) -> list["PrefectFuture[CachedFile]"]:
    """Submit audits of the private estimators at the headline's setting, where the profile has them."""
    if options.profile not in spec.audit_trials:
        return []
    n_features = spec.head_panel.problem.sizes(spec.headline.n)["d"]
    n_trials = spec.audit_trials[options.profile]
    cells = spec.headline_cells(blocks)
    return [audit.submit(cell, n_features, n_trials, options.seed) for cell in cells]


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
    if (stored := stored_audit(cell, n_features, n_trials)) and not is_again("audit"):
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
