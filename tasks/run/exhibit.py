"""Write the exhibits of a report: what the headline's problem shows in addition to results."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from data.store.references import DatasetRef
from reports.analysis.results import EXHIBITS, selections_path
from tasks.cache.keys import CacheKey
from tasks.cache.records import Record, brought, located, written
from tasks.faults import guarded
from tasks.problems.abilities import HasExhibits, HeadlineRun
from tasks.run.resources import one_blas_thread
from tasks.study.block import Block
from tasks.work_units import Cell


@guarded
def exhibit(
    key: CacheKey,
    block: Block,
    table: DatasetRef | None,
    design: Record | None,
    parts: list[Record],
    out: str,
) -> Record:
    """Write the exhibits of a block's problem; ``parts`` are the records of the panel's blocks."""
    one_blas_thread()
    run = HeadlineRun(
        table=table,
        design=brought(design) if design else None,
        replicates=block.replicates,
        cells=block.cells,
        selected=_selected(parts),
    )
    assert isinstance(block.problem, HasExhibits)  # else there is no such task
    content = json.dumps(block.problem.exhibits(run), sort_keys=True).encode()
    return written(key, Path(out) / EXHIBITS, content)


def headline_block(blocks: Sequence[Block], n: int, private: Sequence[Cell]) -> Block:
    """Return the block of the size nearest to n, with its non-private cells and the private ones given."""
    nearest = min(blocks, key=lambda block: abs(block.replicates.n - n))
    without = [cell for cell in nearest.cells if cell.calibration == "none"]
    return replace(nearest, cells=(*without, *private))


def _selected(parts: list[Record]) -> dict[str, dict[str, int]]:
    total: dict[str, dict[str, int]] = {}
    for part in parts:
        path = selections_path(located(part))
        if path.name in part.get("beside", {}):
            for cell, counts in json.loads(path.read_bytes()).items():
                own = total.setdefault(cell, {})
                for column, count in counts.items():
                    own[column] = own.get(column, 0) + count
    return total
