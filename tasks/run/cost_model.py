"""Forecast the time of one core and the memory of blocks, to a factor of two, from short runs of each panel.

The replicates of a block take a + b R seconds, of which b grows with the elements that a cell reads: a and b
are those of a panel's largest size, from runs of one replicate and of a few.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tasks.problems.problem import Block
from tasks.run.block import compute_block

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
        largest = max(of_panel, key=_elements)
        prepared, few = load(largest), min(_FEW, largest.replicates.count)
        first, n_bytes = _short_run(largest, prepared, 1)
        again, _ = _short_run(largest, prepared, 1)
        more, _ = _short_run(largest, prepared, few)
        each = max(0.0, more - again) / (few - 1) if few > 1 else again
        for number, block in enumerate(of_panel):
            share = _elements(block) / _elements(largest)
            seconds = max(0.0, again - each) + each * share * block.replicates.count
            starting = first - again if number == 0 else 0.0  # what the first block alone has to compute
            costs.append(
                BlockCost(block=block, seconds=seconds + max(0.0, starting), n_bytes=n_bytes * share)
            )
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


def _elements(block: Block) -> int:
    return max(1, block.problem.elements(block.replicates.n))


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
