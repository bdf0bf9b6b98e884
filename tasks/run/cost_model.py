"""Forecast time on one core and memory of blocks, to a factor of 2, from two short runs of each panel.

The time of a block is in proportion to its work, and its memory to the size of its data.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tasks.run.block import compute_block
from tasks.study.block import Block

_FEW = 6  # replicates, at most, of the longer short run


@dataclass(frozen=True, kw_only=True)
class BlockCost:
    """Seconds of a block on one core, and its memory at most."""

    block: Block
    seconds: float
    n_bytes: float


def costs_of(blocks: Sequence[Block], load: Callable[[Block], Any]) -> list[BlockCost]:
    """Forecast each block's cost; `load` returns the prepared data of a block."""
    costs = []
    for panel in dict.fromkeys(block.replicates.panel for block in blocks):
        of_panel = [block for block in blocks if block.replicates.panel == panel]
        largest = max(of_panel, key=_work)
        prepared, few = load(largest), min(_FEW, largest.replicates.count)
        first, n_bytes = _short_run(largest, prepared, 1)
        seconds, _ = _short_run(largest, prepared, few)
        starting = max(0.0, first - seconds / few)  # what the first run alone has to compute
        for block in of_panel:
            share = _work(block) / _work(largest)
            costs.append(
                BlockCost(
                    block=block,
                    seconds=starting + block.replicates.count * share * seconds / few,
                    n_bytes=n_bytes * share,
                )
            )
            starting = 0.0
    return costs


def wall_seconds(costs: Sequence[BlockCost], workers: int) -> float:
    """Return the wall time of blocks on some workers, each taking the longest that is left."""
    busy = [0.0] * workers
    for cost in sorted(costs, key=lambda cost: -cost.seconds):
        busy[busy.index(min(busy))] += cost.seconds
    return max(busy)


def memory_at_once(costs: Sequence[BlockCost], workers: int) -> float:
    """Return the bytes of the largest blocks that can run side by side."""
    return float(sum(sorted((cost.n_bytes for cost in costs), reverse=True)[:workers]))


def _work(block: Block) -> float:
    """Return the work of one replicate."""
    return block.work / block.replicates.count


def _short_run(block: Block, prepared: Any, replicates: int) -> tuple[float, float]:
    """Run some replicates of a block; return seconds of one core, and peak bytes."""
    drawn = replace(block.replicates, first=0, count=replicates, of=replicates)
    with contextlib.suppress(OSError):  # where the system allows it, the peak begins anew
        Path("/proc/self/clear_refs").write_text("5")
    before, began = _memory("VmRSS"), time.process_time()
    compute_block(replace(block, replicates=drawn), prepared)
    return time.process_time() - began, max(0.0, _memory("VmHWM") - before)


def _memory(name: str) -> float:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0.0)
